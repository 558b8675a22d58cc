/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the sock transport share.
 *
 * Messages are frames (transport/match.h). Stream 0 of a pair carries short messages, whole, and the talk about long ones; their
 * segments go over the other streams (over stream 0 where there is one alone), in any order. On the wire a frame is
 *   head | MAC of the head | payload | MAC of the payload    (the last two where there is payload)
 * under the key of the stream and its direction (core/net/hello.h). MACs are numbered one after the other in each stream, so that a
 * frame that is changed, repeated, left out or in another place fails. Nothing of a head is believed before its MAC was looked at, and no
 * message is done before that of its last payload was; so a segment may be read to its place meanwhile. A stream that both ends found
 * not to leave the kernel has no MACs (decision 0032).
 */
#ifndef YOKE_TRANSPORT_SOCK_INTERNAL_H
#define YOKE_TRANSPORT_SOCK_INTERNAL_H

#include "core/net/mac.h"
#include "transport/base.h"
#include "transport/match.h"

enum {
    YK__SOCK_STREAMS = 4,         /* between two ranks, at most */
    YK__SOCK_SEGMENT = 256 << 10, /* bytes of a long message in one frame, at most */
    YK__SOCK_HEAD = YK__MATCH_HEAD + YK__MAC_BYTES,
    YK__SOCK_INPUT = YK__MATCH_EAGER + YK__SOCK_HEAD + YK__MAC_BYTES, /* bytes read ahead: a short message, whole */
    YK__SOCK_INPUT_SEGMENTS = 4 << 10                                 /* of a stream for segments alone */
};

/* Kinds of frames beside those of messages, on each stream. */
typedef enum yk__sock_kind {
    YK__SOCK_BEAT = YK__MATCH_KINDS, /* nothing, of a stream on which there was nothing to say */
    YK__SOCK_BYE                     /* the rank closes: the stream's last frame */
} yk__sock_kind;

typedef struct yk__sock_output {
    uint32_t mac_bytes; /* of each MAC: YK__MAC_BYTES, or 0 where the stream has none */
    uint8_t key[YK__AUTH_BYTES];
    uint64_t number; /* of the next MAC */
    uint8_t *data;   /* frames, or the rest of one, to be written before all others */
    size_t capacity, begin, end;
    /* the segment that is being written */
    bool open;
    yk_tr_op *op; /* NULL: it was given up, zeros take the place of its bytes */
    uint8_t head[YK__SOCK_HEAD], tail[YK__MAC_BYTES];
    uint32_t written, bytes; /* written: of head, payload and tail; bytes: of payload */
    uint64_t place;
    yk__mac mac;  /* of the payload that was written */
    bool blocked; /* the socket takes no more for now */
} yk__sock_output;

/* What a stream's next bytes are. */
typedef enum yk__sock_state { YK__SOCK_AT_HEAD, YK__SOCK_AT_SHORT, YK__SOCK_AT_SEGMENT, YK__SOCK_AT_TAIL } yk__sock_state;

typedef struct yk__sock_input {
    uint32_t mac_bytes; /* as of the output */
    uint8_t key[YK__AUTH_BYTES];
    uint64_t number; /* of the next MAC */
    uint8_t *data;
    size_t capacity, begin, end;
    yk__sock_state state;
    yk__match_head head; /* of the frame whose payload is next */
    /* the segment that is being read */
    uint32_t got;
    yk_tr_op *op; /* where it goes; NULL: nowhere */
    yk__mac mac;  /* of what was got */
} yk__sock_input;

typedef struct yk__sock_stream {
    int fd; /* -1: this rank itself, or it has ended */
    uint32_t peer, number;
    yk__line line; /* counts bytes */
    bool lossy;    /* packets of it were lost, as of when it last carried something */
    yk__sock_output out;
    yk__sock_input in;
} yk__sock_stream;

typedef struct yk__sock_peer {
    yk__sock_stream stream[YK__SOCK_STREAMS];
    yk__match match;
    bool lost;       /* a stream to it is: its operations fail, */
    yk_tr_error why; /* with this */
} yk__sock_peer;

struct yk_tr {
    yk__tr_base base;
    uint32_t streams;
    yk__sock_peer *peer; /* [ranks] */
    int poll, bell;      /* epoll; an eventfd that wakes who sleeps in it */
    uint32_t sleepers;
    yk_status failed; /* a stream is damaged: every call says why */
    yk_tr_error why;
};

/* Under the lock, as all below. */

/* stream.c */
/* The stream has ended; error: why (errno), 0: by the other end. Operations that need it stay: the host says that a peer has died, and the
 * watch that it lives. */
void yk__sock_hang_up(yk__sock_stream *stream, int error);
/* A new connection for the stream, after its hello: its options, addresses, buffer. */
yk_status yk__sock_stream_begin(yk__sock_stream *stream, int fd, yk_tr_error *error);
/* Whether its packets get lost now and then. */
bool yk__sock_loses_packets(const yk__sock_stream *stream);
/* Whether segments go over it. */
bool yk__sock_carries_segments(const yk_tr *t, const yk__sock_stream *stream);

/* connect.c: all streams to all ranks. */
yk_status yk__sock_connect(yk_tr *t, const yk_tr_config *config, yk_tr_error *error);

/* send.c */
/* Writes what can be written to this stream. */
yk_status yk__sock_write(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error);
yk_status yk__sock_write_peer(yk_tr *t, uint32_t peer, yk_tr_error *error);
/* A frame about a long message, without payload. */
yk_status yk__sock_say(yk_tr *t, uint32_t peer, uint32_t kind, uint64_t number, yk_tr_error *error);
/* A frame of one of the kinds above. */
yk_status yk__sock_say_on(yk_tr *t, yk__sock_stream *stream, uint32_t kind, yk_tr_error *error);
/* No stream reads the bytes of this send any more. */
void yk__sock_detach_send(yk_tr *t, const yk_tr_op *op);
/* Something is left that is done for its sender but not with the kernel. */
bool yk__sock_unwritten(const yk_tr *t);

/* receive.c */
/* Reads what is there of this stream. */
yk_status yk__sock_read(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error);
/* No stream writes to this receive any more, whatever the peer goes on to send. */
void yk__sock_detach_recv(yk_tr *t, uint32_t peer, const yk_tr_op *op);

#endif
