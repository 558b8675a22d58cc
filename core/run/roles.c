/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles: the members of a step, and the part of each bucket that each owner updates. The file cuts buckets into slices, moves values,
 * moments and sums to new owners, and brings returning members up to date. Moments, sums and far values go by yk__exchange_move; other
 * slices' values come from the block for exchanges.
 *
 * core/job/team/share.c calls yk__engine_set_roles between windows, and job_hash.c (core/job/checkpoint) yk__engine_catch_up, on all ranks,
 * in the step thread. Afterwards the parts of all ranks cover each bucket once, and no moment has changed its value.
 *
 * p->far: owners alone have a bucket's values (core/run/values/far_slices.h). p->scatters: ranks hold sums of their own slices alone
 * (core/run/values/slice_sums.h).
 */
#include <math.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/run/engine.h"

const yk__roles *yk__engine_roles(const yk__engine *e)
{
    return &e->exchange.roles;
}

static yk_status check_roles(const yk__engine *e, const yk__roles *roles, yk_error *err)
{
    double sum = 0.0;
    if (e->exchange.part == YK__PART_LOCAL)
        return yk__fail(err, YK_E_INTERNAL, "roles were set in LocalSGD, where every rank takes part and updates all");
    if (e->params.sums == YK__SUMS_DUE)
        return yk__fail(err, YK_E_INTERNAL, "roles were set in the middle of an accumulation window");
    for (uint32_t r = 0; r < e->exchange.world; r++) {
        const double owns = roles->owns[r];
        if (!(owns >= 0.0) || isinf(owns) || (owns > 0.0 && !roles->member[r]))
            return yk__fail(err, YK_E_INTERNAL,
                            "rank %u is to own %g parts: expected a finite number, and 0 of one that is no member", r, owns);
        if (e->params.far && !roles->member[r])
            return yk__fail(err, YK_E_INTERNAL, "rank %u is to be excluded, but other ranks pull slices only from members", r);
        sum += owns;
    }
    if (sum > 0.0 && isfinite(sum))
        return YK_OK;
    return yk__fail(err, YK_E_INTERNAL, "the ranks own %g parts together: expected a finite number above 0", sum);
}

static uint64_t hash_roles(const yk__exchange *exchange, const yk__roles *roles)
{
    uint64_t h = yk__hash_bytes(YK_HASH_SEED, roles->member, exchange->world * sizeof roles->member[0]);
    return yk__hash_bytes(h, roles->owns, exchange->world * sizeof roles->owns[0]);
}

/* Checks that all ranks set equal roles, and waits for all commands submitted before. */
static yk_status agree_on(yk__engine *e, const yk__roles *roles, yk_error *err)
{
    uint32_t other;
    if (yk__queue_idle(&e->queue, err) || yk__exchange_compare(&e->exchange, hash_roles(&e->exchange, roles), &other, err) ||
        other == YK_NONE)
        return err->status;
    return yk__fail(err, YK_E_INTERNAL, "%s sets other roles than %s", yk__exchange_name(&e->exchange, other),
                    yk__exchange_name(&e->exchange, 0));
}

/* Moves one moment of a bucket from its old owners to its new ones; elements whose owner stays are kept. all: scratch, as long as the
 * bucket. */
static yk_status move_moment(yk__params *p, yk__bucket *b, yk__bucket *was, uint32_t k, float *all, yk_error *err)
{
    if (yk__moment_read(p, was, k, (yk__range){was->begin, was->end}, all + was->begin, err) ||
        yk__exchange_move(p->exchange, &was->layout.slice, &b->layout.slice, all, err))
        return err->status;
    p->state_home->drop(p, was, k);
    b->moment[k] = NULL;
    return p->state_home->make(p, b, k, err) ? err->status
                                             : yk__moment_write(p, b, k, (yk__range){b->begin, b->end}, all + b->begin, err);
}

static yk_status move_moments(yk__params *p, yk__bucket *b, yk__bucket *was, yk_error *err)
{
    float *all = yk__malloc(b->layout.n * sizeof *all);
    if (!all)
        return yk__fail_mem(err, b->layout.n * sizeof *all, "moments that change their owner");
    for (uint32_t k = 0; k < p->n_moment && !err->status; k++)
        move_moment(p, b, was, k, all, err);
    yk__free(all);
    return err->status;
}

