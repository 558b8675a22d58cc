/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin's queue: what is the same for every device that a thread of the host drives. The kit checks what it is given, copies
 * the lists of a submission, gives out points, waits for other queues, keeps the first failure with its words, and measures
 * spans; the plugin says how to run a program and how to copy bytes, and its thread does one after the other.
 *
 * The kit defines struct yk_queue, so a table takes these as they are:
 *
 *     .queue_free = kit_queue_free,   .queue_run = kit_queue_run,     .queue_copy = kit_queue_copy,
 *     .queue_poll = kit_queue_poll,   .queue_wait = kit_queue_wait,   .queue_abort = kit_queue_abort,
 *     .queue_span = kit_queue_span,
 *
 * and queue_new is one call of kit_queue_new. Thread rules are those of plugin.h. Sources: queue.c, which needs -pthread and no
 * other file of the kit.
 */
#ifndef YOKE_PLUGINS_KIT_QUEUE_H
#define YOKE_PLUGINS_KIT_QUEUE_H

#include <yoke/plugin.h>

#define KIT_WHY 256 /* characters of what a failure says, with the end */

/* What the plugin knows. One for all queues; lives as long as they do. */
typedef struct kit_queue_ops {
    const yk_host *host;
    const char *plugin; /* who speaks */
    const yk_graph *(*graph)(const yk_program *p);
    uint64_t (*bytes)(const yk_buffer *b);
    /*
     * Both in the queue's thread, in order; the waits are over, and the lists may be read until they return. All is done and can
     * be seen by others when they return. A status other than YK_OK fails the queue, in the words that stand in `why`.
     */
    yk_status (*run)(yk_device *dev, const yk_submit *s, char why[KIT_WHY]);
    yk_status (*copy)(yk_device *dev, const yk_copy *c, char why[KIT_WHY]);
    /* In the caller's thread, after the kit's own checks, before the point is given: to refuse what cannot be done, or to take
     * what must be taken at once. Said through host->fail. NULL: nothing to add. */
    yk_status (*admit)(yk_device *dev, const yk_submit *s, const yk_copy *c); /* one of them is NULL */
} kit_queue_ops;

/* In run, copy or a call, which return a failure next: the node that failed, by its yk_node.stream. */
void kit_queue_blame(uint32_t stream);

yk_status kit_queue_new(yk_device *dev, const kit_queue_ops *ops, yk_queue **q);
void kit_queue_free(yk_queue *q);
yk_status kit_queue_run(yk_queue *q, const yk_submit *s, uint64_t *point);
yk_status kit_queue_copy(yk_queue *q, const yk_copy *c, uint64_t *point);
/* The plugin's own work in the queue's thread (a collective): call(arg, why) as run and copy are called; it owns arg. A status
 * other than YK_OK: it is never called. */
yk_status kit_queue_call(yk_queue *q, uint32_t n_wait, const yk_wait *wait, yk_status (*call)(void *arg, char why[KIT_WHY]), void *arg,
                         uint64_t *point);
yk_status kit_queue_poll(yk_queue *q, uint64_t *done);
yk_status kit_queue_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns);
void kit_queue_abort(yk_queue *q, yk_status why);
yk_status kit_queue_span(yk_queue *q, uint64_t point, uint64_t *begin_ns, uint64_t *end_ns);

#endif
