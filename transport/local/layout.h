/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in the shared object of a job: a head with one slot per rank, then a message ring for each ordered pair
 * of ranks, then the shared blocks in the order they were asked for.
 *
 * Nothing read from it is trusted: numbers are checked against what came over the inherited socket, text is copied
 * with a bound. Each word has one writer unless said otherwise.
 */
#ifndef YOKE_TRANSPORT_LOCAL_LAYOUT_H
#define YOKE_TRANSPORT_LOCAL_LAYOUT_H

#include <pthread.h>
#include <stdatomic.h>

#include "transport/local/local.h"

#define YK_LOCAL_MAGIC 0x31626f6a656b6f79ull /* "yokejob1" */
#define YK_LOCAL_VERSION 2u
#define YK_LOCAL_SECRET 32
#define YK_LOCAL_NAME 96
#define YK_LOCAL_PAGE 4096u
#define YK_LOCAL_BEAT_MS 100

/* Own counters beside the public ones. */
enum {
    YK_LOCAL_FLAG_BLOCK = YK_TR_FLAGS, /* shared blocks asked for */
    YK_LOCAL_FLAG_MAPPED,              /* shared blocks mapped */
    YK_LOCAL_FLAG_RELEASED,            /* shared blocks released */
    YK_LOCAL_FLAG_RING,                /* changes this rank made to a ring: what its peers sleep on */
    YK_LOCAL_FLAGS
};

enum { YK_LOCAL_ABSENT = 0, YK_LOCAL_JOINED, YK_LOCAL_LEFT, YK_LOCAL_GONE }; /* GONE: ended before it joined */
enum { YK_LOCAL_RUNNING = 0, YK_LOCAL_ENDING, YK_LOCAL_ENDED }; /* the abort word; ENDING: the text is being written */

typedef struct yk__local_slot {
    _Alignas(64) _Atomic uint32_t state; /* by the rank; GONE by the launcher */
    _Atomic uint32_t beat;     /* grows every YK_LOCAL_BEAT_MS while the process lives */
    _Atomic uint32_t sleepers; /* ranks asleep on one of this slot's flags; written by all */
    _Atomic uint64_t block_bytes;
    _Atomic int32_t pid; /* of the process that joined */
    _Alignas(64) _Atomic uint32_t calls; /* grows with this rank's calls of the transport */
    _Atomic uint32_t advance;            /* yk_tr_config.advance, as of the last beat */
    _Atomic uint32_t waits_for;          /* 1 + the rank it has waited for for some time; 0: none */
    char waits_in[44];                   /* in which call; written before waits_for */
    _Alignas(64) _Atomic uint32_t flag[YK_LOCAL_FLAGS];
    _Alignas(64) char name[YK_LOCAL_NAME]; /* by the launcher, then by the rank before it joins */
} yk__local_slot;

typedef struct yk__local_head {
    uint64_t magic;
    uint32_t version, ranks;
    uint64_t bytes; /* of head, slots and rings */
    uint8_t secret[YK_LOCAL_SECRET];
    _Alignas(64) _Atomic uint32_t abort; /* all: the first to change it writes the record below */
    uint32_t abort_rank, abort_status, abort_silent;
    char abort_text[640];
    yk__local_slot slot[];
} yk__local_head;

/* One direction between two ranks: bytes written and read so far, modulo 2^32. */
typedef struct yk__local_ring {
    _Alignas(64) _Atomic uint32_t written; /* by the sender */
    _Alignas(64) _Atomic uint32_t read;    /* by the receiver */
    _Alignas(64) uint8_t data[];
} yk__local_ring;

/* What the launcher sends first on each rank's socket, with the shared object's descriptor. */
typedef struct yk__local_hello {
    uint64_t magic;
    uint32_t version, rank, ranks, unused;
    uint64_t bytes;
    uint8_t secret[YK_LOCAL_SECRET];
} yk__local_hello;

/* What a rank may send to the launcher. */
enum { YK_LOCAL_NOTE_ABORT = 1, YK_LOCAL_NOTE_ERROR, YK_LOCAL_NOTE_LEFT };
typedef struct yk__local_note {
    uint32_t kind, status;
    char text[YK_ERROR_TEXT];
} yk__local_note;

typedef struct yk__local_block {
    void *mem;
    uint64_t bytes, offset; /* offset: in the object */
} yk__local_block;

/* A place in the object that was released. */
typedef struct yk__local_gap {
    uint64_t offset, bytes;
} yk__local_gap;

/* What a rank sees, while it waits, of the one that holds it up; zero at first. */
typedef struct yk__local_idle {
    uint32_t rank, calls, advance; /* rank: 1 + its number */
    int64_t last, ns;              /* of the last look; for so long has it done nothing */
} yk__local_idle;

