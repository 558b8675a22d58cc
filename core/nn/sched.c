/* SPDX-License-Identifier: Apache-2.0 */
#include "core/nn/sched.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/number.h"
#include "core/nn/sched_settings.h"

#define PAIRS 32
#define PI 3.14159265358979323846

struct yk__sched {
    const struct kind *kind;
    char *text; /* the settings, cut into keys and values */
    const char *key[PAIRS], *value[PAIRS];
    uint32_t n;
    double w, total, base;
    double rate, best, bad, cooldown; /* plateau */
};

typedef void rate_fn(const yk__sched *s, double k, double *lr, double *momentum);
typedef struct kind {
    const char *name;
    rate_fn *rate;
    const char *keys; /* settings it knows, space around each */
} kind;

static const char *find(const yk__sched *s, const char *key)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (!strcmp(s->key[i], key))
            return strcmp(s->value[i], "null") != 0 && strcmp(s->value[i], "None") != 0 ? s->value[i] : NULL;
    return NULL;
}

static double num(const yk__sched *s, const char *key, double preset)
{
    const char *v = find(s, key);
    return v ? yk__number_read(v, NULL) : preset;
}

static bool yes(const yk__sched *s, const char *key)
{
    const char *v = find(s, key);
    return v && (!strcmp(v, "true") || !strcmp(v, "True") || !strcmp(v, "1"));
}

static bool is(const yk__sched *s, const char *key, const char *word, const char *preset)
{
    const char *v = find(s, key);
    return !strcmp(v ? v : preset, word);
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

/* ---- transformers/optimization.py ---- */

static bool warming(const yk__sched *s, double k, double *lr)
{
    if (k >= s->w)
        return false;
    *lr = s->base * (k / most(1.0, s->w));
    return true;
}

static double progress(const yk__sched *s, double k)
{
    return (k - s->w) / most(1.0, s->total - s->w);
}

static void constant(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)k;
    (void)momentum;
    *lr = s->base;
}

static void constant_warmup(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    if (!warming(s, k, lr))
        *lr = s->base;
}

static void linear(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    if (!warming(s, k, lr))
        *lr = s->base * most(0.0, (s->total - k) / most(1.0, s->total - s->w));
}

static double half_cosine(double turns, double p)
{
    return 0.5 * (1.0 + cos(PI * turns * 2.0 * p));
}

static void cosine(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    if (!warming(s, k, lr))
        *lr = s->base * most(0.0, half_cosine(num(s, "num_cycles", 0.5), progress(s, k)));
}

static void cosine_restarts(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    if (warming(s, k, lr))
        return;
    double p = progress(s, k);
    *lr = p >= 1.0 ? 0.0 : s->base * most(0.0, 0.5 * (1.0 + cos(PI * fmod(num(s, "num_cycles", 1.0) * p, 1.0))));
}

static double least_ratio(const yk__sched *s)
{
    return find(s, "min_lr") ? num(s, "min_lr", 0.0) / s->base : num(s, "min_lr_rate", 0.0);
}

static void cosine_min(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    if (warming(s, k, lr))
        return;
    double r = least_ratio(s);
    *lr = s->base * most(0.0, half_cosine(num(s, "num_cycles", 0.5), progress(s, k)) * (1.0 - r) + r);
}

static void cosine_warmup_min(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    double r = least_ratio(s), f;
    if (k < s->w && find(s, "warmup_lr_rate")) {
        double from = num(s, "warmup_lr_rate", 0.0);
        f = from + (1.0 - from) * k / most(1.0, s->w - 1.0);
    } else if (k < s->w) {
        f = (k + 1.0) / most(1.0, s->w);
    } else {
        double p = (k - s->w + 1.0) / most(1.0, s->total - s->w);
        f = most(0.0, half_cosine(num(s, "num_cycles", 0.5), p) * (1.0 - r) + r);
    }
    *lr = s->base * f;
}

