/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of a loss's items over all ranks, so that each rank can divide by the global number. yk_backward sums them in one exchange, with
 * the other numbers that ranks exchange before a step runs (agree.c).
 *
 * The losses add counts while they are traced; backward.c or flush.c (core/job/loop) calls yk__count_ranks, on all members, in the step
 * thread. The result is written to run-time scalars of the step.
 */
#include "core/job/trace/count.h"

#include <stdlib.h>
#include <string.h>

#include "core/job/input.h"
#include "core/job/trace/agree.h"
#include "core/job/trace/sharding.h"

uint32_t yk__counted_new(yk_job *job, double local, yk__vid *inverse)
{
    yk__step *step = &job->step;
    if (step->n_counted == YK__COUNTS) {
        yk__job_failf(job, YK_E_ARG, "more than %d losses in one micro batch", YK__COUNTS);
        return YK_NONE;
    }
    yk__counted *c = &step->counted[step->n_counted];
    *c = (yk__counted){.local = local};
    c->scalar = yk__scalar_new(job, local > 0.0 ? 1.0 / local : 0.0, inverse);
    return *inverse == YK_NONE ? YK_NONE : step->n_counted++;
}

const uint8_t *yk__count_reached(yk_job *job, yk__vid loss)
{
    yk__step *step = &job->step;
    const yk__graph *g = &step->trace;
    uint8_t *need;
    if (yk__grow(&step->lists.need, &step->lists.cap_need, g->n_value, 1)) {
        yk__job_failf(job, YK_E_MEM, "out of memory while tracing");
        return NULL;
    }
    need = memset(step->lists.need, 0, g->n_value);
    need[yk__trace_root(g, loss)] = 1;
    for (size_t k = g->n_node; k-- > 0;) {
        const yk_node *node = &g->node[k];
        bool used = false;
        for (uint32_t i = 0; i < node->n_out; i++)
            used = used || need[yk__trace_root(g, g->index[node->out + i])];
        for (uint32_t i = 0; i < node->n_in && used; i++)
            need[yk__trace_root(g, g->index[node->in + i])] = 1;
    }
    return need;
}

uint32_t yk__count_terms(const yk_job *job, const uint8_t *need)
{
    const yk__step *step = &job->step;
    const yk__graph *g = &step->trace;
    uint32_t mask = 0;
    for (size_t v = 0; v < g->n_value; v++) {
        const yk_value *x = &g->value[v];
        if (!need[v] || x->slot == YK_NONE || g->slot[x->slot].kind != YK_SLOT_INPUT)
            continue;
        for (uint32_t c = 0; c < step->n_counted; c++)
            if (step->scalar_slot[step->counted[c].scalar / YK__SCALARS] == x->slot &&
                x->offset == step->counted[c].scalar % YK__SCALARS * sizeof(float))
                mask |= 1u << c;
    }
    return mask;
}

double yk__count_own(yk_job *job, yk__vid v)
{
    const yk__step *step = &job->step;
    const uint8_t *need = yk__count_reached(job, v);
    const uint32_t terms = need ? yk__count_terms(job, need) : 0;
    bool mean = false;
    if (terms)
        return step->counted[__builtin_ctz(terms)].local;
    for (size_t i = 0; need && i < step->n_row_mean; i++)
        mean = mean || need[step->row_mean[i].leaf];
    return mean ? (double)step->local_rows : -1.0;
}

/* One exchange: the counts of losses, the rows, empty ranks, the values of a batch norm, and the sharding's checks. */
bool yk__count_ranks(yk_job *job)
{
    yk__step *step = &job->step;
    yk_error err = YK_ERROR_INIT;
    double v[YK__COUNTS + 3 + YK__AGREE_NUMBERS + YK__SHARD_NUMBERS], shard_numbers[YK__SHARD_NUMBERS];
    const uint32_t n = step->n_counted, agree = n + 3, shard = agree + YK__AGREE_NUMBERS;
    for (uint32_t i = 0; i < n; i++)
        v[i] = step->counted[i].local;
    v[n] = step->empty ? 0.0 : (double)(step->local_rows - step->padding);
    v[n + 1] = step->empty;
    v[n + 2] = step->norm_values;
    yk__sharding_numbers(job, shard_numbers);
    memcpy(v + shard, shard_numbers, sizeof shard_numbers);
    if (job->team.world > 1 && !yk__agree_numbers(job, v + agree))
        return false;
    if (job->team.world > 1 && yk__group_sum_members(job->team.group, v, shard + YK__SHARD_NUMBERS, &err)) {
        yk__job_fail(job, &err);
        return false;
    }
    if (job->team.world > 1 && (!yk__agree_check(job, v + agree) || !yk__sharding_check(job, shard_numbers, v + shard)))
        return false;
    if (!yk__batch_norm_check(job, v[n + 2]))
        return false;
    if (step->rows_set && v[n] > (double)step->global_rows) {
        yk__job_failf(job, YK_E_ARG, "yk_set_rows: the ranks hold %.0f rows of a global micro batch of %lld: expected each row on one "
                      "rank. Give each rank its part (yk_split), and as `global` the rows of all ranks", v[n],
                      (long long)step->global_rows);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        step->counted[i].global = v[i];
        yk__scalar_set(job, step->counted[i].scalar, v[i] > 0.0 ? 1.0 / v[i] : 0.0);
    }
    if (!step->rows_set)
        step->global_rows = (int64_t)v[n];
    step->any_empty = v[n + 1] > 0.0;
    yk__sharding_counts(job, v[shard + YK__SHARD_NUMBERS - 1]);
    step->counted_ranks = true;
    return true;
}
