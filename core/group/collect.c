/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives over counters and shared memory.
 *
 * Small ones: each rank writes a message, publishes that it did, waits for all who take part, reads all. Two messages per rank
 * are used in turn; that is enough, since a rank that enters collective k+2 has seen all others enter k+1, which they do
 * after they have read k. Those of members and those of all ranks are counted apart, so that an excluded rank misses none.
 *
 * Large ones work in the shared blocks where the caller's data already lies; only counters travel.
 */
#include "core/group/inner.h"

#include <math.h>
#include <string.h>

/* ---- Small ones --------------------------------------------------------------------------------------------------- */

static yk__group_mail *mail_of(yk__group *g, yk__scope scope, uint32_t rank)
{
    const bool all = scope == YK__BY_ALL;
    return &g->area[rank].mail[all][g->mails[all] & 1];
}

static bool takes_part(const yk__group *g, yk__scope scope, uint32_t rank)
{
    return scope == YK__BY_ALL || g->member[rank];
}

/* This rank is excluded and gets the result from the feed. */
static bool is_fed(const yk__group *g, yk__scope scope)
{
    return g->tr && scope == YK__FOR_ALL && !g->member[g->rank];
}

/* Begins the next small collective: what the caller writes to the message's data is sent by publish_mail. */
static yk__group_mail *enter_call(yk__group *g, yk__scope scope, uint32_t kind, uint32_t detail, uint64_t bytes)
{
    yk__group_mail *m;
    yk__call_begin(g, scope, kind, detail, bytes);
    g->mails[scope == YK__BY_ALL]++;
    m = mail_of(g, scope, g->rank);
    m->call = g->call;
    return m;
}

static void publish_mail(yk__group *g, yk__scope scope)
{
    const bool all = scope == YK__BY_ALL;
    g->table->flag_set(g->tr, all ? YK_GROUP_FLAG_MAIL_ALL : YK_GROUP_FLAG_MAIL, g->mails[all]);
}

static yk_status wait_ranks(yk__group *g, yk__scope scope, uint32_t flag, uint32_t value, yk_error *err)
{
    for (uint32_t i = 1; i < g->size; i++) {
        const uint32_t peer = (g->rank + i) % g->size;
        if (takes_part(g, scope, peer) && yk__group_wait(g, peer, flag, value, yk__call_name(g->call.kind), err))
            return err->status;
    }
    return YK_OK;
}

/* A difference means that the ranks' programs have diverged; without this check they would read nonsense. */
static yk_status same_call(yk__group *g, yk__scope scope, yk_error *err)
{
    for (uint32_t r = 0; r < g->size; r++) {
        const yk__group_call *c = &mail_of(g, scope, r)->call;
        if (takes_part(g, scope, r) && (c->common != g->call.common || !yk__call_same(c, &g->call)))
            return yk__call_fail(g, r, c, err);
    }
    return YK_OK;
}

/* Waits until all who take part have entered it. After that mail_of() of all of them can be read. */
static yk_status meet_ranks(yk__group *g, yk__scope scope, yk_error *err)
{
    const bool all = scope == YK__BY_ALL;
    if (wait_ranks(g, scope, all ? YK_GROUP_FLAG_MAIL_ALL : YK_GROUP_FLAG_MAIL, g->mails[all], err))
        return err->status;
    return same_call(g, scope, err);
}

static yk_status exchange_mail(yk__group *g, yk__scope scope, uint32_t kind, uint32_t root, uint64_t bytes, const void *data,
                               size_t carry, yk_error *err)
{
    yk__group_mail *m = enter_call(g, scope, kind, root, bytes);
    if (carry)
        memcpy(m->data, data, carry);
    publish_mail(g, scope);
    return meet_ranks(g, scope, err);
}

static yk_status check_small(uint32_t rows, uint64_t bytes, yk_error *err)
{
    if (bytes <= YK_GROUP_MAIL && rows * bytes <= YK_GROUP_MAIL)
        return YK_OK;
    return yk__fail(err, YK_E_ARG, "a small collective of %u times %llu bytes a rank: at most %u", rows,
                    (unsigned long long)bytes, YK_GROUP_MAIL);
}

