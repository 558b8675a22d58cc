/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives over the messages of a transport, for ranks without common memory. Every member sends its data directly to the members
 * that need it; reduce.c computes the results in the order of rank numbers.
 *
 * Records and small data go from each member to each, or in rounds (msg_rounds.h).
 *
 * Ranks of one host read each other's blocks in common memory, so large vectors travel only between hosts (comm_hosts.h). Records and
 * small data go as messages between hosts and within them.
 *
 * A request goes in pieces; two are in progress at once, so that one travels while the other is summed. A piece is a set of sends and
 * receives; the first carries the request's record, which each member compares. Posting piece k requires that pieces before k - 1 are done.
 * Then every member's record is here: each member has begun the request and written its block.
 *
 * Thread rule: the plane's lock guards all state of requests over messages, as the progress thread (progress.c) drives them too.
 */
#ifndef YOKE_CORE_COLL_MESSAGES_MSG_PIECE_H
#define YOKE_CORE_COLL_MESSAGES_MSG_PIECE_H

#include "core/coll/messages/msg_plane.h"

enum { YK__MSG_WINDOW = 2 };

/* Sends and receives of one piece. */
typedef struct yk__msg_piece {
    yk_tr_op **op;     /* [most]; NULL once done */
    uint64_t *bytes;   /* [most]; bytes expected by a receive; UINT64_MAX for a send */
    uint32_t *peer;    /* [most] */
    uint32_t n, open;  /* operations; operations that are not done */
    uint64_t number;   /* number of the piece */
} yk__msg_piece;

/* A message of unexpected length that came before the records, which tell more. */
typedef struct yk__msg_odd {
    uint64_t got, want; /* bytes; equal if there is no such message */
    uint32_t peer;
} yk__msg_odd;

typedef struct yk__msg_sum yk__msg_sum;         /* msg_reduce.h */
typedef struct yk__msg_columns yk__msg_columns; /* msg_columns.h */

/* The state of a request over messages, besides its description. */
typedef struct yk__msg {
    uint64_t pieces, posted, finished;
    uint64_t chunk; /* numbers of each slice that travel at a time */
    uint32_t lag;   /* pieces until a chunk from another host, or from ranks of this host, is passed on; 0 if none is */
    uint8_t notice[2]; /* bytes of notices: [0] received, [1] sent */
    yk__msg_piece piece[YK__MSG_WINDOW];
    uint8_t *record; /* own record and small data, then the records of the members after it, then from the first on; record_bytes each */
    uint64_t record_bytes;
    yk__msg_sum *sum; /* state of a reduce-scatter; else NULL */
    uint16_t *narrow; /* all-gatherv in bf16: [window][peers + 1][chunk], the last for sending; else NULL */
    yk__msg_columns *columns; /* state of an all-reduce by columns; else NULL */
    uint32_t *peer; /* the other members, in the order of rank numbers */
    uint32_t peers, own; /* number of peers; this rank's index among the members */
    uint32_t have; /* complete records, own included, if rounds bring them (msg_rounds.h); else peers + 1 from the start */
    yk__msg_piece round; /* n is 0 if no round is in progress */
    uint64_t slice_bytes; /* bytes of each slice that goes in rounds with the records; 0 if slices go directly */
    uint8_t *slice;       /* [peers + 1][slice_bytes], reduce-scatter in rounds: first the part for the member so far before this one, at
                           * the end the part from the member so far after it; else NULL */
    uint8_t *packet;      /* with slice: what a round sends, then what it receives */
    yk__msg_odd odd;
    bool counted; /* included in the plane's `active` */
    yk_error err; /* error that the progress thread met */
} yk__msg;

/* Numbers of every slice in a piece: enough that a message is worth its overhead. But a line's queue (0.5 MiB at 100 Mbit/s and 50 ms)
 * must hold two pieces for each other host, or packets of several senders to one receiver get lost. */
#define YK__MSG_CHUNK (64ull << 10)      /* with one other host; more hosts divide it, */
#define YK__MSG_CHUNK_LEAST (8ull << 10) /* down to this */

/* The low 16 bits of a message's tag; pieces of data count up from YK__MSG_STEP_DATA. */
enum { YK__MSG_STEP_RECORD = 0, YK__MSG_STEP_DATA = 1, YK__MSG_STEPS = 0x7fff, YK__MSG_STEP_FEED = 0xffff };

/* ---- Functions under the lock ---- */

uint64_t yk__msg_tag(const yk__call *call, uint32_t step);
/* Adds a send or receive to the piece. */
yk_status yk__msg_post(yk__request *request, yk__msg_piece *piece, bool send, uint32_t peer, uint32_t step, const yk_tr_range *range,
                       yk_error *err);
yk_status yk__msg_piece_new(yk__msg_piece *piece, size_t most, yk_error *err);
void yk__msg_piece_free(yk__msg_piece *piece);
/* Notes the finished operations of the piece. */
yk_status yk__msg_piece_test(yk__request *request, yk__msg_piece *piece, yk_error *err);
/* Record and small data of the member with that index. */
uint8_t *yk__msg_record(const yk__request *request, uint32_t member_index);
/* Record of the peer with that index in `peer`. */
uint8_t *yk__msg_peer_record(const yk__request *request, uint32_t peer_index);
bool yk__msg_in_rounds(const yk__msg *m); /* true if records come in rounds */
/* True once rounds have brought all records; always true without rounds. */
bool yk__msg_rounds_done(const yk__msg *m);
/* Fails if a received record is not of this request. */
yk_status yk__msg_check_records(const yk__request *request, yk_error *err);
/* The error for the odd message; needs all records. */
yk_status yk__msg_fail_odd(const yk__request *request, yk_error *err);
uint64_t yk__msg_slice(const yk__request *request, uint32_t owner); /* numbers */
uint64_t yk__msg_longest_slice(const yk__request *request);
/* Count of that rank's numbers in the chunk. */
uint64_t yk__msg_chunk_numbers(const yk__request *request, uint32_t owner, uint64_t chunk);
uint32_t yk__msg_chunk_step(uint64_t chunk);
yk_tr_range yk__msg_buffer_range(const yk__coll_desc *d, uint64_t at, uint64_t n); /* n numbers of this rank's block */
const float *yk__msg_view(const yk__coll_desc *d, uint32_t own, uint32_t rank);    /* a block on this host, from the offset on */

#endif
