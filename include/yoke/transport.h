/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport ABI: how bytes get from one rank of a job to another. A transport moves bytes and nothing else; who the ranks
 * are, whether they live, and how the job ends is the host's business (core/control), what is computed from the bytes is the
 * collectives' (core/coll).
 *
 * A transport gives tagged messages between two ranks and, where it can (YK_TR_CAP_PUT), writes into a peer's registered memory
 * that leave a notice. What it can do may differ from peer to peer.
 *
 * Lengths: a message of any length may be sent at any time. One that nobody has asked for yet never keeps a later one, of another
 * tag, from arriving; how (by memory of its own, or by leaving the bytes with the sender until they are asked for) is the
 * transport's choice.
 *
 * Growth: yk_transport, yk_tr_config and yk_tr_peer start with their size and grow at the end alone; a reader tests `size`
 * before it uses a later member. Members that are added raise YK_TRANSPORT_MINOR; a change that breaks older binaries raises
 * YK_TRANSPORT_MAJOR, which both sides compare: they work together where it is equal. yk_tr_range and yk_tr_error are frozen.
 * What only some transports have is asked for by name (`extension`).
 *
 * Errors: a call that fails writes one line to *error (never NULL) that names the rank, the value and what was expected. A failure of
 * send, recv or put leaves no operation behind. That a peer has died the transport may or may not see; the host does, and gives
 * operations up with cancel.
 *
 * A transport that is no part of Yoke is a shared object, transport_NAME.so in the folder of plugins, which exports one symbol
 * (yk_transport_query), links to nothing of Yoke, and is never unloaded. `yoke-cts --transport NAME` tests it.
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

#define YK_TRANSPORT_MAJOR 2u
#define YK_TRANSPORT_MINOR 2u

/* What works towards one peer. */
#define YK_TR_CAP_MESSAGES 1u /* send and recv */
#define YK_TR_CAP_PUT 2u      /* put, notices, mem_key, mem_import */

#define YK_TR_KEY_BYTES 256u /* of mem_key, at most */
#define YK_TR_NOTICES 64u    /* kinds of notices that a rank counts of each peer */

typedef struct yk_tr yk_tr;         /* this rank's end of the transport */
typedef struct yk_tr_op yk_tr_op;   /* a send, receive or put under way */
typedef struct yk_tr_mem yk_tr_mem; /* memory that was registered, or a peer's that was imported */

/* Why a call failed. Written only on failure. */
typedef struct yk_tr_error {
    char text[640];
} yk_tr_error;

typedef struct yk_tr_config {
    uint32_t size; /* of this struct */
    uint32_t rank, ranks;
    const uint64_t *host; /* [ranks]; ranks with equal numbers run on one host */
    const char *name;     /* of this rank, for errors */
    /* Rendezvous: all[r * bytes ..] = rank r's `own`, at most 4096 bytes a rank. May be called during open alone, equally often
     * and with equal bytes by all ranks. */
    yk_status (*exchange)(void *arg, const void *own, uint32_t bytes, void *all, yk_tr_error *error);
    void *exchange_arg;
    const uint8_t *secret; /* known to the ranks of this job alone; for proofs of who connects, never to be sent or logged */
    uint32_t secret_bytes;
    uint32_t unused; /* 0 */
    void *shared;    /* shared_bytes of memory that all ranks have in common, zero at first; NULL: there is none */
    /* since 2.1: */
    const char *address; /* numeric, of this rank's host in the job's network: what a transport listens on. NULL: not known */
    /* Whether the job goes on: asked now and then while open and close wait for other ranks. A failure ends that. NULL: not to be
     * asked. */
    yk_status (*check)(void *exchange_arg, yk_tr_error *error);
    /* since 2.2: */
    /* The connection with `peer` ended, stalls, or carries nothing in one direction, and open has begun; `why` is one line that names both
     * ranks and addresses. The host ends the job, unless that rank has left it. Called from any thread, without a lock of the
     * transport's, once for a peer. NULL: not to be called. */
    void (*lost)(void *exchange_arg, uint32_t peer, const yk_tr_error *why);
} yk_tr_config;

typedef struct yk_tr_peer {
    uint32_t size; /* of this struct, filled by the caller */
    uint32_t caps; /* YK_TR_CAP_* */
    uint64_t host; /* as in yk_tr_config */
} yk_tr_peer;

/* Bytes to send or to receive into: at `data`, or, where mem is not NULL, at `offset` of registered memory (data is not looked at).
 * They belong to the operation until it is done. */
typedef struct yk_tr_range {
    void *data;
    yk_tr_mem *mem;
    uint64_t offset, bytes;
} yk_tr_range;

typedef enum yk_tr_mem_kind {
    YK_TR_MEM_HOST = 1,  /* `data` is the address of host memory */
    YK_TR_MEM_DMABUF = 2 /* `fd` is a dma-buf of a device's memory, which begins at `offset` of it */
} yk_tr_mem_kind;

