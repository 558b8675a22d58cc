/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of bench/collectives: times an all-reduce, reduce-scatter and all-gather of some bytes as training uses them. That is, sums of
 * gradients in registered memory go to slices of the parameters, which all ranks then gather. Up to 64 KiB the all-reduce is the small
 * one. The floor is the same traffic without other ranks: all ranks at once add up two vectors of the slice's length (row "floor"). Over
 * a network the floor is the bytes that cross a rank's line. Run by yoke launch, or with YOKE_RANK and so on.
 */
#include "bench/sizes.h"

#include <string.h>

#include "core/base/option.h"
#include "core/coll/reduce.h"
#include "core/group/group.h"

typedef struct bench {
    yk__group *group;
    yk__coll *coll;
    uint32_t rank, ranks;
    yk__coll_buffer grad, param;
    float *small;
    bool leaf; /* the last rank owns no slices and a vector goes in buckets, so its line carries both directions at once */
} bench;

static yk_status run_slices(bench *b, yk__coll_kind kind, uint64_t n, yk_error *err)
{
    yk__slices parts = {0};
    if (!yk__slices_even(&parts, n, b->ranks, err))
        yk__coll_run(yk__coll_members(b->coll),
                     &(yk__coll_desc){.kind = kind,
                                      .dtype = YK_F32,
                                      .count = n,
                                      .buffer = kind == YK__COLL_REDUCE_SCATTER ? &b->grad : &b->param,
                                      .parts = &parts,
                                      .narrow = kind == YK__COLL_ALL_GATHERV && yk__coll_narrows(b->coll),
                                      .out = (float *)b->param.mem + parts.begin[b->rank]},
                     err);
    yk__slices_free(&parts);
    return err->status;
}

enum { BUCKETS = 8 };

static yk_status begin_bucket(bench *b, yk__coll_kind kind, const yk__slices *parts, uint64_t number, yk__request **request, yk_error *err)
{
    const uint64_t n = parts->begin[b->ranks], offset = number * n;
    const yk__coll_desc d = {.kind = kind,
                             .dtype = YK_F32,
                             .count = n,
                             .buffer = kind == YK__COLL_REDUCE_SCATTER ? &b->grad : &b->param,
                             .offset = offset,
                             .parts = parts,
                             .narrow = kind == YK__COLL_ALL_GATHERV && yk__coll_narrows(b->coll),
                             .out = (float *)b->param.mem + offset + parts->begin[b->rank]};
    return yk__coll_begin(yk__coll_members(b->coll), &d, request, err);
}

/* All-reduce of n numbers: each bucket is gathered while later ones are summed. */
static yk_status reduce_leaf(bench *b, uint64_t n, yk_error *err)
{
    double part[YK__RANKS] = {0};
    yk__slices parts = {0};
    yk__request *sum[BUCKETS], *all[BUCKETS];
    for (uint32_t r = 0; r + 1 < b->ranks; r++)
        part[r] = 1;
    if (yk__slices_by(&parts, n / BUCKETS, b->ranks, part, err))
        return err->status;
    for (uint64_t k = 0; k < BUCKETS && !err->status; k++)
        begin_bucket(b, YK__COLL_REDUCE_SCATTER, &parts, k, &sum[k], err);
    for (uint64_t k = 0; k < BUCKETS && !err->status; k++)
        if (!yk__coll_wait(sum[k], err))
            begin_bucket(b, YK__COLL_ALL_GATHERV, &parts, k, &all[k], err);
    for (uint64_t k = 0; k < BUCKETS && !err->status; k++)
        yk__coll_wait(all[k], err);
    yk__slices_free(&parts);
    return err->status;
}

static yk_status run_operation(bench *b, int operation, uint64_t bytes, yk_error *err)
{
    const uint64_t n = bytes / sizeof(float);
    if (operation == ALL_REDUCE && bytes <= YK__COLL_SMALL)
        return yk__coll_run(yk__coll_members(b->coll),
                            &(yk__coll_desc){.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F32, .out = b->small, .count = n}, err);
    if (operation == ALL_REDUCE && b->leaf)
        return reduce_leaf(b, n, err);
    if (operation != ALL_GATHER && run_slices(b, YK__COLL_REDUCE_SCATTER, n, err))
        return err->status;
    return operation == REDUCE_SCATTER ? YK_OK : run_slices(b, YK__COLL_ALL_GATHERV, n, err);
}

