/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tag matching between two ranks, for transports that carry frames (sock, ofi). It matches receives and messages, keeps messages
 * without a receive, and builds the next frame.
 *
 * A short message is one frame. A long message is announced, requested when its receive is posted, and sent in segments. So no
 * message blocks another, and only its own receive buffer is written. A sender that gives a message up revokes it by its number;
 * segments with an unknown number are dropped.
 *
 * Incoming frames are checked before use, from an authenticated peer too. The transport locks all calls.
 */
#ifndef YOKE_TRANSPORT_MATCH_H
#define YOKE_TRANSPORT_MATCH_H

#include "transport/transport_op.h"

enum {
    YK__MATCH_HEAD = 40,       /* bytes of an encoded head */
    YK__MATCH_EAGER = 64 << 10 /* largest short message, bytes */
};

typedef enum yk__match_kind {
    YK__MATCH_SHORT = 1, /* a message */
    YK__MATCH_ANNOUNCE,  /* announces a long message */
    YK__MATCH_ASK,       /* requests it, as its receive is posted */
    YK__MATCH_REFUSE,    /* refuses it, as its receive is too small */
    YK__MATCH_SEGMENT,   /* a part of it */
    YK__MATCH_REVOKE,    /* its sender gives it up */
    YK__MATCH_KINDS      /* first kind of the transport's own */
} yk__match_kind;

/* The head before the payload of a frame, little-endian and in this order on the wire. */
typedef struct yk__match_head {
    uint32_t kind, bytes; /* bytes: length of the payload */
    uint64_t tag;
    uint64_t total;  /* bytes of the message */
    uint64_t number; /* number of a long message, between these two ranks in this direction; 0 for a short one */
    uint64_t place;  /* offset of the payload in the message, bytes */
} yk__match_head;

/* A message without its receive. */
typedef struct yk__match_early {
    struct yk__match_early *next;
    uint64_t tag, total;
    uint64_t number; /* number of a long message, whose bytes are still with the sender; 0 for a short one, */
    uint8_t data[];  /* with its bytes here */
} yk__match_early;

/* The transport's functions for matching. */
typedef struct yk__match_calls {
    /* Sends a frame about a long message, without payload. */
    yk_status (*say)(yk_tr *t, uint32_t peer, uint32_t kind, uint64_t number, yk_tr_error *error);
    /* Stops all writes to this receive. NULL for a transport that writes only by yk__match_take. */
    void (*detach)(yk_tr *t, uint32_t peer, const yk_tr_op *op);
} yk__match_calls;

/* Matching with one peer. */
typedef struct yk__match {
    const yk__match_calls *calls;
    yk_tr *t;
    uint32_t peer;
    uint64_t *events;       /* the transport's number of completed operations */
    yk_tr_op *sends;        /* short messages and announcements to send, in order */
    yk_tr_op *announced;    /* long messages that wait for a request */
    yk_tr_op *asked;        /* long messages whose bytes are being sent, in order */
    yk_tr_op *recvs;        /* in order */
    yk__match_early *early; /* in order */
    uint64_t numbers;       /* number of long messages so far */
} yk__match;

void yk__match_head_encode(const yk__match_head *head, uint8_t to[YK__MATCH_HEAD]);
yk__match_head yk__match_head_decode(const uint8_t from[YK__MATCH_HEAD]);
/* True for a legal frame of one of the kinds above; segment: largest payload of one, bytes. */
bool yk__match_head_fits(const yk__match_head *head, uint32_t segment);

void yk__match_finish(yk__match *m, yk_tr_op *op);

/* Queues a send. */
void yk__match_send(yk__match *m, yk_tr_op *op);
/* Removes the first of `sends` and makes its head. yk__match_finish ends a short message once its bytes are taken. */
yk_tr_op *yk__match_next_send(yk__match *m, yk__match_head *head);
/* The first requested long message with bytes that no segment has taken; NULL if absent. */
yk_tr_op *yk__match_next_segment(yk__match *m, uint32_t segment, yk__match_head *head);
/* Counts bytes of a segment that the network has taken; the last bytes end the message. */
void yk__match_segment_sent(yk__match *m, yk_tr_op *op, uint32_t bytes);

/* Posts a receive; it takes a message that arrived before. */
yk_status yk__match_recv(yk__match *m, yk_tr_op *op, yk_tr_error *error);
/* Handles a legal frame other than a segment, with all its payload. */
yk_status yk__match_take(yk__match *m, const yk__match_head *head, const uint8_t *payload, yk_tr_error *error);
/* The receive that a segment belongs to; NULL if it was given up or refused. *fits: true for a segment of that message. */
yk_tr_op *yk__match_segment_recv(yk__match *m, const yk__match_head *head, bool *fits);
/* Counts received bytes; the last bytes end the receive. */
void yk__match_segment_came(yk__match *m, yk_tr_op *op, uint32_t bytes);

/* Gives an operation up; the caller frees it. *revoke: the caller must revoke it at the peer, by its number. */
void yk__match_cancel(yk__match *m, yk_tr_op *op, bool *revoke);
/* Ends all operations with this status; why: its text, which outlives them. */
void yk__match_fail_all(yk__match *m, yk_status status, const char *why);
/* Frees the remaining operations. */
void yk__match_drop_ops(yk__match *m);
void yk__match_drop_early(yk__match *m);

#endif
