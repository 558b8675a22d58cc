/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops for `yoke bench peaks` that read, copy and fill memory with the widest registers; "_nt" stores go past the caches. peaks.c times
 * them, a thread on each core.
 */
#include "tools/bench/peak_loops.h"

#if defined __x86_64__
#include <immintrin.h>

#define KEEP __asm__ volatile("" : : : "memory") /* no call of memcpy or memset in its place */

/* One set of loops, four registers a turn. */
#define LOOPS(suffix, isa, T, zero, add, load, store, stream)                                                          \
    __attribute__((target(isa))) static void read_##suffix(char *to, const char *from, size_t bytes)                   \
    {                                                                                                                  \
        T s[4] = {zero(), zero(), zero(), zero()};                                                                     \
        (void)to;                                                                                                      \
        for (size_t i = 0; i < bytes; i += 4 * sizeof(T)) {                                                            \
            s[0] = add(s[0], load((const T *)(const void *)(from + i)));                                               \
            s[1] = add(s[1], load((const T *)(const void *)(from + i) + 1));                                           \
            s[2] = add(s[2], load((const T *)(const void *)(from + i) + 2));                                           \
            s[3] = add(s[3], load((const T *)(const void *)(from + i) + 3));                                           \
            KEEP;                                                                                                      \
        }                                                                                                              \
        s[0] = add(add(s[0], s[1]), add(s[2], s[3]));                                                                  \
        __asm__ volatile("" : : "x"(s[0]));                                                                            \
    }                                                                                                                  \
    WRITES(suffix, isa, T, zero, load, store)                                                                          \
    WRITES(nt_##suffix, isa, T, zero, load, stream)

#define WRITES(suffix, isa, T, zero, load, store)                                                                      \
    __attribute__((target(isa))) static void copy_##suffix(char *to, const char *from, size_t bytes)                   \
    {                                                                                                                  \
        for (size_t i = 0; i < bytes; i += 4 * sizeof(T)) {                                                            \
            const T *f = (const T *)(const void *)(from + i);                                                          \
            T *t = (T *)(void *)(to + i);                                                                              \
            const T a = load(f), b = load(f + 1), c = load(f + 2), d = load(f + 3);                                    \
            store(t, a);                                                                                               \
            store(t + 1, b);                                                                                           \
            store(t + 2, c);                                                                                           \
            store(t + 3, d);                                                                                           \
            KEEP;                                                                                                      \
        }                                                                                                              \
        _mm_sfence();                                                                                                  \
    }                                                                                                                  \
    __attribute__((target(isa))) static void fill_##suffix(char *to, const char *from, size_t bytes)                   \
    {                                                                                                                  \
        const T v = zero();                                                                                            \
        (void)from;                                                                                                    \
        for (size_t i = 0; i < bytes; i += 4 * sizeof(T)) {                                                            \
            T *t = (T *)(void *)(to + i);                                                                              \
            store(t, v);                                                                                               \
            store(t + 1, v);                                                                                           \
            store(t + 2, v);                                                                                           \
            store(t + 3, v);                                                                                           \
            KEEP;                                                                                                      \
        }                                                                                                              \
        _mm_sfence();                                                                                                  \
    }

LOOPS(sse, "sse2", __m128i, _mm_setzero_si128, _mm_add_epi32, _mm_load_si128, _mm_store_si128, _mm_stream_si128)
LOOPS(avx2, "avx2", __m256i, _mm256_setzero_si256, _mm256_add_epi32, _mm256_load_si256, _mm256_store_si256, _mm256_stream_si256)
LOOPS(avx512, "avx512f", __m512i, _mm512_setzero_si512, _mm512_add_epi32, _mm512_load_si512, _mm512_store_si512, _mm512_stream_si512)

#define LIST(suffix)                                                                                                   \
    {                                                                                                                  \
        {"read", 1, read_##suffix}, {"copy", 2, copy_##suffix}, {"fill", 1, fill_##suffix},                            \
            {"copy_nt", 2, copy_nt_##suffix}, {"fill_nt", 1, fill_nt_##suffix},                                        \
    }

int peaks_memory_list(peaks_memory out[PEAKS_MOST])
{
    static const peaks_memory sse[] = LIST(sse), avx2[] = LIST(avx2), avx512[] = LIST(avx512);
    const peaks_memory *from = __builtin_cpu_supports("avx512f") ? avx512 : __builtin_cpu_supports("avx2") ? avx2 : sse;
    for (int i = 0; i < 5; i++)
        out[i] = from[i];
    return 5;
}

#else
#include <string.h>

static void read_words(char *to, const char *from, size_t bytes)
{
    const uint64_t *p = (const uint64_t *)(const void *)from;
    uint64_t s[4] = {0};
    (void)to;
    for (size_t i = 0; i < bytes / 8; i += 4)
        for (int k = 0; k < 4; k++)
            s[k] += p[i + (size_t)k];
    __asm__ volatile("" : : "m"(s));
}

static void copy_words(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
    __asm__ volatile("" : : "r"(to) : "memory");
}

static void fill_words(char *to, const char *from, size_t bytes)
{
    (void)from;
    memset(to, 0, bytes);
    __asm__ volatile("" : : "r"(to) : "memory");
}

int peaks_memory_list(peaks_memory out[PEAKS_MOST])
{
    out[0] = (peaks_memory){"read", 1, read_words};
    out[1] = (peaks_memory){"copy", 2, copy_words};
    out[2] = (peaks_memory){"fill", 1, fill_words};
    return 3;
}

#endif
