/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public losses (yk_cross_entropy, yk_mse_loss and so on): the sum over this rank's items times 1 / the number of items over all ranks,
 * a run-time scalar. So the sum of the ranks' values is the mean over the global micro batch, for any split of the rows.
 *
 * Models and the user's program call them in the step thread; they append nodes to the step's graph. count.c sums the numbers of items.
 */
#include <math.h>

#include "core/job/config_size.h"
#include "core/job/operand.h"
#include "core/job/trace/blame.h"
#include "core/job/trace/count.h"
#include "core/job/trace/host_value.h"
#include "core/job/trace/op.h"
#include "core/job/trace/sharding.h"

/* sum(v), or sum(v) / count, as a scalar; or v itself. */
static yk_t reduce_items(yk_job *job, yk__vid v, yk__sharding items, double count, yk_reduction how)
{
    yk__graph *g = &job->step.trace;
    yk__vid inverse;
    yk__op_setting(job, "reduction", how);
    if (v == YK_NONE || how == YK_EACH)
        return yk__result(job, v, items);
    uint32_t dims = g->value[v].dims;
    yk__vid out = yk__reshape_to(g, yk__sum(g, v, (1u << dims) - 1u), 0, NULL);
    if (how != YK_SUM) {
        if (yk__counted_new(job, count, &inverse) == YK_NONE)
            return YK__POISON;
        out = yk__bin(g, YK_OP_MUL, out, inverse);
    }
    return yk__result(job, out, yk__shard_total(items, how == YK_MEAN));
}

/* Fails with the label of a class that the logits do not have. */
static void refuse_label(yk_job *job, yk__vid labels, int64_t at, int64_t label, int64_t classes, int64_t ignore)
{
    const yk_value *x = &job->step.trace.value[labels];
    char row[320];
    yk__row_text(job, x->dims ? at / (yk__value_count(x) / x->dim[0]) : 0, row, sizeof row);
    yk__job_failf(job, YK_E_ARG, "yk_cross_entropy: label %lld of %s is none of the logits' %lld classes, 0 to %lld (%lld is ignored)",
                  (long long)label, row, (long long)classes, (long long)classes - 1, (long long)ignore);
}

/* Range-checks labels that are a direct input, even if the loss goes unused, as the check costs nothing. */
static bool labels_fit(yk_job *job, yk__vid labels, int64_t classes, int64_t ignore, double *count)
{
    yk__step *step = &job->step;
    int64_t bad;
    *count = -1.0;
    if (!yk__host_labels(job, labels, ignore, classes, count, &bad) || bad < 0 || step->empty)
        return true;
    const yk_value *x = &step->trace.value[labels];
    const int32_t *y = (const int32_t *)step->input[step->trace.slot[x->slot].key].data + x->offset / sizeof *y;
    refuse_label(job, labels, bad, y[bad], classes, ignore);
    return false;
}

/* Counts the labels, or adds up their classes' weights; false after a failure. *count on entry: the number of labels of a direct input,
 * or negative. */
static bool count_labels(yk_job *job, yk__vid labels, yk__vid weight, int64_t ignore, double *count)
{
    yk__step *step = &job->step;
    int64_t n = yk__value_count(&step->trace.value[labels]), classes = weight == YK_NONE ? 0 : yk__value_count(&step->trace.value[weight]);
    if (!classes && *count >= 0.0)
        return true;
    *count = 0.0;
    if (yk__grow(&step->lists.label, &step->lists.cap_label, (size_t)(n + classes), sizeof *step->lists.label)) {
        yk__job_failf(job, YK_E_MEM, "out of memory in yk_cross_entropy");
        return false;
    }
    double *y = step->lists.label, *w = y + n;
    if (!yk__host_values(job, labels, y, n) || (classes && !yk__host_values(job, weight, w, classes)))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (y[i] != (double)ignore)
            *count += !classes ? 1.0 : y[i] >= 0.0 && y[i] < (double)classes ? w[(int64_t)y[i]] : 0.0;
    return true;
}

/* Refuses float labels with fractions, which a cast would silently truncate. */
static bool labels_typed(yk_job *job, const char *name, const yk_value *labels, const yk_value *logits)
{
    const int dims = labels->dims;
    const bool soft = dims && dims == logits->dims && labels->dim[dims - 1] == logits->dim[dims - 1]; /* a row of probabilities each */
    char text[96];
    if (labels->dtype != YK_F32 && labels->dtype != YK_F16 && labels->dtype != YK_BF16)
        return true;
    yk__job_failf(job, YK_E_ARG, "%s: labels are %s: expected numbers of classes, i32%s", name,
                  yk__value_shape_text(labels, text, sizeof text),
                  soft ? "; probabilities are not taken: yk_argmax(labels, -1) makes numbers of them"
                  : dims + 1 == logits->dims ? "; yk_cast(labels, YK_I32) makes them so"
                                             : ", one for each row of logits");
    return false;
}

