/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learning-rate schedules: a table gives each name its function of step and settings. The two names of rate_plateau have a state, which
 * yk__sched_metric changes.
 *
 * schedule.c (core/job) makes a schedule, asks it for each step's rate, and gives it the metrics; opt.c (core/job) frees it. save.c and
 * resume.c (core/job/checkpoint) store, restore and compare it, and agree.c (core/job/trace) compares it over ranks. All these calls are in
 * the step thread. cmd_train.c (tools/cmd) makes one before a job, to check its options, in the main thread; so does yoke test
 * (tools/check/golden) for its golden tables, and to check a golden run's schedule.
 *
 * Functions are grouped by source (transformers/optimization.py, torch/optim/lr_scheduler.py, deepspeed/runtime/lr_schedules.py). Their
 * rates equal the sources' to rounding: tests allow 1e-12.
 */
#include "core/nn/sched.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/number.h"
#include "core/nn/sched_settings.h"

#define PAIRS 32
#define PI 3.14159265358979323846

struct yk__sched {
    const struct sched_kind *kind;
    char *text; /* the settings, cut into keys and values */
    const char *key[PAIRS], *value[PAIRS];
    uint32_t n_settings;
    double warmup_steps, total_steps, base_lr;
    double plateau_lr, best, bad_evals, cooldown_left; /* plateau */
};

typedef void rate_fn(const yk__sched *sched, double k, double *lr, double *momentum);
typedef struct sched_kind {
    const char *name;
    rate_fn *rate;
    const char *keys; /* names of its settings, with a blank around each */
    const char *needs; /* settings that have to be given, as "a b|c": a, and b or c; NULL if none */
} sched_kind;

static const char *setting_find(const yk__sched *sched, const char *key)
{
    for (uint32_t i = 0; i < sched->n_settings; i++)
        if (!strcmp(sched->key[i], key))
            return strcmp(sched->value[i], "null") != 0 && strcmp(sched->value[i], "None") != 0 ? sched->value[i]
                                                                                                : NULL;
    return NULL;
}

static double setting_number(const yk__sched *sched, const char *key, double preset)
{
    const char *v = setting_find(sched, key);
    return v ? yk__number_read(v, NULL) : preset;
}

static bool setting_on(const yk__sched *sched, const char *key)
{
    const char *v = setting_find(sched, key);
    return v && (!strcmp(v, "true") || !strcmp(v, "True") || !strcmp(v, "1"));
}

static bool setting_is(const yk__sched *sched, const char *key, const char *word, const char *preset)
{
    const char *v = setting_find(sched, key);
    return !strcmp(v ? v : preset, word);
}

static double larger_of(double a, double b)
{
    return a > b ? a : b;
}

/* ---- transformers/optimization.py ---- */

static bool warmup_applies(const yk__sched *sched, double k, double *lr)
{
    if (k >= sched->warmup_steps)
        return false;
    *lr = sched->base_lr * (k / larger_of(1.0, sched->warmup_steps));
    return true;
}

static double progress_at(const yk__sched *sched, double k)
{
    return (k - sched->warmup_steps) / larger_of(1.0, sched->total_steps - sched->warmup_steps);
}

static void rate_constant(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)k;
    (void)momentum;
    *lr = sched->base_lr;
}

static void rate_constant_warmup(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    if (!warmup_applies(sched, k, lr))
        *lr = sched->base_lr;
}

static void rate_linear(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    if (!warmup_applies(sched, k, lr))
        *lr = sched->base_lr *
              larger_of(0.0, (sched->total_steps - k) / larger_of(1.0, sched->total_steps - sched->warmup_steps));
}

static double half_cosine(double turns, double p)
{
    return 0.5 * (1.0 + cos(PI * turns * 2.0 * p));
}

static void rate_cosine(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    if (!warmup_applies(sched, k, lr))
        *lr = sched->base_lr *
              larger_of(0.0, half_cosine(setting_number(sched, "num_cycles", 0.5), progress_at(sched, k)));
}

static void rate_cosine_restarts(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    if (warmup_applies(sched, k, lr))
        return;
    double p = progress_at(sched, k);
    *lr = p >= 1.0
              ? 0.0
              : sched->base_lr *
                    larger_of(0.0, 0.5 * (1.0 + cos(PI * fmod(setting_number(sched, "num_cycles", 1.0) * p, 1.0))));
}

