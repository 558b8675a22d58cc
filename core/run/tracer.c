/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces of steps for chrome://tracing and Perfetto. Events are listed in memory, up to a limit, and written in the Chrome trace format, as
 * complete events ("ph": "X"); times are microseconds.
 *
 * The files of core/run add events at commands and waits, in the step thread. After YOKE_TRACE_SKIP steps YOKE_TRACE (`yoke trace` sets it)
 * takes YOKE_TRACE_STEPS steps to a file PATH.RANK on each rank. The writer is yk__tracer_stepped once the steps asked for are over, or
 * yk__tracer_close with the engine. A trace of yk_trace_begin has no path: core/job/session/timeline.c joins the texts of yk__tracer_end of
 * all ranks in one file. A tracer that is off is NULL, and costs nothing.
 */
#include "core/run/tracer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/io/folder.h"
#include "core/io/json.h"

#define EVENTS (1u << 20) /* at most: 48 MB */
#define PENDING 64u /* points that queue_span knows */

typedef struct trace_event {
    yk__lane lane;
    const char *what;
    uint64_t number;
    int64_t begin, end; /* ns */
    bool by_device;     /* times are of the device's clock */
} trace_event;

typedef struct trace_pending {
    yk_queue *queue;
    uint64_t point;
    int64_t submitted;
    uint32_t event; /* index of its event */
} trace_pending;

struct yk__tracer {
    yk__device *dev;
    char *path, *name;        /* path: NULL for a program's own trace */
    uint32_t rank;
    uint64_t skip, steps, step; /* counts of windows; step: so far */
    int64_t step_begin;
    trace_event *event;
    size_t cap_event;
    uint32_t n_event, dropped, unknown; /* unknown: points whose span the device did not give */
    trace_pending pending[PENDING];
    uint32_t n_pending;
    int64_t offset; /* host's clock less the device's, at least */
    bool has_offset, written;
};

/* ---- Making ---- */

static void tracer_free(yk__tracer *tracer)
{
    yk__free(tracer->path);
    yk__free(tracer->name);
    yk__free(tracer->event);
    yk__free(tracer);
}

static yk_status tracer_new(yk__device *dev, uint32_t rank, const char *name, const char *path, yk__tracer **out, yk_error *err)
{
    yk__tracer *tracer = yk__calloc(1, sizeof *tracer);
    if (!tracer)
        return yk__fail_mem(err, sizeof *tracer, "a trace");
    tracer->dev = dev;
    tracer->rank = rank;
    tracer->path = path ? yk__format("%s.%u", path, rank) : NULL;
    tracer->name = yk__strdup(name);
    if ((path && !tracer->path) || !tracer->name) {
        tracer_free(tracer);
        return yk__fail_mem(err, sizeof *tracer, "a trace");
    }
    tracer->step_begin = yk__clock_ns();
    *out = tracer;
    return YK_OK;
}

yk_status yk__tracer_open(yk__device *dev, uint32_t rank, const char *name, yk__tracer **out, yk_error *err)
{
    const char *path = yk__option_text(YK__OPTION_TRACE);
    if (!path || dev->plans_only || tracer_new(dev, rank, name, path, out, err))
        return err->status;
    (*out)->skip = yk__option_number(YK__OPTION_TRACE_SKIP);
    (*out)->steps = yk__option_number(YK__OPTION_TRACE_STEPS);
    return YK_OK;
}

yk_status yk__tracer_begin(yk__device *dev, uint32_t rank, const char *name, yk__tracer **out, yk_error *err)
{
    if (tracer_new(dev, rank, name, NULL, out, err))
        return err->status;
    (*out)->steps = UINT64_MAX;
    return YK_OK;
}

bool yk__tracer_is_own(const yk__tracer *tracer)
{
    return !tracer->path;
}

/* ---- Listing ---- */

