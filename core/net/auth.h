/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs of knowing the job's secret, and keys derived from it: keyed BLAKE2b-256 of libsodium (decision 0025). In a build without
 * libsodium yk__auth_init fails with YK_E_UNSUPPORTED, and yk__auth_equal is always false, so that no proof holds.
 * Thread rule: any thread.
 */
#ifndef YOKE_CORE_NET_AUTH_H
#define YOKE_CORE_NET_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

#define YK__AUTH_BYTES 32u       /* bytes of a key and of a proof */
#define YK__AUTH_SECRET_LEAST 16u /* least bytes of a job's secret */

/* Comes before every other function of this header; may be called again. */
yk_status yk__auth_init(yk_error *err);
/* Random bytes from the system's generator. */
void yk__auth_random(void *to, size_t bytes);
void yk__auth_mac(const uint8_t key[YK__AUTH_BYTES], const void *data, size_t bytes, uint8_t mac[YK__AUTH_BYTES]);
/* Takes the same time for equal and for unequal bytes, so that the time tells an attacker nothing. */
bool yk__auth_equal(const void *a, const void *b, size_t bytes);
/* A different key for each label and context. A holder of the key can derive neither the secret nor another key. */
void yk__auth_derive(const void *secret, size_t secret_bytes, const char *label, const void *context, size_t context_bytes,
                     uint8_t key[YK__AUTH_BYTES]);
/* Overwrites secret bytes, so that they do not stay in memory. */
void yk__auth_wipe(void *data, size_t bytes);

#endif
