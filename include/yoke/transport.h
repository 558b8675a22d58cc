/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport ABI: moves bytes between the ranks of a job, and nothing else. The host (core/control) starts ranks, watches them and
 * ends the job. The collectives (core/coll) compute on the bytes.
 *
 * A transport carries tagged messages between two ranks. With YK_TR_CAP_PUT it also writes into a peer's registered memory and leaves a
 * notice there. Capabilities may differ from peer to peer.
 *
 * Lengths: a message of any length may be sent at any time. A message without a matching receive never blocks a later one of another
 * tag. The transport chooses how: memory of its own, or leaving the bytes with the sender until the receive.
 *
 * Growth: yk_transport, yk_tr_config and yk_tr_peer start with their size and grow at the end only. A reader tests `size` before it uses
 * a later member. New members raise YK_TRANSPORT_MINOR. A change that breaks older binaries raises YK_TRANSPORT_MAJOR, which must be
 * equal on both sides. yk_tr_range and yk_tr_error are frozen. Optional features are requested by name (`extension`).
 *
 * Errors: a call that fails writes one line to *error (never NULL) that names the rank, the value and the expectation. A failed send,
 * recv or put leaves no operation behind. A transport need not notice a dead peer: the host does, and cancels the operations.
 *
 * An external transport is a shared object, transport_NAME.so in the folder of plugins. It exports one symbol (yk_transport_query),
 * links to nothing of Yoke, and is never unloaded. `yoke-cts --transport NAME` tests it.
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
#define YK_TRANSPORT_MINOR 3u

/* Capabilities towards one peer. */
#define YK_TR_CAP_MESSAGES 1u /* send and recv */
#define YK_TR_CAP_PUT 2u      /* put, notices, mem_key, mem_import */

#define YK_TR_KEY_BYTES 256u /* largest key of mem_key, bytes */
#define YK_TR_NOTICES 64u    /* kinds of notices that a rank counts for each peer */

typedef struct yk_tr yk_tr;         /* this rank's end of the transport */
typedef struct yk_tr_op yk_tr_op;   /* a pending send, receive or put */
typedef struct yk_tr_mem yk_tr_mem; /* registered memory, or imported memory of a peer */

/* Reason of a failed call. Written only on failure. */
typedef struct yk_tr_error {
    char text[640];
} yk_tr_error;

typedef struct yk_tr_config {
    uint32_t size; /* bytes of this struct */
    uint32_t rank, ranks;
    const uint64_t *host; /* [ranks]; ranks with equal numbers run on one host */
    const char *name;     /* name of this rank, for errors */
    /* Rendezvous: all[r * bytes ..] = rank r's `own`, at most 4096 bytes a rank. Called only during open, equally often and with equal
     * bytes by all ranks. */
    yk_status (*exchange)(void *arg, const void *own, uint32_t bytes, void *all, yk_tr_error *error);
    void *exchange_arg;
    const uint8_t *secret; /* shared by the ranks of this job alone; authenticates connections; never sent or logged */
    uint32_t secret_bytes;
    uint32_t unused; /* 0 */
    void *shared;    /* shared_bytes of memory common to all ranks, zero at first; NULL if absent */
    /* since 2.1: */
    const char *address; /* numeric address of this rank's host in the job's network, to listen on; NULL if unknown */
    /* Fails when the job has ended. While they wait for other ranks, the functions open and close call it now and then, and stop waiting on
     * a failure. NULL: do not call. */
    yk_status (*check)(void *exchange_arg, yk_tr_error *error);
    /* since 2.2: */
    /* Reports a broken connection: it ended, stalls, or carries nothing in one direction, after open has begun. `why` is one line with
     * both ranks and addresses. The host ends the job, unless `peer` has left it. Called from any thread, without a lock of the
     * transport's, once per peer. NULL: do not call. */
    void (*lost)(void *exchange_arg, uint32_t peer, const yk_tr_error *why);
} yk_tr_config;

typedef struct yk_tr_peer {
    uint32_t size; /* bytes of this struct, filled by the caller */
    uint32_t caps; /* YK_TR_CAP_* */
    uint64_t host; /* as in yk_tr_config */
} yk_tr_peer;

/* Bytes to send, or space to receive into. With mem NULL they lie at `data`, else at `offset` of registered memory (data is ignored).
 * They belong to the operation until it is done. */
typedef struct yk_tr_range {
    void *data;
    yk_tr_mem *mem;
    uint64_t offset, bytes;
} yk_tr_range;

typedef enum yk_tr_mem_kind {
    YK_TR_MEM_HOST = 1,  /* `data` is the address of host memory */
    YK_TR_MEM_DMABUF = 2 /* `fd` is a dma-buf of a device's memory, which begins at its `offset` */
} yk_tr_mem_kind;

typedef struct yk_tr_mem_source {
    uint32_t size; /* bytes of this struct */
    uint32_t kind; /* yk_tr_mem_kind */
    void *data;
    int64_t fd;
    uint64_t offset, bytes;
} yk_tr_mem_source;

