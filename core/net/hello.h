/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hello: what the two ends of a new connection say before anything else. Each proves that it knows the job's secret, and both
 * agree on who they are and what the connection is for.
 *
 *   connects -> accepts   HELLO   who, for what, a nonce; proof
 *   accepts -> connects   REPLY   who, for what, a nonce; proof over both messages
 *   connects -> accepts   PROOF   proof over all three
 *
 * A proof is a MAC under the job's secret and the side's own key, over all that was said so far: a message that is reflected was
 * made with the other side's key, and one that is replayed answers another nonce. Who does not know the secret gets no answer, but for who
 * repeats a HELLO that was recorded in this job: that one gets a REPLY, of no use without the secret, and cannot give the PROOF. To deny
 * it that one answer would take a message more in each opening.
 * All messages have YK__HELLO_BYTES. Nothing is allocated, and nothing is read beyond the hello.
 *
 * How long a hello may take is its caller's to say (5 s everywhere in Yoke), as is whether a rank may connect at this time.
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
#define YK__HELLO_VERSION 3u
#define YK__HELLO_SECONDS 5
#define YK__HELLO_PENDING 64 /* connections that a listener has not yet accepted */

typedef enum yk__hello_role {
    YK__HELLO_CONTROL = 1, /* the job's control plane */
    YK__HELLO_DATA = 2     /* a stream of the sock transport */
} yk__hello_role;

typedef struct yk__hello_config {
    const uint8_t *secret; /* YK__AUTH_SECRET_LEAST bytes at least; read in yk__hello_begin alone */
    uint32_t secret_bytes;
    uint64_t job;    /* number of the job; both ends have the same */
    uint32_t rank;   /* of this end */
    uint32_t peer;   /* of the other; YK__HELLO_ANY on the accepting side */
    uint32_t ranks;  /* of the job */
    uint32_t role;   /* yk__hello_role */
    uint32_t stream; /* of the connecting side: its number; of the accepting one: numbers are below this */
    /* Where this end sees one address at both ends and wants no MACs after the hello: own port << 16 | the other end's. Else 0. */
    uint32_t loopback;
} yk__hello_config;

typedef enum yk__hello_state {
    YK__HELLO_READ,  /* step again when the socket can be read */
    YK__HELLO_WRITE, /* .. can be written */
    YK__HELLO_DONE
} yk__hello_state;

typedef struct yk__hello {
    yk__hello_state state;
    /* when done: */
    uint32_t peer, stream;
    uint8_t send_key[YK__AUTH_BYTES], recv_key[YK__AUTH_BYTES]; /* of this connection alone */
    bool is_loopback; /* both ends gave their ports, and they are the same two: nobody passes bytes on between them */

    /* hello.c's own */
    bool connects;
    uint32_t message; /* of the three, under way */
    uint32_t moved;   /* its bytes that were read or written */
    uint64_t job;
    uint32_t rank, expected, ranks, role, streams, loopback;
    uint8_t connect_key[YK__AUTH_BYTES], accept_key[YK__AUTH_BYTES], session_key[YK__AUTH_BYTES];
    uint8_t said[3 * YK__HELLO_BYTES];
} yk__hello;

/* YK_E_ARG for a description that cannot be, YK_E_UNSUPPORTED without libsodium. */
yk_status yk__hello_begin(yk__hello *hello, const yk__hello_config *config, bool connects, yk_error *err);
/* Goes on as far as the connected socket lets it; hello->state then says what to wait for. After a failure the connection is
 * to be closed: YK_E_FORMAT for what is no hello, or not of this job; YK_E_IO for a connection that ended. */
yk_status yk__hello_step(yk__hello *hello, int fd, yk_error *err);
/* Forgets all keys. */
void yk__hello_end(yk__hello *hello);

#endif
