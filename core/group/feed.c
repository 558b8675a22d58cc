/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What excluded ranks learn of the steps they take no part in. The lowest member writes the result of each small operation of
 * the members into a ring in shared memory; on an excluded rank the same call takes it from there. An excluded rank sleeps on
 * one word, which is changed when half of the ring is new or when an operation of all ranks needs it; it also looks a few times
 * a second, so that what it prints is not late.
 */
#include "core/group/inner.h"

#include <stddef.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"

#define LINE 64u
#define LINES 16384u /* a power of two */
#define LOOK_MS 500u

/* Ahead of a record's data. kind YK__CALL_NONE: the rest of the ring is skipped. */
typedef struct head {
    _Alignas(LINE) yk__group_call call;
} head;

struct yk__feed {
    _Alignas(LINE) uint32_t word;    /* changes when readers are to wake */
    _Alignas(LINE) uint32_t written; /* lines */
    uint32_t updating;               /* odd while members write parameters */
    _Alignas(LINE) uint8_t line[LINES * LINE];
};

uint64_t yk__feed_bytes(void)
{
    return sizeof(yk__feed);
}

static uint32_t lines_of(uint64_t bytes)
{
    return (uint32_t)((sizeof(head) + bytes + LINE - 1) / LINE);
}

void yk__feed_wake(yk__group *g)
{
    if (!g->excluded || g->rank != g->lowest)
        return;
    g->unread = 0;
    __atomic_add_fetch(&g->feed->word, 1, __ATOMIC_SEQ_CST);
    g->table->word_wake(g->tr, &g->feed->word);
}

/* Waits until the next n lines have been read by all excluded ranks. */
static yk_status wait_room(yk__group *g, uint32_t n, yk_error *err)
{
    const uint32_t upto = g->feed->written + n - LINES;
    for (uint32_t r = 0; r < g->size; r++)
        if (!g->member[r] && yk__group_wait(g, r, YK__FLAG_FEED, upto, "an excluded rank that takes results", err))
            return err->status;
    return YK_OK;
}

static uint8_t *line_at(yk__group *g, uint32_t position)
{
    return g->feed->line + (size_t)(position % LINES) * LINE;
}

yk_status yk__feed_put(yk__group *g, const void *data, uint64_t bytes, yk_error *err)
{
    const uint32_t n = lines_of(bytes);
    uint32_t at = g->feed->written, skip = LINES - at % LINES < n ? LINES - at % LINES : 0;
    head h = {.call = g->call};
    if (!g->excluded || g->rank != g->lowest)
        return YK_OK;
    if (bytes > LINES / 4 * LINE)
        return yk__fail(err, YK_E_ARG, "%llu bytes of results for excluded ranks: at most %u", (unsigned long long)bytes,
                        LINES / 4 * LINE);
    if (wait_room(g, skip + n, err))
        return err->status;
    if (skip)
        memset(line_at(g, at), 0, LINE);
    at += skip;
    memcpy(line_at(g, at), &h, sizeof h);
    memcpy(line_at(g, at) + sizeof h, data, bytes);
    __atomic_store_n(&g->feed->written, at + n, __ATOMIC_RELEASE);
    g->unread += skip + n;
    if (g->unread >= LINES / 2)
        yk__feed_wake(g);
    return YK_OK;
}

static yk_status wait_record(yk__group *g, yk_error *err)
{
    yk_tr_error why;
    for (;;) {
        const uint32_t word = __atomic_load_n(&g->feed->word, __ATOMIC_SEQ_CST);
        yk_status s;
        if (__atomic_load_n(&g->feed->written, __ATOMIC_ACQUIRE) != g->read)
            return YK_OK;
        if (yk__call_look(g, g->lowest, err))
            return err->status;
        s = g->table->word_sleep(g->tr, g->lowest, &g->feed->word, word, LOOK_MS, yk__call_name(g->call.kind), &why);
        if (s && __atomic_load_n(&g->feed->written, __ATOMIC_ACQUIRE) == g->read) /* else it wrote before it left */
            return yk__fail(err, s, "%s", why.text);
    }
}