typedef struct yk_transport {
    uint32_t size; /* bytes of this struct */
    uint32_t major, minor;
    uint32_t unused; /* 0 */
    const char *name;

    /* Further tables of functions; NULL for an unknown name. [any] */
    const void *(*extension)(const char *name);
    /* Bytes of shared memory it uses among `ranks` ranks of one host; 0: none. [any] */
    uint64_t (*shared_bytes)(uint32_t ranks);

    /* Returns when this rank can send to every rank that it has messages for. [one] */
    yk_status (*open)(const yk_tr_config *config, yk_tr **t, yk_tr_error *error);
    /* Cancels pending operations and releases everything. Completed sends still arrive. [one] */
    void (*close)(yk_tr *t);
    yk_status (*peer)(const yk_tr *t, uint32_t peer, yk_tr_peer *info, yk_tr_error *error); /* [any] */

    /* Memory for repeated use: pinned, known to the network device. YK_E_ARG for an unsupported kind. Released before close. [any] */
    yk_status (*mem_register)(yk_tr *t, const yk_tr_mem_source *source, yk_tr_mem **mem, yk_tr_error *error);
    void (*mem_release)(yk_tr *t, yk_tr_mem *mem); /* registered or imported. [any] */

    /* Messages of one pair and one tag arrive in the order they were sent. A message longer than the receive's bytes is an error of the
     * receive. peer differs from this rank. Every tag is legal. [any] */
    yk_status (*send)(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **op, yk_tr_error *error);
    yk_status (*recv)(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **op, yk_tr_error *error);

    /* Moves bytes, then waits until *events differs from the number of operations completed so far, for timeout_ms at most. Writes that
     * number to *events. So a caller that tests its operations after reading *events misses none. [any] */
    yk_status (*progress)(yk_tr *t, int timeout_ms, uint64_t *events, yk_tr_error *error);
    /* Sets *done if the operation is done, without waiting, and then releases it; *bytes (may be NULL) is the number of bytes moved. A
     * failed operation returns its failure with *done set. [any] */
    yk_status (*test)(yk_tr *t, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error);
    /* Waits until one of n operations (NULL entries are skipped) is done; *index is its position. test releases it, not this call.
     * YK_E_TIMEOUT after timeout_ms; -1: no limit. [any] */
    yk_status (*wait_any)(yk_tr *t, yk_tr_op *const *op, uint32_t n, int timeout_ms, uint32_t *index, yk_tr_error *error);
    /* Cancels an operation and releases it; its bytes belong to the caller again. The other end discards a partial message, as if it had
     * not been sent. [any] */
    void (*cancel)(yk_tr *t, yk_tr_op *op);

    /* One-sided writes, for peers with YK_TR_CAP_PUT; NULL if no peer has it. A peer needs a key to write into registered memory: *bytes
     * is its capacity, then its length. The host carries it to the peer. [any] */
    yk_status (*mem_key)(yk_tr *t, yk_tr_mem *mem, void *key, uint32_t *bytes, yk_tr_error *error);
    yk_status (*mem_import)(yk_tr *t, uint32_t peer, const void *key, uint32_t bytes, yk_tr_mem **mem, yk_tr_error *error);
    /* Writes to `offset` of the peer's memory, then raises the peer's count of this notice by one. */
    yk_status (*put)(yk_tr *t, const yk_tr_range *from, yk_tr_mem *to, uint64_t offset, uint32_t notice, yk_tr_op **op,
                     yk_tr_error *error);
    /* Number of arrived puts of the peer with that notice. */
    yk_status (*notices)(yk_tr *t, uint32_t peer, uint32_t notice, uint64_t *count, yk_tr_error *error);
} yk_transport;

/* Extension: describes the network that this transport would use here. [any] */
#define YK_TR_EXT_DESCRIBE "yoke.describe.1"
typedef struct yk_tr_describe {
    uint32_t size; /* bytes of this struct */
    uint32_t unused; /* 0 */
    /* Writes one line to text[capacity]: the means to reach other hosts, or on failure the reason that it cannot. */
    yk_status (*describe)(char *text, uint64_t capacity);
} yk_tr_describe;

/* Extension, since 2.3: not NULL if the transport itself finds changed, lost, doubled and overtaken messages. It does so by a checksum or a
 * MAC of each message, or as the bytes never leave memory. The host then adds no checksum (YOKE_MESSAGE_CHECK=auto). The host does not read
 * the memory at that address. [any] */
#define YK_TR_EXT_CHECKED "yoke.checked.1"

/* The one exported symbol: `const yk_transport *yk_transport_query(uint32_t major)`. NULL if it cannot serve that major. */
typedef const yk_transport *(*yk_transport_query_fn)(uint32_t major);
#define YK_TRANSPORT_SYMBOL "yk_transport_query"

#ifdef __cplusplus
}
#endif

#endif