static bool is_tracing(const yk__tracer *tracer)
{
    return tracer && !tracer->written && tracer->step >= tracer->skip;
}

static trace_event *append_event(yk__tracer *tracer, yk__lane lane, const char *what, uint64_t number)
{
    trace_event *event;
    if (tracer->n_event == EVENTS || yk__grow(&tracer->event, &tracer->cap_event, tracer->n_event + 1, sizeof *event)) {
        tracer->dropped++;
        return NULL;
    }
    event = &tracer->event[tracer->n_event];
    *event = (trace_event){.lane = lane, .what = what, .number = number};
    tracer->n_event++;
    return event;
}

/* Lists a done point's span by the device, or else by the host's clock. */
static void resolve_point(yk__tracer *tracer, const trace_pending *pending)
{
    trace_event *event = &tracer->event[pending->event];
    uint64_t begin, end;
    event->begin = pending->submitted;
    event->end = yk__clock_ns();
    if (tracer->dev->table->queue_span(pending->queue, pending->point, &begin, &end)) {
        tracer->unknown++;
        return;
    }
    event->begin = (int64_t)begin;
    event->end = (int64_t)end;
    event->by_device = true;
    const int64_t least = pending->submitted - event->begin;
    tracer->offset = !tracer->has_offset || least > tracer->offset ? least : tracer->offset;
    tracer->has_offset = true;
}

/* The last point of a queue that is done; 0 if the queue does not say. */
static uint64_t points_done(const yk__tracer *tracer, yk_queue *queue)
{
    uint64_t done = 0;
    return queue && !tracer->dev->table->queue_poll(queue, &done) ? done : 0;
}

static void resolve_done(yk__tracer *tracer)
{
    uint32_t left = 0;
    if (!tracer->n_pending)
        return;
    const uint64_t done = points_done(tracer, tracer->dev->queue), side = points_done(tracer, tracer->dev->side);
    for (uint32_t i = 0; i < tracer->n_pending; i++) {
        const trace_pending p = tracer->pending[i];
        if (p.point <= (p.queue == tracer->dev->queue ? done : side))
            resolve_point(tracer, &p);
        else
            tracer->pending[left++] = p;
    }
    tracer->n_pending = left;
}

void yk__tracer_submitted(yk__tracer *tracer, yk__lane lane, const char *what, uint64_t number, int64_t begun_ns, uint64_t point)
{
    if (tracer)
        yk__tracer_submitted_to(tracer, tracer->dev->queue, lane, what, number, begun_ns, point);
}

void yk__tracer_submitted_to(yk__tracer *tracer, yk_queue *queue, yk__lane lane, const char *what, uint64_t number, int64_t begun_ns,
                             uint64_t point)
{
    if (!is_tracing(tracer))
        return;
    resolve_done(tracer);
    if (tracer->n_pending == PENDING) {
        tracer->dropped++;
        return;
    }
    if (append_event(tracer, lane, what, number))
        tracer->pending[tracer->n_pending++] = (trace_pending){queue, point, begun_ns, tracer->n_event - 1};
}

void yk__tracer_span(yk__tracer *tracer, yk__lane lane, const char *what, uint64_t number, int64_t begin_ns, int64_t end_ns)
{
    if (!is_tracing(tracer))
        return;
    trace_event *event = append_event(tracer, lane, what, number);
    if (event) {
        event->begin = begin_ns;
        event->end = end_ns;
    }
    resolve_done(tracer);
}

/* ---- Writing ---- */

static json_t *event_json(const yk__tracer *tracer, const trace_event *event)
{
    const int64_t shift = event->by_device ? tracer->offset : 0;
    return json_pack("{s:s, s:s, s:i, s:i, s:f, s:f, s:{s:I}}", "name", event->what, "ph", "X", "pid", (int)tracer->rank, "tid",
                     (int)event->lane, "ts", (double)(event->begin + shift) * 1e-3, "dur",
                     (double)(event->end - event->begin) * 1e-3, "args", "number", (json_int_t)event->number);
}

