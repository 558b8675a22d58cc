/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the source of a NaN or infinity, for the error of a failed step. window.c (core/job/loop) calls yk__nonfinite_text in the step
 * thread, on all ranks.
 *
 * A rank first searches the inputs of its step. If they are finite, it runs the forward pass again with probes. The text then names the
 * first operation with a bad result, and the step's file rows. A step with an exchange between ranks is not run again.
 *
 * With several ranks, each takes the finding of the lowest rank that knows a cause. If none does, each rank's error has its own file rows.
 *
 * yk__row_text names a row of the user's file. op_loss.c and op_layer.c call it for labels and ids out of range.
 */
#include "core/job/trace/blame.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/job/data_info.h"

static int64_t find_not_finite(const float *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return i;
    return -1;
}

void yk__row_text(const yk_job *job, int64_t row, char *buf, size_t n)
{
    char where[280];
    const bool known = yk__data_where(job, row, where, sizeof where);
    snprintf(buf, n, "row %lld%s%s%s", (long long)row, known ? " (" : "", known ? where : "", known ? ")" : "");
}

static bool blame_input(const yk_job *job, char *buf, size_t n)
{
    const yk__step *step = &job->step;
    char row[320];
    for (size_t i = 0; i < step->n_input; i++) {
        const yk__step_input *input = &step->input[i];
        if (input->scalars || step->trace.value[input->leaf].dtype != YK_F32)
            continue;
        const yk_value *x = &step->trace.value[input->leaf];
        const int64_t all = yk__value_count(x), at = find_not_finite(input->data, all);
        if (at < 0)
            continue;
        yk__row_text(job, x->dims ? at / (all / x->dim[0]) : 0, row, sizeof row);
        snprintf(buf, n, "; input %zu of the step holds %g in %s", i, fabs((double)((const float *)input->data)[at]), row);
        return true;
    }
    return false;
}

/* ---- The operation that made it ---- */

/* A second run of an exchange would need the other ranks. */
static bool has_exchange(const yk__graph *g)
{
    for (size_t k = 0; k < g->n_node; k++)
        if (yk__op_over_ranks(g->node[k].op))
            return true;
    return false;
}

/* Over v's elements: the sum of their squares, and the number that are not finite, by the gradients' kernel. A sum of 0 * v would not
 * work, as some devices' compilers turn it into 0. */
static yk__vid probe_of(yk__graph *g, yk__vid v, yk__vid one)
{
    const int64_t n = yk__value_count(&g->value[v]);
    const yk__vid in[2] = {yk__dense(g, yk__reshape(g, v, 1, &n)), one};
    yk__vid out;
    return yk__apply(g, YK_OP_GRAD_STATS, 2, in, 0, NULL, YK_DTYPE_COUNT, 0, NULL, &out, 1) ? out : YK_NONE;
}

/* Appends a probe of each node's first float output to the trace. node[k]: the node of probe k. */
static uint32_t add_probes(yk__graph *g, size_t n_node, yk__vid *node, yk__vid *probe)
{
    const yk__vid one = yk__dense(g, yk__fill(g, 1.0, YK_F32, 1, (int64_t[]){1}));
    uint32_t n = 0;
    for (size_t k = 0; k < n_node && !g->error.status; k++) {
        const yk__vid v = g->index[g->node[k].out];
        if (g->value[v].dtype != YK_F32 || !yk__value_count(&g->value[v]))
            continue;
        node[n] = (yk__vid)k;
        probe[n++] = probe_of(g, v, one);
    }
    return n;
}

/* Runs the forward pass again, with only the probes as results. */
static bool run_probes(yk_job *job, uint32_t n, const yk__vid *probe, float *found, void **where)
{
    yk__step *step = &job->step;
    yk_error quiet = YK_ERROR_INIT;
    uint64_t ticket;
    for (uint32_t i = 0; i < n; i++)
        where[i] = &found[2 * (size_t)i];
    const yk__micro m = {.trace = &step->trace,
                         .loss = YK_NONE,
                         .seed = YK_NONE,
                         .n_input = (uint32_t)step->n_input,
                         .input = step->lists.input,
                         .input_bytes = step->lists.input_bytes,
                         .n_result = n,
                         .result = probe,
                         .result_host = where};
    return !step->trace.error.status && !yk__engine_run(job->engine, &m, &ticket, &quiet) &&
           !yk__engine_wait(job->engine, ticket, &quiet);
}

