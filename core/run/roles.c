/* SPDX-License-Identifier: Apache-2.0 */
/* Who takes part in a step, and who updates how much: cutting buckets into slices, and moving moments when that changes. */
#include <math.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/run/internal.h"

void yk__roles_begin(yk__engine *e)
{
    for (uint32_t r = 0; r < e->world; r++) {
        e->roles.member[r] = true;
        e->roles.owns[r] = 1.0;
    }
}

uint32_t yk__roles_first(const yk__engine *e)
{
    uint32_t r = 0;
    while (!e->roles.member[r])
        r++;
    return r;
}

void yk__roles_cut(const yk__engine *e, yk__bucket *p)
{
    yk__slices_by(&p->slice, p->n, e->world, e->roles.owns);
    p->begin = p->slice.begin[e->rank];
    p->end = p->slice.begin[e->rank + 1];
}

const yk__roles *yk__engine_roles(const yk__engine *e)
{
    return &e->roles;
}

static yk_status check_roles(const yk__engine *e, const yk__roles *roles, yk_error *err)
{
    double sum = 0.0;
    if (!e->reduced)
        return yk__fail(err, YK_E_INTERNAL, "roles were set in the middle of an accumulation window");
    for (uint32_t r = 0; r < e->world; r++) {
        const double owns = roles->owns[r];
        if (!(owns >= 0.0) || isinf(owns) || (owns > 0.0 && !roles->member[r]))
            return yk__fail(err, YK_E_INTERNAL, "rank %u is to own %g parts: expected a finite number, and 0 of one that is no member",
                            r, owns);
        sum += owns;
    }
    return sum > 0.0 && isfinite(sum) ? YK_OK : yk__fail(err, YK_E_INTERNAL, "no rank owns the parameters: some must");
}

static uint64_t hash_roles(const yk__engine *e, const yk__roles *roles)
{
    uint64_t h = yk__hash_bytes(YK_HASH_SEED, roles->member, e->world * sizeof roles->member[0]);
    return yk__hash_bytes(h, roles->owns, e->world * sizeof roles->owns[0]);
}

/* All ranks set the same; what they submitted before is done. */
static yk_status agree_on(yk__engine *e, const yk__roles *roles, yk_error *err)
{
    uint64_t mine = hash_roles(e, roles), *all = yk__calloc(e->world, sizeof *all);
    if (!all)
        return yk__fail_mem(err, e->world * sizeof *all, "the ranks' roles");
    if (!yk__engine_idle(e, err) && !yk__group_all_gather(e->group, &mine, sizeof mine, all, err))
        for (uint32_t r = 1; r < e->world && !err->status; r++)
            if (all[r] != all[0])
                yk__fail(err, YK_E_INTERNAL, "%s sets other roles than %s", yk__group_name(e->group, r),
                         yk__group_name(e->group, 0));
    yk__free(all);
    return err->status;
}

/* What changes its owner, from the old ones; each keeps what it had and has. */
static yk_status spread_moved(yk__engine *e, const yk__slices *was, const yk__slices *now, float *all, yk_error *err)
{
    for (uint32_t r = 0; r < e->world && e->talks; r++) {
        const uint64_t from = was->begin[r], to = was->begin[r + 1];
        uint64_t keep = now->begin[r] > from ? now->begin[r] : from, kept = now->begin[r + 1] < to ? now->begin[r + 1] : to;
        if (keep >= kept)
            keep = kept = to;
        if ((keep > from && yk__group_broadcast(e->group, r, all + from, (keep - from) * sizeof *all, err)) ||
            (to > kept && yk__group_broadcast(e->group, r, all + kept, (to - kept) * sizeof *all, err)))
            return err->status;
    }
    return YK_OK;
}

/* One moment of a bucket from its old owners to its new ones; all: as long as the bucket. */
static yk_status move_moment(yk__engine *e, yk__bucket *p, const yk__bucket *was, uint32_t k, float *all, yk_error *err)
{
    const uint64_t had = (was->end - was->begin) * sizeof *all, has = (p->end - p->begin) * sizeof *all;
    if (yk__store_io(e, p->moment[k], 0, all + was->begin, had, false, err) || spread_moved(e, &was->slice, &p->slice, all, err))
        return err->status;
    yk__engine_unbuffer(e, &p->moment[k], had, &e->stats.state_bytes);
    if (has && yk__engine_buffer(e, has, &p->moment[k], &e->stats.state_bytes, err))
        return err->status;
    return yk__store_io(e, p->moment[k], 0, all + p->begin, has, true, err);
}