/* Sums of gradients in slices go to the new owners as moments do. */
static yk_status move_sums(yk__params *p, yk__bucket *b, yk__bucket *was, yk_error *err)
{
    float *all = yk__calloc(b->layout.n, sizeof *all);
    if (!all)
        return yk__fail_mem(err, b->layout.n * sizeof *all, "sums that change their owner");
    if (was->begin < was->end)
        memcpy(all + was->begin, was->sum, (was->end - was->begin) * sizeof *all);
    b->grad = NULL, b->sum = NULL, b->sum_pin = NULL, b->piece = NULL, b->n_piece = 0;
    yk__sums_drop(was);
    if (!yk__exchange_move(p->exchange, &was->layout.slice, &b->layout.slice, all, err) && !yk__sums_make(p, b, err) &&
        b->begin < b->end) {
        memcpy(b->sum, all + b->begin, (b->end - b->begin) * sizeof *all);
        yk__queue_write(b->updates, b->grad, 0, b->sum, b->is_wrapped ? 0 : (b->end - b->begin) * sizeof *all, err);
    }
    yk__free(all);
    return err->status;
}

/* Takes a slice's values from the block for exchanges, to which they were published. */
static yk_status take_slice(yk__params *p, yk__bucket *b, yk_error *err)
{
    if (yk__home_choose(p, b, err) || yk__params_put_shared(p, b, (yk__range){b->begin, b->end}, err))
        return err->status;
    return yk__queue_idle(p->queue, err);
}

/* Keeps a far slice's values for its new owner. */
static yk_status copy_own(const yk__bucket *b, float **old, yk_error *err)
{
    const uint64_t bytes = yk__bucket_own_bytes(b);
    *old = b->own ? yk__malloc(bytes) : NULL;
    if (b->own && !*old)
        return yk__fail_mem(err, bytes, "slices that change their owner");
    if (b->own)
        memcpy(*old, b->own, bytes);
    return YK_OK;
}

static yk_status move_bucket(yk__params *p, yk__bucket *b, bool has_moments, yk_error *err)
{
    const bool is_slice = b->home->kind == YK__HOME_SLICE;
    float *old;
    if (copy_own(b, &old, err))
        return err->status;
    if (is_slice) /* yk__home_leave needs the old begin and end, which yk__params_cut overwrites */
        yk__home_leave(p, b);
    yk__bucket was = *b;
    b->layout.slice = (yk__slices){0};
    if (yk__params_cut(p, b, err)) {
        b->layout.slice = was.layout.slice;
        yk__free(old);
        return err->status;
    }
    if (is_slice && p->far)
        yk__far_move(p, b, &was, old, err);
    else if (is_slice)
        take_slice(p, b, err);
    yk__free(old);
    if (!err->status && has_moments && !yk__slices_same(&was.layout.slice, &b->layout.slice))
        move_moments(p, b, &was, err);
    if (!err->status && p->scatters)
        move_sums(p, b, &was, err);
    yk__slices_free(&was.layout.slice);
    return err->status;
}

/* Notes the old slices in b->summed: the last window's sums stay with their old owners, where yk__engine_grad_read finds them. Sums in
 * slices (p->scatters) move. */
static yk_status keep_summed(yk__params *p, yk_error *err)
{
    if (p->scatters)
        return YK_OK;
    for (uint32_t i = 0; i < p->n_bucket && p->sums != YK__SUMS_MOVED; i++)
        if (yk__slices_copy(&p->bucket[i].summed, &p->bucket[i].layout.slice, err))
            return err->status;
    p->sums = YK__SUMS_MOVED;
    return YK_OK;
}

/* Sends a member's state to ranks that were excluded. take: this rank was excluded, and stores the values of root. */
static yk_status spread_state(yk__params *p, const yk__state *s, uint32_t root, bool take, yk_error *err)
{
    const uint64_t bytes = s->n * yk_dtype_bytes(s->dtype);
    void *v = yk__malloc(bytes);
    if (!v)
        return yk__fail_mem(err, bytes, s->name);
    if ((p->exchange->rank != root || !yk__queue_read(p->queue, s->buffer, 0, v, bytes, err)) &&
        !yk__exchange_broadcast(p->exchange, root, v, bytes, err) && take)
        yk__queue_write(p->queue, s->buffer, 0, v, bytes, err);
    yk__free(v);
    return err->status;
}