typedef struct yk_tr_mem_source {
    uint32_t size; /* of this struct */
    uint32_t kind; /* yk_tr_mem_kind */
    void *data;
    int64_t fd;
    uint64_t offset, bytes;
} yk_tr_mem_source;

typedef struct yk_transport {
    uint32_t size; /* of this struct */
    uint32_t major, minor;
    uint32_t unused; /* 0 */
    const char *name;

    /* Tables of functions beyond this one, NULL for a name that it does not know. [any] */
    const void *(*extension)(const char *name);
    /* How many bytes of shared memory it makes use of among so many ranks of one host; 0: none. [any] */
    uint64_t (*shared_bytes)(uint32_t ranks);

    /* Returns when this rank can send to all ranks it has messages for. [one] */
    yk_status (*open)(const yk_tr_config *config, yk_tr **t, yk_tr_error *error);
    /* Gives up what is under way and releases everything. What was sent and is done still arrives. [one] */
    void (*close)(yk_tr *t);
    yk_status (*peer)(const yk_tr *t, uint32_t peer, yk_tr_peer *info, yk_tr_error *error); /* [any] */

    /* Memory that is used again and again; pinned, known to the network device. YK_E_ARG for a kind that it cannot take.
     * Released before close. [any] */
    yk_status (*mem_register)(yk_tr *t, const yk_tr_mem_source *source, yk_tr_mem **mem, yk_tr_error *error);
    void (*mem_release)(yk_tr *t, yk_tr_mem *mem); /* registered or imported. [any] */

    /* Messages of one pair and one tag arrive in the order they were sent. A message longer than the receive's bytes is an error of
     * the receive. peer is not this rank. Any tag is good. [any] */
    yk_status (*send)(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **op, yk_tr_error *error);
    yk_status (*recv)(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **op, yk_tr_error *error);

    /* Moves what can be moved, then waits, for timeout_ms at most, until *events is no longer the number of operations that were
     * done so far, and writes that number to it. So a caller that found its operations not done before it took *events misses
     * nothing. [any] */
    yk_status (*progress)(yk_tr *t, int timeout_ms, uint64_t *events, yk_tr_error *error);
    /* Whether the operation is done, without waiting; then it is released, and *bytes (may be NULL) are those that were moved. A
     * failure of the operation is returned with *done set. [any] */
    yk_status (*test)(yk_tr *t, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error);
    /* Waits until one of n operations (NULL: no operation) is done; *index is its place. It is not released: test does that.
     * YK_E_TIMEOUT after timeout_ms; -1: for ever. [any] */
    yk_status (*wait_any)(yk_tr *t, yk_tr_op *const *op, uint32_t n, int timeout_ms, uint32_t *index, yk_tr_error *error);
    /* Gives an operation up and releases it; its bytes are the caller's again. A message that was begun is thrown away at the other
     * end, as if it had not been sent. [any] */
    void (*cancel)(yk_tr *t, yk_tr_op *op);

    /* One-sided writes, for peers with YK_TR_CAP_PUT; NULL where no peer has it. A key is what a peer needs to write into
     * registered memory: *bytes is its capacity, then its length. The host brings it to the peer. [any] */
    yk_status (*mem_key)(yk_tr *t, yk_tr_mem *mem, void *key, uint32_t *bytes, yk_tr_error *error);
    yk_status (*mem_import)(yk_tr *t, uint32_t peer, const void *key, uint32_t bytes, yk_tr_mem **mem, yk_tr_error *error);
    /* Writes to `offset` of the peer's memory; when all of it is there the peer's count of this notice grows by one. */
    yk_status (*put)(yk_tr *t, const yk_tr_range *from, yk_tr_mem *to, uint64_t offset, uint32_t notice, yk_tr_op **op,
                     yk_tr_error *error);
    /* How many puts of the peer with that notice have arrived. */
    yk_status (*notices)(yk_tr *t, uint32_t peer, uint32_t notice, uint64_t *count, yk_tr_error *error);
} yk_transport;

/* An extension: what a transport is made of here, for whoever asks what a job would use. [any] */
#define YK_TR_EXT_DESCRIBE "yoke.describe.1"
typedef struct yk_tr_describe {
    uint32_t size; /* of this struct */
    uint32_t unused; /* 0 */
    /* Writes one line to text[capacity]: by what means it would reach other hosts, or, where it returns a failure, why it cannot. */
    yk_status (*describe)(char *text, uint64_t capacity);
} yk_tr_describe;

/* The one exported symbol: `const yk_transport *yk_transport_query(uint32_t major)`. NULL if it cannot serve that major. */
typedef const yk_transport *(*yk_transport_query_fn)(uint32_t major);
#define YK_TRANSPORT_SYMBOL "yk_transport_query"

#ifdef __cplusplus
}
#endif

#endif