yk_t (yk_cross_entropy_with)(yk_t logits, yk_t labels, const yk_cross_entropy_config *c, size_t size)
{
    const char *name = "yk_cross_entropy";
    yk_cross_entropy_config whole;
    c = yk__config_take(yk_job_of(logits), name, c, size, &whole, sizeof whole);
    if (!c)
        return YK__POISON;
    const yk_t all[3] = {logits, labels, c->weight};
    yk_job *job = yk__op_enter(name, 3, all);
    if (!job)
        return YK__POISON;
    yk__vid z = yk__as_float(job, yk__operand(job, name, logits)), y = yk__operand(job, name, labels), out[2] = {YK_NONE};
    yk__vid w = yk__is_none(c->weight) ? YK_NONE : yk__operand(job, name, c->weight);
    if (z == YK_NONE || y == YK_NONE || !yk_ok(job))
        return YK__POISON;
    const yk_value u = job->step.trace.value[z];
    if (!labels_typed(job, name, &job->step.trace.value[y], &u))
        return YK__POISON;
    const int64_t rows = yk__value_count(&job->step.trace.value[y]), flat[2] = {rows, u.dims ? u.dim[u.dims - 1] : 1};
    if (u.dims < 1 || yk__value_count(&u) != rows * flat[1] || (w != YK_NONE && yk__value_count(&job->step.trace.value[w]) != flat[1])) {
        char s[2][96];
        yk__job_failf(job, YK_E_ARG, "%s: logits %s and labels %s do not fit (logits [.., C], labels [..], weight [C])", name,
                      yk__value_shape_text(&u, s[0], sizeof s[0]), yk__value_shape_text(&job->step.trace.value[y], s[1], sizeof s[1]));
        return YK__POISON;
    }
    const int64_t ignore = (int64_t)yk__setting_or(c->ignore_index, -100);
    const int64_t attr[2] = {ignore, yk_attr_of_f64((double)c->smoothing)};
    double count;
    yk__op_setting(job, "ignore_index", (double)ignore);
    yk__op_setting(job, "smoothing", (double)c->smoothing);
    if (!labels_fit(job, y, flat[1], ignore, &count) || (c->reduction == YK_MEAN && !count_labels(job, y, w, ignore, &count)))
        return YK__POISON;
    const yk_value labels_of = job->step.trace.value[y];
    const yk__sharding items = yk__shard_labels(job, z, y, w);
    y = yk__dense(&job->step.trace, yk__reshape_to(&job->step.trace, yk__cast(&job->step.trace, y, YK_I32), 1, &rows));
    const yk__vid in[3] = {yk__reshape_to(&job->step.trace, z, 2, flat), y, w};
    if (in[0] == YK_NONE || y == YK_NONE)
        return yk__handle(job, YK_NONE);
    yk__apply(&job->step.trace, YK_OP_CROSS_ENTROPY, w == YK_NONE ? 2 : 3, in, 2, attr, YK_DTYPE_COUNT, 0, NULL, out, 2);
    if (c->reduction == YK_EACH)
        out[0] = yk__reshape_to(&job->step.trace, out[0], labels_of.dims, labels_of.dim);
    return reduce_items(job, out[0], items, count, c->reduction);
}

yk_t yk_cross_entropy(yk_t logits, yk_t labels)
{
    return yk_cross_entropy_with(logits, labels, NULL);
}

/*
 * With y the target, w the weight and q the weight of positives:
 *   -w (q y log s(x) + (1 - y) log(1 - s(x)))
 * Both logarithms are the log-softmax of (x, 0): exact for large |x| and with the right slope at 0.
 */
