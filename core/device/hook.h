/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hook layers of YOKE_LAYERS: one table around a plugin's own that traces, counts and validates.
 *
 * The host's handles are hook_objects around the plugin's handles. Functions without a handle (init, device_count ..) have a trampoline
 * per wrapped plugin, so the number of plugins is limited.
 */
#ifndef YOKE_CORE_DEVICE_HOOK_H
#define YOKE_CORE_DEVICE_HOOK_H

#include <pthread.h>

#include <yoke/extension.h>

#include "core/device/device_internal.h"

#define HOOKS 8 /* plugins that can be wrapped in one process */

enum { HOOK_VALIDATE = 1, HOOK_TRACE = 2, HOOK_COUNT = 4 };

#define HOOK_TABLE(X)                                                                                                  \
    X(init) X(fini) X(device_count) X(device_caps) X(device_open) X(device_close) X(claims) X(buffer_new)             \
    X(buffer_wrap) X(buffer_free) X(buffer_map) X(program_new) X(program_free) X(queue_new) X(queue_free)             \
    X(queue_run) X(queue_copy) X(queue_poll) X(queue_wait) X(queue_abort) X(queue_span) X(extension)                  \
    X(graph_scratch) X(host_pin) X(host_unpin) X(program_memory)                                                       \
    X(coll_island) X(coll_ticket) X(coll_join) X(coll_leave) X(coll_abort) X(coll_run)

typedef enum hook_fn {
#define HOOK_ENUM(name) HOOK_##name,
    HOOK_TABLE(HOOK_ENUM)
#undef HOOK_ENUM
        HOOK_FN_COUNT
} hook_fn;

typedef enum hook_kind { HOOK_DEVICE, HOOK_BUFFER, HOOK_PROGRAM, HOOK_QUEUE, HOOK_PIN, HOOK_COMM, HOOK_KIND_COUNT } hook_kind;
extern const char *const yk__hook_kinds[HOOK_KIND_COUNT];

typedef struct hook hook;

typedef struct hook_object {
    struct hook_object *next; /* list of its hook's living objects */
    hook *hook;
    hook_kind kind;
    void *inner;                /* the plugin's handle */
    struct hook_object *device; /* device that it belongs to; NULL for a device */
    uint64_t bytes, guard;      /* buffer: requested bytes; guard bytes before and after it */
    bool wrapped;
    const yk_graph *graph; /* program */
    uint8_t *used;         /* program: 1 for each slot that it uses */
    _Atomic uint64_t last, done; /* queue: last point given out, last one reported done; any thread may poll */
    yk_status failed;      /* queue */
    yk_queue *checker;     /* device: the plugin's queue for reading guards */
    const volatile int *cancel; /* device: ends waits for runs; NULL if nothing does */
    uint32_t align;        /* device */
    uint32_t ranks;        /* communicator: its members */
} hook_object;

typedef struct hook_stat {
    uint64_t calls, bytes;
    double seconds;
} hook_stat;

struct hook {
    uint32_t number;
    const yk_plugin *inner;
    yk_plugin table;
    yk_coll coll;              /* the host's table of collectives */
    const yk_coll *inner_coll; /* the plugin's own; NULL before the host asks for it */
    uint32_t layers;
    pthread_mutex_t lock; /* guards the list, the statistics and the checkers */
    hook_object *live;
    hook_stat stat[HOOK_FN_COUNT];
};

/* The hooks of this process by number; NULL beyond the last. */
hook *yk__hook_number(uint32_t n);
hook *yk__hook_new(void); /* the next one; NULL if all HOOKS are used */

/* Set a table's functions with a handle: copies, pins, abort and spans in the first, all other functions in the second. */
void yk__hook_copy_functions(yk_plugin *t);
void yk__hook_functions(yk_plugin *t);
/* The host's table around the plugin's own table of collectives. */
const yk_coll *yk__hook_coll(hook *h, const yk_coll *inner);
/* Replaces the host's queues by the plugin's own. */
void yk__hook_waits(const yk_wait *from, uint32_t n, yk_wait *to);

/* One call, for its time, trace line and statistics. */
typedef struct hook_call {
    hook *h;
    hook_fn fn;
    double begin;
} hook_call;
hook_call yk__hook_begin(hook *h, hook_fn fn);
yk_status yk__hook_end(const hook_call *c, yk_status s, uint64_t bytes);
void yk__hook_report(hook *h); /* logs the statistics, one line per called function */

hook_object *yk__hook_object(hook *h, hook_kind kind, hook_object *device, yk_status *s);
void yk__hook_drop(hook_object *o);

/* ---- validate -------------------------------------------------------------------------------------------------------- */

/* Reports a breach to the log and through host->fail. Returns YK_E_INTERNAL. */
yk_status yk__hook_wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* True if the handle is alive and of this kind; reports it if not. */
bool yk__hook_alive(const void *handle, hook_kind kind);
yk_status yk__hook_guard_fill(hook_object *buffer);
/* Waits for a point of the plugin's own queue, as long as the queue makes progress. *cancel ends the wait with YK_E_CANCELLED. */
yk_status yk__hook_reached(const hook *h, yk_queue *queue, uint64_t point, const volatile int *cancel);
yk_status yk__hook_guard_check(hook_object *buffer, const char *when);
yk_status yk__hook_submit_check(const hook_object *queue, const yk_submit *s);
yk_status yk__hook_graph_check(hook_object *program, const yk_graph *g);
/* Checks that the reserved words of the ABI are 0. */
yk_status yk__hook_reserved_check(const yk_graph *g, const char *call);
/* Checks the point that a call returned, and its status after an earlier failure. */
yk_status yk__hook_point_check(hook_object *queue, yk_status s, uint64_t point, const char *what);
yk_status yk__hook_range_check(const hook_object *buffer, uint64_t offset, uint64_t bytes);

#endif
