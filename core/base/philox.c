/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Philox with ten rounds, the generator of all random numbers: a function of key and counter, so equal on all ranks and devices. core/data
 * shuffles with it, core/job/first_values.c makes first values, ways/powersgd_math.c first factors, and the reference of `rng`
 * (eval_prim.c) uses it. The form with eight counters is for loops that a compiler vectorises. No state; any thread.
 */
#include "core/base/philox.h"

#define ROUNDS 10

void yk__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t p0 = 0xd2511f53ull * c0, p1 = 0xcd9e8d57ull * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

void yk__philox_lanes(uint32_t c[4][YK__PHILOX_LANES], const uint32_t key[2])
{
    uint32_t k0 = key[0], k1 = key[1];
    for (int r = 0; r < ROUNDS; r++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u)
        for (int i = 0; i < YK__PHILOX_LANES; i++) {
            uint64_t p0 = 0xd2511f53ull * c[0][i], p1 = 0xcd9e8d57ull * c[2][i];
            c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
            c[1][i] = (uint32_t)p1;
            c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
            c[3][i] = (uint32_t)p0;
        }
}
