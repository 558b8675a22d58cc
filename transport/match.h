/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tag matching between two ranks, for transports that carry frames (sock, ofi): which receive takes which message, what is kept of
 * those that nobody has asked for, what goes into the next frame.
 *
 * A short message is a frame of its own. A long one is announced, asked for when its receive is there, and sent in segments; so no
 * message stands in the way of another, and nothing but its own receive buffer is written. One that is given up is revoked by its
 * number; segments with a number that nobody knows are thrown away.
 *
 * What comes in is checked before it is believed, from an authenticated peer too. Everything here is the transport's to lock.
 */
#ifndef YOKE_TRANSPORT_MATCH_H
#define YOKE_TRANSPORT_MATCH_H

#include "transport/op.h"

enum {
    YK__MATCH_HEAD = 40,       /* bytes of an encoded head */
    YK__MATCH_EAGER = 64 << 10 /* a message of at most so many bytes is short */
};

typedef enum yk__match_kind {
    YK__MATCH_SHORT = 1, /* a message */
    YK__MATCH_ANNOUNCE,  /* there is a long one */
    YK__MATCH_ASK,       /* the receive for it is there */
    YK__MATCH_REFUSE,    /* its receive is too small; it is not to be sent */
    YK__MATCH_SEGMENT,   /* a part of it */
    YK__MATCH_REVOKE,    /* it is given up */
    YK__MATCH_KINDS      /* from here on: kinds of the transport's own */
} yk__match_kind;

/* What stands before the payload of a frame, little-endian and in this order on the wire. */
typedef struct yk__match_head {
    uint32_t kind, bytes; /* bytes: of payload */
    uint64_t tag;
    uint64_t total;  /* bytes of the message */
    uint64_t number; /* of a long message, between these two ranks in this direction; 0: a short one */
    uint64_t place;  /* of the payload in it */
} yk__match_head;

/* A message without its receive. */
typedef struct yk__match_early {
    struct yk__match_early *next;
    uint64_t tag, total;
    uint64_t number; /* of a long one, which is still with the sender; 0: a short one, */
    uint8_t data[];  /* which is here */
} yk__match_early;

/* What a transport does for it. */
typedef struct yk__match_calls {
    /* Sends a frame about a long message, without payload. */
    yk_status (*say)(yk_tr *t, uint32_t peer, uint32_t kind, uint64_t number, yk_tr_error *error);
    /* Nothing more is to be written to this receive. NULL: nothing ever is but by yk__match_take. */
    void (*detach)(yk_tr *t, uint32_t peer, const yk_tr_op *op);
} yk__match_calls;

/* Of one peer. */
typedef struct yk__match {
    const yk__match_calls *calls;
    yk_tr *t;
    uint32_t peer;
    uint64_t *events;       /* of the transport: operations that were done */
    yk_tr_op *sends;        /* short messages and announcements to send, in order */
    yk_tr_op *announced;    /* long ones that wait to be asked for */
    yk_tr_op *asked;        /* long ones whose bytes are being sent, in order */
    yk_tr_op *recvs;        /* in order */
    yk__match_early *early; /* in order */
    uint64_t numbers;       /* of long messages so far */
} yk__match;

void yk__match_head_encode(const yk__match_head *head, uint8_t to[YK__MATCH_HEAD]);
yk__match_head yk__match_head_decode(const uint8_t from[YK__MATCH_HEAD]);
/* Whether a frame of one of the kinds above can be; segment: bytes of one at most. */
bool yk__match_head_fits(const yk__match_head *head, uint32_t segment);

void yk__match_finish(yk__match *m, yk_tr_op *op);

/* A send is there to be sent. */
void yk__match_send(yk__match *m, yk_tr_op *op);
/* The head of the first of `sends`, which goes now: a short message is to be ended with yk__match_finish once its bytes are taken. */
yk_tr_op *yk__match_next_send(yk__match *m, yk__match_head *head);
/* The first long message that was asked for and has bytes that no segment has taken on. NULL: there is none. */
yk_tr_op *yk__match_next_segment(yk__match *m, uint32_t segment, yk__match_head *head);
/* Bytes of a segment are with the network; the last of them end the message. */
void yk__match_segment_sent(yk__match *m, yk_tr_op *op, uint32_t bytes);

/* A receive is there; it takes what came before it. */
yk_status yk__match_recv(yk__match *m, yk_tr_op *op, yk_tr_error *error);
/* A frame that fits, and is no segment: with all its payload. */
yk_status yk__match_take(yk__match *m, const yk__match_head *head, const uint8_t *payload, yk_tr_error *error);
/* The receive that a segment belongs to; NULL: it was given up, or refused. *fits: whether the segment is one of that message. */
yk_tr_op *yk__match_segment_recv(yk__match *m, const yk__match_head *head, bool *fits);
/* The receive has bytes more; the last of them end it. */
void yk__match_segment_came(yk__match *m, yk_tr_op *op, uint32_t bytes);

/* An operation is given up; the caller frees it. *revoke: the peer is to be told, by its number. */
void yk__match_cancel(yk__match *m, yk_tr_op *op, bool *revoke);
/* All operations end with this status; why: its text, which outlives them. */
void yk__match_fail_all(yk__match *m, yk_status status, const char *why);
/* Operations that nobody has given up are freed. */
void yk__match_drop_ops(yk__match *m);
void yk__match_drop_early(yk__match *m);

#endif
