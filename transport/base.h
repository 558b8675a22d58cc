/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common start of every transport over messages, and the members of yk_transport that follow from it. A transport's struct yk_tr has
 * a yk__tr_base as its first member and moves the bytes by its own functions (yk__tr_calls).
 */
#ifndef YOKE_TRANSPORT_BASE_H
#define YOKE_TRANSPORT_BASE_H

#include <pthread.h>

#include "transport/transport_op.h"
#include "transport/transport_watch.h"

/* All functions except progress are called under the lock. */
typedef struct yk__tr_calls {
    size_t op_bytes; /* size of an operation: sizeof(yk_tr_op), or of a struct that begins with it */
    bool (*reaches)(const yk_tr *t, uint32_t peer); /* true for an existing rank other than this one */
    /* Begins a send or receive (op->is_send). give_up releases one that fails. */
    yk_status (*begin)(yk_tr *t, yk_tr_op *op, yk_tr_error *error);
    yk_status (*move)(yk_tr *t, yk_tr_error *error); /* moves bytes without waiting */
    void (*give_up)(yk_tr *t, yk_tr_op *op);         /* frees it */
    yk_status (*progress)(yk_tr *t, int timeout_ms, uint64_t *events, yk_tr_error *error); /* as in yk_transport */
    /* Moves bytes, checks each line (transport_watch.h), and fails the operations of a peer with a lost line. Returns that peer, with the
     * error of its operations; UINT32_MAX if absent. NULL: nothing is watched. */
    uint32_t (*watch)(yk_tr *t, int64_t step_ms, yk_tr_error *why);
} yk__tr_calls;

typedef struct yk__tr_base {
    const yk__tr_calls *calls;
    uint32_t rank, ranks;
    uint64_t *host;       /* [ranks] */
    pthread_mutex_t lock; /* protects all members that change after open */
    uint64_t events;      /* number of completed operations */
    /* from the configuration; NULL if absent */
    yk_status (*check)(void *exchange_arg, yk_tr_error *error);
    void (*lost)(void *exchange_arg, uint32_t peer, const yk_tr_error *why);
    void *exchange_arg;
    pthread_t watch; /* transport_watch.c owns this member and the next ones */
    pthread_cond_t watch_wakes;
    bool watched, watch_begins, watch_stops;
    int64_t silent_ms;
    yk__thread_id watch_thread;
} yk__tr_base;

/* Makes a transport's struct of `bytes` bytes, zeroed behind its base. */
yk_status yk__tr_new(size_t bytes, const yk__tr_calls *calls, const yk_tr_config *config, yk_tr **t, yk_tr_error *error);
/* Frees it, with its base. */
void yk__tr_free(yk_tr *t);

/* Fails when the job has ended; for loops that wait for other ranks. */
yk_status yk__tr_check(const yk_tr *t, yk_tr_error *error);
/* The address to listen on, from the configuration; NULL if all ranks run on one host. Fails if several hosts run and it is absent. */
yk_status yk__tr_address(const yk_tr_config *config, const char **address, yk_tr_error *error);

/* Members of yk_transport. */
yk_status yk__tr_peer(const yk_tr *t, uint32_t peer, yk_tr_peer *info, yk_tr_error *error);
yk_status yk__tr_send(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **op, yk_tr_error *error);
yk_status yk__tr_recv(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **op, yk_tr_error *error);
yk_status yk__tr_test(yk_tr *t, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error);
yk_status yk__tr_wait_any(yk_tr *t, yk_tr_op *const *op, uint32_t n, int timeout_ms, uint32_t *index, yk_tr_error *error);
void yk__tr_cancel(yk_tr *t, yk_tr_op *op);
/* Members for a transport that registers only host memory, has no extension, and takes no shared memory. */
yk_status yk__tr_mem_register(yk_tr *t, const yk_tr_mem_source *source, yk_tr_mem **mem, yk_tr_error *error);
void yk__tr_mem_release(yk_tr *t, yk_tr_mem *mem);
const void *yk__tr_checked(const char *name); /* YK_TR_EXT_CHECKED alone */
const void *yk__tr_no_extension(const char *name);
uint64_t yk__tr_no_shared_bytes(uint32_t ranks);

/* The common members of a table; a transport lists its own behind them. */
#define YK__TR_TABLE \
    .size = sizeof(yk_transport), .major = YK_TRANSPORT_MAJOR, .minor = YK_TRANSPORT_MINOR, .mem_register = yk__tr_mem_register, \
    .mem_release = yk__tr_mem_release, .send = yk__tr_send, .recv = yk__tr_recv, .test = yk__tr_test, .wait_any = yk__tr_wait_any, \
    .cancel = yk__tr_cancel

#endif
