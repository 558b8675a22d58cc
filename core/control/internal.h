/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in the control object of a job: a head, then a slot per rank.
 *
 * Nothing read from it is trusted: numbers are checked against what came over the inherited socket, text is copied
 * with a bound. Each word has one writer unless said otherwise.
 */
#ifndef YOKE_CORE_CONTROL_INTERNAL_H
#define YOKE_CORE_CONTROL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "core/base/advance.h"
#include "core/control/control.h"
#include "core/net/tcp.h"

#define YK__CONTROL_MAGIC 0x31626f6a656b6f79ull /* "yokejob1" */
#define YK__CONTROL_VERSION 7u
#define YK__CONTROL_NAME 96
#define YK__CONTROL_BEAT_MS 100
#define YK__CONTROL_OBJECTS 2 /* descriptors that come with the hello: the control object, the memory object */

enum { YK__RANK_ABSENT = 0, YK__RANK_JOINED, YK__RANK_LEFT, YK__RANK_GONE }; /* GONE: ended before it joined */
enum { YK__JOB_RUNNING = 0, YK__JOB_ENDING, YK__JOB_ENDED }; /* the abort word; ENDING: the text is being written */

typedef struct yk__control_slot {
    _Alignas(64) _Atomic uint32_t state; /* by the rank; GONE by the launcher */
    _Atomic uint32_t beat;               /* grows every YK__CONTROL_BEAT_MS while the process lives */
    _Atomic int32_t pid;                 /* of the process that joined */
    _Atomic uint32_t exits;              /* 1 + the code with which it ends, written before it leaves; 0: not known */
    _Atomic uint64_t host;               /* written before it joins */
    _Alignas(64) _Atomic uint32_t calls; /* grows with what this rank does for others */
    _Atomic uint32_t advance;            /* yk__control_config.advance, as of the last beat */
    _Atomic uint32_t waits_for;          /* 1 + the rank it has waited for for some time; 0: none */
    char waits_in[44];                   /* in which operation; written before waits_for */
    _Atomic uint32_t act, patience_ms;   /* yk__act, as of the last beat; after how long without a move it is to be taken for stuck */
    _Alignas(64) _Atomic uint32_t stamp; /* of `info`; odd while it is being written, 0 before */
    uint8_t info[YK__CONTROL_INFO];
    _Alignas(64) _Atomic uint32_t given, taken; /* exchanges: blobs written; of all ranks read */
    uint32_t blob_bytes;                        /* written before `given` */
    _Atomic uint32_t heard;                     /* by all ranks of the host that maps this: messages that came from it */
    _Atomic uint32_t named;                     /* by them: 1 + the advance at which one has said that it is in its own code */
    uint8_t blob[YK__CONTROL_BLOB];
    _Alignas(64) char name[YK__CONTROL_NAME]; /* by the launcher, then by the rank before it joins */
} yk__control_slot;

typedef struct yk__control_head {
    uint64_t magic;
    uint32_t version, ranks;
    uint64_t bytes; /* of head and slots */
    uint8_t secret[YK__CONTROL_SECRET];
    char address[YK__TCP_ADDRESS]; /* numeric, of this host in the job's network; "": there are no other hosts */
    uint64_t host;    /* a number that no other host's object has; of who maps this one */
    uint32_t relayed; /* there are other hosts: a change is to be reported over the rank's socket (YK__NOTE_CHANGE) */
    _Alignas(64) _Atomic uint32_t abort; /* all: the first to change it writes the record below */
    uint32_t abort_rank, abort_status, abort_silent;
    char abort_text[640];
    yk__control_slot slot[];
} yk__control_head;

/* What the launcher, or the rank that serves its host, sends first on each rank's socket, with the objects' descriptors. */
typedef struct yk__control_hello {
    uint64_t magic;
    uint32_t version, rank, ranks;
    uint32_t server; /* who holds the other end: 0 a launcher, else 1 + that rank */
    uint64_t bytes;
    uint8_t secret[YK__CONTROL_SECRET];
} yk__control_hello;

/* What a rank may send to the launcher. */
enum { YK__NOTE_ABORT = 1, YK__NOTE_ERROR, YK__NOTE_LEFT, YK__NOTE_CHANGE };
typedef struct yk__control_note {
    uint32_t kind, status;
    char text[YK_ERROR_TEXT];
} yk__control_note;

/* What a rank sends to its host's part of yoke launch, which sees exits and not the record: what has ended the job. */
typedef struct yk__control_verdict {
    uint32_t rank, status; /* who is at fault, and of what */
    char text[YK_ERROR_TEXT];
} yk__control_verdict;

typedef struct yk__control_job yk__control_job; /* job.h */
struct yk__control_job {
    yk__control_head *head;
    uint64_t bytes;
    uint32_t ranks, server; /* server: as in the hello */
    int object, memory;     /* the control object, the ranks' memory */
    int (*fd)[2];           /* [ranks]: the launcher's end, the rank's end; -1: none */
};

/* How long a peer has been silent, as this rank counts it. */
typedef struct yk__control_silence {
    uint32_t beat;
    int64_t ms;
} yk__control_silence;

/* How long nothing has moved in what this rank does, and the longest time that ended, by kind. */
typedef struct yk__control_still {
    yk__act act;
    uint32_t calls, advance;
    uint64_t ms, used_ms, longest_ms[YK__ACTS]; /* used_ms: of ms, processor time */
    int64_t cpu_ms; /* processor time of the process at the last look */
} yk__control_still;

struct yk__control {
    yk__control_head *head;
    uint64_t bytes;
    uint32_t rank, size;
    uint32_t server; /* as in the hello */
    yk__agent *agent; /* of this host, in this process; NULL: there is none, or it is another's */
    int fd, memory_fd, job_fd, wake_fd;
    int node_fd; /* of yoke launch on this host, or -1 */
    uint32_t liveness_ms, stuck_ms, call_ms;
    yk__control_still still; /* the beat thread's */
    const volatile uint32_t *advance;
    pid_t pid; /* of the process that joined: a child of it leaves the job alone */
    pthread_t beat;
    bool beating;
    yk__control_silence *silence; /* [size], the beat thread's */
    uint32_t exchanges;
    char (*name)[YK__CONTROL_NAME];
    char address[YK__TCP_ADDRESS];
};

/* layout.c */
uint64_t yk__control_bytes(uint32_t ranks); /* of head and slots, whole pages */
bool yk__control_same_secret(const uint8_t *a, const uint8_t *b);
void yk__control_copy_name(char *to, const char *from); /* bounded, ended, printable */

/* info.c */
void yk__control_slot_publish(yk__control_slot *slot, const void *info, uint32_t bytes);

/* end.c */
bool yk__control_record_end(yk__control_head *head, uint32_t rank, bool silent, yk_status status, const char *text);
/* Copies the record; false when the job is not ending. */
bool yk__control_read_end(const yk__control_head *head, uint32_t ranks, uint32_t *rank, bool *silent, yk_error *err);
/* From a rank: ends the job for the fault of `rank` and wakes the launcher. */
void yk__control_end_for(yk__control *c, uint32_t rank, bool silent, yk_status status, const char *text);
void yk__control_report_left(const yk__control *c);
void yk__control_report_change(const yk__control *c); /* what other hosts wait for; nothing where there are none */

/* live.c */
yk_status yk__control_beat_start(yk__control *c, yk_error *err);
void yk__control_beat_stop(yk__control *c);

#endif