/* The memory traffic of an all-reduce of these bytes: adds up two vectors of a slice's length. */
static void sum_single(bench *b, uint64_t bytes)
{
    const uint64_t n = bytes / sizeof(float) / b->ranks;
    const float *own = b->grad.mem;
    const void *const part[] = {own, own + n};
    yk__reduce_slice(part, 2, 0, n, (float *)b->param.mem + n * b->rank, NULL);
}

/* operation OPERATIONS times the floor. */
static yk_status time_calls(bench *b, int operation, uint64_t bytes, int calls, double *seconds, yk_error *err)
{
    double all[YK__RANKS], begin;
    if (yk__group_barrier(b->group, err))
        return err->status;
    begin = sizes_now();
    for (int i = 0; i < calls; i++)
        if (operation == OPERATIONS)
            sum_single(b, bytes);
        else if (run_operation(b, operation, bytes, err))
            return err->status;
    *seconds = (sizes_now() - begin) / calls;
    if (yk__group_all_gather(b->group, seconds, sizeof *seconds, all, err))
        return err->status;
    for (uint32_t r = 0; r < b->ranks; r++) /* the slowest rank's */
        *seconds = all[r] > *seconds ? all[r] : *seconds;
    return YK_OK;
}

static yk_status time_size(bench *b, int operation, uint64_t bytes, yk_error *err)
{
    double seconds[SIZES_BATCHES], first;
    if (time_calls(b, operation, bytes, 1, &first, err) || time_calls(b, operation, bytes, 2, &first, err))
        return err->status;
    for (int i = 0; i < SIZES_BATCHES; i++)
        if (time_calls(b, operation, bytes, sizes_calls(first), &seconds[i], err))
            return err->status;
    first = sizes_median(seconds);
    if (b->rank == 0 && operation == OPERATIONS)
        printf("floor %llu %.3e\n", (unsigned long long)bytes, first);
    else if (b->rank == 0)
        sizes_print(operation, bytes, first);
    return YK_OK;
}

static yk_status run_sizes(bench *b, uint64_t least, uint64_t most, yk_error *err)
{
    const int operations = b->leaf ? 1 : yk__coll_shares(b->coll) ? OPERATIONS + 1 : OPERATIONS;
    for (int operation = 0; operation < operations; operation++)
        for (uint64_t bytes = least; bytes <= most; bytes *= SIZES_STEP)
            if (time_size(b, operation, bytes, err))
                return err->status;
    return YK_OK;
}

static yk_status bench_open(bench *b, uint64_t most, yk_error *err)
{
    static float small[YK__COLL_SMALL / sizeof(float)];
    if (yk__options_check(err) || yk__group_join("a rank", &b->group, err))
        return err->status;
    b->coll = yk__group_coll(b->group);
    b->rank = yk__group_rank(b->group);
    b->ranks = yk__group_size(b->group);
    b->small = small;
    if (yk__coll_alloc(b->coll, "gradients", most, YK__COLL_PRIVATE, &b->grad, err) ||
        yk__coll_alloc(b->coll, "parameters", most, YK__COLL_COMMON, &b->param, err))
        return err->status;
    memset(b->grad.mem, 0, most);
    return YK_OK;
}

int main(int argc, char **argv)
{
    const uint64_t most = argc > 1 ? strtoull(argv[1], NULL, 10) : SIZES_MOST;
    const uint64_t least = argc > 2 ? strtoull(argv[2], NULL, 10) : SIZES_LEAST;
    yk_error err = YK_ERROR_INIT;
    bench b = {.leaf = argc > 3 && !strcmp(argv[3], "leaf")};
    if (!bench_open(&b, most, &err) && !run_sizes(&b, least, most, &err)) {
        yk__coll_release(b.coll, &b.grad);
        yk__coll_release(b.coll, &b.param);
    }
    if (err.status)
        fprintf(stderr, "%s\n", err.text);
    if (err.status && b.group)
        yk__group_abort(b.group, &err);
    yk__group_leave(b.group);
    return err.status != YK_OK;
}
