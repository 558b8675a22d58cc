/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics of `yoke eval` and of a training's evaluations (loss, accuracy, f1 and so on). It runs batches, sums over ranks, and computes
 * metrics of the sums. cmd_eval.c and tools/train/loop.c call it in the main thread of all ranks, which get equal numbers. cmd_train.c and
 * best.c read options by it, and tools/bench/sample.c plans an evaluation by metric_trace.
 */
#include "tools/eval/metrics.h"

#include "core/base/word.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METRIC_NAME(id, name, rises, preset) name,
const char *const metric_names[METRIC_COUNT] = {METRIC_TABLE(METRIC_NAME)};
#undef METRIC_NAME

/* Sums of an evaluation: labels that count, right ones, their losses, and sums of y (labels: classes or numbers) and p (predictions),
 * and of (y - p)^2. For f1 the right ones, predictions and labels of each class follow. */
enum { LABELS, RIGHT, LOSSES, SUM_Y, SUM_P, SUM_YY, SUM_PP, SUM_YP, SUM_ERRORS, SUMS };

typedef struct tally {
    double *sum;     /* SUMS + 3 * classes */
    int64_t classes; /* 0: not counted by class */
} tally;

bool metric_rises(metric m)
{
#define METRIC_RISES(id, name, rises, preset) rises,
    static const bool rises[] = {METRIC_TABLE(METRIC_RISES)};
#undef METRIC_RISES
    return rises[m];
}

train_result metric_none(void)
{
    train_result r = {.total = 0};
    for (int i = 0; i < METRIC_COUNT; i++)
        r.value[i] = NAN;
    return r;
}

int metric_find(const char *name)
{
    name += strncmp(name, "eval_", 5) ? 0 : 5;
    for (int i = 0; i < METRIC_COUNT; i++)
        if (yk__word_is(metric_names[i], strlen(metric_names[i]), name, strlen(name)))
            return i;
    return -1;
}

/* Metrics of other programs, and those that come nearest to them here. */
static const struct absent_metric {
    const char *names, *advice;
} absent_metrics[] = {
    {"precision|recall|fbeta|f-beta", "f1 is made of precision and recall"},
    {"f1-micro|micro-f1|balanced-accuracy|top1|top-1|acc@1", "accuracy is the part of the rows that are right"},
    {"f1-weighted|weighted-f1|macro-f1|mcc|matthews|matthews-correlation|cohen-kappa|auc|roc-auc|pr-auc|average-precision|top5|top-5",
     "of classes there are accuracy, f1 and f1_macro"},
    {"mae|rmse|r2|r2-score|spearman|spearmanr|mean-squared-error|mean-absolute-error|explained-variance",
     "of numbers there are mse and pearson"},
    {"bleu|sacrebleu|rouge|rougel|meteor|bertscore|wer|cer|exact-match|em", "no text is generated"},
    {"bits-per-byte|bpb|bpc|nll|cross-entropy", "loss is the mean of the labels' cross entropies, in nats"},
};

void metric_refuse(const yk__cli *cli, const char *option, const char *given, bool several)
{
    const char *name = strncmp(given, "eval_", 5) ? given : given + 5, *near = yk__nearest_word(name, metric_names, METRIC_COUNT);
    char note[160] = "";
    if (near)
        snprintf(note, sizeof note, " (did you mean %s?)", near);
    for (size_t i = 0; i < sizeof absent_metrics / sizeof absent_metrics[0]; i++)
        if (yk__cli_is_named(absent_metrics[i].names, name, strlen(name)))
            snprintf(note, sizeof note, " (%s)", absent_metrics[i].advice);
    yk__cli_usage(cli->command, "--%s %s: expected %sloss, accuracy, f1, f1_macro, perplexity, mse, pearson%s%s", option, given,
                  several ? "names out of " : "", several ? ", or all" : "", note);
}

uint32_t metric_read(const yk__cli *cli, bool *bad)
{
    const char *s = yk__cli_text(cli, "metrics");
    uint32_t set = 1u << METRIC_LOSS;
    for (size_t n; s && *s; s += n + (s[n] == ',')) {
        char name[64];
        n = strcspn(s, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, s);
        const int m = metric_find(name);
        if (m >= 0)
            set |= 1u << m;
        else if (!yk__word_find("all", name, strlen(name)))
            set |= ((1u << METRIC_COUNT) - 1) & ~(1u << METRIC_F1); /* f1 is of two classes only */
        else {
            metric_refuse(cli, "metrics", name, true);
            *bad = true;
        }
    }
    return set;
}