static yk__vid bce_items(yk_job *job, yk__vid x, yk__vid y, yk__vid w, yk__vid q)
{
    yk__graph *g = &job->step.trace;
    const yk_value u = g->value[x];
    const int64_t n = yk__value_count(&u), column[2] = {n, 1}, log = 1;
    const yk__vid pair[2] = {yk__reshape_to(g, x, 2, column), yk__fill(g, 0.0, YK_F32, 2, column)};
    yk__vid both = yk__concat(g, 2, pair, 1), p = YK_NONE;
    if (both == YK_NONE)
        return YK_NONE;
    yk__apply(g, YK_OP_SOFTMAX, 1, &both, 1, &log, YK_DTYPE_COUNT, 0, NULL, &p, 1);
    yk__vid pos = yk__reshape_to(g, yk__slice(g, p, 1, 0, 1, 1), u.dims, u.dim);
    yk__vid neg = yk__reshape_to(g, yk__slice(g, p, 1, 1, 2, 1), u.dims, u.dim);
    yk__vid a = yk__bin(g, YK_OP_MUL, y, pos);
    yk__vid b = yk__bin(g, YK_OP_MUL, yk__bin(g, YK_OP_SUB, yk__const(g, 1.0, YK_F32), y), neg);
    if (q != YK_NONE)
        a = yk__bin(g, YK_OP_MUL, a, q);
    yk__vid sum = yk__un(g, YK_OP_NEG, yk__bin(g, YK_OP_ADD, a, b));
    return w == YK_NONE ? sum : yk__bin(g, YK_OP_MUL, sum, w);
}

/* Enters an elementwise loss: its two operands as floats; false after a failure. */
static bool enter_pair(const char *name, yk_t x, yk_t target, const yk_loss_config *c, yk_job **job, yk__vid *a, yk__vid *b)
{
    const yk_t all[4] = {x, target, c->weight, c->pos_weight};
    *job = yk__op_enter(name, 4, all);
    if (!*job)
        return false;
    *a = yk__as_float(*job, yk__operand(*job, name, x));
    *b = yk__as_float(*job, yk__operand(*job, name, target));
    if (*a == YK_NONE || *b == YK_NONE)
        return false;
    const yk__graph *g = &(*job)->step.trace;
    if (yk__value_same_shape(&g->value[*a], &g->value[*b]))
        return true;
    char s[2][96];
    yk__job_failf(*job, YK_E_ARG, "%s: %s and %s differ in shape", name, yk__value_shape_text(&g->value[*a], s[0], sizeof s[0]),
                  yk__value_shape_text(&g->value[*b], s[1], sizeof s[1]));
    return false;
}

yk_t (yk_bce_with_logits)(yk_t logits, yk_t target, const yk_loss_config *c, size_t size)
{
    const char *name = "yk_bce_with_logits";
    yk_loss_config whole;
    yk_job *job;
    yk__vid x, y;
    c = yk__config_take(yk_job_of(logits), name, c, size, &whole, sizeof whole);
    if (!c || !enter_pair(name, logits, target, c, &job, &x, &y))
        return YK__POISON;
    yk__vid w = yk__is_none(c->weight) ? YK_NONE : yk__as_float(job, yk__operand(job, name, c->weight));
    yk__vid q = yk__is_none(c->pos_weight) ? YK_NONE : yk__as_float(job, yk__operand(job, name, c->pos_weight));
    if (!yk_ok(job))
        return YK__POISON;
    const yk__vid in[4] = {x, y, w, q};
    yk__sharding items = yk__shard_same(job, 2, in);
    if (items.kind != YK__LOCAL)
        items = yk__shard_map(job, 4, in);
    const yk__vid each = bce_items(job, yk__cast(&job->step.trace, x, YK_F32), y, w, q); /* weights may broadcast it */
    const double n = each == YK_NONE ? 0.0 : (double)yk__value_count(&job->step.trace.value[each]);
    return reduce_items(job, each, items, n, c->reduction);
}

yk_t (yk_mse_loss)(yk_t x, yk_t target, const yk_loss_config *c, size_t size)
{
    yk_loss_config whole;
    yk_job *job;
    yk__vid a, b;
    c = yk__config_take(yk_job_of(x), "yk_mse_loss", c, size, &whole, sizeof whole);
    if (!c || !enter_pair("yk_mse_loss", x, target, c, &job, &a, &b))
        return YK__POISON;
    if (!yk__is_none(c->weight) || !yk__is_none(c->pos_weight)) {
        yk__job_failf(job, YK_E_ARG, "yk_mse_loss has no weights");
        return YK__POISON;
    }
    double n = (double)yk__value_count(&job->step.trace.value[a]);
    const yk__vid in[2] = {a, b};
    const yk__sharding items = yk__shard_same(job, 2, in);
    yk__vid d = yk__bin(&job->step.trace, YK_OP_SUB, a, b);
    return reduce_items(job, yk__bin(&job->step.trace, YK_OP_MUL, d, d), items, n, c->reduction);
}
