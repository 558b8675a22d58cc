/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives over the messages of a transport, for ranks that have no memory in common. Every member sends what another one needs
 * directly to it; what is computed from it is reduce.c's, in the order of rank numbers.
 *
 * Records and small data go from each member to each, or in rounds (msg_rounds.h).
 *
 * Ranks of one host read each other's blocks in memory that they have in common, so that of large vectors only what another host needs
 * is sent (comm_hosts.h); records and small data go as messages between hosts and within them.
 *
 * A request goes in pieces; two are under way at once, so that one travels while the other is summed. Each piece is some sends and
 * receives; the first carries the record of the request, which is compared. So what is posted with piece k finds pieces before k - 1
 * done, and with the first of them every member's record: the member has begun, and written its block.
 *
 * Thread rule: all state of requests over messages is under the plane's lock, as the progress thread (progress.c) drives them too.
 */
#ifndef YOKE_CORE_COLL_MSG_PIECE_H
#define YOKE_CORE_COLL_MSG_PIECE_H

#include "core/coll/msg_plane.h"

enum { YK__MSG_WINDOW = 2 };

/* Sends and receives of one piece. */
typedef struct yk__msg_piece {
    yk_tr_op **op;     /* [most]; NULL: it is done */
    uint64_t *bytes;   /* [most]; what has to come, of a receive; UINT64_MAX: of a send */
    uint32_t *peer;    /* [most] */
    uint32_t n, open;  /* operations; how many are not done */
    uint64_t number;   /* of the piece */
} yk__msg_piece;

/* A message of another length than was expected, which came before the records that say more. */
typedef struct yk__msg_odd {
    uint64_t got, want; /* bytes; equal: there is none */
    uint32_t peer;
} yk__msg_odd;

typedef struct yk__msg_sum yk__msg_sum;         /* msg_reduce.h */
typedef struct yk__msg_columns yk__msg_columns; /* msg_columns.h */

/* What a request over messages has beyond its description. */
typedef struct yk__msg {
    uint64_t pieces, posted, finished;
    uint64_t chunk; /* numbers of each slice that travel at a time */
    uint32_t lag;   /* pieces after which a chunk that came, or what others of this host wrote, is passed on; 0: nothing is */
    uint8_t notice[2]; /* received; sent */
    yk__msg_piece piece[YK__MSG_WINDOW];
    uint8_t *record; /* own record and small data, then of the members after it and of those from the first on, each record_bytes */
    uint64_t record_bytes;
    yk__msg_sum *sum; /* of a reduce-scatter */
    uint16_t *narrow; /* of an all-gatherv in bf16: [window][peers + 1][chunk], what goes last; NULL: of any other */
    yk__msg_columns *columns; /* of an all-reduce by columns; NULL: it is no such one */
    uint32_t *peer; /* the other members, in the order of rank numbers */
    uint32_t peers, own; /* how many; this rank's index among the members */
    uint32_t have; /* records, own too, that came whole where rounds bring them (msg_rounds.h); else peers + 1 from the start */
    yk__msg_piece round; /* n is 0: none is under way */
    yk__msg_odd odd;
    bool counted; /* in the plane's `active` */
    yk_error err; /* what a progress thread met */
} yk__msg;

/* Numbers of every slice that are in a piece: a rank has two pieces under way with each other host, which a line's queue must hold, or
 * packets of several senders to one are lost (0.5 MiB: of 100 Mbit/s and 50 ms), and a message is worth its overhead. */
#define YK__MSG_CHUNK (64ull << 10)      /* for one other host; a part of it for more, */
#define YK__MSG_CHUNK_LEAST (8ull << 10) /* and not below */

/* The low 16 bits of a message's tag; pieces of data count on from YK__MSG_STEP_DATA. */
enum { YK__MSG_STEP_RECORD = 0, YK__MSG_STEP_DATA = 1, YK__MSG_STEPS = 0x7fff, YK__MSG_STEP_FEED = 0xffff };

/* ---- Under the lock ---- */

uint64_t yk__msg_tag(const yk__call *call, uint32_t step);
/* One more send or receive of the piece. */
yk_status yk__msg_post(yk__request *request, yk__msg_piece *piece, bool send, uint32_t peer, uint32_t step, const yk_tr_range *range,
                       yk_error *err);
yk_status yk__msg_piece_new(yk__msg_piece *piece, size_t most, yk_error *err);
void yk__msg_piece_free(yk__msg_piece *piece);
/* Notes which of its operations are done. */
yk_status yk__msg_piece_test(yk__request *request, yk__msg_piece *piece, yk_error *err);
/* Record and small data of the member with that index. */
uint8_t *yk__msg_record(const yk__request *request, uint32_t member_index);
/* Of the other member with that index in `peer`. */
uint8_t *yk__msg_peer_record(const yk__request *request, uint32_t peer_index);
bool yk__msg_in_rounds(const yk__msg *m); /* records come in rounds */
/* All records are here, where rounds bring them. */
bool yk__msg_has_records(const yk__msg *m);
/* An error when a member's record that is here is not that of this request. */
yk_status yk__msg_check_records(const yk__request *request, yk_error *err);
/* The error of the odd message, with all records. */
yk_status yk__msg_fail_odd(const yk__request *request, yk_error *err);
uint64_t yk__msg_slice(const yk__request *request, uint32_t owner); /* numbers */
uint64_t yk__msg_longest_slice(const yk__request *request);
/* How many numbers of that rank's slice are in the chunk. */
uint64_t yk__msg_chunk_numbers(const yk__request *request, uint32_t owner, uint64_t chunk);
uint32_t yk__msg_chunk_step(uint64_t chunk);
yk_tr_range yk__msg_buffer_range(const yk__coll_desc *d, uint64_t at, uint64_t n); /* numbers of the own block */
const float *yk__msg_view(const yk__coll_desc *d, uint32_t own, uint32_t rank);    /* a block of this host, from the offset on */

#endif
