/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed of excluded ranks in common memory, in the step thread. shm_comm.c calls yk__feed_put after each request with `feeds`. The
 * lowest member then writes its result into a ring. On an excluded rank the same request runs by yk__feed_algorithm, and takes the result
 * from there.
 *
 * An excluded rank sleeps on one word. The lowest member changes it when half of the ring is new, or before a request of all ranks. The
 * rank also looks every LOOK_MS, so its printed values are not late.
 *
 * Excluded ranks read parameters while members train. The count `updating` tells them if the parameters changed meanwhile.
 */
#include "core/coll/feed.h"

#include <stddef.h>
#include <string.h>

#include "core/coll/call.h"
#include "core/coll/members.h"

#define LINE 64u
#define LINES 16384u /* must be a power of two */
#define LOOK_MS 50u

/* Head of a record, before its data. Kind YK__COLL_NONE: skip the rest of the ring. */
typedef struct yk__feed_head {
    _Alignas(LINE) yk__call call;
} yk__feed_head;

struct yk__feed {
    _Alignas(LINE) uint32_t word;    /* changed to wake readers */
    _Alignas(LINE) uint32_t written; /* lines written so far */
    uint32_t updating;               /* odd while members write parameters */
    uint32_t readers;                /* excluded ranks that read parameters, or wait until they can */
    _Alignas(LINE) uint8_t line[LINES * LINE];
    yk__counter read[]; /* [world]: lines that an excluded rank has read */
};

yk_status yk__feed_new(yk__coll *coll, yk_error *err)
{
    void *mem = NULL;
    if (yk__shm_alloc(coll->shm, "results for excluded ranks", sizeof *coll->feed + coll->size * sizeof *coll->feed->read, &mem, err))
        return err->status;
    coll->feed = mem;
    return YK_OK;
}

static yk__comm *members_of(const yk__coll *coll)
{
    return coll->comm->next;
}

static bool writes_feed(const yk__coll *coll)
{
    return coll->feed && coll->rank == yk__members_lowest(members_of(coll));
}

static uint32_t count_lines(uint64_t bytes)
{
    return (uint32_t)((sizeof(yk__feed_head) + bytes + LINE - 1) / LINE);
}

static uint64_t result_bytes(const yk__request *request)
{
    const uint64_t bytes = yk__call_bytes(&request->call);
    return request->desc.kind == YK__COLL_ALL_GATHER ? bytes * request->comm->coll->size : bytes;
}

/* ---- Writing ------------------------------------------------------------------------------------------------------ */

void yk__feed_wake(yk__coll *coll)
{
    if (!coll->feed || !yk__members_excluded(coll) || !writes_feed(coll))
        return;
    coll->unread = 0;
    __atomic_add_fetch(&coll->feed->word, 1, __ATOMIC_SEQ_CST);
    yk__shm_wake(&coll->feed->word);
}

yk_status yk__feed_meet(yk__coll *coll, yk_error *err)
{
    if (!coll->meeting || !yk__members_excluded(coll) || !members_of(coll)->joined)
        return YK_OK;
    return coll->meeting(coll->meeting_arg, err);
}

/* Waits until every excluded rank has read as far as the next n lines need. */
static yk_status wait_read(yk__coll *coll, uint32_t n, yk_error *err)
{
    const uint32_t upto = coll->feed->written + n - LINES;
    for (uint32_t r = 0; r < coll->size; r++)
        if (!members_of(coll)->has[r] && !yk__shm_reached(&coll->feed->read[r], upto) &&
            (yk__feed_meet(coll, err) ||
             yk__shm_wait(coll->shm, &coll->feed->read[r], upto, r, "an excluded rank that takes results", err)))
            return err->status;
    return YK_OK;
}

static uint8_t *line_at(yk__feed *feed, uint32_t position)
{
    return feed->line + (size_t)(position % LINES) * LINE;
}

/* Copies a result row by row, to the ring or from it. */
static void copy_result(const yk__request *request, uint8_t *ring, bool put)
{
    const yk__coll_desc *d = &request->desc;
    const uint64_t size = yk_dtype_bytes(d->dtype), row = result_bytes(request) / d->rows;
    for (uint32_t r = 0; r < d->rows && row; r++) {
        uint8_t *own = (uint8_t *)d->out + r * d->pitch * size;
        if (put)
            memcpy(ring + r * row, own, row);
        else
            memcpy(own, ring + r * row, row);
    }
}

yk_status yk__feed_put(yk__request *request, yk_error *err)
{
    yk__coll *coll = request->comm->coll;
    const uint64_t bytes = result_bytes(request);
    const uint32_t n = count_lines(bytes);
    const yk__feed_head head = {.call = request->call};
    uint32_t at, skip;
    if (!coll->feed || !yk__members_excluded(coll) || !writes_feed(coll))
        return YK_OK;
    if (bytes > LINES / 4 * LINE)
        return yk__fail(err, YK_E_ARG, "%llu bytes of results for excluded ranks: at most %u", (unsigned long long)bytes,
                        LINES / 4 * LINE);
    at = coll->feed->written;
    skip = LINES - at % LINES < n ? LINES - at % LINES : 0;
    if (wait_read(coll, skip + n, err))
        return err->status;
    if (skip)
        memset(line_at(coll->feed, at), 0, LINE);
    at += skip;
    memcpy(line_at(coll->feed, at), &head, sizeof head);
    copy_result(request, line_at(coll->feed, at) + sizeof head, true);
    __atomic_store_n(&coll->feed->written, at + n, __ATOMIC_RELEASE);
    coll->unread += skip + n;
    if (coll->unread >= LINES / 2)
        yk__feed_wake(coll);
    return YK_OK;
}