yk_status yk__group_barrier(yk__group *g, yk_error *err)
{
    return g->tr ? exchange_mail(g, YK__BY_ALL, YK__CALL_BARRIER, 0, 0, NULL, 0, err) : yk__group_check(g, err);
}

static yk_status gather_mail(yk__group *g, yk__scope scope, uint32_t kind, const void *in, uint64_t bytes, void *out,
                             yk_error *err)
{
    if (exchange_mail(g, scope, kind, 0, bytes, in, bytes, err))
        return err->status;
    for (uint32_t r = 0; r < g->size; r++)
        if (takes_part(g, scope, r))
            memcpy((char *)out + r * bytes, mail_of(g, scope, r)->data, bytes);
        else
            memset((char *)out + r * bytes, 0, bytes);
    return YK_OK;
}

yk_status yk__gather_all(yk__group *g, uint32_t kind, const void *in, uint64_t bytes, void *out, yk_error *err)
{
    return gather_mail(g, YK__BY_ALL, kind, in, bytes, out, err);
}

static yk_status all_gather(yk__group *g, yk__scope scope, const void *in, size_t bytes, void *out, yk_error *err)
{
    if (check_small(1, bytes, err))
        return err->status;
    if (!g->tr) {
        memmove(out, in, bytes);
        return yk__group_check(g, err);
    }
    if (is_fed(g, scope)) {
        yk__call_begin(g, scope, YK__CALL_GATHER, 0, bytes);
        return yk__feed_take(g, out, g->size * bytes, err);
    }
    if (gather_mail(g, scope, YK__CALL_GATHER, in, bytes, out, err))
        return err->status;
    return scope == YK__FOR_ALL ? yk__feed_put(g, out, g->size * bytes, err) : YK_OK;
}

yk_status yk__group_all_gather(yk__group *g, const void *in, size_t bytes, void *out, yk_error *err)
{
    return all_gather(g, YK__BY_ALL, in, bytes, out, err);
}

yk_status yk__group_gather_members(yk__group *g, const void *in, size_t bytes, void *out, yk_error *err)
{
    return all_gather(g, YK__FOR_ALL, in, bytes, out, err);
}

static yk_status sum_f64(yk__group *g, yk__scope scope, double *v, uint32_t n, yk_error *err)
{
    const uint64_t bytes = n * sizeof *v;
    bool first = true;
    if (check_small(1, bytes, err) || !g->tr)
        return err->status ? err->status : yk__group_check(g, err);
    if (is_fed(g, scope)) {
        yk__call_begin(g, scope, YK__CALL_SUM, 0, bytes);
        return yk__feed_take(g, v, bytes, err);
    }
    if (exchange_mail(g, scope, YK__CALL_SUM, 0, bytes, v, bytes, err))
        return err->status;
    for (uint32_t r = 0; r < g->size; r++) {
        const double *x = (const void *)mail_of(g, scope, r)->data;
        if (!takes_part(g, scope, r))
            continue;
        for (uint32_t i = 0; i < n; i++)
            v[i] = first ? x[i] : v[i] + x[i];
        first = false;
    }
    return scope == YK__FOR_ALL ? yk__feed_put(g, v, bytes, err) : YK_OK;
}

yk_status yk__group_sum_f64(yk__group *g, double *v, uint32_t n, yk_error *err)
{
    return sum_f64(g, YK__BY_ALL, v, n, err);
}

yk_status yk__group_sum_members(yk__group *g, double *v, uint32_t n, yk_error *err)
{
    return sum_f64(g, YK__FOR_ALL, v, n, err);
}

yk_status yk__group_reduce_begin(yk__group *g, const yk__columns *c, yk_error *err)
{
    const uint64_t bytes = c->n * sizeof(float);
    yk__group_mail *m;
    if (check_small(c->rows, bytes, err) || !g->tr)
        return err->status;
    if (!g->member[g->rank])
        return yk__fail(err, YK_E_INTERNAL, "an excluded rank is in a reduction of the members");
    m = enter_call(g, YK__BY_MEMBERS, YK__CALL_COLUMNS, c->rows, c->rows * bytes);
    for (uint32_t r = 0; r < c->rows; r++)
        memcpy((char *)m->data + r * bytes, c->v + r * c->pitch, bytes);
    publish_mail(g, YK__BY_MEMBERS);
    return YK_OK;
}