/* "f32[16, 784] f32[784, 48] -> f32[16, 48]" */
static const char *shapes_text(const yk__graph *g, const yk_node *node, char *buf, size_t n)
{
    char shape[100];
    size_t used = 0;
    for (uint32_t i = 0; i < node->n_in && used < n; i++)
        used += (size_t)snprintf(buf + used, n - used, "%s ",
                                 yk__value_shape_text(&g->value[g->index[node->in + i]], shape, sizeof shape));
    if (used < n)
        snprintf(buf + used, n - used, "-> %s", yk__value_shape_text(&g->value[g->index[node->out]], shape, sizeof shape));
    return buf;
}

static void producer_text(const yk_job *job, const yk_node *node, char *buf, size_t n)
{
    const yk__call_site *at = yk__call_sites_find(&job->sites, node->stream);
    char place[150] = "", shapes[120], device[104];
    if (at)
        snprintf(place, sizeof place, ", called at %.120s:%d", at->file, at->line);
    snprintf(device, sizeof device, "%.24s:%u (%.60s)", job->device->table->name, job->device->place.device, job->device->caps.name);
    snprintf(buf, n, "; the first value that is not finite is that of %.20s%s (%s) on %s", yk__op_info_of(node->op)->name, place,
             shapes_text(&job->step.trace, node, shapes, sizeof shapes), device);
}

/* Searches the forward pass. If only the backward pass made the value, all forward values are finite and nothing is reported. */
static bool blame_operation(yk_job *job, char *buf, size_t n)
{
    yk__graph *g = &job->step.trace;
    const size_t n_node = g->n_node;
    if (job->step.empty || has_exchange(g) || !n_node)
        return false;
    yk__vid *node = yk__calloc(2 * n_node, sizeof *node), *probe = node ? node + n_node : NULL;
    float *found = yk__calloc(2 * n_node, sizeof *found);
    void **where = yk__calloc(n_node, sizeof *where);
    const uint32_t n_probe = node && found && where ? add_probes(g, n_node, node, probe) : 0;
    if (n_probe && run_probes(job, n_probe, probe, found, where))
        for (uint32_t i = 0; i < n_probe && !*buf; i++)
            if (found[2 * (size_t)i + 1] > 0.0f)
                producer_text(job, &g->node[node[i]], buf, n);
    yk__free(where);
    yk__free(found);
    yk__free(node);
    return *buf != 0;
}

/* ---- Over all ranks ---- */

typedef enum certainty { KNOWS_NOTHING, KNOWS_ROWS, KNOWS_CAUSE } certainty;

typedef struct finding {
    int32_t certainty;
    char text[YK__NONFINITE_TEXT - 64];
} finding;

static bool find_rows(const yk_job *job, char *buf, size_t n)
{
    char where[280];
    size_t used;
    if (!yk__data_where(job, 0, where, sizeof where))
        return false;
    used = (size_t)snprintf(buf, n, "; its last rows on this rank are %s", where);
    for (int64_t row = 1; row < job->step.local_rows && used < n; row++) {
        const char *place = yk__data_where(job, row, where, sizeof where) ? strrchr(where, ':') : NULL;
        if (row == 8 || !place)
            break;
        used += (size_t)snprintf(buf + used, n - used, ",%s", place + 1);
    }
    return true;
}

static void find_own(yk_job *job, finding *own)
{
    *own = (finding){0};
    if (job->step.empty)
        return;
    if (blame_input(job, own->text, sizeof own->text)) {
        own->certainty = KNOWS_CAUSE;
        return;
    }
    if (blame_operation(job, own->text, sizeof own->text))
        own->certainty = KNOWS_CAUSE;
    const size_t used = strlen(own->text);
    if (find_rows(job, own->text + used, sizeof own->text - used) && !own->certainty)
        own->certainty = KNOWS_ROWS;
}

/* Takes the first finding among the most certain ranks; each rank reports its own rows. */
static void take_cause(const yk_job *job, const finding *own, char *buf, size_t n)
{
    const uint32_t world = job->team.world;
    finding *all = yk__calloc(world, sizeof *all);
    yk_error quiet = YK_ERROR_INIT;
    if (all && !yk__group_all_gather(job->team.group, own, sizeof *own, all, &quiet))
        for (uint32_t r = 0; r < world; r++)
            if (all[r].certainty == KNOWS_CAUSE) {
                snprintf(buf, n, "; on rank %u (%.40s) %.*s", r, yk_device_name(job, r), (int)sizeof all[r].text - 3, all[r].text + 2);
                break;
            }
    yk__free(all);
}

const char *yk__nonfinite_text(yk_job *job, char buf[YK__NONFINITE_TEXT])
{
    finding own;
    find_own(job, &own);
    snprintf(buf, YK__NONFINITE_TEXT, "%s", own.text);
    if (job->team.world > 1)
        take_cause(job, &own, buf, YK__NONFINITE_TEXT);
    return buf;
}
