/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the instruction sets that this machine has, by feature bits and the operating system's consent, never by family or model, and
 * chooses one.
 *
 * cpu_plugin.c asks when it describes or opens a device. YOKE_CPU_ISA names the set; without it the widest set is taken. If that set
 * multiplies bf16 in pairs and a test finds them slower than f32, the next narrower one is. cpu_isa_slowness times a product, to correct
 * the planners' guesses. The first request for AMX asks Linux for tile registers, for the whole process.
 */
#include "backends/cpu/isa/gemm_kernels.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "plugins/kit/kit_clock.h"
#if defined __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define XCR0_AVX 0x6u
#define XCR0_AVX512 0xe6u
#define XCR0_TILES 0x60000u
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

static uint64_t xcr0_read(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool has_all(uint32_t reg, uint32_t bits)
{
    return (reg & bits) == bits;
}

/* Linux hands out the tile registers on request only; for the whole process, threads to come included. */
static bool may_use_tiles(void)
{
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

int cpu_isa_list(const cpu_isa *out[5])
{
    uint32_t a, b, c, d, a1, b1, c1, d1;
    int n = 0;
    out[n++] = &cpu_isa_portable;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !has_all((uint32_t)xcr0_read(), XCR0_AVX))
        return n;
    uint32_t leaf1 = c;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return n;
    if (!(b & bit_AVX2) || !has_all(leaf1, bit_FMA | bit_F16C))
        return n;
    out[n++] = &cpu_isa_avx2;
    if (!has_all(b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL) || !has_all((uint32_t)xcr0_read(), XCR0_AVX512))
        return n;
    out[n++] = &cpu_isa_avx512;
    if (__get_cpuid_count(7, 1, &a1, &b1, &c1, &d1) && (a1 & 1u << 5))
        out[n++] = &cpu_isa_avx512bf16;
    else
        return n; /* every processor with tiles has it */
    if (has_all(d, 1u << 22 | 1u << 24) && has_all((uint32_t)xcr0_read(), XCR0_TILES) && may_use_tiles())
        out[n++] = &cpu_isa_amx;
    return n;
}
#else
int cpu_isa_list(const cpu_isa *out[5])
{
    out[0] = &cpu_isa_portable;
    return 1;
}
#endif

/* ---- Which is fastest ---- */

#define TRY_WORDS 128 /* words of k: strip and panel stay in L1 */
#define LEAST_TRIES 24
#define MOST_TRIES 480 /* 5 ms */

/* ns of a full block, of pairs or of f32 */
static double try_kernel(const cpu_isa *isa, bool pairs)
{
    const cpu_packed_kernel kernel = isa->gemm[pairs]->packed[14][2];
    static _Alignas(64) uint32_t a[14 * TRY_WORDS], b[32 * TRY_WORDS];
    float c[14 * 32];
    const uint64_t begin = kit_now_ns();
    for (int r = 0; r < 4; r++)
        kernel(TRY_WORDS, a, b, 32, c, 32, 32, 0, NULL, 0);
    return (double)(kit_now_ns() - begin);
}

/*
 * A pair product does twice the work of an f32 one. AMD starts both once a cycle; Intel starts pairs at a quarter of that, so bf16 without
 * tiles is faster there through f32. CPUID does not tell the two apart, but a tenth of a millisecond of each does. A pair product may take
 * twice an f32 one's time (equal speed); AMD and Intel each lie a factor of two from that border. Tries alternate, with the least time of
 * each, so that a slow phase of the core affects both. While the result is near the border, the tries continue.
 */
bool cpu_pairs_pay(const cpu_isa *isa, double (*ns)(const cpu_isa *, bool pairs))
{
    double pair = 1e30, f32 = 1e30;
    for (int i = 0; i < LEAST_TRIES || (i < MOST_TRIES && pair > 1.4 * f32 && pair < 2.8 * f32); i++) {
        double p = ns(isa, true), f = ns(isa, false);
        pair = p < pair ? p : pair;
        f32 = f < f32 ? f : f32;
    }
    return pair < 2.0 * f32;
}

double cpu_isa_slowness(const cpu_isa *isa)
{
    const cpu_packed_kernel kernel = isa->gemm[CPU_WORDS_F32]->packed[isa->mr][2];
    static _Alignas(64) float a[14 * TRY_WORDS], b[32 * TRY_WORDS];
    const int columns = 2 * isa->vw;
    float c[14 * 32];
    double least = 1e30;
    for (int i = 0; i < LEAST_TRIES; i++) {
        const uint64_t begin = kit_now_ns();
        for (int r = 0; r < 4; r++)
            kernel(TRY_WORDS, a, b, (size_t)columns, c, (size_t)columns, (size_t)columns, 0, NULL, 0);
        const double ns = (double)(kit_now_ns() - begin);
        least = ns < least ? ns : least;
    }
    return least * CPU_GUESSED_RATE / (4.0 * 2.0 * TRY_WORDS * isa->mr * columns);
}

/* Measured once in a process: a noisy core could give a device another set than its capabilities name. */
static const cpu_isa *isa_fastest(const cpu_isa *const *have, int n)
{
    static _Atomic(const cpu_isa *) fastest;
    const cpu_isa *isa = atomic_load(&fastest);
    if (isa)
        return isa;
    isa = have[n - 1];
    if (n > 1 && isa->bf16 == CPU_BF16_PAIRS && !cpu_pairs_pay(isa, try_kernel))
        isa = have[n - 2];
    const cpu_isa *first = NULL; /* of two threads that measure at once the first one counts */
    return atomic_compare_exchange_strong(&fastest, &first, isa) ? isa : first;
}

const cpu_isa *cpu_isa_choose(const char *want, const char **why)
{
    static char text[160];
    const cpu_isa *have[5];
    int n = cpu_isa_list(have);
    if (!want || !*want)
        return isa_fastest(have, n);
    for (int i = 0; i < n; i++)
        if (!strcmp(have[i]->name, want))
            return have[i];
    int at = snprintf(text, sizeof text, "YOKE_CPU_ISA=%.32s: this machine has", want);
    for (int i = 0; i < n; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, " %s", have[i]->name);
    *why = text;
    return NULL;
}