static yk_status move_bucket(yk__engine *e, yk__bucket *p, yk_error *err)
{
    const yk__bucket was = *p;
    float *all;
    yk__roles_cut(e, p);
    if (!e->has_opt || !e->n_moment || !memcmp(&was.slice, &p->slice, (e->world + 1ull) * sizeof p->slice.begin[0]))
        return YK_OK;
    all = yk__malloc(p->n * sizeof *all);
    if (!all)
        return yk__fail_mem(err, p->n * sizeof *all, "moments that change their owner");
    for (uint32_t k = 0; k < e->n_moment && !err->status; k++)
        move_moment(e, p, &was, k, all, err);
    yk__free(all);
    return err->status;
}

/* The sums of gradients stay where they were made; they can still be asked for. */
static void keep_summed(yk__engine *e)
{
    for (uint32_t i = 0; i < e->n_bucket && !e->slices_changed; i++)
        e->bucket[i].summed = e->bucket[i].slice;
    e->slices_changed = true;
}

/* A state as a member has it, to ranks that were excluded. */
static yk_status spread_state(yk__engine *e, const yk__estate *s, uint32_t root, bool take, yk_error *err)
{
    const uint64_t bytes = s->n * yk_dtype_bytes(s->dtype);
    void *v = yk__malloc(bytes);
    if (!v)
        return yk__fail_mem(err, bytes, s->name);
    if ((e->rank != root || !yk__store_io(e, s->buffer, 0, v, bytes, false, err)) &&
        !yk__group_broadcast(e->group, root, v, bytes, err) && take)
        yk__store_io(e, s->buffer, 0, v, bytes, true, err);
    yk__free(v);
    return err->status;
}

/* Parameters and states of a rank that took no part in steps. All ranks call it. */
static yk_status catch_up(yk__engine *e, uint32_t root, bool take, yk_error *err)
{
    if (take && yk__refresh_params(e, err))
        return err->status;
    for (size_t i = 0; i < e->n_state; i++)
        if (spread_state(e, &e->state[i], root, take, err))
            return err->status;
    return YK_OK;
}

static yk_status change_members(yk__engine *e, const yk__roles *roles, yk_error *err)
{
    const uint32_t root = yk__roles_first(e);
    bool back = false;
    if (!memcmp(roles->member, e->roles.member, e->world * sizeof roles->member[0]))
        return YK_OK;
    for (uint32_t r = 0; r < e->world; r++)
        back = back || (roles->member[r] && !e->roles.member[r]);
    if (e->talks &&
        (yk__group_set_members(e->group, roles->member, err) ||
         (back && catch_up(e, root, e->excluded && roles->member[e->rank], err))))
        return err->status;
    memcpy(e->roles.member, roles->member, sizeof e->roles.member);
    e->excluded = !roles->member[e->rank];
    return YK_OK;
}

static yk_status change_owners(yk__engine *e, const yk__roles *roles, yk_error *err)
{
    const bool same = !memcmp(e->roles.owns, roles->owns, e->world * sizeof roles->owns[0]);
    memcpy(e->roles.owns, roles->owns, sizeof e->roles.owns);
    if (!e->laid_out || same)
        return YK_OK;
    keep_summed(e);
    yk__optim_drop(e);
    for (uint32_t i = 0; i < e->n_bucket; i++)
        if (move_bucket(e, &e->bucket[i], err))
            return err->status;
    return YK_OK;
}

yk_status yk__engine_set_roles(yk__engine *e, const yk__roles *roles, yk_error *err)
{
    if (check_roles(e, roles, err) || e->world == 1)
        return err->status;
    if (e->talks && agree_on(e, roles, err))
        return err->status;
    return change_members(e, roles, err) ? err->status : change_owners(e, roles, err);
}

yk_status yk__engine_catch_up(yk__engine *e, yk_error *err)
{
    if (!e->talks || !yk__group_excludes(e->group))
        return YK_OK;
    if (yk__group_barrier(e->group, err) || catch_up(e, yk__roles_first(e), e->excluded, err))
        return err->status;
    return yk__group_barrier(e->group, err); /* members go on when the copies are made */
}
