/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives on the user's own memory (yk_gather, yk_broadcast, yk_all_reduce_sum): sums, gathers, broadcasts and padding of numbers and
 * bytes. All ranks call them in the same order, in the step thread, except yk_split_between_ranks, which exchanges nothing.
 *
 * They use the group's small all-gather and sum, in several messages if data are larger, and the world's broadcast. Different calls or
 * shapes on two ranks are an error on all: the first of several messages bears the whole size. Results whose size the caller does not know
 * lie in job->gathered until the next call.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/data/shard.h"
#include "core/job/config_size.h"
#include "core/job/team/coll_use.h"

enum { SUM_MOST = YK__COLL_SMALL / sizeof(double) }; /* numbers in one message of a sum, at most */

/* True if the call must exchange data: the job is well and has several ranks. */
static bool has_peers(const yk_job *job)
{
    return yk_ok(job) && job->team.world > 1;
}

/* Sums the first numbers of a longer list beside the list's length, of which all ranks must have one: their sum is then a multiple of it on
 * each rank. `*done`: how many numbers. */
static yk_status sum_first(yk_job *job, double *v, uint32_t n, uint32_t *done, yk_error *err)
{
    double *part = yk__malloc(SUM_MOST * sizeof *part);
    if (!part)
        return yk__fail_mem(err, SUM_MOST * sizeof *part, "a sum");
    *done = SUM_MOST - 1;
    part[0] = n;
    memcpy(part + 1, v, *done * sizeof *v);
    if (!yk__group_sum_f64(job->team.group, part, SUM_MOST, err)) {
        memcpy(v, part + 1, *done * sizeof *v);
        if (part[0] != (double)n * job->team.world)
            yk__fail(err, YK_E_ARG,
                     "a sum of %" PRIu32 " numbers on rank %" PRIu32 ", and of %.0f on all ranks: give the same number on each", n,
                     job->team.rank, part[0]);
    }
    yk__free(part);
    return err->status;
}

void yk_all_reduce_sum(yk_job *job, double *v, uint32_t n)
{
    YK__USE_HERE(job, YK__USE_SUM);
    uint32_t done = 0;
    yk_error err = YK_ERROR_INIT;
    if (has_peers(job) && n >= SUM_MOST && sum_first(job, v, n, &done, &err))
        yk__job_fail(job, &err);
    for (; has_peers(job) && done < n; done += SUM_MOST)
        if (yk__group_sum_f64(job->team.group, v + done, n - done < SUM_MOST ? n - done : SUM_MOST, &err))
            yk__job_fail(job, &err);
}

void yk_all_reduce_mean(yk_job *job, double *v, uint32_t n)
{
    YK__USE_HERE(job, YK__USE_MEAN);
    yk_all_reduce_sum(job, v, n);
    for (uint32_t i = 0; yk_ok(job) && i < n; i++)
        v[i] /= job->team.world;
}

/* ---- Gathering --------------------------------------------------------------------------------------------------- */

/* True if all ranks' first messages, `most` bytes apart, begin with this size. */
static yk_status sizes_check(const yk_job *job, const unsigned char *part, size_t bytes, yk_error *err)
{
    for (uint32_t r = 0; r < job->team.world; r++) {
        uint64_t other;
        memcpy(&other, part + (size_t)r * YK__COLL_SMALL, sizeof other);
        if (other != bytes)
            return yk__fail(err, YK_E_ARG, "rank %" PRIu32 " gathers %zu bytes, rank %" PRIu32 " %" PRIu64 ": give the same size on each",
                            job->team.rank, bytes, r, other);
    }
    return YK_OK;
}

/* all_gather of YK__COLL_SMALL bytes and more: the first message is the size and what fits beside it. */
static yk_status gather_parts(yk_job *job, const unsigned char *in, size_t bytes, unsigned char *out, yk_error *err)
{
    const size_t world = job->team.world;
    const uint64_t size = bytes;
    unsigned char *part = yk__malloc((world + 1) * YK__COLL_SMALL), *first = part + world * YK__COLL_SMALL;
    if (!part)
        return yk__fail_mem(err, (world + 1) * YK__COLL_SMALL, "a gather");
    memcpy(first, &size, sizeof size);
    memcpy(first + sizeof size, in, YK__COLL_SMALL - sizeof size);
    for (size_t done = 0, n, head = sizeof size; done < bytes && !err->status; done += n, head = 0) {
        n = bytes - done < YK__COLL_SMALL - head ? bytes - done : YK__COLL_SMALL - head;
        if (yk__group_all_gather(job->team.group, head ? first : in + done, head + n, part, err) ||
            (head && sizes_check(job, part, bytes, err)))
            break;
        for (size_t r = 0; r < world; r++)
            memcpy(out + r * bytes + done, part + r * (head + n) + head, n);
    }
    yk__free(part);
    return err->status;
}

