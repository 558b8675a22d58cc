/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cryptographic primitives of connections: random numbers, MACs, keys that follow from the job's secret. hello.c, frame.c,
 * core/control/start and the transports call them, in any thread. Without libsodium yk__auth_init fails. BLAKE2b (RFC 7693) is keyed, so it
 * needs no HMAC; in software it is two to three times as fast as SHA-256.
 */
#include "config.h"

#include "core/net/auth.h"

#include <string.h>

#ifdef HAVE_SODIUM

#include <sodium.h>

yk_status yk__auth_init(yk_error *err)
{
    if (sodium_init() < 0)
        return yk__fail(err, YK_E_INTERNAL, "libsodium cannot be started: no source of random numbers?");
    return YK_OK;
}

void yk__auth_random(void *to, size_t bytes)
{
    randombytes_buf(to, bytes);
}

void yk__auth_mac(const uint8_t key[YK__AUTH_BYTES], const void *data, size_t bytes, uint8_t mac[YK__AUTH_BYTES])
{
    crypto_generichash(mac, YK__AUTH_BYTES, data, bytes, key, YK__AUTH_BYTES);
}

bool yk__auth_equal(const void *a, const void *b, size_t bytes)
{
    return sodium_memcmp(a, b, bytes) == 0;
}

/* The secret may have any length: its hash is the key under which label and context are hashed. */
void yk__auth_derive(const void *secret, size_t secret_bytes, const char *label, const void *context, size_t context_bytes,
                     uint8_t key[YK__AUTH_BYTES])
{
    uint8_t root[YK__AUTH_BYTES];
    crypto_generichash_state state;
    crypto_generichash(root, sizeof root, secret, secret_bytes, NULL, 0);
    crypto_generichash_init(&state, root, sizeof root, YK__AUTH_BYTES);
    crypto_generichash_update(&state, (const uint8_t *)label, strlen(label) + 1);
    crypto_generichash_update(&state, context, context_bytes);
    crypto_generichash_final(&state, key, YK__AUTH_BYTES);
    sodium_memzero(root, sizeof root);
    sodium_memzero(&state, sizeof state);
}

void yk__auth_wipe(void *data, size_t bytes)
{
    sodium_memzero(data, bytes);
}

#else

yk_status yk__auth_init(yk_error *err)
{
    return yk__fail(err, YK_E_UNSUPPORTED, "connections between hosts are authenticated with libsodium, which this build of Yoke "
                    "does not have; install it (Debian: libsodium-dev) and build again");
}

void yk__auth_random(void *to, size_t bytes)
{
    memset(to, 0, bytes);
}

void yk__auth_mac(const uint8_t key[YK__AUTH_BYTES], const void *data, size_t bytes, uint8_t mac[YK__AUTH_BYTES])
{
    (void)key, (void)data, (void)bytes;
    memset(mac, 0, YK__AUTH_BYTES);
}

bool yk__auth_equal(const void *a, const void *b, size_t bytes)
{
    (void)a, (void)b, (void)bytes;
    return false;
}

void yk__auth_derive(const void *secret, size_t secret_bytes, const char *label, const void *context, size_t context_bytes,
                     uint8_t key[YK__AUTH_BYTES])
{
    (void)secret, (void)secret_bytes, (void)label, (void)context, (void)context_bytes;
    memset(key, 0, YK__AUTH_BYTES);
}

void yk__auth_wipe(void *data, size_t bytes)
{
    memset(data, 0, bytes);
}

#endif