static double least_ratio(const yk__sched *sched)
{
    return setting_find(sched, "min_lr") ? setting_number(sched, "min_lr", 0.0) / sched->base_lr
                                         : setting_number(sched, "min_lr_rate", 0.0);
}

static void rate_cosine_min(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    if (warmup_applies(sched, k, lr))
        return;
    double r = least_ratio(sched);
    *lr = sched->base_lr *
          larger_of(0.0, half_cosine(setting_number(sched, "num_cycles", 0.5), progress_at(sched, k)) * (1.0 - r) + r);
}

static void rate_cosine_warmup_min(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    double r = least_ratio(sched), f;
    if (k < sched->warmup_steps && setting_find(sched, "warmup_lr_rate")) {
        double from = setting_number(sched, "warmup_lr_rate", 0.0);
        f = from + (1.0 - from) * k / larger_of(1.0, sched->warmup_steps - 1.0);
    } else if (k < sched->warmup_steps) {
        f = (k + 1.0) / larger_of(1.0, sched->warmup_steps);
    } else {
        double p = (k - sched->warmup_steps + 1.0) / larger_of(1.0, sched->total_steps - sched->warmup_steps);
        f = larger_of(0.0, half_cosine(setting_number(sched, "num_cycles", 0.5), p) * (1.0 - r) + r);
    }
    *lr = sched->base_lr * f;
}

static void rate_polynomial(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    double end = setting_number(sched, "lr_end", 1e-7);
    if (warmup_applies(sched, k, lr))
        return;
    if (k >= sched->total_steps) /* also if the whole schedule is warm-up */
        *lr = end;
    else
        *lr = (sched->base_lr - end) * pow(1.0 - (k - sched->warmup_steps) / (sched->total_steps - sched->warmup_steps),
                                           setting_number(sched, "power", 1.0)) +
              end;
}

static void rate_inverse_sqrt(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    if (warmup_applies(sched, k, lr))
        return;
    double scale = setting_number(sched, "timescale", sched->warmup_steps > 0.0 ? sched->warmup_steps : 10000.0);
    *lr = sched->base_lr / sqrt((k - sched->warmup_steps + scale) / scale);
}

static void rate_stable_decay(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    double decay = setting_number(sched, "num_decay_steps", 0.0), low = setting_number(sched, "min_lr_ratio", 0.0), f;
    double stable = setting_number(sched, "num_stable_steps", sched->total_steps - sched->warmup_steps - decay);
    if (k < sched->warmup_steps) {
        double p = k / larger_of(1.0, sched->warmup_steps);
        f = setting_is(sched, "warmup_type", "cosine", "linear")   ? 0.5 * (1.0 - cos(PI * p))
            : setting_is(sched, "warmup_type", "1-sqrt", "linear") ? 1.0 - sqrt(1.0 - p)
                                                                   : p;
    } else if (k < sched->warmup_steps + stable) {
        *lr = sched->base_lr;
        return;
    } else if (k < sched->warmup_steps + stable + decay) {
        double p = (k - sched->warmup_steps - stable) / larger_of(1.0, decay);
        f = setting_is(sched, "decay_type", "linear", "cosine") ? 1.0 - p
            : setting_is(sched, "decay_type", "1-sqrt", "cosine")
                ? 1.0 - sqrt(p)
                : half_cosine(setting_number(sched, "num_cycles", 0.5), p);
    } else {
        *lr = sched->base_lr * low;
        return;
    }
    *lr = sched->base_lr * larger_of(0.0, f * (1.0 - low) + low);
}

/* ---- torch/optim/lr_scheduler.py ---- */

static void rate_step_lr(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    *lr = sched->base_lr * pow(setting_number(sched, "gamma", 0.1), floor(k / setting_number(sched, "step_size", 1.0)));
}

static void rate_multi_step(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    double passed = 0.0;
    const char *v = setting_find(sched, "milestones");
    while (v && *v) {
        char *end;
        double at = yk__number_read(v, &end);
        if (end == v)
            break;
        passed += at <= k ? 1.0 : 0.0;
        v = *end ? end + 1 : end;
    }
    *lr = sched->base_lr * pow(setting_number(sched, "gamma", 0.1), passed);
}

static void rate_exponential(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    *lr = sched->base_lr * pow(setting_number(sched, "gamma", 1.0), k);
}

