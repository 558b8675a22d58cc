/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values for the host (yk_keep, yk_item, yk_read): kept, awaited, and for a loss summed over the ranks.
 *
 * The user's program calls it in the step thread. A read runs the traced step if needed, and waits for the device. The sum of a loss is a
 * collective: all ranks read it alike. yk_keep makes a value readable for one step longer.
 */
#include "core/job/loop/read.h"

#include <math.h>
#include <string.h>

#include "core/job/loop/flush.h"
#include "core/job/operand.h"
#include "core/job/param.h"
#include "core/job/trace/count.h"
#include "core/job/trace/sharding.h"

/* Copies an input from host memory, which needs no run. */
static void take_input(const yk_job *job, yk__kept *k)
{
    const yk__graph *g = &job->step.trace;
    const yk_value *x = &g->value[k->source];
    if (x->slot == YK_NONE || g->slot[x->slot].kind != YK_SLOT_INPUT || g->slot[x->slot].key >= job->step.n_input)
        return;
    if (k->bytes) /* a rank without rows has no memory to copy from */
        memcpy(k->host, (const char *)job->step.input[g->slot[x->slot].key].data + x->offset, (size_t)k->bytes);
    k->sent = k->ready = true;
}

/* The entry of a value of the current step; NULL after a failure. */
yk__kept *yk__kept_add(yk_job *job, yk__vid v)
{
    yk__graph *g = &job->step.trace;
    yk_error err = YK_ERROR_INIT;
    yk__kept *k = yk__kept_find(&job->values, job->gen, v);
    if (k)
        return k;
    const yk__vid dense = yk__dense(g, v);
    if (g->error.status || dense == YK_NONE) {
        yk__job_fail(job, &g->error);
        return NULL;
    }
    k = yk__kept_new(&job->values, job->gen, v, dense, &g->value[v], &err);
    if (k) {
        take_input(job, k);
        k->part = yk__sharding_of(job, v).kind == YK__PARTIAL && yk__value_count(&k->value) == 1;
        k->items = k->part ? yk__count_own(job, v) : -1.0;
    } else {
        yk__job_fail(job, &err);
    }
    return k;
}

bool yk__kept_fetch(yk_job *job, yk__kept *k)
{
    yk_error err = YK_ERROR_INIT;
    size_t at = (size_t)(k - job->values.kept);
    if (!k->sent && !yk__step_flush(job, false))
        return false;
    k = &job->values.kept[at];
    if (!k->ready && yk__engine_wait(job->engine, k->ticket, &err)) {
        yk__job_fail(job, &err);
        return false;
    }
    k->ready = true;
    return yk_ok(job);
}

double yk__kept_number(yk_job *job, yk__kept *k)
{
    yk_error err = YK_ERROR_INIT;
    if (!k->loss)
        return yk__kept_first(k);
    if (!k->summed) {
        k->sum = k->factor == 0.0 ? 0.0 : yk__kept_first(k) * k->factor;
        if (job->team.world > 1 && yk__group_sum_members(job->team.group, &k->sum, 1, &err))
            yk__job_fail(job, &err);
        k->summed = true;
    }
    return k->sum;
}

bool yk__kept_part(yk_job *job, yk_t x, yk__part *part)
{
    yk__kept *k = yk__kept_find(&job->values, (uint16_t)(x.id >> 32), (yk__vid)x.id);
    *part = (yk__part){0};
    if (!k || !k->part || k->loss)
        return false;
    const size_t at = (size_t)(k - job->values.kept);
    if (!yk__kept_fetch(job, k))
        return true;
    k = &job->values.kept[at];
    if (k->absent)
        return true;
    const double value = yk__kept_first(k);
    part->own = k->own_counts;
    part->items = k->items > 0.0 ? k->items : 0.0;
    part->sum = k->own_counts && k->items >= 0.0 ? 0.0 : value;
    part->weighted = k->own_counts && k->items > 0.0 ? value * k->items : 0.0;
    return true;
}

