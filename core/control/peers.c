/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives a joined rank facts of itself and of other ranks, and writes its own words in its slot: its exit code, and the count of its
 * calls. It also ends the job for a rank that has left.
 *
 * core/group, core/coll and info.c call it in the step thread. The progress thread, the transport's threads and exit handlers call parts
 * of it, and other processes read the slots, so shared words are atomic.
 */
#include "core/control/control_internal.h"

#include <stdio.h>
#include <sys/socket.h>

uint32_t yk__control_rank(const yk__control *c)
{
    return c->rank;
}

uint32_t yk__control_size(const yk__control *c)
{
    return c->size;
}

const char *yk__control_name(const yk__control *c, uint32_t rank)
{
    return rank < c->size ? c->name[rank] : "";
}

uint64_t yk__control_host(const yk__control *c, uint32_t rank)
{
    return atomic_load(&c->head->slot[rank].host);
}

const char *yk__control_address(const yk__control *c)
{
    return c->address[0] ? c->address : NULL;
}

int yk__control_memory(const yk__control *c)
{
    return c->memory_fd;
}

const uint8_t *yk__control_secret(const yk__control *c)
{
    return c->head->secret;
}

const volatile int *yk__control_cancelled(const yk__control *c)
{
    return (const volatile int *)&c->head->abort;
}

bool yk__control_left(const yk__control *c, uint32_t rank)
{
    return atomic_load(&c->head->slot[rank].state) == YK__RANK_LEFT;
}

void yk__control_exits(yk__control *c, int code)
{
    atomic_store(&c->head->slot[c->rank].exits, 1 + (uint32_t)(code & 0xff));
}

void yk__control_heeds_signal(yk__control *c)
{
    const yk__control_verdict asked = {.status = YK_OK};
    atomic_store(&c->head->slot[c->rank].heeds, 1);
    if (c->node_fd >= 0)
        send(c->node_fd, &asked, sizeof asked, MSG_NOSIGNAL | MSG_DONTWAIT);
}

yk_status yk__control_describe_left(const yk__control *c, uint32_t rank, const char *what, yk_error *err)
{
    const uint32_t exits = atomic_load(&c->head->slot[rank].exits);
    char how[48] = "left the group";
    if (exits)
        snprintf(how, sizeof how, "ended with exit code %u", (exits - 1) & 0xff);
    return yk__fail(err, YK_E_DEVICE_LOST, "%s %s while %s waited for it in %s", c->name[rank], how, c->name[c->rank], what);
}

yk_status yk__control_fail_left(yk__control *c, uint32_t rank, const char *what, yk_error *err)
{
    yk__control_describe_left(c, rank, what, err);
    yk__control_end_for(c, rank, false, err->status, err->text);
    return err->status;
}

void yk__control_count_call(yk__control *c)
{
    atomic_fetch_add_explicit(&c->head->slot[c->rank].calls, 1, memory_order_relaxed);
}
