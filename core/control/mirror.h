/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the slots of ranks on other hosts up to date. It makes frames with the changes of a slot, and writes them into the control object
 * of another host. Numbers have the hosts' byte order, which is compared when a rank connects.
 *
 * Thread rule: the agent's thread (agent.h); before it starts, the thread that starts it.
 */
#ifndef YOKE_CORE_CONTROL_MIRROR_H
#define YOKE_CORE_CONTROL_MIRROR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/control/control_internal.h"
#include "core/net/frame.h"

/* Kinds of frames of the control plane. */
typedef enum yk__control_frame {
    YK__FRAME_HERE = 1,  /* a rank describes itself to rank 0 (assemble.c) */
    YK__FRAME_TABLE,     /* rank 0 sends all descriptions to all ranks */
    YK__FRAME_HEARTBEAT, /* no contents */
    YK__FRAME_GOODBYE,   /* from a rank that its host's agent took over: this connection ends */
    YK__FRAME_NAME,      /* announces a rank: later frames are about it; has its name */
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
    uint8_t blob[YK__CONTROL_BLOB]; /* only the used bytes are sent */
} yk__frame_blob;

typedef struct yk__frame_end {
    uint32_t rank, status, silent;
    char text[YK_ERROR_TEXT];
} yk__frame_end;

/* The last sent contents of a slot; zero at first. */
typedef struct yk__mirror_seen {
    yk__frame_state state;
    uint32_t stamp, given;
    bool named;
} yk__mirror_seen;

typedef void (*yk__mirror_send)(void *arg, uint32_t kind, const void *data, uint32_t bytes);

/* Sends the changes of a rank's slot. all: includes changes that no rank waits for (its info, its counts). */
void yk__mirror_scan(yk__control_head *head, uint32_t rank, bool all, yk__mirror_seen *seen, yk__mirror_send send, void *arg);
/* The rank that a slot's frame is about; YK_E_FORMAT for a frame that is too short, or of an unknown rank. */
yk_status yk__mirror_rank(const yk__control_head *head, const yk__frame *frame, uint32_t *rank, yk_error *err);
/* Writes the frame into its slot. YK_E_FORMAT for impossible contents. */
yk_status yk__mirror_apply(yk__control_head *head, const yk__frame *frame, yk_error *err);
/* Makes a frame of the job's end, and writes one into the record; false while the job goes on. */
bool yk__mirror_end(const yk__control_head *head, yk__frame_end *end);
yk_status yk__mirror_apply_end(yk__control_head *head, const yk__frame *frame, yk_error *err);

#endif
