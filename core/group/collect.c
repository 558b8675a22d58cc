/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives over counters and shared memory.
 *
 * Small ones: each rank writes a message, publishes that it did, waits for all, reads all. Two messages per rank are
 * used in turn; that is enough, since a rank that enters collective k+2 has seen all others enter k+1, which they do
 * after they have read k.
 *
 * Large ones work in the shared blocks where the caller's data already lies; only counters travel.
 */
#include "core/group/inner.h"

#include <string.h>

enum { MAIL_BARRIER = 1, MAIL_GATHER, MAIL_BROADCAST };
static const char *const mail_names[] = {"nothing", "barrier", "all-gather", "broadcast"};

static yk__group_mail *mail_of(yk__group *g, uint32_t rank)
{
    return &g->mail[rank * 2 + (g->mails & 1)];
}

static const char *kind_name(uint32_t kind)
{
    return kind <= MAIL_BROADCAST ? mail_names[kind] : "an unknown collective";
}

/* A difference means that the ranks' programs have diverged; without this check they would read nonsense. */
static yk_status same_call(yk__group *g, yk_error *err)
{
    const yk__group_mail *mine = mail_of(g, g->rank);
    for (uint32_t r = 0; r < g->size; r++) {
        const yk__group_mail *m = mail_of(g, r);
        if (m->sequence != mine->sequence || m->kind != mine->kind || m->bytes != mine->bytes || m->root != mine->root)
            return yk__fail(err, YK_E_INTERNAL, "%s is in %s of %llu bytes while %s is in %s of %llu bytes",
                            yk__group_name(g, r), kind_name(m->kind), (unsigned long long)m->bytes,
                            yk__group_name(g, g->rank), kind_name(mine->kind), (unsigned long long)mine->bytes);
    }
    return YK_OK;
}

/* Begins the next small collective: what the caller writes to the message's data is sent by publish. */
static yk__group_mail *enter(yk__group *g, uint32_t kind, uint32_t root, uint64_t bytes)
{
    yk__group_mail *m;
    g->mails++;
    m = mail_of(g, g->rank);
    m->sequence = g->mails;
    m->kind = kind;
    m->root = root;
    m->bytes = bytes;
    return m;
}

static void publish(yk__group *g)
{
    g->table->flag_set(g->tr, YK_GROUP_FLAG_MAIL, g->mails);
}

/* Waits until all ranks have entered it. After that mail_of() of all of them can be read. */
static yk_status meet(yk__group *g, uint32_t kind, yk_error *err)
{
    yk_status s = yk__group_wait_all(g, YK_GROUP_FLAG_MAIL, g->mails, kind_name(kind), err);
    return s ? s : same_call(g, err);
}

static yk_status exchange(yk__group *g, uint32_t kind, uint32_t root, uint64_t bytes, const void *data, size_t carry,
                          yk_error *err)
{
    yk__group_mail *m = enter(g, kind, root, bytes);
    if (carry)
        memcpy(m->data, data, carry);
    publish(g);
    return meet(g, kind, err);
}

yk_status yk__group_barrier(yk__group *g, yk_error *err)
{
    return g->tr ? exchange(g, MAIL_BARRIER, 0, 0, NULL, 0, err) : yk__group_check(g, err);
}

/* `rows` rows of `bytes` bytes, `pitch` bytes apart, one behind the other in the message. */
static yk_status gather_begin(yk__group *g, const void *in, uint32_t rows, uint64_t bytes, uint64_t pitch, yk_error *err)
{
    yk__group_mail *m;
    if (bytes > YK_GROUP_MAIL || rows * bytes > YK_GROUP_MAIL)
        return yk__fail(err, YK_E_ARG, "a small collective of %u times %llu bytes a rank: at most %u", rows,
                        (unsigned long long)bytes, YK_GROUP_MAIL);
    if (!g->tr)
        return YK_OK;
    m = enter(g, MAIL_GATHER, 0, rows * bytes);
    for (uint32_t r = 0; r < rows; r++)
        memcpy((char *)m->data + r * bytes, (const char *)in + r * pitch, bytes);
    publish(g);
    return YK_OK;
}

static yk_status gather_end(yk__group *g, yk_error *err)
{
    return g->tr ? meet(g, MAIL_GATHER, err) : yk__group_check(g, err);
}

static yk_status gather(yk__group *g, const void *in, uint64_t bytes, yk_error *err)
{
    yk_status s = gather_begin(g, in, 1, bytes, 0, err);
    return s ? s : gather_end(g, err);
}

