/* SPDX-License-Identifier: Apache-2.0 */
#include "core/data/order.h"

#include "core/base/philox.h"

#define ROUNDS 10 /* with 6 the permutations of five and six things are visibly not equally likely */

static uint32_t round_bits(const uint32_t key[2], uint64_t epoch, uint32_t round, uint32_t half)
{
    const uint32_t counter[4] = {half, round, (uint32_t)epoch, (uint32_t)(epoch >> 32)};
    uint32_t out[4];
    yk__philox(counter, key, out);
    return out[0];
}

int64_t yk__order(uint64_t seed, uint64_t epoch, int64_t i, int64_t n)
{
    const uint32_t key[2] = {(uint32_t)seed,
                             (uint32_t)(seed >> 32) ^ 0x6f726465u}; /* apart from other uses of the seed */
    uint64_t x = (uint64_t)i;
    int half = 1;
    uint32_t mask;
    while (half < 32 && (uint64_t)n > (uint64_t)1 << (2 * half))
        half++;
    mask = half == 32 ? UINT32_MAX : ((uint32_t)1 << half) - 1;
    do {
        uint32_t l = (uint32_t)(x >> half) & mask, r = (uint32_t)x & mask;
        for (uint32_t k = 0; k < ROUNDS; k++) {
            uint32_t t = l ^ (round_bits(key, epoch, k, r) & mask);
            l = r;
            r = t;
        }
        x = (uint64_t)l << half | r;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}
