/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch of a transport: a thread that finds a connection that has ended, stalls or carries nothing in one direction, while both
 * ranks live. Each end sends on each line about once a second, a beat if nothing else, so silence has a meaning. The thread moves bytes
 * before it judges, so an answer does not depend on the program's calls.
 *
 * Silence is the sum of the thread's own short steps. A step that comes late by x gives the peers x: a process that was stopped
 * or starved accuses no peer. A peer on the same host is lost only if its own thread was found asleep at
 * the end of its silence, as one that waits for a processor is silent and alive.
 * The limits are longer than those of the control plane (YK__AGENT_SILENT_MS, YOKE_LIVENESS_MS). So the control plane reports a rank that
 * died or was stopped, or a host that is cut off, first and better.
 */
#ifndef YOKE_TRANSPORT_TRANSPORT_WATCH_H
#define YOKE_TRANSPORT_TRANSPORT_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <yoke/transport.h>

#include "core/base/process/thread_id.h"

enum {
    YK__WATCH_STEP_MS = 250,    /* between two checks */
    YK__WATCH_BEAT_MS = 750,    /* silence of this end after which a line carries a beat */
    YK__WATCH_NEAR_BEAT_MS = 1500, /* the same of a line within a host: 64 ranks have 8000 lines */
    YK__WATCH_SILENT_MS = 4000, /* silence of the other end after which a line is lost */
    YK__WATCH_ASLEEP_MS = 500,  /* a silent peer's thread is looked at for this long: a good one sleeps for YK__WATCH_STEP_MS */
    YK__WATCH_ENDED_MS = 2000,  /* age of an ended line at which it is lost, if the job goes on */
    YK__WATCH_ADDRESS = 64,     /* bytes of an address with its port */
    YK__WATCH_INFO = 24         /* bytes by which ranks know each other's thread */
};

/* A connection, or a peer for a transport without connections. Under the transport's lock. */
typedef struct yk__line {
    bool ended;           /* nothing arrives over it any more */
    bool leaves;          /* the peer has announced its close: silence and end are legal */
    uint64_t heard, sent; /* counts that grow with received and sent data */
    uint64_t heard_before, sent_before; /* their values at the last check */
    int64_t silent_ms, quiet_ms, ended_ms; /* time since it heard, sent, ended */
    int64_t asleep_ms;    /* at the end of silent_ms, time in which no look found the peer's thread ready to run */
    yk__thread_id thread; /* the peer's, for a peer on this host; number 0 otherwise */
    uint64_t space;       /* the namespace of this process */
    char why[96];         /* reason of its end */
    char own[YK__WATCH_ADDRESS], other[YK__WATCH_ADDRESS]; /* addresses of both ends */
} yk__line;

typedef enum yk__line_state {
    YK__LINE_GOOD,
    YK__LINE_QUIET, /* it needs a beat */
    YK__LINE_LOST
} yk__line_state;

/* Time without a sign that a step of the thread counts for. */
int64_t yk__watch_step(int64_t step_ms);
/* silent_ms: silence after which the line is lost; 0: no limit. */
yk__line_state yk__line_look(yk__line *line, int64_t step_ms, int64_t silent_ms);
void yk__line_end(yk__line *line, const char *why);
/* Writes the error of a lost line, with both ranks and addresses. */
void yk__line_explain(const yk__line *line, uint32_t rank, uint32_t peer, yk_tr_error *why);

/* Starts and stops the thread of a transport whose calls have `watch`. It calls that after yk__watch_begin alone. Stopping without a
 * start is legal. Between these, ranks exchange the numbers of their threads. */
yk_status yk__watch_start(yk_tr *t, yk_tr_error *error);
void yk__watch_publish(const yk_tr *t, uint8_t info[YK__WATCH_INFO]);
void yk__watch_know(const yk_tr *t, yk__line *line, uint32_t peer, const uint8_t info[YK__WATCH_INFO]);
void yk__watch_begin(yk_tr *t); /* under the transport's lock */
/* YK__WATCH_SILENT_MS; 0 with YOKE_LIVENESS_MS=0, by which a user stops ranks on purpose. */
int64_t yk__watch_silent_ms(const yk_tr *t);
void yk__watch_stop(yk_tr *t);

#endif