/* Brings parameters and states to a rank that took no part in steps. All ranks call it. */
static yk_status catch_up(yk__params *p, uint32_t root, bool take, yk_error *err)
{
    if (yk__params_refresh(p, root, take, err))
        return err->status;
    for (size_t i = 0; i < p->n_state; i++)
        if (spread_state(p, &p->state[i], root, take, err))
            return err->status;
    return YK_OK;
}

static yk_status change_members(yk__engine *e, const yk__roles *roles, yk_error *err)
{
    yk__exchange *exchange = &e->exchange;
    const uint32_t root = yk__exchange_first_member(exchange);
    bool back = false;
    if (!memcmp(roles->member, exchange->roles.member, exchange->world * sizeof roles->member[0]))
        return YK_OK;
    for (uint32_t r = 0; r < exchange->world; r++)
        back = back || (roles->member[r] && !exchange->roles.member[r]);
    if (yk__exchange_set_members(exchange, roles->member, err) ||
        (back && catch_up(&e->params, root, exchange->part == YK__PART_EXCLUDED && roles->member[exchange->rank], err)))
        return err->status;
    yk__exchange_clear_residual(exchange); /* a rank that comes back would send errors of old gradients */
    yk__power_drop(&e->params);
    yk__exchange_note_members(exchange, roles->member);
    yk__params_choose_way(&e->params);
    return yk__params_add_blocks(&e->params, err);
}

static yk_status change_owners(yk__engine *e, const yk__roles *roles, yk_error *err)
{
    yk__exchange *exchange = &e->exchange;
    const bool same = !memcmp(exchange->roles.owns, roles->owns, exchange->world * sizeof roles->owns[0]);
    memcpy(exchange->owns, roles->owns, exchange->world * sizeof *roles->owns); /* the array of exchange->roles.owns, compared above */
    if (e->params.has_updated && !same) /* the balance's reports say from here on which parts fit; the measured capacities are freed */
        yk__parts_forget(&e->params);
    if (!e->params.laid_out || same)
        return YK_OK;
    yk__exchange_clear_residual(exchange);
    yk__power_drop(&e->params);
    if (keep_summed(&e->params, err) || yk__far_withdraw(&e->params, err))
        return err->status;
    for (uint32_t k = 0; k < e->updater.n_optim; k++)
        yk__optim_drop(&e->updater.optim[k]);
    for (uint32_t i = 0; i < e->params.n_bucket; i++)
        if (move_bucket(&e->params, &e->params.bucket[i], e->updater.optim->has_layout && e->params.n_moment, err))
            return err->status;
    yk__far_publish(&e->params);
    return YK_OK;
}

static bool same_roles(const yk__exchange *exchange, const yk__roles *roles)
{
    return !memcmp(roles->member, exchange->roles.member, exchange->world * sizeof roles->member[0]) &&
           !memcmp(roles->owns, exchange->roles.owns, exchange->world * sizeof roles->owns[0]);
}

/* All ranks call it before roles change: members gather the exact f32 parameters. The rests (masters.c) are then part of the values, and
 * are freed. */
static yk_status leave_rest(yk__params *p, yk_error *err)
{
    if (yk__params_gather_whole(p, err))
        return err->status;
    yk__params_drop_rest(p);
    return YK_OK;
}

yk_status yk__engine_set_roles(yk__engine *e, const yk__roles *roles, yk_error *err)
{
    if (check_roles(e, roles, err) || e->exchange.world == 1)
        return err->status;
    if (yk__params_settle(&e->params, err) || yk__params_publish_late(&e->params, err) || agree_on(e, roles, err))
        return err->status;
    if (!same_roles(&e->exchange, roles) && leave_rest(&e->params, err))
        return err->status;
    yk__sums_restart(&e->params);
    return change_members(e, roles, err) ? err->status : change_owners(e, roles, err);
}

yk_status yk__engine_catch_up(yk__engine *e, yk_error *err)
{
    yk__exchange *exchange = &e->exchange;
    if (!yk__exchange_excludes(exchange))
        return YK_OK;
    if (yk__exchange_barrier(exchange, err) ||
        catch_up(&e->params, yk__exchange_first_member(exchange), exchange->part == YK__PART_EXCLUDED, err))
        return err->status;
    return yk__exchange_barrier(exchange, err); /* members go on when the copies are made */
}
