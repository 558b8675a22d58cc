/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin "island" (island.c) with one fault of its extensions, chosen by -D: what the suite must find.
 */
#define ISLAND_QUERY good_query
#include "tests/cts/island.c"

static yk_plugin bad;
static yk_coll bad_coll;
static yk_share bad_share;

#if defined BREAK_COLL || defined BREAK_COLL_BITS || defined BREAK_COLL_INF
#define CHANGES_RESULT
/* COLL: members keep what they came with, only the first one has the sum. COLL_BITS: all but the first have another last bit of a finite
 * sum. COLL_INF: a sum that is not finite becomes the largest number. */
static yk_status change_result(void *arg, char why[KIT_WHY])
{
    island_job *job = arg;
    const yk_coll_op op = job->op;
    const uint32_t rank = job->comm->rank;
    const uint64_t bytes = op.count * sizeof(float);
    float *own = host->alloc(bytes, 64), *dst = (float *)(void *)(op.dst->far + op.dst_offset);
    memcpy(own, op.src->far + op.src_offset, bytes);
    const yk_status s = collective_run(job, why);
#ifdef BREAK_COLL
    if (rank)
        memcpy(dst, own, bytes);
#elif defined BREAK_COLL_INF
    for (uint64_t i = 0; i < op.count && op.kind <= YK_COLL_REDUCE_SCATTER; i++)
        dst[i] = dst[i] - dst[i] == 0 ? dst[i] : 3.4e38f;
#else
    uint32_t bits;
    memcpy(&bits, dst, sizeof bits);
    bits ^= rank != 0 && dst[0] - dst[0] == 0;
    memcpy(dst, &bits, sizeof bits);
#endif
    host->free(own);
    return s;
}

static yk_status bad_coll_run(yk_queue *q, yk_comm *comm, const yk_coll_op *op, uint64_t *point)
{
    island_job *job = kit_zeroed(host, WHO, sizeof *job, "a collective");
    if (op->dtype != YK_F32 || op->wire != YK_F32)
        return coll.run(q, comm, op, point);
    *job = (island_job){comm, *op};
    return kit_queue_call(q, op->n_wait, op->wait, change_result, job, point);
}
#endif

#if defined BREAK_COLL_ROOT || defined BREAK_COLL_PART || defined BREAK_COLL_GATHER || defined BREAK_COLL_WAITS || \
    defined BREAK_COLL_ODD || defined BREAK_COLL_LONG || defined BREAK_COLL_PAIR
#define CHANGES_RESULT
/* Another collective than the one that was asked for. */
static yk_status bad_coll_run(yk_queue *q, yk_comm *comm, const yk_coll_op *op, uint64_t *point)
{
    yk_coll_op other = *op;
#if defined BREAK_COLL_ROOT
    other.root = 0;
#elif defined BREAK_COLL_PART /* all members get the part of the first */
    if (op->kind == YK_COLL_REDUCE_SCATTER)
        other.kind = YK_COLL_ALL_REDUCE;
#elif defined BREAK_COLL_GATHER /* only the first member's elements come */
    if (op->kind == YK_COLL_ALL_GATHER)
        other.kind = YK_COLL_BROADCAST;
#elif defined BREAK_COLL_WAITS
    other.n_wait = 0;
#elif defined BREAK_COLL_ODD /* elements come in pairs */
    other.count &= ~1ull;
#elif defined BREAK_COLL_PAIR /* one that is given while another one works is cut short */
    static _Thread_local uint64_t last;
    uint64_t done = 0;
    if (!kit_queue_poll(q, &done) && done < last)
        other.count -= 1;
    const yk_status st = coll.run(q, comm, &other, point);
    last = st ? last : *point;
    return st;
#else
    other.count = op->count > 262144 ? 262144 : op->count;
#endif
#ifndef BREAK_COLL_PAIR
    return coll.run(q, comm, &other, point);
#endif
}
#endif

#ifdef BREAK_COLL_ABORT
static void bad_abort(yk_comm *comm)
{
    (void)comm;
}
#endif

#ifdef BREAK_SHARE /* an imported buffer is a copy */
static yk_status bad_import(yk_device *dev, const yk_share_handle *handle, yk_buffer **b)
{
    const yk_buffer_desc desc = {.size = sizeof desc, .bytes = handle->bytes};
    return buffer_new(dev, &desc, b);
}
#endif

static const void *bad_extension(const char *name)
{
#ifdef BREAK_EXTENSION /* a name is told by how it begins */
    return !strncmp(name, YK_EXT_COLL, 7) ? (const void *)&bad_coll : !strncmp(name, YK_EXT_SHARE, 8) ? &bad_share : NULL;
#else
    return !strcmp(name, YK_EXT_COLL) ? (const void *)&bad_coll : !strcmp(name, YK_EXT_SHARE) ? &bad_share : NULL;
#endif
}

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi);

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi)
{
    bad = *good_query(YK_ABI);
    bad_coll = coll;
    bad_share = share;
    bad.extension = bad_extension;
#ifdef CHANGES_RESULT
    bad_coll.run = bad_coll_run;
#endif
#ifdef BREAK_COLL_ABORT
    bad_coll.abort = bad_abort;
#endif
#ifdef BREAK_SHARE
    bad_share.import_buffer = bad_import;
#endif
    return abi == YK_ABI ? &bad : NULL;
}