/* ---- Reading ------------------------------------------------------------------------------------------------------ */

static bool has_record(const yk__coll *coll)
{
    return __atomic_load_n(&coll->feed->written, __ATOMIC_ACQUIRE) != coll->read;
}

static yk_status wait_record(const yk__request *request, yk_error *err)
{
    yk__coll *coll = request->comm->coll;
    const uint32_t lowest = yk__members_lowest(request->comm);
    while (!has_record(coll)) {
        const uint32_t word = __atomic_load_n(&coll->feed->word, __ATOMIC_SEQ_CST);
        if (has_record(coll))
            break;
        if (yk__call_look(coll, &request->call, lowest, err))
            return err->status;
        if (yk__shm_sleep(coll->shm, lowest, &coll->feed->word, word, LOOK_MS, yk__call_name(&request->call), err)) {
            if (!has_record(coll)) /* else the member wrote the record before it left */
                return err->status;
            *err = (yk_error)YK_ERROR_INIT;
        }
    }
    return YK_OK;
}

/* True if the next lines are a record; skips the rest of the ring. */
static bool at_record(yk__coll *coll)
{
    uint8_t kind;
    memcpy(&kind, line_at(coll->feed, coll->read) + offsetof(yk__feed_head, call.kind), sizeof kind);
    if (kind == YK__COLL_NONE)
        coll->read += LINES - coll->read % LINES;
    return kind != YK__COLL_NONE;
}

static yk_status take_record(yk__request *request, yk_error *err)
{
    yk__coll *coll = request->comm->coll;
    yk__feed_head head;
    memcpy(&head, line_at(coll->feed, coll->read), sizeof head);
    if (head.call.common != request->call.common || !yk__call_same(&head.call, &request->call))
        return yk__call_fail(coll, &request->call, yk__members_lowest(request->comm), &head.call, err);
    copy_result(request, line_at(coll->feed, coll->read) + sizeof head, false);
    coll->read += count_lines(result_bytes(request));
    yk__shm_set(coll->shm, &coll->feed->read[coll->rank], coll->read);
    request->done = true;
    return YK_OK;
}

static yk_status feed_start(yk__request *request, yk_error *err)
{
    (void)request;
    (void)err;
    return YK_OK;
}

static yk_status feed_advance(yk__request *request, bool wait, yk_error *err)
{
    yk__coll *coll = request->comm->coll;
    do {
        if (wait && wait_record(request, err))
            return err->status;
        if (!has_record(coll))
            return YK_OK;
    } while (!at_record(coll));
    return take_record(request, err);
}

static bool feed_fits(const yk__comm *comm, const yk__coll_desc *desc)
{
    return comm->shm && !comm->joined && desc->feeds;
}

const yk__coll_algorithm yk__feed_algorithm = {.name = "feed", .fits = feed_fits, .start = feed_start, .advance = feed_advance};

uint32_t yk__feed_written(const yk__coll *coll)
{
    return coll->feed ? __atomic_load_n(&coll->feed->written, __ATOMIC_RELAXED) : 0;
}

void yk__feed_resume(yk__coll *coll, uint32_t written)
{
    coll->read = written;
    if (coll->feed)
        yk__shm_set(coll->shm, &coll->feed->read[coll->rank], written);
}

/* ---- Parameters that an excluded rank reads while members go on ---- */

void yk__feed_updating(yk__coll *coll, bool on)
{
    uint32_t now;
    if (!writes_feed(coll))
        return;
    now = __atomic_load_n(&coll->feed->updating, __ATOMIC_RELAXED);
    __atomic_store_n(&coll->feed->updating, now + (now % 2 != on), __ATOMIC_SEQ_CST);
}

uint32_t yk__feed_read_begin(const yk__coll *coll)
{
    return coll->feed ? __atomic_load_n(&coll->feed->updating, __ATOMIC_ACQUIRE) : 0;
}

bool yk__feed_read_end(yk__coll *coll, uint32_t begun)
{
    /* Adding 0 has release semantics, so earlier reads cannot move behind it; TSan does not understand a fence. */
    return begun % 2 == 0 && (!coll->feed || __atomic_fetch_add(&coll->feed->updating, 0, __ATOMIC_ACQ_REL) == begun);
}

void yk__feed_reading(yk__coll *coll, bool on)
{
    if (coll->feed)
        __atomic_add_fetch(&coll->feed->readers, on ? 1 : -1, __ATOMIC_SEQ_CST);
}

bool yk__feed_is_read(const yk__coll *coll)
{
    return coll->feed && __atomic_load_n(&coll->feed->readers, __ATOMIC_RELAXED);
}
