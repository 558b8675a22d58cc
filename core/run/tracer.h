/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces of a few steps, for chrome://tracing and Perfetto. YOKE_TRACE=FILE, which `yoke trace` sets: each rank writes FILE.RANK. Or a
 * program traces itself (yk_trace_begin), and gets the text.
 *
 * Nothing is waited for because of it. Programs and copies are listed with their points, and asked for their spans when these are
 * done; the device's clock is laid beside the host's by what is known: work begins after it was submitted. Where a
 * device does not tell (no queue_span) its lane says so and shows when work was submitted and when it was seen to be done.
 *
 * All functions take NULL, a tracer that is off. Thread rule: the step thread.
 */
#ifndef YOKE_CORE_RUN_TRACER_H
#define YOKE_CORE_RUN_TRACER_H

#include "core/base/clock.h"
#include "core/device/device.h"

typedef struct yk__tracer yk__tracer;

typedef enum yk__lane {
    YK__LANE_HOST,    /* the step thread: steps, what it waits for other ranks, parameters hashed to be compared */
    YK__LANE_COMPUTE, /* programs */
    YK__LANE_COPY,    /* between device and host */
    YK__LANE_WIRE,    /* exchanges, from their begin until they are done, whoever drives them */
    YK__LANES
} yk__lane;

/* *tracer stays NULL where the environment asks for none. name: of the rank, in its lanes' names; copied. */
yk_status yk__tracer_open(yk__device *dev, uint32_t rank, const char *name, yk__tracer **tracer, yk_error *err);
/* One of the program's own, which records from now on. */
yk_status yk__tracer_begin(yk__device *dev, uint32_t rank, const char *name, yk__tracer **tracer, yk_error *err);
bool yk__tracer_is_own(const yk__tracer *tracer);
/* Its events as JSON objects with commas between, the caller's to free; it is closed. The queue is idle. */
yk_status yk__tracer_end(yk__tracer *tracer, char **text, yk_error *err);
void yk__tracer_close(yk__tracer *tracer); /* before the queue: writes what was not written yet */

/* Was just submitted with this point. what: a string that stays; number: of the segment, the bucket, ..; begun_ns: from before it was, as
 * the device may have begun before this thread goes on. */
void yk__tracer_submitted(yk__tracer *tracer, yk__lane lane, const char *what, uint64_t number, int64_t begun_ns, uint64_t point);
/* The same on another queue of the device than its own. */
void yk__tracer_submitted_to(yk__tracer *tracer, yk_queue *queue, yk__lane lane, const char *what, uint64_t number, int64_t begun_ns,
                             uint64_t point);
/* Times of yk__clock_ns. */
void yk__tracer_span(yk__tracer *tracer, yk__lane lane, const char *what, uint64_t number, int64_t begin_ns, int64_t end_ns);
void yk__tracer_stepped(yk__tracer *tracer); /* a window's update was submitted */

#endif
