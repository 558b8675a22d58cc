/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MAC of data: Poly1305 under a one-time key, which ChaCha20 makes of a key and a number as in RFC 8439, 2.6. It is three to four
 * times as fast as BLAKE2b (decision 0032), and works piece by piece as bytes arrive. A key must never be used with the same number
 * twice.
 *
 * In a build without libsodium no MAC equals another (core/net/auth.h).
 * Thread rule: one thread per yk__mac.
 */
#ifndef YOKE_CORE_NET_MAC_H
#define YOKE_CORE_NET_MAC_H

#include "core/net/auth.h"

#define YK__MAC_BYTES 16u

typedef struct yk__mac {
    _Alignas(16) uint8_t state[256]; /* crypto_onetimeauth_state of libsodium */
} yk__mac;

void yk__mac_begin(yk__mac *mac, const uint8_t key[YK__AUTH_BYTES], uint64_t number);
void yk__mac_add(yk__mac *mac, const void *data, size_t bytes);
void yk__mac_end(yk__mac *mac, uint8_t to[YK__MAC_BYTES]);
/* The MAC of contiguous bytes. */
void yk__mac_of(const uint8_t key[YK__AUTH_BYTES], uint64_t number, const void *data, size_t bytes, uint8_t to[YK__MAC_BYTES]);

#endif
