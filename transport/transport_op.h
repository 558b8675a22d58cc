/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operation of a transport over messages, from its beginning to its end, and lists of them. The caller locks.
 */
#ifndef YOKE_TRANSPORT_TRANSPORT_OP_H
#define YOKE_TRANSPORT_TRANSPORT_OP_H

#include <stdbool.h>
#include <stddef.h>

#include <yoke/transport.h>

#include "core/base/error.h"

/* A transport with further members makes a struct that begins with it. */
struct yk_tr_op {
    yk_tr_op *next;
    uint64_t tag, bytes; /* bytes: length of the message, or of the receive */
    uint8_t *data;
    uint64_t moved;  /* bytes read or written so far */
    uint64_t queued; /* long send: bytes that segments have taken */
    uint64_t total;  /* receive: the message's bytes, once matched */
    uint64_t number; /* number of a long message, between these two ranks in this direction; 0 for a short one */
    uint32_t peer;
    uint32_t phase;  /* its next frame, in the transport's numbering */
    bool is_send, done;
    bool begun;  /* receive: it is matched; send: the peer knows it */
    bool orphan; /* no caller waits for it: it is freed after its last byte is written */
    yk_status status;
    const char *why; /* text of the status, which outlives it; NULL: the message is longer than its receive */
};

struct yk_tr_mem {
    uint8_t *data;
    uint64_t bytes;
};

/* Puts the text into *error; returns status. */
yk_status yk__tr_fail(yk_tr_error *error, yk_status status, const char *fmt, ...) YK_PRINTF(3, 4);

/* Lists of operations, in order. */
void yk__tr_append(yk_tr_op **list, yk_tr_op *op);
void yk__tr_unlink(yk_tr_op **list, const yk_tr_op *op); /* no effect if op is not in the list */
void yk__tr_free_all(yk_tr_op **list);

/*
 * Makes an operation of `size` bytes, zeroed behind its yk_tr_op, between rank and peer; reaches: the transport reaches the peer. The
 * data of an empty range may be read, not written. Freed by yk__tr_op_end or yk__free.
 */
yk_status yk__tr_op_new(size_t size, uint32_t rank, uint32_t peer, bool reaches, uint64_t tag, const yk_tr_range *range, yk_tr_op **op,
                        yk_tr_error *error);
/* Ends a completed operation and frees it: returns its status, explained, or the number of moved bytes in *bytes (may be NULL). */
yk_status yk__tr_op_end(yk_tr_op *op, uint64_t *bytes, yk_tr_error *error);

#endif