struct yk_tr_op {
    yk_tr_op *next;
    uint64_t tag, bytes, moved; /* bytes: of the message, or of the room */
    uint8_t *data;
    uint64_t total; /* of a receive: the message's length, once matched */
    uint32_t peer;
    bool is_send, begun, done;
    bool orphan; /* a send that was given up after its first frame: nobody waits for it */
    yk_status status;
};

typedef struct yk__local_peer yk__local_peer; /* message.c */

struct yk_tr {
    yk__local_head *head;
    uint64_t head_bytes;
    uint32_t rank, ranks, ring_bytes; /* ring_bytes: of data in one ring; a power of two */
    int memfd, job_fd, wake_fd;
    uint32_t liveness_ms, stuck_ms;
    const volatile uint32_t *advance;
    pid_t pid; /* of the process that joined: a child of it leaves the group alone */
    yk_status (*watch)(void *arg, uint32_t peer, yk_tr_error *why);
    void *watch_arg;
    yk__local_idle word_idle; /* of the sleep on a word, from one call to the next */
    uint32_t word_seen;
    pthread_t beat;
    bool beating;
    yk__local_block *block;
    size_t blocks, block_cap;
    uint32_t made, released; /* shared blocks so far */
    yk__local_gap *gap;
    size_t gaps, gap_cap;
    uint64_t end; /* of the shared object, as far as agreed on */
    char (*name)[YK_LOCAL_NAME];
    yk__local_peer *peer; /* messages under way; NULL until the first */
};

/* layout.c */
uint32_t yk__local_ring_bytes(uint32_t ranks);
uint64_t yk__local_head_bytes(uint32_t ranks); /* head and slots, whole pages */
uint64_t yk__local_bytes(uint32_t ranks);      /* with the rings */
yk__local_ring *yk__local_ring_at(yk__local_head *head, uint32_t ranks, uint32_t from, uint32_t to);
bool yk__local_same_secret(const uint8_t *a, const uint8_t *b);
void yk__local_name_copy(char *to, const char *from); /* bounded, ended, printable */

/* job.c */
/* From a rank: ends the job for the fault of `rank` and wakes the launcher. */
void yk__local_end_for(yk_tr *t, uint32_t rank, bool silent, yk_status status, const char *words);
void yk__local_report_left(const yk_tr *t);

/* stuck.c */
/* A look during a wait for `peer` that lasts: whether the rank that holds it up does anything. Fails, and ends the job, when
 * it has done nothing for t->stuck_ms. */
yk_status yk__local_look_idle(yk_tr *t, yk__local_idle *idle, uint32_t peer, const char *what, yk_tr_error *why);
void yk__local_waited(yk_tr *t, const yk__local_idle *idle); /* the wait is over */

/* live.c */
yk_status yk__local_beat_start(yk_tr *t, yk_tr_error *why);
void yk__local_beat_stop(yk_tr *t);
bool yk__local_end(yk__local_head *head, uint32_t rank, bool silent, yk_status status, const char *words);
/* Copies the record; false when the job is not ending. */
bool yk__local_ended(const yk__local_head *head, uint32_t ranks, uint32_t *rank, bool *silent, yk_error *err);
yk_status yk__local_end_error(const yk_tr *t, yk_tr_error *why); /* YK_OK when the job is not ending */
/* local.c */
yk_status yk__local_fail(yk_tr_error *why, yk_status status, const char *fmt, ...) YK_PRINTF(3, 4);
void yk__local_flag_set(yk_tr *t, uint32_t flag, uint32_t value);
yk_status yk__local_flag_wait(yk_tr *t, uint32_t peer, uint32_t flag, uint32_t value, const char *what,
                              yk_tr_error *why);
/* Sleeps while the peer's flag is `seen`, at most ns. */
void yk__local_sleep(yk_tr *t, uint32_t peer, uint32_t flag, uint32_t seen, int64_t ns);
int64_t yk__local_now(void); /* monotonic, ns */

/* block.c */
uint64_t yk__local_block_place(yk_tr *t, uint64_t bytes);
void yk__local_release(yk_tr *t, void *mem);

/* word.c */
yk_status yk__local_word_sleep(yk_tr *t, uint32_t peer, const uint32_t *word, uint32_t seen, uint32_t ms, const char *what,
                               yk_tr_error *why);
void yk__local_word_wake(yk_tr *t, const uint32_t *word);

/* message.c */
yk_status yk__local_send(yk_tr *t, uint32_t peer, uint64_t tag, const void *data, uint64_t bytes, yk_tr_op **op,
                         yk_tr_error *why);
yk_status yk__local_recv(yk_tr *t, uint32_t peer, uint64_t tag, void *data, uint64_t room, yk_tr_op **op,
                         yk_tr_error *why);
yk_status yk__local_progress(yk_tr *t, yk_tr_error *why);
yk_status yk__local_wait(yk_tr *t, yk_tr_op *op, int timeout_ms, uint64_t *bytes, yk_tr_error *why);
void yk__local_cancel(yk_tr *t, yk_tr_op *op);
void yk__local_messages_free(yk_tr *t);

#endif
