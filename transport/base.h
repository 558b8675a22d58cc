/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every transport over messages begins with, and the members of yk_transport that follow from it. A transport's struct yk_tr has a
 * yk__tr_base as its first member; what moves the bytes is its own (yk__tr_calls).
 */
#ifndef YOKE_TRANSPORT_BASE_H
#define YOKE_TRANSPORT_BASE_H

#include <pthread.h>

#include "transport/op.h"
#include "transport/watch.h"

/* All but progress are called under the lock. */
typedef struct yk__tr_calls {
    size_t op_bytes; /* of an operation: sizeof(yk_tr_op) where it is nothing more */
    bool (*reaches)(const yk_tr *t, uint32_t peer); /* a rank that is, and is not this one */
    /* A send or receive (op->is_send) begins. One that fails is left to give_up. */
    yk_status (*begin)(yk_tr *t, yk_tr_op *op, yk_tr_error *error);
    yk_status (*move)(yk_tr *t, yk_tr_error *error); /* what can be moved without waiting */
    void (*give_up)(yk_tr *t, yk_tr_op *op);         /* frees it */
    yk_status (*progress)(yk_tr *t, int timeout_ms, uint64_t *events, yk_tr_error *error); /* as in yk_transport */
    /* Moves what can be moved, looks at each line (watch.h), and fails the operations of a peer whose line is lost: that one, with the
     * error of its operations; UINT32_MAX: none is. NULL: nothing is watched. */
    uint32_t (*watch)(yk_tr *t, int64_t step_ms, yk_tr_error *why);
} yk__tr_calls;

typedef struct yk__tr_base {
    const yk__tr_calls *calls;
    uint32_t rank, ranks;
    uint64_t *host;       /* [ranks] */
    pthread_mutex_t lock; /* of all that changes after open */
    uint64_t events;      /* operations that were done */
    /* of the configuration; NULL: there is none */
    yk_status (*check)(void *exchange_arg, yk_tr_error *error);
    void (*lost)(void *exchange_arg, uint32_t peer, const yk_tr_error *why);
    void *exchange_arg;
    pthread_t watch; /* watch.c's, as what follows */
    pthread_cond_t watch_wakes;
    bool watched, watch_stops;
    int64_t silent_ms;
} yk__tr_base;

/* A transport's struct of so many bytes, zeroed behind its base. */
yk_status yk__tr_new(size_t bytes, const yk__tr_calls *calls, const yk_tr_config *config, yk_tr **t, yk_tr_error *error);
/* Frees it, with its base. */
void yk__tr_free(yk_tr *t);

/* Whether the job goes on; for those that wait for other ranks. */
yk_status yk__tr_check(const yk_tr *t, yk_tr_error *error);
/* Where to listen: the configuration's address; NULL: all ranks run on one host. An error where there are others and it is not known. */
yk_status yk__tr_address(const yk_tr_config *config, const char **address, yk_tr_error *error);

/* Members of yk_transport. */
yk_status yk__tr_peer(const yk_tr *t, uint32_t peer, yk_tr_peer *info, yk_tr_error *error);
yk_status yk__tr_send(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **op, yk_tr_error *error);
yk_status yk__tr_recv(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **op, yk_tr_error *error);
yk_status yk__tr_test(yk_tr *t, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error);
yk_status yk__tr_wait_any(yk_tr *t, yk_tr_op *const *op, uint32_t n, int timeout_ms, uint32_t *index, yk_tr_error *error);
void yk__tr_cancel(yk_tr *t, yk_tr_op *op);
/* Of one that registers host memory alone, has no extension, and takes no shared memory. */
yk_status yk__tr_mem_register(yk_tr *t, const yk_tr_mem_source *source, yk_tr_mem **mem, yk_tr_error *error);
void yk__tr_mem_release(yk_tr *t, yk_tr_mem *mem);
const void *yk__tr_no_extension(const char *name);
uint64_t yk__tr_no_shared_bytes(uint32_t ranks);

/* What tables have in common; those that differ stand behind it. */
#define YK__TR_TABLE \
    .size = sizeof(yk_transport), .major = YK_TRANSPORT_MAJOR, .minor = YK_TRANSPORT_MINOR, .mem_register = yk__tr_mem_register, \
    .mem_release = yk__tr_mem_release, .send = yk__tr_send, .recv = yk__tr_recv, .test = yk__tr_test, .wait_any = yk__tr_wait_any, \
    .cancel = yk__tr_cancel

#endif