static void rate_cosine_annealing(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    double low = setting_number(sched, "eta_min", 0.0);
    *lr = low + (sched->base_lr - low) *
                    (1.0 + cos(PI * k / setting_number(sched, "T_max", larger_of(1.0, sched->total_steps)))) / 2.0;
}

static double restart_begin(double len, double mult, double n)
{
    return len * (pow(mult, n) - 1.0) / (mult - 1.0);
}

static void rate_warm_restarts(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    double low = setting_number(sched, "eta_min", 0.0), len = setting_number(sched, "T_0", 1.0),
           mult = setting_number(sched, "T_mult", 1.0);
    if (mult == 1.0) {
        k = fmod(k, len);
    } else { /* len (1 + mult + .. + mult^(n - 1)) steps lie before restart n; rounding may make the logarithm one restart wrong */
        double n = floor(log1p(k / len * (mult - 1.0)) / log(mult));
        n -= restart_begin(len, mult, n) > k ? 1.0 : 0.0;
        n += restart_begin(len, mult, n + 1.0) <= k ? 1.0 : 0.0;
        k -= restart_begin(len, mult, n);
        len *= pow(mult, n);
    }
    *lr = low + (sched->base_lr - low) * (1.0 + cos(PI * k / len)) / 2.0;
}

static void rate_linear_lr(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    double a = setting_number(sched, "start_factor", 1.0 / 3.0), b = setting_number(sched, "end_factor", 1.0),
           n = setting_number(sched, "total_iters", 5.0);
    *lr = sched->base_lr * (a + (b - a) * (k < n ? k : n) / n);
}

static void rate_polynomial_lr(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    double n = setting_number(sched, "total_iters", 5.0);
    *lr = sched->base_lr * pow(1.0 - (k < n ? k : n) / n, setting_number(sched, "power", 1.0));
}

static double anneal_between(const yk__sched *sched, double a, double b, double p)
{
    return setting_is(sched, "anneal_strategy", "linear", "cos") ? (b - a) * p + a
                                                                 : b + (a - b) / 2.0 * (1.0 + cos(PI * p));
}

static void rate_one_cycle_lr(const yk__sched *sched, double k, double *lr, double *momentum)
{
    double high = setting_number(sched, "max_lr", sched->base_lr),
           start = high / setting_number(sched, "div_factor", 25.0);
    double low = start / setting_number(sched, "final_div_factor", 1e4),
           n = setting_number(sched, "total_steps", sched->total_steps);
    double cut = setting_number(sched, "pct_start", 0.3) * n, m0 = setting_number(sched, "base_momentum", 0.85),
           m1 = setting_number(sched, "max_momentum", 0.95);
    bool three = setting_on(sched, "three_phase");
    double end[3] = {cut - 1.0, three ? 2.0 * cut - 2.0 : n - 1.0, n - 1.0};
    double rate[4] = {start, high, three ? start : low, low}, mom[4] = {m1, m0, m1, m1};
    int last = three ? 2 : 1, i = 0;
    k = k < n - 1.0 ? k : n - 1.0; /* torch refuses steps after the last one; here the rate stays */
    while (i < last && k > end[i])
        i++;
    double from = i ? end[i - 1] : 0.0, p = end[i] > from ? (k - from) / (end[i] - from) : 1.0;
    *lr = anneal_between(sched, rate[i], rate[i + 1], p);
    *momentum = anneal_between(sched, mom[i], mom[i + 1], p);
}

static void rate_plateau(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)k;
    (void)momentum;
    *lr = sched->plateau_lr;
}

/* ---- deepspeed/runtime/lr_schedules.py ---- */

static double ds_gain(const yk__sched *sched, double i, double n)
{
    return setting_is(sched, "warmup_type", "linear", "log") ? i / n : log(i + 1.0) / log(n);
}

static double ds_steps(const yk__sched *sched)
{
    return larger_of(
        2.0, setting_number(sched, "warmup_num_steps", sched->warmup_steps > 0.0 ? sched->warmup_steps : 1000.0));
}

static void rate_ds_warmup(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    double low = setting_number(sched, "warmup_min_lr", 0.0),
           high = setting_number(sched, "warmup_max_lr", sched->base_lr), n = ds_steps(sched), i = k - 1.0;
    *lr = k < 1.0 ? low : low + (high - low) * (i < n ? ds_gain(sched, i, n) : 1.0);
}