/* out[r * bytes ..] = rank r's in[0..bytes). Ranks with less than YK__COLL_SMALL and with more send first messages of unlike sizes. */
static yk_status all_gather(yk_job *job, const void *in, size_t bytes, unsigned char *out, yk_error *err)
{
    if (job->team.world > 1)
        return bytes < YK__COLL_SMALL ? yk__group_all_gather(job->team.group, in, bytes, out, err) : gather_parts(job, in, bytes, out, err);
    if (bytes)
        memcpy(out, in, bytes);
    return YK_OK;
}

void yk_gather(yk_job *job, const void *data, size_t bytes, void *all)
{
    YK__USE_HERE(job, YK__USE_GATHER);
    yk_error err = YK_ERROR_INIT;
    if (yk_ok(job) && all_gather(job, data, bytes, all, &err))
        yk__job_fail(job, &err);
}

/* A NaN of any rank stays one. */
static double largest_of(const double *all, size_t stride, uint32_t ranks)
{
    double most = all[0];
    for (uint32_t r = 1; r < ranks; r++)
        if (isnan(all[r * stride]) || all[r * stride] > most)
            most = all[r * stride];
    return most;
}

void yk_all_reduce_max(yk_job *job, double *v, uint32_t n)
{
    YK__USE_HERE(job, YK__USE_MAX);
    yk_error err = YK_ERROR_INIT;
    if (!has_peers(job) || !n)
        return;
    double *all = yk__malloc((size_t)job->team.world * n * sizeof *all);
    if (!all)
        yk__fail_mem(&err, n * sizeof *all, "a maximum over ranks");
    else
        all_gather(job, v, n * sizeof *v, (unsigned char *)all, &err);
    for (uint32_t i = 0; !err.status && i < n; i++)
        v[i] = largest_of(all + i, n, job->team.world);
    if (err.status)
        yk__job_fail(job, &err);
    yk__free(all);
}

static yk_status gathered_reserve(yk_job *job, size_t bytes, yk_error *err)
{
    yk__gathered *g = &job->gathered;
    if (yk__grow(&g->data, &g->cap_data, bytes + 1, 1) || yk__grow(&g->size, &g->cap_size, job->team.world, sizeof *g->size))
        return yk__fail_mem(err, bytes, "the ranks' gathered data");
    return YK_OK;
}

/* Gathers every rank's bytes into job->gathered, after exchanging their sizes. Each rank's data travels padded to the longest. */
static yk_status gather_unlike(yk_job *job, const void *data, size_t bytes, yk_error *err)
{
    const size_t world = job->team.world;
    size_t longest = 0, total = 0;
    if (gathered_reserve(job, bytes, err) || all_gather(job, &bytes, sizeof bytes, (unsigned char *)job->gathered.size, err))
        return err->status;
    for (size_t r = 0; r < world; r++) {
        longest = job->gathered.size[r] > longest ? job->gathered.size[r] : longest;
        total += job->gathered.size[r];
    }
    unsigned char *own = yk__calloc(longest + 1, 1), *all = yk__malloc(world * longest + 1);
    if (!own || !all)
        yk__fail_mem(err, world * longest, "the ranks' gathered data");
    else if (bytes)
        memcpy(own, data, bytes);
    if (!err->status && !all_gather(job, own, longest, all, err) && !gathered_reserve(job, total, err))
        for (size_t r = 0, at = 0; r < world; at += job->gathered.size[r++])
            memcpy(job->gathered.data + at, all + r * longest, job->gathered.size[r]);
    yk__free(own);
    yk__free(all);
    return err->status;
}

const void *yk_gather_object(yk_job *job, const void *data, size_t bytes, const size_t **size)
{
    YK__USE_HERE(job, YK__USE_GATHER_OBJECT);
    yk_error err = YK_ERROR_INIT;
    *size = NULL;
    if (!yk_ok(job))
        return NULL;
    if (gather_unlike(job, data, bytes, &err)) {
        yk__job_fail(job, &err);
        return NULL;
    }
    *size = job->gathered.size;
    return job->gathered.data;
}

/* Gathers every rank's rows into job->gathered; *all: their number. Ranks take runs of the global rows in rank order, so the result is
 * in row order. */
