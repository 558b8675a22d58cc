/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the parameters that products read in the compute format (such as bf16), kept between steps, and the programs that write them.
 * micro.c (core/run) calls yk__compute_refresh before each run that reads copies, and param_hash.c before it hashes them, in the step
 * thread. update_programs.c (core/run) calls yk__compute_cast for the step's graph; api.c (core/run) and param_layout.c call
 * yk__compute_drop before the layout goes.
 *
 * A rank that updates whole parameters, alone or under LocalSGD, writes their copies during the update (update_programs.c), unless the host
 * updates. With copies.shared a host has one copy of each trained parameter, and each owner's update writes its slice of it (copies.c).
 * Other ranks' updates, LocalSGD's means, and any values the host wrote, are cast before the next program that reads them. A new copy makes
 * all copies stale. Parameters that come as messages, or from a host update that runs under the next forward (ways/deferred.c), are cast
 * bucket by bucket: a segment that has waited for a bucket casts its copies (core/run/actions.c).
 */
#include "core/base/mem.h"
#include "core/run/exec.h"

void yk__compute_drop(yk__exec *exec)
{
    for (uint32_t i = 0; i < exec->params->n_bucket && exec->bucket_cast; i++)
        yk__prog_free(exec->queue->dev, exec->bucket_cast[i]);
    yk__free(exec->bucket_cast);
    exec->bucket_cast = NULL;
    yk__prog_free(exec->queue->dev, exec->cast_prog[0]);
    yk__prog_free(exec->queue->dev, exec->cast_prog[1]);
    exec->cast_prog[0] = exec->cast_prog[1] = NULL;
}

void yk__compute_cast(const yk__params *p, yk__graph *g, uint32_t number, uint64_t at, uint64_t n, yk__vid value)
{
    const yk__param *q = &p->param[number];
    const int64_t dim = (int64_t)n;
    const uint32_t slot = yk__slot_new(g, YK_SLOT_PARAM, yk__copy_bytes(p, q), number | YK__KEY_COMPUTE);
    const yk__vid copy = yk__leaf(g, slot, at * yk_dtype_bytes(p->precision), p->precision, 1, &dim);
    if (value != YK_NONE && copy != YK_NONE)
        yk__node_new(g, YK_OP_CAST, 0, 1, &value, 1, &copy, 0, NULL);
}

/* The parameters a program casts. */
typedef struct cast_choice {
    bool all;        /* else trained parameters only */
    uint32_t bucket; /* bucket of the trained parameters; YK_NONE: any */
} cast_choice;

static bool is_chosen(const yk__param *q, cast_choice which)
{
    return q->compute && (which.all || (q->trained && (which.bucket == YK_NONE || q->bucket == which.bucket)));
}

static yk_status make_cast(yk__exec *exec, cast_choice which, yk__prog **out, yk_error *err)
{
    const yk__params *p = exec->params;
    yk__graph g;
    yk__graph_init(&g);
    for (uint32_t i = 0; i < p->n_param; i++) {
        const yk__param *q = &p->param[i];
        const int64_t n = (int64_t)q->n;
        if (is_chosen(q, which))
            yk__compute_cast(p, &g, i, 0, q->n, yk__leaf(&g, yk__slot_new(&g, YK_SLOT_PARAM, q->n * sizeof(float), i), 0, YK_F32, 1, &n));
    }
    return yk__prog_of_graph(exec, &g, (yk__prog_ends){0}, out, err);
}

/* Drops programs that are older than some of the copies. */
static yk_status drop_outdated(yk__exec *exec, yk_error *err)
{
    if (exec->n_cast == exec->params->copies.n)
        return YK_OK;
    if (yk__queue_idle(exec->queue, err))
        return err->status;
    yk__compute_drop(exec);
    exec->n_cast = exec->params->copies.n;
    return YK_OK;
}

/* Marks the buckets with copies as due, or all buckets as not due. */
static void mark_due(yk__params *p, bool due)
{
    for (uint32_t i = 0; i < p->n_bucket; i++)
        p->bucket[i].cast_due = false;
    for (uint32_t i = 0; i < p->n_param && due; i++)
        if (p->param[i].trained && p->param[i].compute)
            p->bucket[p->param[i].bucket].cast_due = true;
}

/* Casts all parameters, or all trained ones, in one program, which waits for all buckets on their way. */
static yk_status cast_all(yk__exec *exec, bool all, yk_error *err)
{
    const cast_choice which = {.all = all, .bucket = YK_NONE};
    if (drop_outdated(exec, err) || (!exec->cast_prog[all] && make_cast(exec, which, &exec->cast_prog[all], err)) ||
        yk__prog_run(exec, exec->cast_prog[all], (yk__inputs){0}, err))
        return err->status;
    mark_due(exec->params, false);
    return YK_OK;
}

static yk_status reserve_bucket_casts(yk__exec *exec, yk_error *err)
{
    const uint32_t n = exec->params->n_bucket;
    if (drop_outdated(exec, err) || exec->bucket_cast)
        return err->status;
    exec->bucket_cast = yk__calloc(n, sizeof *exec->bucket_cast);
    return exec->bucket_cast ? YK_OK : yk__fail_mem(err, n * sizeof *exec->bucket_cast, "the compute format of a bucket");
}

/* Casts the copies of a bucket if they are due. Its parameters are here. */
static yk_status refresh_bucket(yk__exec *exec, uint32_t bucket, yk_error *err)
{
    yk__bucket *b = &exec->params->bucket[bucket];
    if (!b->cast_due)
        return YK_OK;
    b->cast_due = false;
    if (reserve_bucket_casts(exec, err))
        return err->status;
    if (!exec->bucket_cast[bucket]) {
        if (make_cast(exec, (cast_choice){.bucket = bucket}, &exec->bucket_cast[bucket], err))
            return err->status;
        exec->bucket_cast[bucket]->settles = false; /* the other buckets may still be on their way */
    }
    return yk__prog_run(exec, exec->bucket_cast[bucket], (yk__inputs){0}, err);
}

/* whole: the program's segments wait for no bucket, so all buckets are awaited and cast here. */
yk_status yk__compute_refresh(yk__exec *exec, bool whole, yk_error *err)
{
    yk__params *params = exec->params;
    const bool by_bucket = exec->exchange->laid_for == YK__MESSAGES || yk__params_defer(params);
    if (params->copies.stale == YK__STALE_TRAINED && by_bucket)
        mark_due(params, true);
    else if (params->copies.stale != YK__FRESH && cast_all(exec, params->copies.stale == YK__STALE_ALL, err))
        return err->status;
    params->copies.stale = YK__FRESH;
    exec->bucket_came = refresh_bucket;
    for (uint32_t i = params->n_bucket; i-- > 0 && whole;)
        if (yk__params_await(params, i, err) || refresh_bucket(exec, i, err))
            return err->status;
    return YK_OK;
}