uint32_t metric_choose(const yk__cli *cli, yk_labels labels, uint32_t wanted)
{
    const char *named = yk__cli_text(cli, "metrics");
    if (labels != YK_LABELS_NUMBERS || (yk__cli_typed(cli, "metrics") && yk__word_find("all", named, strlen(named))))
        return wanted;
    return 1u << METRIC_LOSS | 1u << METRIC_MSE | 1u << METRIC_PEARSON;
}

static void count_numbers(double *sum, double y, double p)
{
    sum[LABELS]++;
    sum[SUM_Y] += y;
    sum[SUM_P] += p;
    sum[SUM_YY] += y * y;
    sum[SUM_PP] += p * p;
    sum[SUM_YP] += y * p;
    sum[SUM_ERRORS] += (y - p) * (y - p);
}

static void count_class(tally *t, int32_t want, int32_t got)
{
    double *sum = t->sum;
    count_numbers(sum, want, got);
    sum[RIGHT] += want == got;
    if (want < 0 || want >= t->classes || got < 0 || got >= t->classes)
        return;
    sum[SUMS + want] += want == got;
    sum[SUMS + t->classes + got]++;
    sum[SUMS + 2 * t->classes + want]++;
}

/* Adds one batch; loss is its mean over the labels that count. Classes and numbers are 4 bytes each. */
static void count_batch(yk_t best, const yk_batch *batch, yk_labels labels, double loss, tally *t)
{
    const double before = t->sum[LABELS];
    size_t n = 1;
    union {
        int32_t class;
        float number;
    } *got, *want;
    for (uint32_t i = 0; i < yk_dims(batch->labels); i++)
        n *= (size_t)yk_dim(batch->labels, (int32_t)i);
    got = calloc(2 * n + 1, sizeof *got);
    want = got + n;
    if (!got) {
        yk_fail(yk_job_of(best), YK_E_MEM, "out of memory in evaluation");
        return;
    }
    yk_read(best, got, n * sizeof *got);
    yk_read(batch->labels, want, n * sizeof *want);
    for (size_t i = 0; i < n; i++)
        if (labels == YK_LABELS_NUMBERS)
            count_numbers(t->sum, (double)want[i].number, (double)got[i].number);
        else if (want[i].class != -100)
            count_class(t, want[i].class, got[i].class);
    if (t->sum[LABELS] > before)
        t->sum[LOSSES] += loss * (t->sum[LABELS] - before);
    free(got);
}

bool metric_check(yk_job *job, yk_labels labels, int64_t classes, uint32_t wanted)
{
    const uint32_t of_classes = 1u << METRIC_ACCURACY | 1u << METRIC_F1 | 1u << METRIC_F1_MACRO | 1u << METRIC_PERPLEXITY;
    char text[160];
    if (labels == YK_LABELS_NUMBERS && wanted & of_classes) {
        yk_fail(job, YK_E_ARG, "--metrics: accuracy, f1, f1_macro and perplexity are of classes, and the labels are numbers: loss, mse and "
                               "pearson are of numbers");
        return false;
    }
    if (!(wanted & 1u << METRIC_F1) || classes == 2)
        return true;
    snprintf(text, sizeof text, "--metrics f1 is of two classes, and there are %lld: f1_macro is of any number", (long long)classes);
    yk_fail(job, YK_E_ARG, text);
    return false;
}

/* Room for the sums, once the number of classes is known; false when memory is gone. */
static bool make_tally(yk_job *job, tally *t, yk_labels labels, int64_t classes, uint32_t wanted)
{
    if (t->sum || !yk_ok(job))
        return yk_ok(job);
    if (!metric_check(job, labels, classes, wanted))
        return false;
    t->classes = wanted & (1u << METRIC_F1 | 1u << METRIC_F1_MACRO) ? classes : 0;
    t->sum = calloc((size_t)(SUMS + 3 * t->classes), sizeof *t->sum);
    if (!t->sum)
        yk_fail(job, YK_E_MEM, "out of memory in evaluation");
    return t->sum != NULL;
}

