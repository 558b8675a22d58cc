/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the slots of ranks on other hosts are kept up to date: frames of what has changed in a slot, and their way into the control
 * object of another host. Numbers go in the byte order of the hosts, which is compared when a rank comes.
 *
 * Thread rule: the agent's thread (agent.h); before it starts, the thread that starts it.
 */
#ifndef YOKE_CORE_CONTROL_MIRROR_H
#define YOKE_CORE_CONTROL_MIRROR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/control/internal.h"
#include "core/net/frame.h"

/* Kinds of frames of the control plane. */
typedef enum yk__control_frame {
    YK__FRAME_HERE = 1,  /* a rank to rank 0: what it is (gather.c) */
    YK__FRAME_TABLE,     /* rank 0 to all, when all are there: what all are */
    YK__FRAME_HEARTBEAT, /* nothing in it */
    YK__FRAME_GOODBYE,   /* of a rank that its host's agent has taken on: this connection ends */
    YK__FRAME_NAME,      /* of a rank: what follows, and its name */
    YK__FRAME_STATE,
    YK__FRAME_INFO,
    YK__FRAME_BLOB,
    YK__FRAME_END /* yk__frame_end: the end of the job */
} yk__control_frame;

typedef struct yk__frame_name {
    uint32_t rank;
    char name[YK__CONTROL_NAME];
} yk__frame_name;

typedef struct yk__frame_state {
    uint64_t host;
    uint32_t rank, state, taken, waits_for, calls, advance;
    int32_t pid;
    uint32_t exits;
    char waits_in[44];
    uint32_t act, patience_ms;
} yk__frame_state;

typedef struct yk__frame_info {
    uint32_t rank;
    uint8_t info[YK__CONTROL_INFO];
} yk__frame_info;

typedef struct yk__frame_blob {
    uint32_t rank, given;
    uint8_t blob[YK__CONTROL_BLOB]; /* the last part is left off */
} yk__frame_blob;

typedef struct yk__frame_end {
    uint32_t rank, status, silent;
    char text[YK_ERROR_TEXT];
} yk__frame_end;

/* What was sent of a slot; zero at first. */
typedef struct yk__mirror_seen {
    yk__frame_state state;
    uint32_t stamp, given;
    bool named;
} yk__mirror_seen;

typedef void (*yk__mirror_send)(void *arg, uint32_t kind, const void *data, uint32_t bytes);

/* Sends what has changed in a rank's slot. all: also what nobody waits for (what it shows, how much it does). */
void yk__mirror_scan(yk__control_head *head, uint32_t rank, bool all, yk__mirror_seen *seen, yk__mirror_send send, void *arg);
/* The rank that a frame of a slot is about; YK_E_FORMAT for one that is too short, or of no rank. */
yk_status yk__mirror_rank(const yk__control_head *head, const yk__frame *frame, uint32_t *rank, yk_error *err);
/* Writes it into the slot. YK_E_FORMAT for what cannot be. */
yk_status yk__mirror_apply(yk__control_head *head, const yk__frame *frame, yk_error *err);
/* The end of the job as a frame, and back into the record; false when the job goes on. */
bool yk__mirror_end(const yk__control_head *head, yk__frame_end *end);
yk_status yk__mirror_apply_end(yk__control_head *head, const yk__frame *frame, yk_error *err);

#endif
