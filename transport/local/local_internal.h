/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout of the shared memory: a bell per rank, then a message ring for each ordered pair of ranks. Another process writes it, so
 * numbers are checked before use.
 */
#ifndef YOKE_TRANSPORT_LOCAL_LOCAL_INTERNAL_H
#define YOKE_TRANSPORT_LOCAL_LOCAL_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "transport/base.h"

/* A rank sleeps on its bell; a peer that has changed one of its rings rings it. */
typedef struct yk__local_bell {
    _Alignas(64) _Atomic uint32_t rung;
    _Atomic uint32_t sleepers;
} yk__local_bell;

/* One direction between two ranks: bytes written and read so far, modulo 2^32. */
typedef struct yk__local_ring {
    _Alignas(64) _Atomic uint32_t written; /* changed by the sender */
    _Alignas(64) _Atomic uint32_t read;    /* changed by the receiver */
    _Alignas(64) uint8_t data[];
} yk__local_ring;

/* The next frame of an entry of the send queue: yk_tr_op.phase. */
typedef enum yk__local_phase {
    YK__LOCAL_DATA,  /* a part of a short message */
    YK__LOCAL_ASK,   /* announces a long message */
    YK__LOCAL_CLEAR, /* requests a peer's long message */
    YK__LOCAL_LONG,  /* a part of a long message */
    YK__LOCAL_REVOKE /* gives a message up */
} yk__local_phase;

/* A message without its receive. */
typedef struct yk__local_early {
    struct yk__local_early *next;
    uint64_t tag, total, at;
    uint8_t *data; /* NULL for a long message, which is still with the sender, */
    uint32_t id;   /* under this number */
} yk__local_early;

typedef struct yk__local_peer {
    yk__local_ring *out, *in;
    yk_tr_op *sends; /* sends with frames to write, in order */
    yk_tr_op *asked; /* long sends that wait for a request */
    yk_tr_op *recvs; /* in order */
    yk__local_early *early; /* in order */
    uint32_t ids;
    /* the message whose frames are arriving */
    bool open;
    uint64_t tag, total, at;
    yk_tr_op *op;           /* its destination: a receive, */
    yk__local_early *store; /* or memory, or (both NULL) none */
} yk__local_peer;

struct yk_tr {
    yk__tr_base base;
    uint32_t ring_bytes; /* bytes of data in one ring; a power of two */
    yk__local_bell *bell; /* [ranks] */
    yk__local_peer *peer; /* [ranks] */
};

/* local_message.c; under the lock */
bool yk__local_reaches(const yk_tr *t, uint32_t peer);
yk_status yk__local_begin(yk_tr *t, yk_tr_op *op, yk_tr_error *error);
/* Moves bytes, and rings the bells of peers whose rings have changed. */
yk_status yk__local_move(yk_tr *t, yk_tr_error *error);
void yk__local_give_up(yk_tr *t, yk_tr_op *op);
void yk__local_drop_all(yk_tr *t);
void yk__local_ring_bell(yk_tr *t, uint32_t rank);

/* Messages up to this size are sent before they are requested, bytes. */
#define YK__LOCAL_EAGER (64u << 10)

/* local.c */
uint64_t yk__local_bytes(uint32_t ranks); /* bytes of bells and rings */
yk__local_ring *yk__local_ring_at(void *shared, uint32_t ranks, uint32_t from, uint32_t to);

#endif
