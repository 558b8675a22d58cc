/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MACs of data between hosts: Poly1305 with a key for each message number, over libsodium (mac.h). The sock transport computes them piece
 * by piece while it sends and receives, the ofi transport for a whole frame; each under its transport's lock.
 */
#include "config.h"

#include "core/net/mac.h"

#include <string.h>

#ifdef HAVE_SODIUM

#include <sodium.h>

#include "core/net/bytes.h"

_Static_assert(sizeof(crypto_onetimeauth_state) <= sizeof(yk__mac), "yk__mac holds libsodium's state");

static crypto_onetimeauth_state *state_of(yk__mac *mac)
{
    return (crypto_onetimeauth_state *)(void *)mac->state;
}

void yk__mac_begin(yk__mac *mac, const uint8_t key[YK__AUTH_BYTES], uint64_t number)
{
    uint8_t once[crypto_onetimeauth_KEYBYTES], nonce[crypto_stream_chacha20_ietf_NONCEBYTES] = {0};
    yk__bytes_put64(nonce + sizeof nonce - 8, number);
    crypto_stream_chacha20_ietf(once, sizeof once, nonce, key);
    crypto_onetimeauth_init(state_of(mac), once);
    sodium_memzero(once, sizeof once);
}

void yk__mac_add(yk__mac *mac, const void *data, size_t bytes)
{
    crypto_onetimeauth_update(state_of(mac), data, bytes);
}

void yk__mac_end(yk__mac *mac, uint8_t to[YK__MAC_BYTES])
{
    crypto_onetimeauth_final(state_of(mac), to);
}

#else

void yk__mac_begin(yk__mac *mac, const uint8_t key[YK__AUTH_BYTES], uint64_t number)
{
    (void)mac, (void)key, (void)number;
}

void yk__mac_add(yk__mac *mac, const void *data, size_t bytes)
{
    (void)mac, (void)data, (void)bytes;
}

void yk__mac_end(yk__mac *mac, uint8_t to[YK__MAC_BYTES])
{
    (void)mac;
    memset(to, 0, YK__MAC_BYTES);
}

#endif

void yk__mac_of(const uint8_t key[YK__AUTH_BYTES], uint64_t number, const void *data, size_t bytes, uint8_t to[YK__MAC_BYTES])
{
    yk__mac mac;
    yk__mac_begin(&mac, key, number);
    yk__mac_add(&mac, data, bytes);
    yk__mac_end(&mac, to);
}
