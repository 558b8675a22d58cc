/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hello: the first messages between the two ends of a new connection. Each end proves that it knows the job's secret, and both ends
 * agree on their ranks and on the connection's role.
 *
 *   connects -> accepts   HELLO   rank, role, a nonce; proof
 *   accepts -> connects   REPLY   rank, role, a nonce; proof over both messages
 *   connects -> accepts   PROOF   proof over all three
 *
 * A proof is a MAC under the job's secret and the side's own key, over every message so far. A reflected message fails, as the other
 * side's key made it; a replayed one fails, as it answers another nonce. A peer without the secret gets no answer. The exception is a
 * replayed HELLO of this job: it gets a REPLY that is useless without the secret, and its sender cannot make the PROOF. Refusing that
 * REPLY would cost one more message in every opening.
 * All messages have YK__HELLO_BYTES. The hello allocates nothing and reads nothing beyond its own bytes.
 *
 * The caller limits the time of a hello (5 s everywhere in Yoke), and decides if a rank may connect at this time.
 * Thread rule: one thread per yk__hello.
 */
#ifndef YOKE_CORE_NET_HELLO_H
#define YOKE_CORE_NET_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/net/auth.h"

#define YK__HELLO_ANY UINT32_MAX
#define YK__HELLO_BYTES 104u
#define YK__HELLO_VERSION 5u
#define YK__HELLO_SECONDS 5
#define YK__HELLO_PENDING 64 /* connections that a listener has not yet accepted */

typedef enum yk__hello_role {
    YK__HELLO_CONTROL = 1, /* the job's control plane */
    YK__HELLO_DATA = 2     /* a stream of the sock transport */
} yk__hello_role;

typedef struct yk__hello_config {
    const uint8_t *secret; /* at least YK__AUTH_SECRET_LEAST bytes, the caller's; only yk__hello_begin reads them */
    uint32_t secret_bytes;
    uint64_t job;    /* number of the job, equal at both ends */
    uint32_t rank;   /* rank of this end */
    uint32_t peer;   /* rank of the other end; YK__HELLO_ANY on the accepting side */
    uint32_t ranks;  /* number of ranks in the job */
    uint32_t role;   /* yk__hello_role */
    uint32_t stream; /* connecting side: number of the stream; accepting side: exclusive upper bound of such numbers */
    /* Own port << 16 | the other end's port, if both ends have one address and this end wants no MACs after the hello; else 0. */
    uint32_t loopback;
} yk__hello_config;

typedef enum yk__hello_state {
    YK__HELLO_READ,  /* wait until the socket is readable, then step again */
    YK__HELLO_WRITE, /* wait until it is writable, then step again */
    YK__HELLO_DONE
} yk__hello_state;

typedef struct yk__hello {
    yk__hello_state state;
    /* valid once done: */
    uint32_t peer, stream;
    uint8_t send_key[YK__AUTH_BYTES], recv_key[YK__AUTH_BYTES]; /* keys of this connection alone */
    bool is_loopback; /* both ends gave the same two ports, so nobody relays bytes between them */

    /* private to hello.c */
    bool connects;
    uint32_t message; /* index of the message in progress, 0 to 2 */
    uint32_t moved;   /* bytes of it that were read or written */
    uint64_t job;
    uint32_t rank, expected, ranks, role, streams, loopback;
    uint8_t connect_key[YK__AUTH_BYTES], accept_key[YK__AUTH_BYTES], session_key[YK__AUTH_BYTES];
    uint8_t said[3 * YK__HELLO_BYTES];
} yk__hello;

/* YK_E_ARG for an impossible configuration, YK_E_UNSUPPORTED without libsodium. */
yk_status yk__hello_begin(yk__hello *hello, const yk__hello_config *config, bool connects, yk_error *err);
/* Continues as far as the connected socket allows; hello->state then tells the event to wait for. After a failure the caller closes the
 * connection: YK_E_FORMAT if the bytes are no hello of this job, YK_E_IO if the connection ended. */
yk_status yk__hello_step(yk__hello *hello, int fd, yk_error *err);
/* Wipes all keys. */
void yk__hello_end(yk__hello *hello);

#endif
