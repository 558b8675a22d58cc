/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport ABI: how the ranks of a job reach each other. The collectives of core/group are written over it.
 *
 * A transport gives: who is there (rank, size, names), counters that each rank publishes and others wait for, tagged
 * messages between two ranks, and, where the ranks share a host, blocks of shared memory. It also watches the peers:
 * every wait ends within two seconds of a rank's death, with the rank's name in the words.
 *
 * Growth: the table starts with its size and only grows at the end; a reader tests `size` before it uses a later
 * member. A major number (YK_TRANSPORT_ABI) is never reused.
 *
 * Threads: [any] from any thread at any time; [one] by one thread at a time for a given yk_tr.
 */
#ifndef YOKE_TRANSPORT_H
#define YOKE_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>
#include <yoke/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YK_TRANSPORT_ABI 1u
#define YK_TR_RANKS 256u         /* ranks of one job at most */
#define YK_TR_FLAGS 16u          /* counters that each rank publishes */
#define YK_TR_TAG_ANY UINT64_MAX /* not a tag: reserved */
#define YK_TR_EARLY (16ull << 20) /* bytes of the longest message that others may follow before it is received */

#define YK_TR_CAP_SHARED 1u /* `shared` works */

typedef struct yk_tr yk_tr;       /* this rank's end of the transport */
typedef struct yk_tr_op yk_tr_op; /* a send or receive under way */

/* Why a call failed: one line that names the rank, the value, what was expected. Written only on failure. */
typedef struct yk_tr_error {
    char text[640];
} yk_tr_error;

typedef struct yk_tr_config {
    uint32_t size;        /* of this struct */
    int job_fd;           /* the descriptor on which the launcher hands over the job; open takes it */
    const char *name;     /* what others call this rank in messages; NULL: as the launcher named it */
    uint32_t liveness_ms; /* a rank without a sign of life for so long is lost; 0: never */
    uint32_t join_ms;     /* how long open waits for all ranks; 0: for ever */
    uint32_t stuck_ms;    /* a rank that others wait for and that does nothing for so long is lost; 0: never */
    const volatile uint32_t *advance; /* a count that moves while this rank does something; NULL: only the calls count.
                                         Read it by __atomic_load_n */
    /* Called now and then while a wait for a peer lasts; not YK_OK: the wait ends with that status and these words. NULL: none */
    yk_status (*watch)(void *arg, uint32_t peer, yk_tr_error *why);
    void *watch_arg;
} yk_tr_config;

typedef struct yk_tr_info {
    uint32_t size; /* of this struct, filled by the caller */
    uint32_t rank, ranks;
    uint32_t caps; /* YK_TR_CAP_* */
} yk_tr_info;

typedef struct yk_transport {
    uint32_t size; /* of this struct */
    uint32_t abi;  /* YK_TRANSPORT_ABI */
    const char *name;

    /* Joins the job; returns when all ranks have. [one] */
    yk_status (*open)(const yk_tr_config *config, yk_tr **t, yk_tr_error *why);
    /* Says goodbye, so that others do not take it for a death, and releases everything, shared blocks too. [one] */
    void (*close)(yk_tr *t);
    void (*info)(const yk_tr *t, yk_tr_info *info);          /* [any] */
    const char *(*peer_name)(const yk_tr *t, uint32_t peer); /* lives as long as t; "" for no such rank. [any] */
    const volatile int *(*cancelled)(const yk_tr *t);        /* non-zero once the job is to end. [any] */
    /* Ends the job for all ranks: each wait of theirs returns `status` and these words. The first caller wins. [any] */
    void (*abort)(yk_tr *t, yk_status status, const char *words);

    /* A block shared by all ranks, zero at first, page aligned, of equal size on all; all ranks call in the same order.
     * Released by release or close. [one] */
    yk_status (*shared)(yk_tr *t, const char *what, uint64_t bytes, void **mem, yk_tr_error *why);

    /* Counters count upwards modulo 2^32. Publishing makes everything this rank wrote to shared blocks before visible
     * to a rank whose wait for the counter returns. [one per flag] */
    yk_status (*flag_set)(yk_tr *t, uint32_t flag, uint32_t value);
    /* Returns when `peer` has published at least `value`. what: for the words ("barrier"). [any] */
    yk_status (*flag_wait)(yk_tr *t, uint32_t peer, uint32_t flag, uint32_t value, const char *what, yk_tr_error *why);

    /* Tagged messages; those of one pair and one tag arrive in the order they were sent. The data must live until the
     * operation is done. A message longer than the receive's room is an error. peer may not be this rank.
     * Messages of up to YK_TR_EARLY bytes may be received in any order of tags. A longer one stays with the sender until it
     * is asked for, and nothing can pass it: until it is done, a further send to that peer is YK_E_ARG, and the peer asks
     * for it before it waits for anything sent later. [one] */
    yk_status (*send)(yk_tr *t, uint32_t peer, uint64_t tag, const void *data, uint64_t bytes, yk_tr_op **op,
                      yk_tr_error *why);
    yk_status (*recv)(yk_tr *t, uint32_t peer, uint64_t tag, void *data, uint64_t room, yk_tr_op **op,
                      yk_tr_error *why);
    /* Moves what can be moved without waiting. [one] */
    yk_status (*progress)(yk_tr *t, yk_tr_error *why);
    /* Waits until the operation is done (timeout_ms: -1 for ever, 0 only looks; then YK_E_TIMEOUT and the operation
     * goes on), tells the bytes moved (may be NULL) and releases it; on any other failure too. [one] */
    yk_status (*wait)(yk_tr *t, yk_tr_op *op, int timeout_ms, uint64_t *bytes, yk_tr_error *why);
    /* Gives an operation up and releases it. A message that was begun is thrown away at the other end. [one] */
    void (*cancel)(yk_tr *t, yk_tr_op *op);

    /* For waits that last for many steps: sleeps until *word, in a shared block, is not `seen`, or for ms at most, or until it
     * is woken; fails when the job ends or `peer`, whose turn it is to change the word, has left. Takes no turns of the
     * processor in between, and watch is not called. [one] */
    yk_status (*word_sleep)(yk_tr *t, uint32_t peer, const uint32_t *word, uint32_t seen, uint32_t ms, const char *what,
                            yk_tr_error *why);
    void (*word_wake)(yk_tr *t, const uint32_t *word); /* all who sleep on it; it was changed before, atomically. [any] */

    /* Gives a shared block back: this rank's address is no longer valid, others' are until they release it, too. All ranks
     * make and release blocks in the same order; nobody is waited for. [one] */
    void (*release)(yk_tr *t, void *mem);
} yk_transport;

#ifdef __cplusplus
}
#endif

#endif
