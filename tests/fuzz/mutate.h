/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same target twice: with libFuzzer (clang -fsanitize=fuzzer -DYK_LIBFUZZER), or as a plain program that feeds it
 * the seeds and a fixed number of mutations of them, the same ones in every run; with YOKE_FUZZ_SECONDS=N in the environment
 * with as many more as N seconds allow for each seed.
 */
#ifndef YOKE_TESTS_FUZZ_MUTATE_H
#define YOKE_TESTS_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct fuzz_seed {
    const void *data;
    size_t size;
} fuzz_seed;

static inline uint32_t fuzz_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*state >> 33);
}

static inline size_t fuzz_mutate(uint8_t *p, size_t n, size_t capacity, uint64_t *state)
{
    static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff, '"', ',', '\n', '\r', '{', '}', '[', ']', ':', '-', 'e'};
    size_t at = n ? fuzz_random(state) % n : 0, k = 1 + fuzz_random(state) % 8;
    switch (fuzz_random(state) % 6) {
    case 0: /* flip a bit */
        if (n)
            p[at] ^= (uint8_t)(1u << fuzz_random(state) % 8);
        break;
    case 1: /* an odd byte */
        if (n)
            p[at] = odd[fuzz_random(state) % sizeof odd];
        break;
    case 2: /* cut the end */
        n = at;
        break;
    case 3: /* leave some out */
        k = k < n - at ? k : n - at;
        memmove(p + at, p + at + k, n - at - k);
        n -= k;
        break;
    case 4: /* say it twice */
        k = k < n - at ? k : n - at;
        if (n + k <= capacity) {
            memmove(p + at + k, p + at, n - at);
            n += k;
        }
        break;
    default: /* a run of one byte: large numbers in binary headers */
        for (size_t i = at; i < n && i < at + k; i++)
            p[i] = odd[k % 5];
    }
    return n;
}

/* When the rounds of one seed may end. */
static inline time_t fuzz_until(int rounds)
{
    const char *seconds = rounds ? getenv("YOKE_FUZZ_SECONDS") : NULL;
    return seconds ? time(NULL) + atoi(seconds) : 0;
}

/* first: a byte put in front of each input (which reader); -1: none. */
static inline void fuzz_run(const fuzz_seed *seed, int first, int rounds)
{
    uint64_t state = 12345 + (uint64_t)(first + 1);
    size_t capacity = seed->size + 64, lead = first >= 0;
    const time_t until = fuzz_until(rounds);
    for (int i = 0; i <= rounds || (until && time(NULL) < until); i++) {
        uint8_t *p = malloc(capacity + 1), *exact;
        size_t n = seed->size;
        memcpy(p + lead, seed->data, n);
        for (uint32_t m = i ? 1 + fuzz_random(&state) % 4 : 0; m; m--)
            n = fuzz_mutate(p + lead, n, capacity - 1, &state);
        if (lead)
            p[0] = (uint8_t)first;
        exact = malloc(n + lead ? n + lead : 1); /* its own block, so that a sanitizer sees a read past the end */
        memcpy(exact, p, n + lead);
        LLVMFuzzerTestOneInput(exact, n + lead);
        free(exact);
        free(p);
    }
}

#endif
