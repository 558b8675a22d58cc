/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small data in the slots of the control object. A rank publishes its current request for ranks that wait for it: core/coll/call.c writes
 * and reads it in the step thread. The agent's thread writes it for ranks of other hosts (mirror.c).
 *
 * yk__control_exchange gives every rank a few bytes from each rank. core/group and core/coll call it in the step thread at the start of a
 * job, before any other way to exchange data exists.
 */
#include "core/control/control_internal.h"

#include <string.h>
#include <time.h>

void yk__control_slot_publish(yk__control_slot *s, const void *info, uint32_t bytes)
{
    const uint32_t stamp = atomic_load_explicit(&s->stamp, memory_order_relaxed);
    atomic_store_explicit(&s->stamp, stamp + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    memcpy(s->info, info, bytes);
    atomic_store_explicit(&s->stamp, stamp + 2, memory_order_release);
}

void yk__control_publish(yk__control *c, const void *info, uint32_t bytes)
{
    yk__control_slot_publish(&c->head->slot[c->rank], info, bytes);
}

bool yk__control_read(const yk__control *c, uint32_t rank, void *info, uint32_t bytes)
{
    const yk__control_slot *s = &c->head->slot[rank];
    const uint32_t stamp = atomic_load_explicit(&s->stamp, memory_order_acquire);
    memcpy(info, s->info, bytes);
    atomic_thread_fence(memory_order_acquire);
    return stamp && stamp % 2 == 0 && atomic_load_explicit(&s->stamp, memory_order_relaxed) == stamp;
}

/* Waits until each rank's counter has reached `value`. It polls, as these waits are rare. */
static yk_status wait_counters(yk__control *c, bool taken, uint32_t value, const char *what, yk_error *err)
{
    const struct timespec nap = {0, 200000};
    for (uint32_t r = 0; r < c->size; r++) {
        yk__control_slot *s = &c->head->slot[r];
        yk__control_wait wait = {0};
        while ((int32_t)(atomic_load(taken ? &s->taken : &s->given) - value) < 0) {
            if (yk__control_look(c, &wait, r, what, err))
                return err->status;
            if (yk__control_left(c, r) && (int32_t)(atomic_load(taken ? &s->taken : &s->given) - value) < 0)
                return yk__control_fail_left(c, r, what, err);
            nanosleep(&nap, NULL);
        }
        yk__control_waited(c, &wait);
    }
    return YK_OK;
}

yk_status yk__control_exchange(yk__control *c, const char *what, const void *blob, uint32_t bytes, void *all, yk_error *err)
{
    yk__control_slot *own = &c->head->slot[c->rank];
    if (bytes > YK__CONTROL_BLOB)
        return yk__fail(err, YK_E_ARG, "%s: an exchange of %u bytes a rank, at most %u", what, bytes, YK__CONTROL_BLOB);
    if (wait_counters(c, true, c->exchanges, what, err)) /* all ranks have read the previous exchange */
        return err->status;
    memcpy(own->blob, blob, bytes);
    own->blob_bytes = bytes;
    c->exchanges++;
    atomic_store(&own->given, c->exchanges);
    yk__control_count_call(c);
    yk__control_report_change(c);
    if (wait_counters(c, false, c->exchanges, what, err))
        return err->status;
    for (uint32_t r = 0; r < c->size; r++)
        memcpy((char *)all + (size_t)r * bytes, c->head->slot[r].blob, bytes);
    atomic_store(&own->taken, c->exchanges);
    yk__control_report_change(c);
    return YK_OK;
}