static void polynomial(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    double end = num(s, "lr_end", 1e-7);
    if (warming(s, k, lr))
        return;
    if (k >= s->total) /* also where the warm-up is all there is */
        *lr = end;
    else
        *lr = (s->base - end) * pow(1.0 - (k - s->w) / (s->total - s->w), num(s, "power", 1.0)) + end;
}

static void inverse_sqrt(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    if (warming(s, k, lr))
        return;
    double scale = num(s, "timescale", s->w > 0.0 ? s->w : 10000.0);
    *lr = s->base / sqrt((k - s->w + scale) / scale);
}

static void stable_decay(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    double decay = num(s, "num_decay_steps", 0.0), low = num(s, "min_lr_ratio", 0.0), f;
    double stable = num(s, "num_stable_steps", s->total - s->w - decay);
    if (k < s->w) {
        double p = k / most(1.0, s->w);
        f = is(s, "warmup_type", "cosine", "linear")   ? 0.5 * (1.0 - cos(PI * p))
            : is(s, "warmup_type", "1-sqrt", "linear") ? 1.0 - sqrt(1.0 - p)
                                                       : p;
    } else if (k < s->w + stable) {
        *lr = s->base;
        return;
    } else if (k < s->w + stable + decay) {
        double p = (k - s->w - stable) / most(1.0, decay);
        f = is(s, "decay_type", "linear", "cosine")   ? 1.0 - p
            : is(s, "decay_type", "1-sqrt", "cosine") ? 1.0 - sqrt(p)
                                                      : half_cosine(num(s, "num_cycles", 0.5), p);
    } else {
        *lr = s->base * low;
        return;
    }
    *lr = s->base * most(0.0, f * (1.0 - low) + low);
}

/* ---- torch/optim/lr_scheduler.py ---- */

static void step_lr(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    *lr = s->base * pow(num(s, "gamma", 0.1), floor(k / num(s, "step_size", 1.0)));
}

static void multi_step(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    double passed = 0.0;
    const char *v = find(s, "milestones");
    while (v && *v) {
        char *end;
        double at = yk__number_read(v, &end);
        if (end == v)
            break;
        passed += at <= k ? 1.0 : 0.0;
        v = *end ? end + 1 : end;
    }
    *lr = s->base * pow(num(s, "gamma", 0.1), passed);
}

static void exponential(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    *lr = s->base * pow(num(s, "gamma", 1.0), k);
}

static void cosine_annealing(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    double low = num(s, "eta_min", 0.0);
    *lr = low + (s->base - low) * (1.0 + cos(PI * k / num(s, "T_max", most(1.0, s->total)))) / 2.0;
}

static double restart_begin(double len, double mult, double n)
{
    return len * (pow(mult, n) - 1.0) / (mult - 1.0);
}

static void warm_restarts(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    double low = num(s, "eta_min", 0.0), len = num(s, "T_0", 1.0), mult = num(s, "T_mult", 1.0);
    if (mult == 1.0) {
        k = fmod(k, len);
    } else { /* before restart n lie len (1 + mult + .. + mult^(n - 1)) steps; the logarithm may be off by a little */
        double n = floor(log1p(k / len * (mult - 1.0)) / log(mult));
        n -= restart_begin(len, mult, n) > k ? 1.0 : 0.0;
        n += restart_begin(len, mult, n + 1.0) <= k ? 1.0 : 0.0;
        k -= restart_begin(len, mult, n);
        len *= pow(mult, n);
    }
    *lr = low + (s->base - low) * (1.0 + cos(PI * k / len)) / 2.0;
}

static void linear_lr(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    double a = num(s, "start_factor", 1.0 / 3.0), b = num(s, "end_factor", 1.0), n = num(s, "total_iters", 5.0);
    *lr = s->base * (a + (b - a) * (k < n ? k : n) / n);
}

static void polynomial_lr(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    double n = num(s, "total_iters", 5.0);
    *lr = s->base * pow(1.0 - (k < n ? k : n) / n, num(s, "power", 1.0));
}

