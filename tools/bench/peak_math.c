/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops for `yoke bench peaks` that do nothing but multiply and add, by each instruction set; peaks.c times them, a thread on each core.
 *
 * Fifteen independent sums hide the latency of an instruction that starts twice a cycle and takes six. Twelve reached nine tenths of
 * vdpbf16ps' rate on a Zen 5. Assembly with fixed registers, so that no compiler spills or folds them. It uses only registers 0 to 15,
 * which every compiler knows as clobbers without a target attribute; one is left for both factors.
 */
#include "tools/bench/peak_loops.h"

#include <stdbool.h>

#if defined __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIFTEEN(ins, r)                                                                                                      \
    ins(r, 0) ins(r, 1) ins(r, 2) ins(r, 3) ins(r, 4) ins(r, 5) ins(r, 6) ins(r, 7) ins(r, 8) ins(r, 9) ins(r, 10)           \
    ins(r, 11) ins(r, 12) ins(r, 13) ins(r, 14)
#define A_TURN 30 /* instructions: twice fifteen */
#define CLEAR(r, i) "vxorps %%xmm" #i ", %%xmm" #i ", %%xmm" #i "\n"
#define FMA(r, i) "vfmadd231ps %%" r "15, %%" r "15, %%" r #i "\n"
#define DPBF16(r, i) "vdpbf16ps %%" r "15, %%" r "15, %%" r #i "\n"
#define DPBUSD(r, i) "vpdpbusd %%" r "15, %%" r "15, %%" r #i "\n"
#define DPBUSD_VEX(r, i) "%{vex%} vpdpbusd %%" r "15, %%" r "15, %%" r #i "\n"
#define SSE(r, i) "mulps %%xmm15, %%xmm" #i "\naddps %%xmm15, %%xmm" #i "\n"

#define REGISTERS                                                                                                      \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",         \
        "xmm13", "xmm14", "xmm15", "cc", "memory"

/* A_TURN instructions a turn; both factors are the 32 bits of `bits`, repeated. */
#define LOOP(name, ins, r, bits)                                                                                       \
    static void name(uint64_t iterations)                                                                                   \
    {                                                                                                                  \
        const uint32_t value = bits;                                                                                   \
        __asm__ volatile("vbroadcastss %1, %%" r "15\n" FIFTEEN(CLEAR, r) "1:\n" FIFTEEN(ins, r) FIFTEEN(ins, r)        \
                         "dec %0\n"                                                                                    \
                         "jnz 1b\n"                                                                                    \
                         "vzeroupper\n"                                                                                \
                         : "+r"(iterations)                                                                                 \
                         : "m"(value)                                                                                  \
                         : REGISTERS);                                                                                 \
    }

#define HALF 0x3f000000u       /* 0.5f: no sum becomes infinite or denormal */
#define HALVES 0x3f003f00u     /* two of them in bf16 */
#define ONES_INT8 0x01010101u

LOOP(fma_avx2, FMA, "ymm", HALF)
LOOP(fma_avx512, FMA, "zmm", HALF)
LOOP(bf16_avx512, DPBF16, "zmm", HALVES)
LOOP(int8_avx512, DPBUSD, "zmm", ONES_INT8)
LOOP(int8_avx, DPBUSD_VEX, "ymm", ONES_INT8)

static void mul_add_sse(uint64_t iterations)
{
    const uint32_t value[4] __attribute__((aligned(16))) = {HALF, HALF, HALF, HALF};
    __asm__ volatile("movaps %1, %%xmm15\n"
                     "1:\n" FIFTEEN(SSE, "") FIFTEEN(SSE, "") "dec %0\n"
                     "jnz 1b\n"
                     : "+r"(iterations)
                     : "m"(value)
                     : REGISTERS);
}

/* ---- AMX: four tiles of sums, two of each factor, as a register-blocked product uses them ---- */

