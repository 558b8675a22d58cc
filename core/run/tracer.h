/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces of a few steps, for chrome://tracing and Perfetto. With YOKE_TRACE=FILE, which `yoke trace` sets, each rank writes FILE.RANK. Or a
 * program traces itself (yk_trace_begin), and gets the text.
 *
 * A trace adds no waits. Programs and copies are listed with their points, and their spans are read when the points are done. The offset of
 * the device's clock follows from one fact: work begins after it was submitted. If a device gives no spans (no queue_span), its lane says
 * so, and shows when work was submitted and when the host saw it done.
 *
 * All functions but yk__tracer_is_own and yk__tracer_end take NULL, a tracer that is off. Thread rule: the step thread.
 */
#ifndef YOKE_CORE_RUN_TRACER_H
#define YOKE_CORE_RUN_TRACER_H

#include "core/base/clock.h"
#include "core/device/device.h"

typedef struct yk__tracer yk__tracer;

typedef enum yk__lane {
    YK__LANE_HOST,    /* the step thread: steps, waits for other ranks, parameters hashed to be compared */
    YK__LANE_COMPUTE, /* programs */
    YK__LANE_COPY,    /* transfers between device and host */
    YK__LANE_WIRE,    /* exchanges, from their begin to their end, driven by any thread */
    YK__LANE_UPDATE,  /* updates of buckets by the host, from their submission until the step thread sees their end */
    YK__LANES
} yk__lane;

/* *tracer stays NULL if the environment asks for no trace. name: of the rank, in its lanes' names; copied. */
yk_status yk__tracer_open(yk__device *dev, uint32_t rank, const char *name, yk__tracer **tracer, yk_error *err);
/* Begins a trace of the program's own, which records from now on. */
yk_status yk__tracer_begin(yk__device *dev, uint32_t rank, const char *name, yk__tracer **tracer, yk_error *err);
bool yk__tracer_is_own(const yk__tracer *tracer);
/* *text: the events as JSON objects with commas between, the caller's to free. The tracer is closed. The queue must be idle. */
yk_status yk__tracer_end(yk__tracer *tracer, char **text, yk_error *err);
void yk__tracer_close(yk__tracer *tracer); /* before the queue closes: writes the events not written yet */

/* Notes a command just submitted with this point. `what` is a string that stays; `number` is the segment's, the bucket's, and so on.
 * begun_ns is a time before the submission, as the device may begin before this thread goes on. */
void yk__tracer_submitted(yk__tracer *tracer, yk__lane lane, const char *what, uint64_t number, int64_t begun_ns, uint64_t point);
/* The same for another queue of the device. */
void yk__tracer_submitted_to(yk__tracer *tracer, yk_queue *queue, yk__lane lane, const char *what, uint64_t number, int64_t begun_ns,
                             uint64_t point);
/* Adds a span; times are those of yk__clock_ns. */
void yk__tracer_span(yk__tracer *tracer, yk__lane lane, const char *what, uint64_t number, int64_t begin_ns, int64_t end_ns);
void yk__tracer_stepped(yk__tracer *tracer); /* a window's update was submitted */

#endif