static double anneal(const yk__sched *s, double a, double b, double p)
{
    return is(s, "anneal_strategy", "linear", "cos") ? (b - a) * p + a : b + (a - b) / 2.0 * (1.0 + cos(PI * p));
}

static void one_cycle_lr(const yk__sched *s, double k, double *lr, double *momentum)
{
    double high = num(s, "max_lr", s->base), start = high / num(s, "div_factor", 25.0);
    double low = start / num(s, "final_div_factor", 1e4), n = num(s, "total_steps", s->total);
    double cut = num(s, "pct_start", 0.3) * n, m0 = num(s, "base_momentum", 0.85), m1 = num(s, "max_momentum", 0.95);
    bool three = yes(s, "three_phase");
    double end[3] = {cut - 1.0, three ? 2.0 * cut - 2.0 : n - 1.0, n - 1.0};
    double rate[4] = {start, high, three ? start : low, low}, mom[4] = {m1, m0, m1, m1};
    int last = three ? 2 : 1, i = 0;
    k = k < n - 1.0 ? k : n - 1.0; /* torch refuses steps behind the last: the rate stays */
    while (i < last && k > end[i])
        i++;
    double from = i ? end[i - 1] : 0.0, p = end[i] > from ? (k - from) / (end[i] - from) : 1.0;
    *lr = anneal(s, rate[i], rate[i + 1], p);
    *momentum = anneal(s, mom[i], mom[i + 1], p);
}

static void plateau(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)k;
    (void)momentum;
    *lr = s->rate;
}

/* ---- deepspeed/runtime/lr_schedules.py ---- */

static double ds_gain(const yk__sched *s, double i, double n)
{
    return is(s, "warmup_type", "linear", "log") ? i / n : log(i + 1.0) / log(n);
}

static double ds_steps(const yk__sched *s)
{
    return most(2.0, num(s, "warmup_num_steps", s->w > 0.0 ? s->w : 1000.0));
}

static void ds_warmup(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    double low = num(s, "warmup_min_lr", 0.0), high = num(s, "warmup_max_lr", s->base), n = ds_steps(s), i = k - 1.0;
    *lr = k < 1.0 ? low : low + (high - low) * (i < n ? ds_gain(s, i, n) : 1.0);
}

static void ds_warmup_decay(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    double low = num(s, "warmup_min_lr", 0.0), high = num(s, "warmup_max_lr", s->base), n = ds_steps(s), i = k - 1.0;
    double total = num(s, "total_num_steps", s->total);
    double g = i < n ? ds_gain(s, i, n) : most(0.0, (total - i) / most(1.0, total - n));
    *lr = k < 1.0 ? low : low + (high - low) * g;
}

static void ds_warmup_cosine(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    double r = num(s, "warmup_min_ratio", 0.0), c = num(s, "cos_min_ratio", 1e-4), n = ds_steps(s), i = k - 1.0;
    double p = (i - n + 1.0) / most(1.0, num(s, "total_num_steps", s->total) - n);
    if (k < 1.0)
        *lr = 0.0;
    else
        *lr = s->base * (i < n ? r + (1.0 - r) * ds_gain(s, i, n)
                               : c + (1.0 - c) * (1.0 + cos(PI * (p < 1.0 ? p : 1.0))) / 2.0);
}

static void ds_range_test(const yk__sched *s, double k, double *lr, double *momentum)
{
    (void)momentum;
    double p = k / num(s, "lr_range_test_step_size", 2000.0);
    if (yes(s, "lr_range_test_staircase"))
        p = floor(p);
    *lr = num(s, "lr_range_test_min_lr", 1e-3) * (1.0 + num(s, "lr_range_test_step_rate", 1.0) * p);
}

static double stairs(double x, double count)
{
    return count > 0.0 ? floor(x * count) / count : x;
}