/* F1 of a class; -1 where it is neither a label nor a prediction. */
static double class_f1(const tally *t, int64_t k)
{
    const double both = t->sum[SUMS + t->classes + k] + t->sum[SUMS + 2 * t->classes + k];
    return both > 0 ? 2 * t->sum[SUMS + k] / both : -1;
}

static double macro_f1(const tally *t)
{
    double sum = 0, n = 0;
    for (int64_t k = 0; k < t->classes; k++)
        if (class_f1(t, k) >= 0) {
            sum += class_f1(t, k);
            n++;
        }
    return n > 0 ? sum / n : NAN;
}

/* n sum(x^2) - sum(x)^2; 0 if rounding of the n additions explains it, as for equal numbers that are no binary fractions. */
static double spread_of(double n, double sum, double squares)
{
    const double spread = n * squares - sum * sum;
    return spread > n * DBL_EPSILON * n * squares ? spread : 0;
}

static double pearson_of(const double *s)
{
    const double n = s[LABELS], cross = n * s[SUM_YP] - s[SUM_Y] * s[SUM_P];
    const double y = spread_of(n, s[SUM_Y], s[SUM_YY]), p = spread_of(n, s[SUM_P], s[SUM_PP]);
    return y > 0 && p > 0 ? fmax(-1, fmin(1, cross / sqrt(y) / sqrt(p))) : NAN;
}

static train_result result_of(const tally *t, uint32_t wanted)
{
    train_result r = metric_none();
    const double *s = t->sum, n = s[LABELS];
    const double loss = s[LOSSES] / n;
    if (!(n > 0))
        return r;
    r.correct = (uint64_t)s[RIGHT];
    r.total = (uint64_t)n;
    r.value[METRIC_LOSS] = loss;
    r.value[METRIC_ACCURACY] = s[RIGHT] / n;
    r.value[METRIC_PERPLEXITY] = exp(loss);
    r.value[METRIC_MSE] = s[SUM_ERRORS] / n;
    r.value[METRIC_PEARSON] = pearson_of(s);
    if (wanted & 1u << METRIC_F1)
        r.value[METRIC_F1] = class_f1(t, 1) < 0 ? 0 : class_f1(t, 1);
    if (wanted & 1u << METRIC_F1_MACRO)
        r.value[METRIC_F1_MACRO] = macro_f1(t);
    return r;
}

yk_t metric_trace(yk_model *m, const yk_batch *batch, yk_t logits, yk_t *loss)
{
    *loss = yk_keep(yk_model_loss(m, batch, logits));
    yk_keep(batch->labels);
    return yk_keep(yk_dim(logits, -1) == 1 ? yk_cast(logits, YK_F32) : yk_argmax(logits, -1));
}

train_result train_evaluate(yk_job *job, yk_model *m, yk_data *data, uint32_t wanted)
{
    const yk_labels labels = yk_data_labels(data);
    tally t = {NULL, 0};
    train_result r = metric_none();
    yk_train(job, false);
    yk_data_seek(data, 0, 0);
    yk_each (batch, job, data) {
        yk_t logits = yk_forward(m, &batch), loss, best = metric_trace(m, &batch, logits, &loss);
        if (make_tally(job, &t, labels, yk_dim(logits, -1), wanted)) /* on a rank without rows, too: reading runs the step */
            count_batch(best, &batch, labels, yk_item(loss), &t);
    }
    if (t.sum)
        yk_all_reduce_sum(job, t.sum, (uint32_t)(SUMS + 3 * t.classes));
    yk_train(job, true);
    if (t.sum && yk_ok(job))
        r = result_of(&t, wanted);
    free(t.sum);
    return r;
}

void metric_print(FILE *f, const train_result *r, uint32_t wanted)
{
    const char *gap = "";
    for (int i = 0; i < METRIC_COUNT; i++)
        if (wanted & 1u << i) {
            fprintf(f, isfinite(r->value[i]) ? "%s%s %.4f" : "%s%s undefined", gap, metric_names[i], r->value[i]);
            gap = "  ";
        }
}

void metric_print_json(FILE *f, const train_result *r, uint32_t wanted)
{
    const char *gap = "";
    for (int i = 0; i < METRIC_COUNT; i++)
        if (wanted & 1u << i) {
            fprintf(f, isfinite(r->value[i]) ? "%s\"eval_%s\": %.9g" : "%s\"eval_%s\": null", gap, metric_names[i], r->value[i]);
            gap = ", ";
        }
}
