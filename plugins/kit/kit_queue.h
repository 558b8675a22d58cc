/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin's queue: the common part of every device that a host thread drives. The kit checks submissions, copies their lists, gives out
 * points, waits for other queues, keeps the first failure with its text, and measures spans. The plugin runs a program and copies bytes;
 * the queue's thread calls it for one job after another.
 *
 * The kit defines struct yk_queue, so a table takes KIT_QUEUE_TABLE as it is, and queue_new is one call of kit_queue_new. Thread rules are
 * those of plugin.h. Sources: kit_queue.c, which needs -pthread and no other file of the kit.
 */
#ifndef YOKE_PLUGINS_KIT_KIT_QUEUE_H
#define YOKE_PLUGINS_KIT_KIT_QUEUE_H

#include <stdbool.h>

#include <yoke/plugin.h>

#define KIT_WHY 256 /* bytes of a failure's text, with its end */

/* The plugin's part, the same for all queues; it must outlive them. */
typedef struct kit_queue_ops {
    const yk_host *host;
    const char *plugin; /* name in messages */
    const yk_graph *(*graph)(const yk_program *p);
    uint64_t (*bytes)(const yk_buffer *b);
    /*
     * Both run in the queue's thread, in order, after the waits; the lists are valid until they return. All their work must be done and
     * visible to other threads on return. A status other than YK_OK fails the queue, with the text in `why`.
     */
    yk_status (*run)(yk_device *dev, const yk_submit *s, char why[KIT_WHY]);
    yk_status (*copy)(yk_device *dev, const yk_copy *c, char why[KIT_WHY]);
    /* Runs in the caller's thread, after the kit's checks and before the point is given out. It refuses impossible work through host->fail,
     * or takes data that must be read at once. May be NULL. */
    yk_status (*admit)(yk_device *dev, const yk_submit *s, const yk_copy *c); /* one of s, c is NULL */
    /* Runs in the queue's thread after its last job: releases the plugin's own data of the queue. May be NULL. Never runs for a queue that
     * kit_queue_free leaves behind. */
    void (*end)(yk_queue *q);
    /* kit_queue_free leaves an aborted queue's thread behind, whose work may never end: it still uses the device, programs and buffers.
     * The plugin frees none of them from here on, and does not close the device. It reads the queue's own data at most, as the thread
     * may use these too. May be NULL. */
    void (*left)(yk_device *dev, yk_queue *q);
    /* Releases the argument of a kit_queue_call that never runs, as its queue failed before. Runs in the queue's thread. May be NULL. */
    void (*drop)(void *arg);
} kit_queue_ops;

/* The queue whose thread calls, in run, copy and end; NULL in other threads. */
yk_queue *kit_queue_current(void);
/* The plugin's own data of a queue (a stream, scratch memory): a pointer, NULL at first. The plugin sets it in queue_new, or in run. */
void **kit_queue_own(yk_queue *q);

/* True once the queue has failed or was aborted: nobody waits for its work any more. A run of many parts asks between two of them, and
 * returns YK_E_CANCELLED then. kit_queue_free leaves a queue behind that works on for 2 s. [any] */
bool kit_queue_failed(yk_queue *q);

/* In run, copy or a call, which return a failure next: the node that failed, by its yk_node.stream. */
void kit_queue_blame(uint32_t stream);

yk_status kit_queue_new(yk_device *dev, const kit_queue_ops *ops, yk_queue **q);
void kit_queue_free(yk_queue *q);
yk_status kit_queue_run(yk_queue *q, const yk_submit *s, uint64_t *point);
yk_status kit_queue_copy(yk_queue *q, const yk_copy *c, uint64_t *point);
/* Queues the plugin's own work (a collective): call(arg, why) runs like run and copy, and owns arg, as kit_queue_ops.drop does for one that
 * never runs. After a status other than YK_OK neither is called. */
yk_status kit_queue_call(yk_queue *q, uint32_t n_wait, const yk_wait *wait, yk_status (*call)(void *arg, char why[KIT_WHY]), void *arg,
                         uint64_t *point);
yk_status kit_queue_poll(yk_queue *q, uint64_t *done);
yk_status kit_queue_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns);
void kit_queue_abort(yk_queue *q, yk_status why);
yk_status kit_queue_span(yk_queue *q, uint64_t point, uint64_t *begin_ns, uint64_t *end_ns);

/* The members of a plugin's table about queues, but for queue_new. */
#define KIT_QUEUE_TABLE                                                                                          \
    .queue_free = kit_queue_free, .queue_run = kit_queue_run, .queue_copy = kit_queue_copy,                      \
    .queue_poll = kit_queue_poll, .queue_wait = kit_queue_wait, .queue_abort = kit_queue_abort, .queue_span = kit_queue_span

#endif
