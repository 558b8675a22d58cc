/* SPDX-License-Identifier: Apache-2.0 */
#include "core/group/inner.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/advance.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "transport/local/local.h"

static yk__group *joined; /* a process joins one group at a time */

bool yk__launch_report(const yk_error *why)
{
    if (!joined)
        return yk__local_report(yk__launch_fd(), why);
    yk__group_abort(joined, why); /* at once for all: nobody may see this rank leave before they see why */
    return true;
}

static yk_status group_new(yk__group **out, yk_error *err)
{
    yk__group *g = yk__calloc(1, sizeof *g);
    if (!g)
        return yk__fail_mem(err, sizeof *g, "a group");
    g->size = 1;
    *out = g;
    return YK_OK;
}

/* All are members. */
static yk_status members_new(yk__group *g, yk_error *err)
{
    g->member = yk__calloc(g->size, sizeof *g->member);
    if (!g->member)
        return yk__fail_mem(err, g->size, "the members of a group");
    for (uint32_t r = 0; r < g->size; r++)
        g->member[r] = true;
    yk__group_count_members(g);
    return YK_OK;
}

yk_status yk__group_solo(yk__group **out, yk_error *err)
{
    yk__group *g = NULL;
    yk_status s = group_new(&g, err);
    if (s)
        return s;
    g->name = yk__strdup("rank 0");
    if (!g->name || members_new(g, err)) {
        yk__free(g->name);
        yk__free(g);
        return yk__fail_mem(err, 7, "a group");
    }
    *out = g;
    return YK_OK;
}

static yk_status open_transport(yk__group *g, int fd, const char *name, yk_error *err)
{
    yk_tr_config c = {sizeof c, fd, name, (uint32_t)yk__option_number(YK__OPTION_LIVENESS_MS),
                      (uint32_t)yk__option_number(YK__OPTION_JOIN_MS), yk__stuck_ms(), yk__advance_count(), yk__call_watch, g};
    yk_tr_info info = {.size = sizeof info};
    yk_tr_error why;
    yk_status s = g->table->open(&c, &g->tr, &why);
    if (s)
        return yk__fail(err, s, "joining the group: %s", why.text);
    g->table->info(g->tr, &info);
    g->rank = info.rank;
    g->size = info.ranks;
    return YK_OK;
}

yk_status yk__group_join(const char *name, yk__group **out, yk_error *err)
{
    int fd = yk__launch_fd();
    void *message = NULL;
    yk__group *g = NULL;
    yk_status s;
    if (yk__launch_check(err))
        return err->status;
    if (fd < 0)
        return yk__fail(err, YK_E_ARG, "no group to join: YOKE_JOB_FD is not set; start this program by 'yoke launch'");
    fcntl(fd, F_SETFD, FD_CLOEXEC); /* it is not for programs that this one starts */
    s = group_new(&g, err);
    if (s)
        return s;
    g->table = yk__local_transport();
    s = open_transport(g, fd, name, err);
    s = s ? s : members_new(g, err);
    s = s ? s : yk__group_shared(g, "small messages", g->size * sizeof *g->area + yk__feed_bytes(), &message, err);
    if (s) {
        yk__group_leave(g);
        return s;
    }
    g->area = message;
    g->feed = (void *)(g->area + g->size);
    joined = g;
    yk__log_set_rank((int)g->rank);
    *out = g;
    return YK_OK;
}

void yk__group_leave(yk__group *g)
{
    if (!g)
        return;
    if (g == joined)
        joined = NULL;
    if (g->tr)
        g->table->close(g->tr);
    for (size_t i = 0; i < g->blocks; i++)
        yk__free(g->block[i]);
    yk__free(g->block);
    yk__free(g->member);
    yk__free(g->name);
    yk__free(g);
}

void yk__group_abort(yk__group *g, const yk_error *why)
{
    yk_error named;
    if (!g->tr) {
        g->why = *why;
        __atomic_store_n(&g->cancelled, 1, __ATOMIC_RELEASE);
        return;
    }
    named = *why;
    yk__fail_in(&named, "%s", yk__group_name(g, g->rank));
    g->table->abort(g->tr, named.status, named.text);
}

uint32_t yk__group_rank(const yk__group *g)
{
    return g->rank;
}

uint32_t yk__group_size(const yk__group *g)
{
    return g->size;
}

bool yk__group_member(const yk__group *g, uint32_t rank)
{
    return rank < g->size && g->member[rank];
}

bool yk__group_excludes(const yk__group *g)
{
    return g->excluded > 0;
}

void yk__group_place(yk__group *g, void (*place)(const char **file, int *line))
{
    g->place = place;
}

const char *yk__group_name(const yk__group *g, uint32_t rank)
{
    if (g->tr)
        return g->table->peer_name(g->tr, rank);
    return rank ? "" : g->name;
}

const volatile int *yk__group_cancel(const yk__group *g)
{
    return g->tr ? g->table->cancelled(g->tr) : &g->cancelled;
}

yk_status yk__group_check(yk__group *g, yk_error *err)
{
    if (g->tr || !__atomic_load_n(&g->cancelled, __ATOMIC_ACQUIRE))
        return YK_OK;
    *err = g->why;
    return err->status;
}

static yk_status solo_block(yk__group *g, const char *what, uint64_t bytes, void **mem, yk_error *err)
{
    uint64_t whole = bytes < 4096 ? 4096 : bytes;
    void *p;
    if (bytes > SIZE_MAX / 2 || yk__grow(&g->block, &g->block_cap, g->blocks + 1, sizeof *g->block))
        return yk__fail_mem(err, bytes, what);
    p = yk__aligned(whole, 4096);
    if (!p)
        return yk__fail_mem(err, bytes, what);
    memset(p, 0, whole);
    g->block[g->blocks++] = p;
    *mem = p;
    return YK_OK;
}

yk_status yk__group_shared(yk__group *g, const char *what, uint64_t bytes, void **mem, yk_error *err)
{
    yk_tr_error why;
    yk_status s;
    if (!g->tr)
        return solo_block(g, what, bytes, mem, err);
    if (g->area)
        yk__call_begin(g, YK__BY_ALL, YK__CALL_SHARED, 0, 0);
    s = g->table->shared(g->tr, what, bytes, mem, &why);
    return s ? yk__fail(err, s, "%s", why.text) : YK_OK;
}

void yk__group_release(yk__group *g, void *mem)
{
    size_t i = 0;
    if (g->tr && mem)
        g->table->release(g->tr, mem);
    while (i < g->blocks && g->block[i] != mem)
        i++;
    if (i == g->blocks)
        return;
    yk__free(mem);
    g->block[i] = g->block[--g->blocks];
}

yk_status yk__group_wait(yk__group *g, uint32_t peer, uint32_t flag, uint32_t value, const char *what, yk_error *err)
{
    yk_tr_error why;
    const yk_status s = g->table->flag_wait(g->tr, peer, flag, value, what, &why);
    return s ? yk__fail(err, s, "%s", why.text) : YK_OK;
}