yk_status yk__feed_take(yk__group *g, void *data, uint64_t bytes, yk_error *err)
{
    head h;
    for (;;) {
        if (wait_record(g, err))
            return err->status;
        memcpy(&h, line_at(g, g->read), sizeof h.call.kind + offsetof(yk__group_call, kind));
        if (h.call.kind != YK__CALL_NONE)
            break;
        g->read += LINES - g->read % LINES;
    }
    memcpy(&h, line_at(g, g->read), sizeof h);
    if (h.call.common != g->call.common || !yk__call_same(&h.call, &g->call))
        return yk__call_fail(g, g->lowest, &h.call, err);
    memcpy(data, line_at(g, g->read) + sizeof h, bytes);
    g->read += lines_of(bytes);
    g->table->flag_set(g->tr, YK__FLAG_FEED, g->read);
    return YK_OK;
}

/* ---- Parameters that an excluded rank reads while members go on ---- */

void yk__group_updating(yk__group *g, bool on)
{
    uint32_t now;
    if (!g->tr || g->rank != g->lowest)
        return;
    now = __atomic_load_n(&g->feed->updating, __ATOMIC_RELAXED);
    __atomic_store_n(&g->feed->updating, now + (now % 2 != on), __ATOMIC_SEQ_CST);
}

uint32_t yk__group_read_begin(yk__group *g)
{
    return g->tr ? __atomic_load_n(&g->feed->updating, __ATOMIC_ACQUIRE) : 0;
}

bool yk__group_read_end(yk__group *g, uint32_t begun)
{
    /* adding 0 releases too, so that what was read before cannot move behind it; a fence is nothing that TSan knows */
    return begun % 2 == 0 && (!g->tr || __atomic_fetch_add(&g->feed->updating, 0, __ATOMIC_ACQ_REL) == begun);
}

/* ---- Who is a member ---- */

/* What a rank that becomes a member takes over from those who are, and where the feed is. */
typedef struct state {
    uint64_t hash; /* of the members that this rank sets */
    uint32_t messages, marked, reduced, slices, sequence, written;
} state;

static void become_member(yk__group *g, const state *s)
{
    g->messages[0] = s->messages;
    g->marked = s->marked;
    g->reduced = s->reduced;
    g->slices = s->slices;
    g->call.sequence = s->sequence;
    g->table->flag_set(g->tr, YK__FLAG_SMALL, g->messages[0]);
    g->table->flag_set(g->tr, YK__FLAG_BUCKET, g->marked);
    g->table->flag_set(g->tr, YK__FLAG_SLICES, g->slices);
}

static void become_excluded(yk__group *g, const state *s)
{
    g->read = s->written;
    g->table->flag_set(g->tr, YK__FLAG_FEED, g->read);
}

void yk__group_count_members(yk__group *g)
{
    g->excluded = 0;
    g->lowest = UINT32_MAX;
    for (uint32_t r = 0; r < g->size; r++) {
        g->excluded += !g->member[r];
        g->lowest = g->member[r] && g->lowest == UINT32_MAX ? r : g->lowest;
    }
}

yk_status yk__group_set_members(yk__group *g, const bool *member, yk_error *err)
{
    const uint32_t old = g->lowest;
    const bool was = g->member[g->rank];
    state *all, mine = {.messages = g->messages[0], .marked = g->marked, .reduced = g->reduced, .slices = g->slices};
    if (!g->tr)
        return yk__group_check(g, err);
    all = yk__calloc(g->size, sizeof *all);
    if (!all)
        return yk__fail_mem(err, g->size * sizeof *all, "the members of the group");
    mine.written = __atomic_load_n(&g->feed->written, __ATOMIC_RELAXED); /* that of who writes counts */
    mine.hash = yk__hash_bytes(YK_HASH_SEED, member, g->size * sizeof *member);
    mine.sequence = g->call.sequence + 1; /* with this operation */
    if (!yk__gather_all(g, YK__CALL_MEMBERS, &mine, sizeof mine, all, err))
        for (uint32_t r = 1; r < g->size && !err->status; r++)
            if (all[r].hash != all[0].hash)
                yk__fail(err, YK_E_INTERNAL, "%s sets other members than %s", yk__group_name(g, r), yk__group_name(g, 0));
    if (!err->status) {
        memcpy(g->member, member, g->size * sizeof *member);
        yk__group_count_members(g);
        if (!was && g->member[g->rank])
            become_member(g, &all[old]);
        if (was && !g->member[g->rank])
            become_excluded(g, &all[old]);
    }
    yk__free(all);
    return err->status;
}
