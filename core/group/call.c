/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which operation each rank is in. A rank writes it into its rank info before it waits; whoever waits for some time compares
 * the rank infos, so that programs that have diverged end with both places instead of waiting for ever.
 *
 * Operations are numbered twice: all that a member enters (sequence), by which two members compare; and those that every
 * rank's program reaches, excluded ones too (common), by which an excluded rank and a member compare.
 */
#include "core/group/inner.h"

#include <stdio.h>
#include <string.h>

#define PASSED 3 /* looks at which a rank must be seen beyond an operation whose counter it never raised */

static const char *const names[] = {
    [YK__CALL_NONE] = "no operation",
    [YK__CALL_BARRIER] = "a barrier",
    [YK__CALL_GATHER] = "an all-gather",
    [YK__CALL_SUM] = "a sum of f64",
    [YK__CALL_BROADCAST] = "a broadcast",
    [YK__CALL_COLUMNS] = "a reduction of f32",
    [YK__CALL_BUCKET] = "the sum of a gradient bucket",
    [YK__CALL_SLICES] = "the exchange of parameter slices",
    [YK__CALL_SHARED] = "making shared memory",
    [YK__CALL_MEMBERS] = "a change of the members",
};

const char *yk__call_name(uint32_t kind)
{
    return kind < sizeof names / sizeof *names ? names[kind] : "an unknown operation";
}

/* The user's place; only looked at where it differs from the last operation's. */
static void note_place(yk__group *g)
{
    const char *file = NULL;
    int line = 0;
    size_t n;
    if (g->place)
        g->place(&file, &line);
    g->call.line = line;
    if (file == g->file)
        return;
    g->file = file;
    memset(g->call.file, 0, sizeof g->call.file);
    n = file ? strlen(file) : 0;
    if (n >= sizeof g->call.file) /* its end says more */
        file += n - sizeof g->call.file + 1;
    if (n)
        memcpy(g->call.file, file, strlen(file));
}

void yk__call_begin(yk__group *g, yk__scope scope, uint32_t kind, uint32_t detail, uint64_t bytes)
{
    yk__rank_info *info = &g->area[g->rank].info;
    g->call.sequence++;
    g->call.common += scope != YK__BY_MEMBERS;
    g->call.kind = kind;
    g->call.detail = detail;
    g->call.bytes = bytes;
    g->passed = 0;
    note_place(g);
    __atomic_store_n(&info->stamp, info->stamp + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    info->call = g->call;
    info->excluded = !g->member[g->rank];
    __atomic_store_n(&info->stamp, info->stamp + 1, __ATOMIC_RELEASE);
    if (scope == YK__BY_ALL)
        yk__feed_wake(g);
}

bool yk__call_same(const yk__group_call *a, const yk__group_call *b)
{
    return a->kind == b->kind && a->detail == b->detail && a->bytes == b->bytes;
}

static void describe_call(const yk__group *g, uint32_t rank, const yk__group_call *c, char *text, size_t size)
{
    char file[sizeof c->file + 1] = "";
    memcpy(file, c->file, sizeof c->file);
    for (char *p = file; *p; p++)
        *p = *p >= ' ' && *p < 127 ? *p : '?';
    snprintf(text, size, "rank %u (%.96s) is in %s of %llu bytes", rank, yk__group_name(g, rank), yk__call_name(c->kind),
             (unsigned long long)c->bytes);
    if (*file)
        snprintf(text + strlen(text), size - strlen(text), " called at %s:%d", file, (int)c->line);
}

yk_status yk__call_fail(const yk__group *g, uint32_t peer, const yk__group_call *theirs, yk_error *err)
{
    char a[256], b[256];
    const bool first = g->rank < peer;
    describe_call(g, g->rank, &g->call, a, sizeof a);
    describe_call(g, peer, theirs, b, sizeof b);
    return yk__fail(err, YK_E_INTERNAL, "the ranks' programs have diverged: %s while %s; every rank must make the same calls",
                    first ? a : b, first ? b : a);
}

/* A copy of another rank's info; false while it is being written. */
static bool read_info(const yk__group *g, uint32_t rank, yk__rank_info *copy)
{
    const yk__rank_info *info = &g->area[rank].info;
    const uint32_t stamp = __atomic_load_n(&info->stamp, __ATOMIC_ACQUIRE);
    *copy = *info;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return stamp % 2 == 0 && stamp && __atomic_load_n(&info->stamp, __ATOMIC_RELAXED) == stamp;
}

static bool common_kind(uint32_t kind)
{
    return kind != YK__CALL_BUCKET && kind != YK__CALL_SLICES && kind != YK__CALL_COLUMNS;
}

/* How far the other rank is: below 0 behind, 0 at the same operation, above 0 beyond it. */
static int32_t compare_place(const yk__group *g, const yk__rank_info *c)
{
    int32_t ahead = (int32_t)(c->call.sequence - g->call.sequence);
    if (c->excluded || !g->member[g->rank]) {
        ahead = (int32_t)(c->call.common - g->call.common);
        if (ahead == 0 && common_kind(c->call.kind) != common_kind(g->call.kind))
            ahead = common_kind(g->call.kind) ? 1 : -1;
    }
    return ahead;
}

yk_status yk__call_look(yk__group *g, uint32_t peer, yk_error *err)
{
    yk__rank_info c;
    int32_t ahead;
    if (!g->area || peer >= g->size || peer == g->rank || !read_info(g, peer, &c))
        return YK_OK;
    ahead = compare_place(g, &c);
    if (ahead == 0 && !yk__call_same(&c.call, &g->call))
        return yk__call_fail(g, peer, &c.call, err);
    if (ahead <= 0)
        return YK_OK;
    /* it may have raised its counter since the wait looked at it: then the wait ends before the next look */
    g->passed = g->passed_peer == peer ? g->passed : 0;
    g->passed_peer = peer;
    return ++g->passed < PASSED ? YK_OK : yk__call_fail(g, peer, &c.call, err);
}

yk_status yk__call_watch(void *group, uint32_t peer, yk_tr_error *why)
{
    yk_error err = YK_ERROR_INIT;
    if (yk__call_look(group, peer, &err))
        snprintf(why->text, sizeof why->text, "%.*s", (int)sizeof why->text - 1, err.text);
    return err.status;
}
