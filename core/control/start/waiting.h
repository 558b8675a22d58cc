/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log line of a process that waits for other ranks at the start of a job. After 5 s it names the missing ranks, the variables that
 * made this process one of several, and the variable to set if it is not. Once per wait.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_CONTROL_START_WAITING_H
#define YOKE_CORE_CONTROL_START_WAITING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/control/start/origin_record.h"

typedef struct yk__waiting {
    const yk__origin *origin; /* origin of this process; NULL for no line */
    int64_t say_at;           /* yk__clock_ms; 0 once the line was logged */
} yk__waiting;

void yk__waiting_begin(yk__waiting *waiting, const yk__origin *origin);
/* True once, when the line is due. */
bool yk__waiting_due(yk__waiting *waiting);
/* Logs "waited 5 s so far for WHAT: .." as a warning; WHAT as in printf. */
void yk__waiting_say(const yk__waiting *waiting, const char *what, ...) __attribute__((format(printf, 2, 3)));

/* A thread that says the line while this one is in a call of a foreign library, which nobody can leave or look into. */
typedef struct yk__waiting_watch {
    yk__waiting *waiting;
    const char *what;
    int over; /* an eventfd, written to at the end; -1: no thread runs, and nothing is said */
    pthread_t thread;
} yk__waiting_watch;
/* what: until yk__waiting_end_watch, which ends the thread. */
void yk__waiting_begin_watch(yk__waiting_watch *watch, yk__waiting *waiting, const char *what);
void yk__waiting_end_watch(yk__waiting_watch *watch);

/* "rank 3", "ranks 1, 2, 5", or the first eight "and 7 more". Zeroed before the first. */
typedef struct yk__rank_names {
    char text[192];
    uint32_t count;
} yk__rank_names;
void yk__rank_names_add(yk__rank_names *names, uint32_t rank);

#endif