static void rate_ds_warmup_decay(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    double low = setting_number(sched, "warmup_min_lr", 0.0),
           high = setting_number(sched, "warmup_max_lr", sched->base_lr), n = ds_steps(sched), i = k - 1.0;
    double total = setting_number(sched, "total_num_steps", sched->total_steps);
    double g = i < n ? ds_gain(sched, i, n) : larger_of(0.0, (total - i) / larger_of(1.0, total - n));
    *lr = k < 1.0 ? low : low + (high - low) * g;
}

static void rate_ds_warmup_cosine(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    double r = setting_number(sched, "warmup_min_ratio", 0.0), c = setting_number(sched, "cos_min_ratio", 1e-4),
           n = ds_steps(sched), i = k - 1.0;
    double p = (i - n + 1.0) / larger_of(1.0, setting_number(sched, "total_num_steps", sched->total_steps) - n);
    if (k < 1.0)
        *lr = 0.0;
    else
        *lr = sched->base_lr * (i < n ? r + (1.0 - r) * ds_gain(sched, i, n)
                                      : c + (1.0 - c) * (1.0 + cos(PI * (p < 1.0 ? p : 1.0))) / 2.0);
}

static void rate_ds_range_test(const yk__sched *sched, double k, double *lr, double *momentum)
{
    (void)momentum;
    double p = k / setting_number(sched, "lr_range_test_step_size", 2000.0);
    if (setting_on(sched, "lr_range_test_staircase"))
        p = floor(p);
    *lr = setting_number(sched, "lr_range_test_min_lr", 1e-3) *
          (1.0 + setting_number(sched, "lr_range_test_step_rate", 1.0) * p);
}

static double staircase_at(double x, double count)
{
    return count > 0.0 ? floor(x * count) / count : x;
}

static void rate_ds_one_cycle(const yk__sched *sched, double k, double *lr, double *momentum)
{
    double low = setting_number(sched, "cycle_min_lr", 0.0),
           high = setting_number(sched, "cycle_max_lr", sched->base_lr);
    double m0 = setting_number(sched, "cycle_min_mom", 0.8), m1 = setting_number(sched, "cycle_max_mom", 0.9);
    double first = setting_number(sched, "cycle_first_step_size", 2000.0),
           second = setting_number(sched, "cycle_second_step_size", first);
    double up = setting_number(sched, "cycle_first_stair_count", 0.0),
           down = setting_number(sched, "cycle_second_stair_count", up);
    double size = setting_number(sched, "decay_step_size", 0.0), j = k - first - second;
    if (j >= 0.0) {
        double d = size > 0.0 ? j / size : 0.0;
        *lr = low / (1.0 + setting_number(sched, "decay_lr_rate", 0.0) * d);
        *momentum = m1 * (1.0 + setting_number(sched, "decay_mom_rate", 0.0) * d);
        return;
    }
    double x = k < first ? staircase_at(k / first, up) : staircase_at((first + second - k) / second, down);
    *lr = low + (high - low) * x;
    *momentum = k < 1.0 ? m0 : m1 - (m1 - m0) * x;
}