/* The entry of a living handle, with its data fetched; NULL after a failure. */
static yk__kept *kept_fetched(yk_job *job, const char *name, yk_t x)
{
    yk__kept *k = yk__kept_find(&job->values, (uint16_t)(x.id >> 32), (yk__vid)x.id);
    if (!k) {
        yk__vid v = yk__step_value(job, name, x);
        k = v == YK_NONE ? NULL : yk__kept_add(job, v);
    }
    if (!k)
        return NULL;
    size_t at = (size_t)(k - job->values.kept);
    if (!yk__kept_fetch(job, k))
        return NULL;
    if (!job->values.kept[at].absent)
        return &job->values.kept[at];
    yk__job_failf(job, YK_E_ARG, "%s: rank %u is excluded from the steps at present, and this value depends on data that the other "
                                 "ranks exchanged in one: read it where yk_share is above 0, or the loss, which all ranks have; '!' "
                                 "behind its device spec keeps the rank in", name, job->team.rank);
    return NULL;
}

static bool is_param(yk_t x)
{
    return (uint16_t)(x.id >> 32) == 0;
}

static double param_number(yk_job *job, yk__job_param *p)
{
    float f = NAN;
    int32_t i;
    if (!yk__param_get(job, p, &f))
        return (double)NAN;
    memcpy(&i, &f, sizeof i);
    return p->dtype == YK_I32 ? (double)i : (double)f;
}

double yk_item(yk_t x)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_job *job = yk__job_of(x);
    yk_value buf;
    if (!yk_ok(job))
        return (double)NAN;
    const yk_value *v = yk__handle_info(job, x, &buf);
    if (v && (v->dims == 0 || yk__value_count(v) == 1) && is_param(x)) {
        return param_number(job, &job->param[(uint32_t)x.id]);
    }
    if (v && yk__value_count(v) != 1 && !(v->dims && yk__value_count(v) == 0)) {
        char text[96];
        yk__job_failf(job, YK_E_ARG, "yk_item of %s: it must be one number", yk__value_shape_text(v, text, sizeof text));
        return (double)NAN;
    }
    yk__kept *k = kept_fetched(job, "yk_item", x);
    double d = k ? yk__kept_number(job, k) : (double)NAN;
    return yk_ok(job) ? d : (double)NAN;
}

void yk_read(yk_t x, void *data, size_t bytes)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_job *job = yk__job_of(x);
    if (!yk_ok(job))
        return;
    if (is_param(x)) {
        yk__job_param *p = yk__param_of(job, "yk_read", x);
        if (p && p->dtype == YK_F32)
            yk_param_read(x, data, bytes / sizeof(float));
        else if (p)
            yk__job_failf(job, YK_E_ARG, "yk_read: %s is a state of integers; read it by yk_param_read", p->name);
        return;
    }
    yk__kept *k = kept_fetched(job, "yk_read", x);
    if (!k)
        return;
    if (k->bytes != bytes) {
        char text[96];
        yk__job_failf(job, YK_E_ARG, "yk_read: %s has %llu bytes, the buffer holds %zu",
                      yk__value_shape_text(&k->value, text, sizeof text), (unsigned long long)k->bytes, bytes);
        return;
    }
    if (bytes)
        memcpy(data, k->host, bytes);
}

yk_t yk_keep(yk_t x)
{
    yk_job *job = yk__job_of(x);
    if (!yk_ok(job))
        return YK__POISON;
    if (is_param(x))
        return x;
    yk__kept *k = yk__kept_find(&job->values, (uint16_t)(x.id >> 32), (yk__vid)x.id);
    if (!k) {
        yk__vid v = yk__step_value(job, "yk_keep", x);
        k = v == YK_NONE ? NULL : yk__kept_add(job, v);
    }
    if (!k)
        return YK__POISON;
    k->outlives_step = true;
    return x;
}