static const float *columns_of(yk__group *g, uint32_t rank)
{
    return (const void *)mail_of(g, YK__BY_MEMBERS, rank)->data;
}

static void sum_columns(yk__group *g, const yk__columns *c)
{
    for (uint32_t r = g->lowest; r < g->size; r++) {
        const float *x = columns_of(g, r);
        for (uint32_t i = 0; i < c->n && g->member[r]; i++)
            c->v[i] = r != g->lowest ? c->v[i] + x[i] : x[i];
    }
}

/* A NaN of any rank stays one, as in a maximum over the rows of one. */
static void max_columns(yk__group *g, const yk__columns *c)
{
    for (uint32_t r = g->lowest; r < g->size; r++) {
        const float *x = columns_of(g, r);
        for (uint32_t i = 0; i < c->n && g->member[r]; i++)
            if (r == g->lowest || x[i] > c->v[i] || isnan(x[i]))
                c->v[i] = x[i];
    }
}

static void join_moments(yk__group *g, const yk__columns *c, uint32_t i)
{
    double mean = 0.0, square = 0.0, count = 0.0;
    for (uint32_t r = 0; r < g->size; r++) {
        const float *x = columns_of(g, r) + i;
        const double n = g->member[r] ? (double)x[2 * c->n] : 0.0, d = (double)x[0] - mean;
        if (n == 0.0)
            continue;
        square += (double)x[c->n] + d * d * (count * n / (count + n));
        mean += d * (n / (count + n));
        count += n;
    }
    c->v[i] = (float)mean;
    c->v[c->pitch + i] = (float)square;
    c->v[2 * c->pitch + i] = (float)count;
}

yk_status yk__group_reduce_end(yk__group *g, const yk__columns *c, yk_error *err)
{
    yk_status s = g->tr ? meet_ranks(g, YK__BY_MEMBERS, err) : yk__group_check(g, err);
    if (s || !g->tr)
        return s;
    if (c->max)
        max_columns(g, c);
    else if (c->rows == 1)
        sum_columns(g, c);
    for (uint32_t i = 0; i < c->n && c->rows == 3; i++)
        join_moments(g, c, i);
    return YK_OK;
}

static yk_status broadcast_parts(yk__group *g, yk__scope scope, uint32_t root, void *data, uint64_t bytes, yk_error *err)
{
    uint64_t at = 0;
    if (root >= g->size)
        return yk__fail(err, YK_E_ARG, "broadcast from rank %u of %u", root, g->size);
    if (!g->tr)
        return yk__group_check(g, err);
    do {
        size_t part = bytes - at < YK_GROUP_MAIL ? (size_t)(bytes - at) : YK_GROUP_MAIL;
        char *p = (char *)data + at;
        yk_status s = exchange_mail(g, scope, YK__CALL_BROADCAST, root, bytes, p, g->rank == root ? part : 0, err);
        if (s)
            return s;
        if (g->rank != root && part)
            memcpy(p, mail_of(g, scope, root)->data, part);
        at += part;
    } while (at < bytes);
    return YK_OK;
}

yk_status yk__group_broadcast(yk__group *g, uint32_t root, void *data, uint64_t bytes, yk_error *err)
{
    return broadcast_parts(g, YK__BY_ALL, root, data, bytes, err);
}

yk_status yk__group_broadcast_members(yk__group *g, uint32_t root, void *data, uint64_t bytes, yk_error *err)
{
    return g->tr && !g->member[g->rank] ? YK_OK : broadcast_parts(g, YK__BY_MEMBERS, root, data, bytes, err);
}

/* ---- Slices of large vectors ------------------------------------------------------------------------------------- */

void yk__slices_by(yk__slices *s, uint64_t n, uint32_t ranks, const double *part)
{
    const uint64_t blocks = n / 64 + (n % 64 != 0);
    double sum = 0.0, before = 0.0;
    for (uint32_t r = 0; r < ranks; r++)
        sum += part[r];
    for (uint32_t r = 0; r <= ranks; r++) {
        const uint64_t begin = before < sum ? (uint64_t)((double)blocks * before / sum) * 64 : n;
        s->begin[r] = begin < n ? begin : n;
        before += r < ranks ? part[r] : 0.0;
    }
}

