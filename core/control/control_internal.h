/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of a job's control object: a head, then a slot per rank.
 *
 * Readers trust no contents: they check numbers against the values from the inherited socket, and copy text with a bound. Each word has
 * one writer unless its comment names more.
 */
#ifndef YOKE_CORE_CONTROL_CONTROL_INTERNAL_H
#define YOKE_CORE_CONTROL_CONTROL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "core/base/advance.h"
#include "core/control/control.h"
#include "core/net/tcp.h"

#define YK__CONTROL_MAGIC 0x31626f6a656b6f79ull /* "yokejob1" */
#define YK__CONTROL_VERSION 10u
#define YK__CONTROL_NAME 96
#define YK__CONTROL_BEAT_MS 100
#define YK__CONTROL_OBJECTS 2 /* descriptors in the hello: the control object, the memory object */

enum { YK__RANK_ABSENT = 0, YK__RANK_JOINED, YK__RANK_LEFT, YK__RANK_GONE }; /* GONE: ended before it joined */
enum { YK__JOB_RUNNING = 0, YK__JOB_ENDING, YK__JOB_ENDED }; /* the abort word; ENDING: the text is being written */

typedef struct yk__control_slot {
    _Alignas(64) _Atomic uint32_t state; /* written by the rank; GONE by the launcher */
    _Atomic uint32_t beat;               /* incremented every YK__CONTROL_BEAT_MS while the process lives */
    _Atomic int32_t pid;                 /* process that joined */
    _Atomic uint32_t exits;              /* 1 + its exit code, written before it leaves; 0 if unknown */
    _Atomic uint64_t host;               /* written before it joins */
    _Atomic uint64_t thread_space;       /* namespace in which `thread` is a number; written before it */
    _Atomic uint64_t thread_began;       /* its start, in ticks of the system: another thread with this number has another one; before it */
    _Atomic int32_t thread;              /* thread that increments `beat`, by its number in the system; 0 before its first beat */
    _Atomic uint32_t heeds;              /* SIGUSR1 asks it to save and to leave; 0 for a program that does with it as it will */
    _Alignas(64) _Atomic uint32_t calls; /* incremented with each step for other ranks */
    _Atomic uint32_t advance;            /* copy of yk__control_config.advance, at each beat */
    _Atomic uint32_t waits_for;          /* 1 + the rank that it has long waited for; 0 for none */
    char waits_in[44];                   /* operation of that wait; written before waits_for */
    _Atomic uint32_t act, patience_ms;   /* yk__act at the last beat; ms without progress after which it counts as stuck */
    _Alignas(64) _Atomic uint32_t stamp; /* version of `info`; odd while it is being written, 0 before the first write */
    uint8_t info[YK__CONTROL_INFO];
    _Alignas(64) _Atomic uint32_t given, taken; /* exchanges: blobs that it wrote; exchanges whose blobs it read from all ranks */
    uint32_t blob_bytes;                        /* written before `given` */
    _Atomic uint32_t heard;                     /* written by all ranks of the mapping host: messages that they got from it */
    _Atomic uint32_t named;                     /* written by them: 1 + the advance at which a log line named it as busy in its own code */
    uint8_t blob[YK__CONTROL_BLOB];
    _Alignas(64) char name[YK__CONTROL_NAME]; /* written by the launcher, then by the rank before it joins */
} yk__control_slot;

typedef struct yk__control_head {
    uint64_t magic;
    uint32_t version, ranks;
    uint64_t bytes; /* bytes of head and slots */
    uint8_t secret[YK__CONTROL_SECRET];
    char address[YK__TCP_ADDRESS]; /* numeric address of this host in the job's network; "" in a job of one host */
    uint64_t host;    /* number of the mapping host, different on each host */
    uint32_t relayed; /* the job has other hosts: ranks report changes over their sockets (YK__NOTE_CHANGE) */
    _Alignas(64) _Atomic uint32_t abort; /* written by all: the first to change it writes the record below */
    uint32_t abort_rank, abort_status, abort_silent;
    char abort_text[640];
    yk__control_slot slot[];
} yk__control_head;