#define WARM " num_warmup_steps num_training_steps "
#define STEPS "num_training_steps"
static const sched_kind kinds[] = {
    {"constant", rate_constant, WARM, NULL},
    {"constant_with_warmup", rate_constant_warmup, WARM, NULL},
    {"linear", rate_linear, WARM, STEPS},
    {"cosine", rate_cosine, WARM " num_cycles ", STEPS},
    {"cosine_with_restarts", rate_cosine_restarts, WARM " num_cycles ", STEPS},
    {"cosine_with_min_lr", rate_cosine_min, WARM " num_cycles min_lr min_lr_rate ", STEPS " min_lr|min_lr_rate"},
    {"cosine_warmup_with_min_lr", rate_cosine_warmup_min, WARM " num_cycles min_lr min_lr_rate warmup_lr_rate ",
     STEPS " min_lr|min_lr_rate"},
    {"polynomial", rate_polynomial, WARM " lr_end power ", STEPS},
    {"inverse_sqrt", rate_inverse_sqrt, WARM " timescale ", NULL},
    {"warmup_stable_decay", rate_stable_decay,
     WARM " num_decay_steps num_stable_steps warmup_type decay_type min_lr_ratio num_cycles ",
     "num_decay_steps num_stable_steps|num_training_steps"},
    {"StepLR", rate_step_lr, " step_size gamma ", "step_size"},
    {"MultiStepLR", rate_multi_step, " milestones gamma ", "milestones"},
    {"torch_multistep", rate_multi_step, " milestones gamma ", "milestones"},
    {"ExponentialLR", rate_exponential, " gamma ", "gamma"},
    {"CosineAnnealingLR", rate_cosine_annealing, " T_max eta_min ", "T_max"},
    {"torch_cosine_annealing", rate_cosine_annealing, " T_max eta_min ", "T_max"},
    {"CosineAnnealingWarmRestarts", rate_warm_restarts, " T_0 T_mult eta_min ", "T_0"},
    {"LinearLR", rate_linear_lr, " start_factor end_factor total_iters ", NULL},
    {"PolynomialLR", rate_polynomial_lr, " total_iters power ", NULL},
    {"OneCycleLR", rate_one_cycle_lr,
     " max_lr total_steps pct_start anneal_strategy three_phase div_factor final_div_factor base_momentum "
     "max_momentum ", "total_steps"},
    {"ReduceLROnPlateau", rate_plateau, " mode factor patience threshold threshold_mode cooldown min_lr eps ", NULL},
    {"reduce_lr_on_plateau", rate_plateau, " mode factor patience threshold threshold_mode cooldown min_lr eps ", NULL},
    {"WarmupLR", rate_ds_warmup, " warmup_min_lr warmup_max_lr warmup_num_steps warmup_type ", NULL},
    {"WarmupDecayLR", rate_ds_warmup_decay,
     " total_num_steps warmup_min_lr warmup_max_lr warmup_num_steps warmup_type ", "total_num_steps"},
    {"WarmupCosineLR", rate_ds_warmup_cosine,
     " total_num_steps warmup_min_ratio warmup_num_steps cos_min_ratio warmup_type ", "total_num_steps"},
    {"LRRangeTest", rate_ds_range_test,
     " lr_range_test_min_lr lr_range_test_step_size lr_range_test_step_rate lr_range_test_staircase ", NULL},
    {"OneCycle", rate_ds_one_cycle,
     " cycle_min_lr cycle_max_lr decay_lr_rate cycle_first_step_size cycle_second_step_size cycle_first_stair_count "
     "cycle_second_stair_count decay_step_size cycle_min_mom cycle_max_mom decay_mom_rate ", "cycle_min_lr"},
};

static bool kind_knows(const sched_kind *kind, const char *key)
{
    size_t n = strlen(key);
    if (!n || strchr(key, ' '))
        return false;
    for (const char *p = strstr(kind->keys, key); p; p = strstr(p + 1, key))
        if (p[-1] == ' ' && p[n] == ' ')
            return true;
    return false;
}

/* True for a setting that the run supplies: its number of steps, if known, under the names that the sources use. */
static bool run_supplies(const yk__sched *sched, const char *key, size_t n)
{
    static const char *const steps[] = {"num_training_steps", "total_steps", "total_num_steps", "T_max"};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (sched->total_steps > 0.0 && strlen(steps[i]) == n && !strncmp(steps[i], key, n))
            return true;
    return false;
}

/* True if one of the settings of "a|b" was given, or the run supplies one of them. */
static bool need_met(const yk__sched *sched, const char *need, size_t length)
{
    char key[64];
    for (size_t at = 0, n; at < length; at += n + 1) {
        n = strcspn(need + at, "| ");
        snprintf(key, sizeof key, "%.*s", (int)n, need + at);
        if (setting_find(sched, key) || run_supplies(sched, key, n))
            return true;
    }
    return false;
}

static yk_status check_needs(const yk__sched *sched, yk_error *err)
{
    for (const char *need = sched->kind->needs; need && *need;) {
        const size_t n = strcspn(need, " ");
        if (!need_met(sched, need, n))
            return yk__fail(err, YK_E_ARG, "schedule %s: setting %.*s is missing, and has no default: expected %.*s=VALUE",
                            sched->kind->name, (int)n, need, (int)strcspn(need, "| "), need);
        need += n + (need[n] == ' ');
    }
    return YK_OK;
}

