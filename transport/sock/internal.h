/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the sock transport share.
 *
 * Stream 0 of a pair carries short messages, whole, and the talk about long ones: a long message is announced, asked for when its
 * receive is there, and sent in segments, which go over the other streams (over stream 0 where there is one alone) in any order. A
 * message that is given up is revoked by its number; segments with a number that nobody knows are thrown away. So no message stands
 * in the way of another, and nothing but its own receive buffer is written.
 *
 * A frame is a head of 40 bytes, little-endian, and its payload:
 *   u32 kind | u32 bytes of payload | u64 tag | u64 bytes of the message | u64 number of the long message | u64 place in it
 * What comes in is checked before it is believed, from an authenticated peer too.
 */
#ifndef YOKE_TRANSPORT_SOCK_INTERNAL_H
#define YOKE_TRANSPORT_SOCK_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "transport/op.h"

enum {
    YK__SOCK_STREAMS = 4,           /* between two ranks, at most */
    YK__SOCK_HEAD = 40,             /* bytes */
    YK__SOCK_EAGER = 64 << 10,      /* a message of at most so many bytes is short */
    YK__SOCK_SEGMENT = 256 << 10,   /* of a long one, at most */
    YK__SOCK_INPUT = 64 << 10,      /* bytes read ahead of a stream */
    YK__SOCK_DEAD_MS = 30000        /* what was sent and is not acknowledged for so long ends a stream */
};

typedef enum yk__sock_kind {
    YK__SOCK_SHORT = 1, /* a message */
    YK__SOCK_ANNOUNCE,  /* there is a long one */
    YK__SOCK_ASK,       /* the receive for it is there */
    YK__SOCK_REFUSE,    /* its receive is too small; it is not to be sent */
    YK__SOCK_SEGMENTS,  /* a part of it */
    YK__SOCK_REVOKE     /* it is given up */
} yk__sock_kind;

typedef struct yk__sock_head {
    uint32_t kind, bytes;
    uint64_t tag, total, number, place;
} yk__sock_head;

/* A message without its receive. */
typedef struct yk__sock_early {
    struct yk__sock_early *next;
    uint64_t tag, total;
    uint64_t number; /* of a long one, which is still with the sender; 0: a short one, */
    uint8_t data[];  /* which is here */
} yk__sock_early;

typedef struct yk__sock_output {
    uint8_t *data; /* frames, or the rest of one, to be written before all others */
    size_t capacity, begin, end;
    /* the segment that is being written */
    bool open;
    yk_tr_op *op; /* NULL: it was given up, zeros take the place of its bytes */
    uint8_t head[YK__SOCK_HEAD];
    uint32_t written, bytes; /* of head and payload */
    uint64_t place;
    bool blocked; /* the socket takes no more for now */
} yk__sock_output;

typedef struct yk__sock_input {
    uint8_t *data; /* [YK__SOCK_INPUT] */
    size_t begin, end;
    /* the payload that is being read */
    bool open;
    yk__sock_head head;
    uint32_t got;
    yk_tr_op *op;          /* where it goes: a receive, */
    yk__sock_early *early; /* or memory, or (neither) nowhere */
} yk__sock_input;

typedef struct yk__sock_stream {
    int fd; /* -1: this rank itself, or it has ended */
    uint32_t peer, number;
    yk__sock_output out;
    yk__sock_input in;
} yk__sock_stream;

typedef struct yk__sock_peer {
    yk__sock_stream stream[YK__SOCK_STREAMS];
    yk_tr_op *sends;       /* short messages and announcements to write, in order */
    yk_tr_op *announced;   /* long ones that wait to be asked for */
    yk_tr_op *asked;       /* long ones whose bytes are being sent, in order */
    yk_tr_op *recvs;       /* in order */
    yk__sock_early *early; /* in order */
    uint64_t numbers;
} yk__sock_peer;

struct yk_tr {
    uint32_t rank, ranks, streams;
    uint64_t *host;      /* [ranks] */
    yk__sock_peer *peer; /* [ranks] */
    int poll, bell;      /* epoll; an eventfd that wakes who sleeps in it */
    pthread_mutex_t lock; /* of all below and of the peers */
    uint64_t events;      /* operations that were done */
    uint32_t sleepers;
    yk_status failed; /* a stream is damaged: every call says why */
    yk_tr_error why;
    yk_status (*check)(void *exchange_arg, yk_tr_error *error); /* of the configuration; NULL: there is none */
    void *exchange_arg;
};

/* Under the lock, as all below. */
static inline void yk__sock_finish(yk_tr *t, yk_tr_op *op)
{
    op->done = true;
    t->events++;
}

/* The stream has ended. Operations that need it stay: that the peer has died is the host's to say. */
static inline void yk__sock_hang_up(yk__sock_stream *stream)
{
    close(stream->fd);
    stream->fd = -1;
}

/* connect.c: all streams to all ranks. */
yk_status yk__sock_connect(yk_tr *t, const yk_tr_config *config, yk_tr_error *error);

/* send.c */
/* Writes what can be written to this stream. */
yk_status yk__sock_write(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error);
yk_status yk__sock_write_peer(yk_tr *t, uint32_t peer, yk_tr_error *error);
/* A frame about a long message, without payload. */
yk_status yk__sock_say(yk_tr *t, uint32_t peer, yk__sock_kind kind, uint64_t number, yk_tr_error *error);
/* The peer asks for, or refuses, a long message; of one that was given up meanwhile nothing is known. */
void yk__sock_asked(yk_tr *t, uint32_t peer, uint64_t number, bool wanted);
void yk__sock_cancel_send(yk_tr *t, yk_tr_op *op);
/* Something is left that is done for its sender but not with the kernel. */
bool yk__sock_unwritten(const yk_tr *t);

/* receive.c */
/* Reads what is there of this stream. */
yk_status yk__sock_read(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error);
/* A receive that was just posted takes what came before it. */
yk_status yk__sock_adopt(yk_tr *t, yk_tr_op *op, yk_tr_error *error);
void yk__sock_cancel_recv(yk_tr *t, yk_tr_op *op);

#endif