static void ds_one_cycle(const yk__sched *s, double k, double *lr, double *momentum)
{
    double low = num(s, "cycle_min_lr", 0.0), high = num(s, "cycle_max_lr", s->base);
    double m0 = num(s, "cycle_min_mom", 0.8), m1 = num(s, "cycle_max_mom", 0.9);
    double first = num(s, "cycle_first_step_size", 2000.0), second = num(s, "cycle_second_step_size", first);
    double up = num(s, "cycle_first_stair_count", 0.0), down = num(s, "cycle_second_stair_count", up);
    double size = num(s, "decay_step_size", 0.0), j = k - first - second;
    if (j >= 0.0) {
        double d = size > 0.0 ? j / size : 0.0;
        *lr = low / (1.0 + num(s, "decay_lr_rate", 0.0) * d);
        *momentum = m1 * (1.0 + num(s, "decay_mom_rate", 0.0) * d);
        return;
    }
    double x = k < first ? stairs(k / first, up) : stairs((first + second - k) / second, down);
    *lr = low + (high - low) * x;
    *momentum = k < 1.0 ? m0 : m1 - (m1 - m0) * x;
}

#define WARM " num_warmup_steps num_training_steps "
static const kind kinds[] = {
    {"constant", constant, WARM},
    {"constant_with_warmup", constant_warmup, WARM},
    {"linear", linear, WARM},
    {"cosine", cosine, WARM " num_cycles "},
    {"cosine_with_restarts", cosine_restarts, WARM " num_cycles "},
    {"cosine_with_min_lr", cosine_min, WARM " num_cycles min_lr min_lr_rate "},
    {"cosine_warmup_with_min_lr", cosine_warmup_min, WARM " num_cycles min_lr min_lr_rate warmup_lr_rate "},
    {"polynomial", polynomial, WARM " lr_end power "},
    {"inverse_sqrt", inverse_sqrt, WARM " timescale "},
    {"warmup_stable_decay", stable_decay,
     WARM " num_decay_steps num_stable_steps warmup_type decay_type min_lr_ratio num_cycles "},
    {"StepLR", step_lr, " step_size gamma "},
    {"MultiStepLR", multi_step, " milestones gamma "},
    {"torch_multistep", multi_step, " milestones gamma "},
    {"ExponentialLR", exponential, " gamma "},
    {"CosineAnnealingLR", cosine_annealing, " T_max eta_min "},
    {"torch_cosine_annealing", cosine_annealing, " T_max eta_min "},
    {"CosineAnnealingWarmRestarts", warm_restarts, " T_0 T_mult eta_min "},
    {"LinearLR", linear_lr, " start_factor end_factor total_iters "},
    {"PolynomialLR", polynomial_lr, " total_iters power "},
    {"OneCycleLR", one_cycle_lr,
     " max_lr total_steps pct_start anneal_strategy three_phase div_factor final_div_factor base_momentum max_momentum "},
    {"ReduceLROnPlateau", plateau, " mode factor patience threshold threshold_mode cooldown min_lr eps "},
    {"reduce_lr_on_plateau", plateau, " mode factor patience threshold threshold_mode cooldown min_lr eps "},
    {"WarmupLR", ds_warmup, " warmup_min_lr warmup_max_lr warmup_num_steps warmup_type "},
    {"WarmupDecayLR", ds_warmup_decay, " total_num_steps warmup_min_lr warmup_max_lr warmup_num_steps warmup_type "},
    {"WarmupCosineLR", ds_warmup_cosine,
     " total_num_steps warmup_min_ratio warmup_num_steps cos_min_ratio warmup_type "},
    {"LRRangeTest", ds_range_test,
     " lr_range_test_min_lr lr_range_test_step_size lr_range_test_step_rate lr_range_test_staircase "},
    {"OneCycle", ds_one_cycle,
     " cycle_min_lr cycle_max_lr decay_lr_rate cycle_first_step_size cycle_second_step_size cycle_first_stair_count "
     "cycle_second_stair_count decay_step_size cycle_min_mom cycle_max_mom decay_mom_rate "},
};

