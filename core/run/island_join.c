/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins an island, cards of one host that exchange by NCCL, with a time limit. The plugin's join waits for all its members, and a dead
 * member never comes. So the call runs on a thread of its own. islands.c waits for that thread, or gives it up once *cancel is set.
 *
 * The struct join_call is shared by the two threads; the last one to let go frees it.
 */
#include <pthread.h>
#include <string.h>
#include <yoke/extension.h>

#include "core/base/mem.h"
#include "core/base/process/signals.h"
#include "core/base/timed.h"
#include "core/run/islands.h"

#define SLICE_NS 20000000 /* ns of a wait between two looks at `cancel` */

typedef struct join_call {
    yk__device *dev;
    const yk_coll *coll;
    uint8_t ticket[YK__ISLAND_TICKET];
    uint32_t bytes, own, size;
    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t ended;
    bool is_over, is_given_up; /* the thread that ends second frees the call */
    yk_comm *comm;
    yk_error err;
} join_call;

static void free_call(join_call *call)
{
    pthread_cond_destroy(&call->ended);
    pthread_mutex_destroy(&call->lock);
    yk__free(call);
}

static void *run_join(void *arg)
{
    join_call *call = arg;
    yk_comm *comm = NULL;
    yk__signals kept;
    yk__plugin_message();
    yk__signals_keep(&kept);
    const yk_status s = call->coll->join(call->dev->handle, call->ticket, call->bytes, call->own, call->size, &comm);
    yk__signals_restore(&kept);
    pthread_mutex_lock(&call->lock);
    if (s)
        yk__plugin_fail(&call->err, call->dev->plugin, s, "joining the other ranks' devices");
    call->comm = comm;
    call->is_over = true;
    const bool is_given_up = call->is_given_up;
    pthread_cond_signal(&call->ended);
    pthread_mutex_unlock(&call->lock);
    if (is_given_up)
        free_call(call);
    return NULL;
}

/* Called under the lock. False if the call was given up. */
static bool await_call(join_call *call, const volatile int *cancel)
{
    while (!call->is_over && !__atomic_load_n(cancel, __ATOMIC_ACQUIRE))
        yk__timed_wait(&call->ended, &call->lock, yk__clock_ns() + SLICE_NS);
    call->is_given_up = !call->is_over;
    return call->is_over;
}

static yk_status start_call(join_call *call, yk_error *err)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_join, call))
        return yk__fail(err, YK_E_MEM, "joining the other ranks' devices: no thread for it");
    pthread_detach(thread);
    return YK_OK;
}

yk_status yk__island_join(yk__device *dev, const yk_coll *coll, const uint8_t *ticket, uint32_t bytes, uint32_t own, uint32_t size,
                          const volatile int *cancel, yk_comm **comm, yk_error *err)
{
    join_call *call = yk__calloc(1, sizeof *call);
    if (!call)
        return yk__fail_mem(err, sizeof *call, "an island");
    *call = (join_call){.dev = dev, .coll = coll, .bytes = bytes, .own = own, .size = size, .err = YK_ERROR_INIT};
    memcpy(call->ticket, ticket, sizeof call->ticket);
    pthread_mutex_init(&call->lock, NULL);
    yk__timed_init(&call->ended);
    if (start_call(call, err)) {
        free_call(call);
        return err->status;
    }
    pthread_mutex_lock(&call->lock);
    const bool is_over = await_call(call, cancel);
    if (is_over && call->err.status)
        *err = call->err;
    *comm = call->comm;
    pthread_mutex_unlock(&call->lock);
    if (is_over) {
        free_call(call);
        return err->status;
    }
    dev->lost = true; /* the call still uses it */
    return yk__fail(err, YK_E_CANCELLED, "joining the other ranks' devices was cancelled");
}