static json_t *name_json(const char *what, uint32_t rank, int lane, const char *name)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", what, "ph", "M", "pid", (int)rank, "tid", lane, "args", "name", name);
}

/* The host updates, and goes on under the next forward. */
static bool has_updates(const yk__tracer *tracer)
{
    for (uint32_t i = 0; i < tracer->n_event; i++)
        if (tracer->event[i].lane == YK__LANE_UPDATE)
            return true;
    return false;
}

static void append_names(const yk__tracer *tracer, json_t *list)
{
    static const char *const lane[YK__LANES] = {"host", "compute", "copies", "wire", "host's update"};
    const char *const silent = "compute (the device does not tell: from submission until seen done)";
    json_array_append_new(list, name_json("process_name", tracer->rank, 0, tracer->name));
    for (int i = 0; i < (has_updates(tracer) ? YK__LANES : YK__LANE_UPDATE); i++)
        json_array_append_new(list, name_json("thread_name", tracer->rank, i,
                                              i == YK__LANE_COMPUTE && !tracer->has_offset ? silent : lane[i]));
}

/* An event that is not done when the trace is written has no end, and is not written. */
static bool is_pending(const yk__tracer *tracer, uint32_t event)
{
    for (uint32_t i = 0; i < tracer->n_pending; i++)
        if (tracer->pending[i].event == event)
            return true;
    return false;
}

static json_t *trace_json(const yk__tracer *tracer)
{
    json_t *list = json_array();
    append_names(tracer, list);
    for (uint32_t i = 0; i < tracer->n_event; i++)
        if (!is_pending(tracer, i))
            json_array_append_new(list, event_json(tracer, &tracer->event[i]));
    return list;
}

static void write_trace(yk__tracer *tracer)
{
    json_t *whole = json_pack("{s:o, s:s, s:{s:i, s:i}}", "traceEvents", trace_json(tracer), "displayTimeUnit", "ms", "otherData",
                              "dropped", (int)tracer->dropped, "unknown", (int)tracer->unknown);
    char *text = whole ? yk__json_dump(whole, JSON_COMPACT) : NULL;
    yk_error err = YK_ERROR_INIT;
    tracer->written = true;
    if (!text || yk__folder_write_file(tracer->path, text, strlen(text), &err))
        yk__log(YK_LOG_WARN, "trace", "%s: the trace could not be written", text ? err.text : tracer->path);
    yk__free(text);
    json_decref(whole);
}

yk_status yk__tracer_end(yk__tracer *tracer, char **text, yk_error *err)
{
    json_t *list;
    char *whole;
    resolve_done(tracer);
    if (tracer->dropped)
        yk__log(YK_LOG_WARN, "trace", "rank %u: %u events had no place; trace fewer steps", tracer->rank, tracer->dropped);
    list = trace_json(tracer);
    whole = list ? yk__json_dump(list, JSON_COMPACT) : NULL; /* [a,b,..] */
    json_decref(list);
    tracer_free(tracer);
    *text = whole ? yk__format("%.*s", (int)strlen(whole) - 2, whole + 1) : NULL;
    yk__free(whole);
    return *text ? YK_OK : yk__fail_mem(err, 0, "a trace");
}

void yk__tracer_stepped(yk__tracer *tracer)
{
    if (!tracer || tracer->written)
        return;
    const int64_t now = yk__clock_ns();
    yk__tracer_span(tracer, YK__LANE_HOST, "step", tracer->step, tracer->step_begin, now);
    tracer->step_begin = now;
    if (++tracer->step >= tracer->skip + tracer->steps)
        write_trace(tracer);
}

void yk__tracer_close(yk__tracer *tracer)
{
    if (!tracer)
        return;
    resolve_done(tracer);
    if (tracer->path && !tracer->written)
        write_trace(tracer);
    tracer_free(tracer);
}