static bool knows(const kind *k, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = strstr(k->keys, key); p; p = strstr(p + 1, key))
        if (p[-1] == ' ' && p[n] == ' ')
            return true;
    return false;
}

/* What no single setting tells. */
static yk_status check_together(const yk__sched *s, yk_error *err)
{
    const char *name = s->kind->name;
    const double lr_end = num(s, "lr_end", 1e-7);
    if (!(s->w >= 0.0) || !(s->total >= 0.0) || !isfinite(s->w) || !isfinite(s->total))
        return yk__fail(err, YK_E_ARG, "schedule %s: %g warm-up steps of %g: expected numbers from 0", name, s->w, s->total);
    if (s->kind->rate == polynomial && lr_end > 0.0 && lr_end >= s->base)
        return yk__fail(err, YK_E_ARG, "schedule %s: lr_end=%g must be below the learning rate, %g", name, lr_end, s->base);
    if (find(s, "min_lr") && find(s, "min_lr_rate"))
        return yk__fail(err, YK_E_ARG, "schedule %s: min_lr and min_lr_rate say the same twice: give one of them", name);
    if (s->kind->rate == one_cycle_lr && num(s, "total_steps", s->total) < 1.0)
        return yk__fail(err, YK_E_ARG, "schedule %s: total_steps is missing: how many steps has the cycle?", name);
    return YK_OK;
}

/* Before the settings' own number replaces it. transformers' get_scheduler lets a warm-up pass that a schedule has none of. */
static yk_status check_warmup(const yk__sched *s, yk_error *err)
{
    static const char *const settings[] = {"num_warmup_steps", "warmup_num_steps"};
    rate_fn *f = s->kind->rate;
    const bool deepspeed = f == ds_warmup || f == ds_warmup_decay || f == ds_warmup_cosine;
    if (!(s->w > 0.0))
        return YK_OK;
    if (f == constant || !(deepspeed || knows(s->kind, "num_warmup_steps")))
        return yk__fail(err, YK_E_ARG, "schedule %s has no warm-up, and %g steps of it are asked for: leave them out, or take a schedule "
                        "that warms up (constant_with_warmup, linear, cosine, cosine_with_restarts, cosine_with_min_lr, polynomial, "
                        "inverse_sqrt, warmup_stable_decay, DeepSpeed's WarmupLR ...)", s->kind->name, s->w);
    for (size_t i = 0; i < 2; i++)
        if (find(s, settings[i]) && num(s, settings[i], 0.0) != s->w)
            return yk__fail(err, YK_E_ARG, "schedule %s: %s=%s beside %g warm-up steps: give one of them", s->kind->name, settings[i],
                            find(s, settings[i]), s->w);
    return YK_OK;
}

static yk_status parse(yk__sched *s, yk_error *err)
{
    for (char *p = s->text; p && *p;) {
        char *next = strchr(p, ','), *eq = strchr(p, '=');
        if (next)
            *next++ = 0;
        if (!eq || (next && eq >= next))
            return yk__fail(err, YK_E_ARG, "schedule %s: \"%s\" is not of the form key=value", s->kind->name, p);
        *eq = 0;
        if (!knows(s->kind, p))
            return yk__fail(err, YK_E_ARG, "schedule %s has no setting \"%s\"; it has:%s", s->kind->name, p,
                            s->kind->keys);
        if (s->n == PAIRS)
            return yk__fail(err, YK_E_ARG, "schedule %s: more than %d settings", s->kind->name, PAIRS);
        s->key[s->n] = p;
        s->value[s->n++] = eq + 1;
        yk_status st = yk__sched_setting_check(s->kind->name, p, eq + 1, s->base, err);
        if (st)
            return st;
        p = next;
    }
    if (check_warmup(s, err))
        return err->status;
    s->w = num(s, "num_warmup_steps", s->w);
    s->total = num(s, "num_training_steps", s->total);
    return check_together(s, err);
}