static yk_status rows_gather(yk_job *job, const void *data, size_t row_bytes, int64_t *all, yk_error *err)
{
    const yk__batch_rows batch = job->last_batch;
    if (!row_bytes)
        return yk__fail(err, YK_E_ARG, "yk_gather_for_metrics: rows of 0 bytes");
    if (!batch.global)
        return yk__fail(err, YK_E_ARG, "yk_gather_for_metrics: no micro batch was begun, so how many rows this rank has is not known: "
                                       "call it behind yk_data_next, yk_sampler_next, yk_set_rows or the first yk_input of a step");
    if (gather_unlike(job, data, (size_t)batch.local * row_bytes, err))
        return err->status;
    for (uint32_t r = 0; r < job->team.world; r++)
        *all += (int64_t)(job->gathered.size[r] / row_bytes);
    if (batch.global == YK__ROWS_UNKNOWN || *all == batch.global)
        return YK_OK;
    return yk__fail(err, YK_E_ARG, "yk_gather_for_metrics: the ranks have %lld rows, the micro batch has %lld: each row has to be on one "
                                   "rank, and row_bytes (%zu here) equal on all", (long long)*all, (long long)batch.global, row_bytes);
}

const void *yk_gather_for_metrics(yk_job *job, const void *data, size_t row_bytes, int64_t *rows)
{
    YK__USE_HERE(job, YK__USE_GATHER_FOR_METRICS);
    yk_error err = YK_ERROR_INIT;
    int64_t all = 0;
    *rows = 0;
    if (!yk_ok(job))
        return NULL;
    if (rows_gather(job, data, row_bytes, &all, &err)) {
        yk__job_fail(job, &err);
        return NULL;
    }
    *rows = job->last_batch.unique == YK__ROWS_UNKNOWN ? all : job->last_batch.unique;
    return job->gathered.data;
}

/* ---- Broadcasts -------------------------------------------------------------------------------------------------- */

static yk_status bytes_broadcast(yk_job *job, void *data, size_t bytes, uint32_t root, yk_error *err)
{
    if (root >= job->team.world)
        return yk__fail(err, YK_E_ARG, "a broadcast from rank %u: there are %u ranks", root, job->team.world);
    if (job->team.world == 1 || !bytes)
        return YK_OK;
    return yk__coll_run(yk__coll_world(yk__group_coll(job->team.group)),
                        &(yk__coll_desc){.kind = YK__COLL_BROADCAST, .dtype = YK_U8, .root = root, .out = data, .count = bytes}, err);
}

void yk_broadcast(yk_job *job, void *data, size_t bytes, uint32_t root)
{
    YK__USE_HERE(job, YK__USE_BROADCAST);
    yk_error err = YK_ERROR_INIT;
    if (yk_ok(job) && bytes_broadcast(job, data, bytes, root, &err))
        yk__job_fail(job, &err);
}

const void *yk_broadcast_object(yk_job *job, const void *data, size_t *bytes, uint32_t root)
{
    YK__USE_HERE(job, YK__USE_BROADCAST_OBJECT);
    yk_error err = YK_ERROR_INIT;
    uint64_t n = *bytes;
    if (!yk_ok(job))
        return NULL;
    if (!bytes_broadcast(job, &n, sizeof n, root, &err) && !gathered_reserve(job, n, &err)) {
        if (job->team.rank == root && n)
            memcpy(job->gathered.data, data, n);
        bytes_broadcast(job, job->gathered.data, n, root, &err);
    }
    if (err.status) {
        yk__job_fail(job, &err);
        return NULL;
    }
    *bytes = n;
    return job->gathered.data;
}

/* ---- Padding ----------------------------------------------------------------------------------------------------- */

typedef struct padded_shape {
    int64_t dims, dtype, dim[YK_MAX_DIMS];
} padded_shape;

/* *longest: the largest length over all ranks along the axis. An error names the first rank whose shape does not match this rank's. */
static yk_status shapes_compare(yk_job *job, const padded_shape *own, uint32_t axis, int64_t *longest, yk_error *err)
{
    padded_shape *all = yk__malloc(job->team.world * sizeof *all);
    if (!all)
        return yk__fail_mem(err, job->team.world * sizeof *all, "the ranks' shapes");
    *longest = 0;
    if (!all_gather(job, own, sizeof *own, (unsigned char *)all, err))
        for (uint32_t r = 0; r < job->team.world && !err->status; r++) {
            padded_shape other = all[r];
            *longest = other.dim[axis] > *longest ? other.dim[axis] : *longest;
            other.dim[axis] = own->dim[axis];
            if (memcmp(&other, own, sizeof other))
                yk__fail(err, YK_E_ARG, "yk_pad_across_ranks: %s has another type, or a shape that differs from this rank's along more "
                                        "than axis %u", yk__group_name(job->team.group, r), axis);
        }
    yk__free(all);
    return err->status;
}