/* The first message on each rank's socket, with the objects' descriptors, from the launcher or the rank that serves its host. */
typedef struct yk__control_hello {
    uint64_t magic;
    uint32_t version, rank, ranks;
    uint32_t server; /* process at the other end: 0 for a launcher, else 1 + its rank */
    uint64_t bytes;
    uint8_t secret[YK__CONTROL_SECRET];
} yk__control_hello;

/* The notes of a rank to the launcher. */
enum { YK__NOTE_ABORT = 1, YK__NOTE_ERROR, YK__NOTE_LEFT, YK__NOTE_CHANGE };
typedef struct yk__control_note {
    uint32_t kind, status;
    char text[YK_ERROR_TEXT];
} yk__control_note;

/* The reason of the job's end, from a rank to its host's part of yoke launch, which sees exits but not the record. */
typedef struct yk__control_verdict {
    uint32_t rank, status; /* rank at fault; its yk_status, YK_OK of a rank that SIGUSR1 asks to leave */
    char text[YK_ERROR_TEXT];
} yk__control_verdict;

typedef struct yk__control_job yk__control_job; /* control_job.h */
struct yk__control_job {
    yk__control_head *head;
    uint64_t bytes;
    uint32_t ranks, server; /* server: see the hello */
    int object, memory;     /* the control object; the ranks' memory */
    int (*fd)[2];           /* [ranks]: the launcher's end, the rank's end; -1 for none */
};

/* A peer's silence as this rank counts it. A peer that the machine does not run is not lost, and its silence stays below the limit. */
typedef struct yk__control_silence {
    uint32_t beat;
    int64_t ms, asleep_ms; /* asleep_ms: at the end of ms, time in which no look found the peer's beat thread ready to run */
} yk__control_silence;

struct yk__control {
    yk__control_head *head;
    uint64_t bytes;
    uint32_t rank, size;
    uint32_t server; /* see the hello */
    yk__agent *agent; /* this host's agent, if it is in this process; else NULL */
    int fd, memory_fd, job_fd, wake_fd;
    int node_fd; /* socket to yoke launch on this host, or -1 */
    uint32_t liveness_ms, stuck_ms, call_ms;
    yk__standing still; /* owned by the beat thread */
    atomic_bool met;    /* its group has begun: from now on a rank that waits for other ranks shows it in its slot */
    const volatile uint32_t *advance;
    pid_t pid; /* process that joined; a child of it must leave the job alone */
    pthread_t beat;
    bool beating;
    yk__control_silence *silence; /* [size], owned by the beat thread */
    uint64_t thread_space;        /* of this process; 0 if unknown */
    uint32_t exchanges;
    char (*name)[YK__CONTROL_NAME];
    char address[YK__TCP_ADDRESS];
};

/* layout.c */
uint64_t yk__control_bytes(uint32_t ranks); /* bytes of head and slots, in whole pages */
bool yk__control_same_secret(const uint8_t *a, const uint8_t *b);
void yk__control_copy_name(char *to, const char *from); /* bounded, terminated, printable */

/* info.c */
void yk__control_slot_publish(yk__control_slot *slot, const void *info, uint32_t bytes);

/* end.c */
bool yk__control_record_end(yk__control_head *head, uint32_t rank, bool silent, yk_status status, const char *text);
/* Copies the record; false while the job goes on. */
bool yk__control_read_end(const yk__control_head *head, uint32_t ranks, uint32_t *rank, bool *silent, yk_error *err);
/* From a rank: ends the job for the fault of `rank`, and wakes the launcher. */
void yk__control_end_for(yk__control *c, uint32_t rank, bool silent, yk_status status, const char *text);
void yk__control_report_left(const yk__control *c);
void yk__control_report_change(const yk__control *c); /* reports a change that other hosts wait for; no-op in a job of one host */

/* stuck.c: ends the job if this rank, with that patience, stands still, and no rank awaits it. Called by the beat thread. */
void yk__control_look_own(yk__control *c, uint32_t patience_ms);

/* live.c */
yk_status yk__control_beat_start(yk__control *c, yk_error *err);
void yk__control_beat_stop(yk__control *c);

#endif