void yk__slices_even(yk__slices *s, uint64_t n, uint32_t ranks)
{
    uint64_t blocks = n / 64 + (n % 64 != 0);
    for (uint32_t r = 0; r <= ranks; r++) {
        uint64_t begin = (blocks / ranks * r + blocks % ranks * r / ranks) * 64;
        s->begin[r] = begin < n ? begin : n;
    }
}

enum { SUM_BLOCK = 1024 };

/* A count known to the compiler, so that it uses vectors at -O2 too. */
static void add_block(float *restrict acc, const float *restrict x)
{
    for (int i = 0; i < SUM_BLOCK; i++)
        acc[i] += x[i];
}

static void add_some(float *restrict acc, const float *restrict x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        acc[i] += x[i];
}

/* out[i] = ((a_0[i] + a_1[i]) + a_2[i]) + .. over members, a_r at base + r * stride. Blocks that stay in the first cache hold
 * the running sum; out may be one of the a_r, as each block of it is written after all of it was read. */
static void sum_slices(const yk__group *g, const float *base, uint64_t stride, uint64_t begin, uint64_t n, float *out,
                       yk__exact *squares)
{
    float acc[SUM_BLOCK];
    const float *own = (const float *)(const void *)((const char *)base + g->lowest * stride) + begin;
    if (g->size - g->excluded == 1 && out == own) { /* the sum is there already */
        if (squares)
            yk__exact_squares(squares, out, n);
        return;
    }
    for (uint64_t at = 0; at < n; at += SUM_BLOCK) {
        const uint64_t k = n - at < SUM_BLOCK ? n - at : SUM_BLOCK;
        for (uint32_t r = g->lowest; r < g->size; r++) {
            const float *x = (const float *)(const void *)((const char *)base + r * stride) + begin + at;
            if (!g->member[r])
                continue;
            if (r == g->lowest)
                memcpy(acc, x, k * sizeof(float));
            else if (k == SUM_BLOCK)
                add_block(acc, x);
            else
                add_some(acc, x, k);
        }
        memcpy(out + at, acc, k * sizeof(float));
        if (squares)
            yk__exact_squares(squares, acc, k);
    }
}

void yk__group_mark(yk__group *g)
{
    g->marked++;
    if (g->tr)
        g->table->flag_set(g->tr, YK_GROUP_FLAG_BUCKET, g->marked);
}

yk_status yk__group_reduce_slice(yk__group *g, const float *base, uint64_t stride_bytes, const yk__slices *s,
                                 float *out, yk__exact *squares, yk_error *err)
{
    const uint64_t begin = s->begin[g->rank], n = s->begin[g->rank + 1] - begin;
    if (g->tr && !g->member[g->rank])
        return yk__fail(err, YK_E_INTERNAL, "an excluded rank is in the sum of a gradient bucket");
    g->reduced++;
    if (g->tr)
        yk__call_begin(g, YK__BY_MEMBERS, YK__CALL_BUCKET, 0, s->begin[g->size] * sizeof(float));
    if (g->marked - g->reduced > INT32_MAX)
        yk__group_mark(g);
    if (g->tr ? wait_ranks(g, YK__BY_MEMBERS, YK_GROUP_FLAG_BUCKET, g->reduced, err) : yk__group_check(g, err))
        return err->status;
    sum_slices(g, base, stride_bytes, begin, n, out, squares);
    return YK_OK;
}

yk_status yk__group_slices_ready(yk__group *g, yk_error *err)
{
    if (!g->tr)
        return yk__group_check(g, err);
    if (!g->member[g->rank])
        return yk__fail(err, YK_E_INTERNAL, "an excluded rank is in the exchange of parameter slices");
    yk__call_begin(g, YK__BY_MEMBERS, YK__CALL_SLICES, 0, 0);
    g->slices++;
    g->table->flag_set(g->tr, YK_GROUP_FLAG_SLICES, g->slices);
    return wait_ranks(g, YK__BY_MEMBERS, YK_GROUP_FLAG_SLICES, g->slices, err);
}