/* Checks the settings that depend on each other. */
static yk_status check_together(const yk__sched *sched, yk_error *err)
{
    const char *name = sched->kind->name;
    const double lr_end = setting_number(sched, "lr_end", 1e-7);
    if (!(sched->warmup_steps >= 0.0) || !(sched->total_steps >= 0.0) || !isfinite(sched->warmup_steps) ||
        !isfinite(sched->total_steps))
        return yk__fail(err, YK_E_ARG, "schedule %s: %g warm-up steps of %g: expected numbers from 0", name,
                        sched->warmup_steps, sched->total_steps);
    if (sched->kind->rate == rate_polynomial && lr_end > 0.0 && lr_end >= sched->base_lr)
        return yk__fail(err, YK_E_ARG, "schedule %s: lr_end=%g must be below the learning rate, %g", name, lr_end,
                        sched->base_lr);
    if (setting_find(sched, "min_lr") && setting_find(sched, "min_lr_rate"))
        return yk__fail(err, YK_E_ARG, "schedule %s: min_lr and min_lr_rate say the same twice: give one of them", name);
    return check_needs(sched, err);
}

/* Refuses a warm-up for a schedule without one, which transformers' get_scheduler ignores without a word. Refuses also a warm-up that
 * differs from the settings' own number, so it runs before that number replaces it. */
static yk_status check_warmup(const yk__sched *sched, yk_error *err)
{
    static const char *const settings[] = {"num_warmup_steps", "warmup_num_steps"};
    rate_fn *f = sched->kind->rate;
    const bool deepspeed = f == rate_ds_warmup || f == rate_ds_warmup_decay || f == rate_ds_warmup_cosine;
    if (!(sched->warmup_steps > 0.0))
        return YK_OK;
    if (f == rate_constant || !(deepspeed || kind_knows(sched->kind, "num_warmup_steps")))
        return yk__fail(
            err, YK_E_ARG,
            "schedule %s has no warm-up, and %g steps of it are asked for: leave them out, or take a schedule "
            "that warms up (constant_with_warmup, linear, cosine, cosine_with_restarts, cosine_with_min_lr, "
            "polynomial, "
            "inverse_sqrt, warmup_stable_decay, DeepSpeed's WarmupLR ...)",
            sched->kind->name, sched->warmup_steps);
    for (size_t i = 0; i < 2; i++)
        if (setting_find(sched, settings[i]) && setting_number(sched, settings[i], 0.0) != sched->warmup_steps)
            return yk__fail(err, YK_E_ARG, "schedule %s: %s=%s beside %g warm-up steps: give one of them",
                            sched->kind->name, settings[i], setting_find(sched, settings[i]), sched->warmup_steps);
    return YK_OK;
}

static yk_status settings_parse(yk__sched *sched, yk_error *err)
{
    for (char *p = sched->text; p && *p;) {
        char *next = strchr(p, ','), *eq = strchr(p, '=');
        if (next)
            *next++ = 0;
        if (!eq || (next && eq >= next))
            return yk__fail(err, YK_E_ARG, "schedule %s: \"%s\" is not of the form key=value", sched->kind->name, p);
        *eq = 0;
        if (!kind_knows(sched->kind, p))
            return yk__fail(err, YK_E_ARG, "schedule %s has no setting \"%s\"; it has:%s", sched->kind->name, p,
                            sched->kind->keys);
        if (sched->n_settings == PAIRS)
            return yk__fail(err, YK_E_ARG, "schedule %s: more than %d settings", sched->kind->name, PAIRS);
        sched->key[sched->n_settings] = p;
        sched->value[sched->n_settings++] = eq + 1;
        yk_status st = yk__sched_setting_check(sched->kind->name, p, eq + 1, sched->base_lr, err);
        if (st)
            return st;
        p = next;
    }
    if (check_warmup(sched, err))
        return err->status;
    sched->warmup_steps = setting_number(sched, "num_warmup_steps", sched->warmup_steps);
    sched->total_steps = setting_number(sched, "num_training_steps", sched->total_steps);
    return check_together(sched, err);
}

static const sched_kind *kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    return NULL;
}

static yk_status fail_unknown(const char *name, yk_error *err)
{
    char names[640] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", kinds[i].name);
    return yk__fail(err, YK_E_ARG, "there is no schedule \"%.40s\"; there are %s", name, names);
}

