/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts --transport: the conformance suite for transports (yoke/transport.h). Each test forks its ranks, which open the transport
 * among themselves; a rank that fails, dies or does not end is one failed test.
 */
#ifndef YOKE_TOOLS_CTS_TR_H
#define YOKE_TOOLS_CTS_TR_H

#include "tools/cts/cts.h"

#include <yoke/transport.h>

enum { CTS_TR_RANKS = 4, CTS_TR_BLOB = 4096 };

/* ---- The ranks' verdicts on the test, in memory shared with the process that started them ------------------------------------ */

/* LATE: something did not come in time, for which another rank may have a better reason. */
typedef enum cts_tr_state { CTS_TR_NOTHING, CTS_TR_WRITING, CTS_TR_FAILED, CTS_TR_LATE, CTS_TR_UNSUPPORTED } cts_tr_state;

typedef struct cts_tr_verdict {
    uint32_t state; /* atomic: cts_tr_state */
    char text[900]; /* once the state is one of the last three */
} cts_tr_verdict;

typedef struct cts_tr_verdicts { /* begins as zeros */
    uint32_t failed; /* atomic: some rank has failed */
    uint32_t unused;
    cts_tr_verdict rank[CTS_TR_RANKS];
} cts_tr_verdicts;

bool cts_tr_verdict_is(const cts_tr_verdicts *verdicts, uint32_t rank, cts_tr_state state);
bool cts_tr_any_failed(const cts_tr_verdicts *verdicts);
void cts_tr_set_failed(cts_tr_verdicts *verdicts);

/* ---- A test -------------------------------------------------------------------------------------------------------------- */

typedef struct cts_tr_meeting cts_tr_meeting; /* state shared by the ranks of a test */

/* A rank of a test. */
typedef struct cts_tr {
    const cts *suite;
    const yk_transport *table;
    yk_tr *tr; /* NULL: not open */
    uint32_t rank, ranks;
    int limit_ms; /* a wait that takes longer has failed */
    cts_tr_meeting *meeting;
    cts_tr_verdicts *verdicts; /* verdicts of all ranks of the test */
    void *shared;
} cts_tr;

typedef enum cts_tr_how {
    CTS_TR_OPEN = 0,   /* the transport is open when the test begins, and is closed after it */
    CTS_TR_CLOSED = 1, /* the test opens and closes it */
    CTS_TR_LOSES = 2,  /* the last but one of the ranks, or rank 1 of two, kills itself */
    CTS_TR_HOSTS = 4   /* each rank counts as on a separate host */
} cts_tr_how;

/* A test returns false where it has failed; why was then said by one of the functions below. */
typedef bool cts_tr_test(cts_tr *t);
void cts_tr_run(cts *c, const char *name, uint32_t ranks, unsigned how, cts_tr_test *test);

/* ---- Within a test ------------------------------------------------------------------------------------------------------- */

/* The first failure of a rank counts. Always false. */
bool cts_tr_fail(cts_tr *t, const char *fmt, ...) YK_PRINTF(2, 3);
/* As cts_tr_fail, for a message that came too late; another rank's verdict counts more. */
bool cts_tr_late(cts_tr *t, const char *fmt, ...) YK_PRINTF(2, 3);
/* The transport lacks the tested feature. Always false. */
bool cts_tr_unsupported(cts_tr *t, const char *fmt, ...) YK_PRINTF(2, 3);
bool cts_tr_ok(cts_tr *t, yk_status status, const yk_tr_error *error, const char *what);
/* The call was refused with that status, and its text is one line that names something. */
bool cts_tr_refused(cts_tr *t, yk_status status, yk_status expected, const yk_tr_error *error, const char *what);
bool cts_tr_open(cts_tr *t);
void cts_tr_close(cts_tr *t);
/* All ranks are here; the transport moves meanwhile. */
bool cts_tr_meet(cts_tr *t);
/* all[r * bytes ..] is rank r's `own`, at most CTS_TR_BLOB. */
bool cts_tr_exchange(cts_tr *t, const void *own, uint32_t bytes, void *all);
/* Waits without the transport, until the rank that was to die has done so. */
bool cts_tr_await_death(cts_tr *t, uint32_t rank);
/* The rank that a test with CTS_TR_LOSES loses. */
uint32_t cts_tr_victim(const cts_tr *t);
_Noreturn void cts_tr_die(cts_tr *t);

yk_tr_op *cts_tr_send(cts_tr *t, uint32_t peer, uint64_t tag, const void *data, uint64_t bytes);
yk_tr_op *cts_tr_recv(cts_tr *t, uint32_t peer, uint64_t tag, void *data, uint64_t bytes);
/* Waits until the operation is done, and releases it. False without an operation, whose failure was reported then. */
bool cts_tr_end(cts_tr *t, yk_tr_op *op, uint64_t bytes);
bool cts_tr_send_whole(cts_tr *t, uint32_t peer, uint64_t tag, const void *data, uint64_t bytes);
bool cts_tr_recv_whole(cts_tr *t, uint32_t peer, uint64_t tag, void *data, uint64_t bytes);
/* True if no message comes for that receive within some time. */
bool cts_tr_nothing(cts_tr *t, yk_tr_op *op);
/* Drives the transport, and yields to other ranks, for ms. */
bool cts_tr_move(cts_tr *t, int ms);

/* Bytes that a number makes. */
void cts_tr_fill(void *data, uint64_t bytes, uint64_t number);
bool cts_tr_same(cts_tr *t, const void *data, uint64_t bytes, uint64_t number, const char *what);

/* ---- Groups -------------------------------------------------------------------------------------------------------------- */

extern const cts_group cts_tr_groups[];
extern const uint32_t cts_n_tr_group;

void cts_tr_group_abi(cts *c);
void cts_tr_group_connect(cts *c);
void cts_tr_group_order(cts *c);
void cts_tr_group_sizes(cts *c);
void cts_tr_group_match(cts *c);
void cts_tr_group_many(cts *c);
void cts_tr_group_wait(cts *c);
void cts_tr_group_threads(cts *c);
void cts_tr_group_cancel(cts *c);
void cts_tr_group_memory(cts *c);
void cts_tr_group_put(cts *c);
void cts_tr_group_arguments(cts *c);
void cts_tr_group_death(cts *c);
void cts_tr_group_close(cts *c);
void cts_tr_group_leak(cts *c);

#endif
