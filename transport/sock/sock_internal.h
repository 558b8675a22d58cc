/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the sock transport.
 *
 * Messages are frames (transport/match.h). Stream 0 of a pair carries whole short messages, and the frames about long ones. Segments go
 * over the other streams in any order (over stream 0 if it is the only one). On the wire a frame is
 *   head | MAC of the head | payload | MAC of the payload (the last two only with a payload).
 * A segment's payload has one byte more, which the MAC covers: 1 if the payload is the message's, 0 if zeros replace a part of it, as its
 * sender gave it up half-way.
 * The MACs' key is that of the stream and its direction (core/net/hello.h). The MACs of a stream are numbered, so a frame that is changed,
 * repeated, left out or moved fails. A head is used only after its MAC is checked, and a message is done only after the MAC of its last
 * payload is checked. So a segment may be read to its place before. A stream that both ends know never to leave the kernel has no MACs
 * (decision 0032).
 */
#ifndef YOKE_TRANSPORT_SOCK_SOCK_INTERNAL_H
#define YOKE_TRANSPORT_SOCK_SOCK_INTERNAL_H

#include "core/net/mac.h"
#include "transport/base.h"
#include "transport/match.h"

enum {
    YK__SOCK_STREAMS = 4,         /* most streams between two ranks */
    YK__SOCK_SEGMENT = 256 << 10, /* largest payload of a long message's frame, bytes */
    YK__SOCK_HEAD = YK__MATCH_HEAD + YK__MAC_BYTES,
    YK__SOCK_TAIL = 1 + YK__MAC_BYTES, /* a segment's last byte and MAC */
    YK__SOCK_INPUT = YK__MATCH_EAGER + YK__SOCK_HEAD + YK__MAC_BYTES, /* bytes read ahead: a whole short message */
    YK__SOCK_INPUT_SEGMENTS = 4 << 10                                 /* bytes read ahead of a stream with segments only */
};

/* Kinds of frames beside message frames, on each stream. */
typedef enum yk__sock_kind {
    YK__SOCK_BEAT = YK__MATCH_KINDS, /* an empty frame on an idle stream */
    YK__SOCK_BYE                     /* the rank closes: the stream's last frame */
} yk__sock_kind;

typedef struct yk__sock_output {
    uint32_t mac_bytes; /* size of a MAC: YK__MAC_BYTES, or 0 on a stream without MACs */
    uint8_t key[YK__AUTH_BYTES];
    uint64_t number; /* number of the next MAC */
    uint8_t *data;   /* frames, or the rest of one, to write before all others */
    size_t capacity, begin, end;
    /* the segment that is being written */
    bool open;
    yk_tr_op *op; /* NULL if it was given up: zeros replace its bytes */
    uint8_t head[YK__SOCK_HEAD], tail[YK__SOCK_TAIL];
    uint32_t written, bytes; /* written: bytes of head, payload and tail; bytes: length of the payload */
    uint64_t place;
    yk__mac mac;  /* MAC of the written payload */
    bool blocked; /* the socket takes no more for now */
} yk__sock_output;

/* The next part in a stream's input. */
typedef enum yk__sock_state { YK__SOCK_AT_HEAD, YK__SOCK_AT_SHORT, YK__SOCK_AT_SEGMENT, YK__SOCK_AT_TAIL } yk__sock_state;

typedef struct yk__sock_input {
    uint32_t mac_bytes; /* as in the output */
    uint8_t key[YK__AUTH_BYTES];
    uint64_t number; /* number of the next MAC */
    uint8_t *data;
    size_t capacity, begin, end;
    yk__sock_state state;
    yk__match_head head; /* head of the frame whose payload is next */
    /* the segment that is being read */
    uint32_t got;
    yk_tr_op *op; /* its receive; NULL: drop the bytes */
    yk__mac mac;  /* MAC of the received bytes */
} yk__sock_input;

typedef struct yk__sock_stream {
    int fd; /* -1 for this rank itself, or after the end */
    uint32_t peer, number;
    yk__line line; /* counts bytes */
    bool lossy;    /* it lost packets, as of the last check at which it carried data */
    yk__sock_output out;
    yk__sock_input in;
} yk__sock_stream;

typedef struct yk__sock_peer {
    yk__sock_stream stream[YK__SOCK_STREAMS];
    yk__match match;
    bool lost;       /* a stream to it is lost: its operations fail, */
    yk_tr_error why; /* with this error */
} yk__sock_peer;

struct yk_tr {
    yk__tr_base base;
    uint32_t streams;
    yk__sock_peer *peer; /* [ranks] */
    int poll, bell;      /* epoll; an eventfd that wakes threads sleeping in epoll */
    uint32_t sleepers;
    int64_t spin_us; /* spinning before a sleep; 0 if this host has more ranks than processors, as another rank needs this one's */
    yk_status failed; /* a stream is damaged: every call fails with why */
    yk_tr_error why;
};

/* All functions below are called under the lock. */

/* stream.c */
/* Handles the end of a stream; error: its errno, 0 for an end by the peer. Operations on it stay: the host reports a dead peer, and the
 * watch one that lives. */
void yk__sock_hang_up(yk__sock_stream *stream, int error);
/* Installs a new connection in the stream, after its hello: options, addresses, buffer. */
yk_status yk__sock_stream_begin(yk__sock_stream *stream, int fd, yk_tr_error *error);
/* True if the connection loses packets now and then. */
bool yk__sock_loses_packets(const yk__sock_stream *stream);
/* True if segments go over the stream. */
bool yk__sock_carries_segments(const yk_tr *t, const yk__sock_stream *stream);

/* connect.c: connects all streams to all ranks. */
yk_status yk__sock_connect(yk_tr *t, const yk_tr_config *config, yk_tr_error *error);

/* send.c */
/* Writes to this stream until the socket is full. */
yk_status yk__sock_write(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error);
yk_status yk__sock_write_peer(yk_tr *t, uint32_t peer, yk_tr_error *error);
/* Sends a frame about a long message, without payload. */
yk_status yk__sock_say(yk_tr *t, uint32_t peer, uint32_t kind, uint64_t number, yk_tr_error *error);
/* Sends a frame of one of the kinds above. */
yk_status yk__sock_say_on(yk_tr *t, yk__sock_stream *stream, uint32_t kind, yk_tr_error *error);
/* Makes all streams stop reading the bytes of this send. */
void yk__sock_detach_send(yk_tr *t, const yk_tr_op *op);
/* True if the kernel has not yet taken all bytes of completed sends. */
bool yk__sock_unwritten(const yk_tr *t);

/* receive.c */
/* Reads the available bytes of this stream. */
yk_status yk__sock_read(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error);
/* Makes all streams stop writing to this receive, also if the peer sends on. */
void yk__sock_detach_recv(yk_tr *t, uint32_t peer, const yk_tr_op *op);

#endif