static const kind *kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    return NULL;
}

yk_status yk__sched_new(const char *name, double warmup, double total, const char *params, double base_lr, yk__sched **out,
                        yk_error *err)
{
    const kind *k = kind_of(name ? name : "constant");
    if (!k)
        return yk__fail(err, YK_E_ARG,
                        "there is no schedule \"%s\"; there are constant, constant_with_warmup, linear, cosine, "
                        "cosine_with_restarts, cosine_with_min_lr, cosine_warmup_with_min_lr, polynomial, inverse_sqrt, "
                        "warmup_stable_decay, torch's StepLR ... and DeepSpeed's WarmupLR ...",
                        name);
    yk__sched *s = yk__calloc(1, sizeof *s);
    if (!s)
        return yk__fail_mem(err, sizeof *s, "a schedule");
    s->kind = k;
    s->w = warmup;
    s->total = total;
    s->base = s->rate = base_lr;
    s->text = yk__strdup(params ? params : "");
    yk_status st = s->text ? parse(s, err) : yk__fail_mem(err, 1, "a schedule");
    if (st) {
        yk__sched_free(s);
        return st;
    }
    s->best = is(s, "mode", "max", "min") ? -INFINITY : INFINITY;
    *out = s;
    return YK_OK;
}

void yk__sched_free(yk__sched *s)
{
    if (!s)
        return;
    yk__free(s->text);
    yk__free(s);
}

void yk__sched_at(const yk__sched *s, uint64_t step, double *lr, double *momentum)
{
    double m = (double)NAN;
    s->kind->rate(s, (double)step, lr, &m);
    if (momentum)
        *momentum = m;
}

bool yk__sched_wants_metric(const yk__sched *s)
{
    return s->kind->rate == plateau;
}

static bool better(const yk__sched *s, double a)
{
    bool up = is(s, "mode", "max", "min"), rel = is(s, "threshold_mode", "rel", "rel");
    double t = num(s, "threshold", 1e-4);
    if (up)
        return a > (rel ? s->best * (1.0 + t) : s->best + t);
    return a < (rel ? s->best * (1.0 - t) : s->best - t);
}

/* torch's ReduceLROnPlateau.step */
void yk__sched_metric(yk__sched *s, double metric)
{
    if (better(s, metric)) {
        s->best = metric;
        s->bad = 0.0;
    } else {
        s->bad += 1.0;
    }
    if (s->cooldown > 0.0) {
        s->cooldown -= 1.0;
        s->bad = 0.0;
    }
    if (s->bad > num(s, "patience", 10.0)) {
        double low = most(s->rate * num(s, "factor", 0.1), num(s, "min_lr", 0.0));
        if (s->rate - low > num(s, "eps", 1e-8))
            s->rate = low;
        s->cooldown = num(s, "cooldown", 0.0);
        s->bad = 0.0;
    }
}

uint64_t yk__sched_hash(const yk__sched *s, uint64_t h)
{
    const double numbers[3] = {s->w, s->total, s->base};
    h = yk__hash_bytes(h, s->kind->name, strlen(s->kind->name));
    h = yk__hash_bytes(h, numbers, sizeof numbers);
    for (uint32_t i = 0; i < s->n; i++) {
        h = yk__hash_bytes(h, s->key[i], strlen(s->key[i]));
        h = yk__hash_bytes(h, s->value[i], strlen(s->value[i]));
    }
    return h;
}

void yk__sched_state_get(const yk__sched *s, double state[4])
{
    const double v[4] = {s->rate, s->best, s->bad, s->cooldown};
    memcpy(state, v, sizeof v);
}

void yk__sched_state_set(yk__sched *s, const double state[4])
{
    s->rate = state[0];
    s->best = state[1];
    s->bad = state[2];
    s->cooldown = state[3];
}
