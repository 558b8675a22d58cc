/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks of a transport as threads of one process, which meet in open's exchange; their log goes to a file for the test. One meeting
 * at a time.
 */
#ifndef YOKE_TESTS_SUPPORT_MEETING_H
#define YOKE_TESTS_SUPPORT_MEETING_H

#include <pthread.h>
#include <stdbool.h>

#include <yoke/transport.h>

enum { MEETING_RANKS = 2, MEETING_BLOB = 4096, MEETING_MS = 20000 };

typedef struct meeting_member {
    uint32_t rank;
    const char *address; /* address of its configuration */
    yk_tr *tr;
    yk_tr_error error;
    yk_status s; /* status of open */
} meeting_member;

typedef struct meeting {
    const yk_transport *table;
    meeting_member member[MEETING_RANKS];
    uint64_t host[MEETING_RANKS];
    uint8_t blob[MEETING_RANKS][MEETING_BLOB]; /* data of the exchange */
    uint32_t here;                             /* ranks that have exchanged */
    void (*speak)(uint32_t rank, uint8_t *own); /* changes what a rank says of itself */
    void (*met)(uint32_t rank);                 /* called for a rank before it leaves the exchange */
    bool ended[MEETING_RANKS];                  /* result of check */
    yk_tr_error lost[MEETING_RANKS];            /* lost connection that a rank was told of; under the lock */

    /* meeting.c's own */
    pthread_mutex_t lock;
    pthread_cond_t all_here;
    int saved_stderr;
    char log_path[40];
} meeting;

extern meeting meet;
extern const uint8_t meeting_secret[32];

/* Before and after each case. */
void meeting_begin(const yk_transport *table);
void meeting_end(void);

void meeting_open(uint32_t rank);
void meeting_open_both(void);
/* .. and asserts that it went well. */
void meeting_assert_open(void);
/* Both ranks move what can be moved. */
void meeting_move(void);
/* A message from that rank to the other, until both are done with it. */
void meeting_carry(uint32_t from, const void *data, void *got, uint64_t bytes);
/* A message each way arrives. */
void meeting_assert_unharmed(void);
/* All TCP connections of this process from now on: nothing that comes is received, or they are shut down. */
void meeting_deafen(void);
void meeting_cut(void);
/* The rank's report of a lost connection within ms. */
yk_tr_error meeting_lost(uint32_t rank, int64_t ms);
void meeting_close(uint32_t rank);
/* Lines of the log with that text in them. */
int meeting_logged(const char *text);

#endif
