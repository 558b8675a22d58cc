/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch of a transport: a thread that finds a connection which has ended, stalls or carries nothing in one direction, while the
 * ranks at both ends live. Each end sends something over each line at least every second or so, a beat where it has nothing else, and
 * so hears of each line as often. The thread moves what it can before it judges, so an answer hangs on nobody's calls.
 *
 * Silence is added up from the thread's own short steps, each counted with a bound: a process that was stopped or starved accuses nobody.
 * The limits stand behind those of the control plane (YK__AGENT_SILENT_MS, YOKE_LIVENESS_MS): a rank that died or was stopped, or a host
 * that is cut off, is told there first, and better.
 */
#ifndef YOKE_TRANSPORT_WATCH_H
#define YOKE_TRANSPORT_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <yoke/transport.h>

enum {
    YK__WATCH_STEP_MS = 250,    /* between two looks */
    YK__WATCH_BEAT_MS = 750,    /* a line that this end was silent on for so long carries a beat */
    YK__WATCH_SILENT_MS = 4000, /* a line that the other end was silent on for so long is lost */
    YK__WATCH_ENDED_MS = 2000,  /* and one that ended so long ago, where the job goes on */
    YK__WATCH_ADDRESS = 64      /* bytes of an address with its port */
};

/* A connection, or a peer where the transport knows no connections. Under the transport's lock. */
typedef struct yk__line {
    bool ended;           /* nothing comes over it any more */
    bool leaves;          /* the peer has said that it closes: its silence and its end are right */
    uint64_t heard, sent; /* counts that move with what comes and goes */
    uint64_t heard_before, sent_before; /* as of the last look */
    int64_t silent_ms, quiet_ms, ended_ms; /* heard nothing, sent nothing, ended, for so long */
    char why[96];         /* it ended */
    char own[YK__WATCH_ADDRESS], other[YK__WATCH_ADDRESS]; /* addresses of both ends */
} yk__line;

typedef enum yk__line_state {
    YK__LINE_GOOD,
    YK__LINE_QUIET, /* it is to carry a beat */
    YK__LINE_LOST
} yk__line_state;

/* silent_ms: after so much silence it is lost; 0: never. */
yk__line_state yk__line_look(yk__line *line, int64_t step_ms, int64_t silent_ms);
void yk__line_end(yk__line *line, const char *why);
/* The error of a line that is lost: names both ranks and addresses. */
void yk__line_explain(const yk__line *line, uint32_t rank, uint32_t peer, yk_tr_error *why);

/* Starts and stops the thread of a transport whose calls have `watch`. Stopping what was not started is right. */
yk_status yk__watch_start(yk_tr *t, yk_tr_error *error);
/* YK__WATCH_SILENT_MS; 0 with YOKE_LIVENESS_MS=0, where somebody stops ranks on purpose. */
int64_t yk__watch_silent_ms(const yk_tr *t);
void yk__watch_stop(yk_tr *t);

#endif