/* Writes one element of the type; false for an unknown type. */
static bool pad_element(yk_dtype dtype, double value, unsigned char *out)
{
    const float f = (float)value;
    const int32_t i = (int32_t)value;
    const int64_t l = (int64_t)value;
    switch (dtype) {
    case YK_F32: memcpy(out, &f, sizeof f); return true;
    case YK_F64: memcpy(out, &value, sizeof value); return true;
    case YK_I32: memcpy(out, &i, sizeof i); return true;
    case YK_I64: memcpy(out, &l, sizeof l); return true;
    case YK_U8:
    case YK_BOOL: out[0] = (unsigned char)i; return true;
    default: return false;
    }
}

/* [outer, n, inner] to [outer, longest, inner] with `pad` in the new places. */
static void array_pad(unsigned char *out, const unsigned char *in, size_t outer, size_t inner, const int64_t n[2], const unsigned char *pad,
                      size_t element, bool first)
{
    const size_t have = (size_t)n[0] * inner, want = (size_t)n[1] * inner;
    for (size_t o = 0; o < outer; o++) {
        unsigned char *to = out + o * want * element, *fill = first ? to : to + have * element;
        for (size_t i = 0; i < want - have; i++)
            memcpy(fill + i * element, pad, element);
        if (have)
            memcpy(first ? to + (want - have) * element : to, in + o * have * element, have * element);
    }
}

static yk_status pad_all(yk_job *job, yk_dtype dtype, uint32_t dims, int64_t *dim, const void *data, const yk_pad_config *c,
                         yk_error *err)
{
    padded_shape own = {.dims = dims, .dtype = dtype};
    const int64_t at = c->axis < 0 ? c->axis + (int64_t)dims : c->axis;
    unsigned char pad[8];
    size_t outer = 1, inner = 1;
    if (dims > YK_MAX_DIMS || at < 0 || at >= (int64_t)dims || !pad_element(dtype, c->value, pad))
        return yk__fail(err, YK_E_ARG, "yk_pad_across_ranks: axis %d of %s with %u dimensions; expected an axis that there is, of f32, "
                                       "f64, i32, i64, u8 or bool, and at most %d dimensions", c->axis, yk__dtype_name(dtype), dims,
                        YK_MAX_DIMS);
    for (uint32_t i = 0; i < dims; i++) {
        own.dim[i] = dim[i];
        outer *= i < at ? (size_t)dim[i] : 1;
        inner *= i > at ? (size_t)dim[i] : 1;
    }
    int64_t n[2] = {dim[at], 0};
    if (shapes_compare(job, &own, (uint32_t)at, &n[1], err) ||
        gathered_reserve(job, outer * (size_t)n[1] * inner * yk_dtype_bytes(dtype), err))
        return err->status;
    array_pad(job->gathered.data, data, outer, inner, n, pad, yk_dtype_bytes(dtype), c->pad_first);
    dim[at] = n[1];
    return YK_OK;
}

const void *(yk_pad_across_ranks)(yk_job *job, yk_dtype dtype, uint32_t dims, int64_t *dim, const void *data, const yk_pad_config *c,
                                  size_t size)
{
    YK__USE_HERE(job, YK__USE_PAD);
    yk_pad_config whole;
    yk_error err = YK_ERROR_INIT;
    if (!yk_ok(job))
        return NULL;
    c = yk__config_take(job, "yk_pad_across_ranks", c, size, &whole, sizeof whole);
    if (!c)
        return NULL;
    if (pad_all(job, dtype, dims, dim, data, c, &err)) {
        yk__job_fail(job, &err);
        return NULL;
    }
    return job->gathered.data;
}

uint64_t yk_split_between_ranks(const yk_job *job, uint64_t n, uint64_t *first, uint64_t *count)
{
    const uint32_t world = yk_world_size(job);
    const uint64_t most = n / world + (n % world != 0);
    int64_t begin, own;
    yk__shard_split((int64_t)n, world, yk_rank(job), &begin, &own);
    *first = (uint64_t)begin;
    *count = (uint64_t)own;
    return most - *count;
}
