/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MAC of data: Poly1305 under a key that is used once, made by ChaCha20 of a key and a number as RFC 8439, 2.6 does. Three to four
 * times as fast as BLAKE2b (decision 0032), and can be made piece by piece as bytes come. A key must never see a number twice.
 *
 * In a build without libsodium no MAC is equal to another (core/net/auth.h).
 * Thread rule: one thread per yk__mac.
 */
#ifndef YOKE_CORE_NET_MAC_H
#define YOKE_CORE_NET_MAC_H

#include "core/net/auth.h"

#define YK__MAC_BYTES 16u

typedef struct yk__mac {
    _Alignas(16) uint8_t state[256]; /* libsodium's */
} yk__mac;

void yk__mac_begin(yk__mac *mac, const uint8_t key[YK__AUTH_BYTES], uint64_t number);
void yk__mac_add(yk__mac *mac, const void *data, size_t bytes);
void yk__mac_end(yk__mac *mac, uint8_t to[YK__MAC_BYTES]);
/* Of bytes that lie together. */
void yk__mac_of(const uint8_t key[YK__AUTH_BYTES], uint64_t number, const void *data, size_t bytes, uint8_t to[YK__MAC_BYTES]);

#endif