static void tiles_begin(void)
{
    struct {
        uint8_t palette, start, zero[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shape __attribute__((aligned(64))) = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shape.row_bytes[i] = 64;
        shape.rows[i] = 16;
    }
    __asm__ volatile("ldtilecfg %0\n"
                     "tilezero %%tmm0\ntilezero %%tmm1\ntilezero %%tmm2\ntilezero %%tmm3\n"
                     "tilezero %%tmm4\ntilezero %%tmm5\ntilezero %%tmm6\ntilezero %%tmm7\n"
                     :
                     : "m"(shape));
}

static void tiles_end(void)
{
    __asm__ volatile("tilerelease");
}

#define TILES(ins)                                                                                                     \
    ins " %%tmm6, %%tmm4, %%tmm0\n" ins " %%tmm7, %%tmm4, %%tmm1\n" ins " %%tmm6, %%tmm5, %%tmm2\n" ins                 \
        " %%tmm7, %%tmm5, %%tmm3\n"

static void bf16_amx(uint64_t iterations)
{
    __asm__ volatile("1:\n" TILES("tdpbf16ps") "dec %0\njnz 1b\n" : "+r"(iterations) : : "cc");
}

static void int8_amx(uint64_t iterations)
{
    __asm__ volatile("1:\n" TILES("tdpbssd") "dec %0\njnz 1b\n" : "+r"(iterations) : : "cc");
}

/* ---- The machine's features: feature bits and the operating system's consent ---- */

typedef struct features {
    bool avx2, avx512, avx512bf16, avx512vnni, avxvnni, amx_bf16, amx_int8;
} features;

static bool has_bits(uint32_t reg, uint32_t bits)
{
    return (reg & bits) == bits;
}

/* Linux hands out the tile registers on request, for the whole process. */
static bool tiles_allowed(void)
{
    return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XTILEDATA */) == 0;
}

static features features_detect(void)
{
    features f = {0};
    uint32_t a, b, c, d, a1 = 0, b1, c1, d1, state, high;
    bool tiles;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_bits(c, bit_OSXSAVE | bit_FMA))
        return f;
    __asm__ volatile("xgetbv" : "=a"(state), "=d"(high) : "c"(0));
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return f;
    if (a > 0)
        __get_cpuid_count(7, 1, &a1, &b1, &c1, &d1);
    f.avx2 = has_bits(state, 0x6) && has_bits(b, bit_AVX2);
    f.avxvnni = f.avx2 && has_bits(a1, 1u << 4);
    f.avx512 = f.avx2 && has_bits(state, 0xe6) && has_bits(b, bit_AVX512F);
    f.avx512vnni = f.avx512 && has_bits(c, 1u << 11);
    f.avx512bf16 = f.avx512 && has_bits(a1, 1u << 5);
    tiles = f.avx512 && has_bits(state, 0x60000) && has_bits(d, 1u << 24) && tiles_allowed();
    f.amx_bf16 = tiles && has_bits(d, 1u << 22);
    f.amx_int8 = tiles && has_bits(d, 1u << 25);
    return f;
}

int peaks_math_list(peaks_math out[PEAKS_MOST])
{
    const features f = features_detect();
    const struct {
        bool have;
        peaks_math m;
    } table[] = {
        {!f.avx2, {"fp32", "sse mul+add", A_TURN * 4 * 2, mul_add_sse, NULL, NULL}},
        {f.avx2, {"fp32", "avx2 fma", A_TURN * 8 * 2, fma_avx2, NULL, NULL}},
        {f.avx512, {"fp32", "avx512 fma", A_TURN * 16 * 2, fma_avx512, NULL, NULL}},
        {f.avx512bf16, {"bf16", "avx512 vdpbf16ps", A_TURN * 32 * 2, bf16_avx512, NULL, NULL}},
        {f.amx_bf16, {"bf16", "amx tdpbf16ps", 4 * 16 * 16 * 32 * 2, bf16_amx, tiles_begin, tiles_end}},
        {f.avxvnni, {"int8", "avx vpdpbusd", A_TURN * 32 * 2, int8_avx, NULL, NULL}},
        {f.avx512vnni, {"int8", "avx512 vpdpbusd", A_TURN * 64 * 2, int8_avx512, NULL, NULL}},
        {f.amx_int8, {"int8", "amx tdpbssd", 4 * 16 * 16 * 64 * 2, int8_amx, tiles_begin, tiles_end}},
    };
    int n = 0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].have)
            out[n++] = table[i].m;
    return n;
}

#else

/* Four vectors of sums in the compiler's own registers. */
static void mul_add(uint64_t iterations)
{
    typedef float v4 __attribute__((vector_size(16)));
    const v4 half = {0.5f, 0.5f, 0.5f, 0.5f};
    v4 s[12] = {{0}};
    for (uint64_t i = 0; i < iterations; i++) {
        for (int k = 0; k < 12; k++)
            s[k] = s[k] * half + half;
        __asm__ volatile("" : "+m"(s));
    }
}

int peaks_math_list(peaks_math out[PEAKS_MOST])
{
    out[0] = (peaks_math){"fp32", "portable", 12 * 4 * 2, mul_add, NULL, NULL};
    return 1;
}

#endif