yk_status yk__sched_new(const char *name, double warmup, double total, const char *params, double base_lr, yk__sched **out,
                        yk_error *err)
{
    const sched_kind *kind = kind_of(name ? name : "constant");
    if (!kind)
        return fail_unknown(name, err);
    yk__sched *sched = yk__calloc(1, sizeof *sched);
    if (!sched)
        return yk__fail_mem(err, sizeof *sched, "a schedule");
    sched->kind = kind;
    sched->warmup_steps = warmup;
    sched->total_steps = total;
    sched->base_lr = sched->plateau_lr = base_lr;
    sched->text = yk__strdup(params ? params : "");
    yk_status st = sched->text ? settings_parse(sched, err) : yk__fail_mem(err, 1, "a schedule");
    if (st) {
        yk__sched_free(sched);
        return st;
    }
    sched->best = setting_is(sched, "mode", "max", "min") ? -INFINITY : INFINITY;
    *out = sched;
    return YK_OK;
}

void yk__sched_free(yk__sched *sched)
{
    if (!sched)
        return;
    yk__free(sched->text);
    yk__free(sched);
}

void yk__sched_at(const yk__sched *sched, uint64_t step, double *lr, double *momentum)
{
    double m = (double)NAN;
    sched->kind->rate(sched, (double)step, lr, &m);
    if (momentum)
        *momentum = m;
}

bool yk__sched_wants_metric(const yk__sched *sched)
{
    return sched->kind->rate == rate_plateau;
}

static bool metric_better(const yk__sched *sched, double a)
{
    bool up = setting_is(sched, "mode", "max", "min"), rel = setting_is(sched, "threshold_mode", "rel", "rel");
    double t = setting_number(sched, "threshold", 1e-4);
    if (up)
        return a > (rel ? sched->best * (1.0 + t) : sched->best + t);
    return a < (rel ? sched->best * (1.0 - t) : sched->best - t);
}

/* torch's ReduceLROnPlateau.step */
void yk__sched_metric(yk__sched *sched, double metric)
{
    if (metric_better(sched, metric)) {
        sched->best = metric;
        sched->bad_evals = 0.0;
    } else {
        sched->bad_evals += 1.0;
    }
    if (sched->cooldown_left > 0.0) {
        sched->cooldown_left -= 1.0;
        sched->bad_evals = 0.0;
    }
    if (sched->bad_evals > setting_number(sched, "patience", 10.0)) {
        double low =
            larger_of(sched->plateau_lr * setting_number(sched, "factor", 0.1), setting_number(sched, "min_lr", 0.0));
        if (sched->plateau_lr - low > setting_number(sched, "eps", 1e-8))
            sched->plateau_lr = low;
        sched->cooldown_left = setting_number(sched, "cooldown", 0.0);
        sched->bad_evals = 0.0;
    }
}

static bool same_number(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* True if rates depend on the planned number of steps: some differ where a run is planned longer. */
static bool total_counts(const yk__sched *sched)
{
    yk__sched longer = *sched;
    longer.total_steps = 4.0 * sched->total_steps + 2.0 * sched->warmup_steps + 64.0;
    for (int i = 0; i <= 64; i++) {
        const uint64_t step = (uint64_t)(longer.total_steps * i / 64.0);
        double lr, other_lr, momentum, other_momentum;
        yk__sched_at(sched, step, &lr, &momentum);
        yk__sched_at(&longer, step, &other_lr, &other_momentum);
        if (!same_number(lr, other_lr) || !same_number(momentum, other_momentum))
            return true;
    }
    return false;
}

uint64_t yk__sched_hash(const yk__sched *sched, uint64_t h)
{
    const double numbers[3] = {sched->warmup_steps, total_counts(sched) ? sched->total_steps : 0.0, sched->base_lr};
    h = yk__hash_bytes(h, sched->kind->name, strlen(sched->kind->name));
    h = yk__hash_bytes(h, numbers, sizeof numbers);
    for (uint32_t i = 0; i < sched->n_settings; i++) {
        h = yk__hash_bytes(h, sched->key[i], strlen(sched->key[i]));
        h = yk__hash_bytes(h, sched->value[i], strlen(sched->value[i]));
    }
    return h;
}

void yk__sched_state_get(const yk__sched *sched, double state[4])
{
    const double v[4] = {sched->plateau_lr, sched->best, sched->bad_evals, sched->cooldown_left};
    memcpy(state, v, sizeof v);
}

void yk__sched_state_set(yk__sched *sched, const double state[4])
{
    sched->plateau_lr = state[0];
    sched->best = state[1];
    sched->bad_evals = state[2];
    sched->cooldown_left = state[3];
}