yk_status yk__group_all_gather(yk__group *g, const void *in, size_t bytes, void *out, yk_error *err)
{
    yk_status s = gather(g, in, bytes, err);
    if (s)
        return s;
    if (!g->tr)
        memmove(out, in, bytes);
    for (uint32_t r = 0; g->tr && r < g->size; r++)
        memcpy((char *)out + r * bytes, mail_of(g, r)->data, bytes);
    return YK_OK;
}

yk_status yk__group_sum_f64(yk__group *g, double *v, uint32_t n, yk_error *err)
{
    yk_status s = gather(g, v, n * 8ull, err);
    for (uint32_t r = 0; !s && g->tr && r < g->size; r++) {
        const double *x = (const void *)mail_of(g, r)->data;
        for (uint32_t i = 0; i < n; i++)
            v[i] = r ? v[i] + x[i] : x[i];
    }
    return s;
}

yk_status yk__group_reduce_begin(yk__group *g, const yk__columns *c, yk_error *err)
{
    return gather_begin(g, c->v, c->rows, c->n * sizeof(float), c->pitch * sizeof(float), err);
}

static void sum_columns(yk__group *g, const yk__columns *c)
{
    for (uint32_t r = 0; r < g->size; r++) {
        const float *x = (const void *)mail_of(g, r)->data;
        for (uint32_t i = 0; i < c->n; i++)
            c->v[i] = r ? c->v[i] + x[i] : x[i];
    }
}

static void join_moments(yk__group *g, const yk__columns *c, uint32_t i)
{
    double mean = 0.0, square = 0.0, count = 0.0;
    for (uint32_t r = 0; r < g->size; r++) {
        const float *x = (const float *)(const void *)mail_of(g, r)->data + i;
        const double n = (double)x[2 * c->n], d = (double)x[0] - mean;
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
    yk_status s = gather_end(g, err);
    if (s || !g->tr)
        return s;
    if (c->rows == 1)
        sum_columns(g, c);
    for (uint32_t i = 0; i < c->n && c->rows == 3; i++)
        join_moments(g, c, i);
    return YK_OK;
}

yk_status yk__group_broadcast(yk__group *g, uint32_t root, void *data, uint64_t bytes, yk_error *err)
{
    uint64_t at = 0;
    if (root >= g->size)
        return yk__fail(err, YK_E_ARG, "broadcast from rank %u of %u", root, g->size);
    if (!g->tr)
        return yk__group_check(g, err);
    do {
        size_t part = bytes - at < YK_GROUP_MAIL ? (size_t)(bytes - at) : YK_GROUP_MAIL;
        char *p = (char *)data + at;
        yk_status s = exchange(g, MAIL_BROADCAST, root, bytes, p, g->rank == root ? part : 0, err);
        if (s)
            return s;
        if (g->rank != root && part)
            memcpy(p, mail_of(g, root)->data, part);
        at += part;
    } while (at < bytes);
    return YK_OK;
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

/* out[i] = ((a_0[i] + a_1[i]) + a_2[i]) + ..., a_r at base + r * stride. Blocks that stay in the first cache hold the
 * running sum; out may be one of the a_r, as each block of it is written after all of it was read. */
static void sum_slices(const float *base, uint64_t stride, uint32_t ranks, uint64_t begin, uint64_t n, float *out,
                       yk__exact *squares)
{
    float acc[SUM_BLOCK];
    for (uint64_t at = 0; at < n; at += SUM_BLOCK) {
        uint64_t k = n - at < SUM_BLOCK ? n - at : SUM_BLOCK;
        memcpy(acc, base + begin + at, k * sizeof(float));
        for (uint32_t r = 1; r < ranks; r++) {
            const float *x = (const float *)(const void *)((const char *)base + r * stride) + begin + at;
            if (k == SUM_BLOCK)
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
    uint64_t begin = s->begin[g->rank], n = s->begin[g->rank + 1] - begin;
    yk_status status;
    g->reduced++;
    if (g->marked - g->reduced > INT32_MAX)
        yk__group_mark(g);
    status = g->tr ? yk__group_wait_all(g, YK_GROUP_FLAG_BUCKET, g->reduced, "a gradient bucket", err)
                   : yk__group_check(g, err);
    if (status)
        return status;
    sum_slices(base, stride_bytes, g->size, begin, n, out, squares);
    return YK_OK;
}

yk_status yk__group_slices_ready(yk__group *g, yk_error *err)
{
    if (!g->tr)
        return yk__group_check(g, err);
    g->slices++;
    g->table->flag_set(g->tr, YK_GROUP_FLAG_SLICES, g->slices);
    return yk__group_wait_all(g, YK_GROUP_FLAG_SLICES, g->slices, "the parameter slices", err);
}
