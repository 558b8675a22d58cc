/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eight tiles of 1 KiB in memory and the effect of tdpbf16ps on them: for tests of the AMX kernel's index logic on machines without AMX.
 * The table has the form of the one in isa_amx.c. tests/unit/cpu/gemm.c compiles this file, and calls it in the test's thread and in its
 * pool's workers; the plugin does not contain it.
 */
#include "backends/cpu/isa/gemm_kernels.h"

#include <string.h>

/* The tiles are no part of what is tested: sanitizers leave the emulation's loops alone, which take most of the time there. */
#if defined(__GNUC__) && !defined(__clang__)
#define EMU_LOOPS __attribute__((optimize("O3"), no_sanitize("address", "thread", "undefined")))
#else
#define EMU_LOOPS
#endif

static _Thread_local float emu[8][16][16];

static void emu_load(int t, const char *p, size_t stride)
{
    for (int r = 0; r < 16; r++)
        memcpy(emu[t][r], p + (size_t)r * stride, 64);
}

static void emu_store(int t, void *p, size_t stride)
{
    for (int r = 0; r < 16; r++)
        memcpy((char *)p + (size_t)r * stride, emu[t][r], 64);
}

EMU_LOOPS static float emu_bf16(float word, int which)
{
    uint32_t u;
    memcpy(&u, &word, 4);
    u = which ? u & 0xffff0000u : u << 16;
    memcpy(&word, &u, 4);
    return word;
}

EMU_LOOPS static void emu_dot(int c, int a, int b)
{
    for (int m = 0; m < 16; m++)
        for (int k = 0; k < 16; k++)
            for (int h = 0; h < 2; h++) {
                const float x = emu_bf16(emu[a][m][k], h);
                for (int n = 0; n < 16; n++)
                    emu[c][m][n] += x * emu_bf16(emu[b][k][n], h);
            }
}

#define T_ZERO(t) memset(emu[t], 0, sizeof emu[t])
#define T_LOAD(t, p, stride) emu_load(t, p, stride)
#define T_DOT(c, a, b) emu_dot(c, a, b)
#define T_STORE(t, p, stride) emu_store(t, p, stride)
#define AMX_NAME emu_block
#include "backends/cpu/isa/kern_amx.inc"

static void emu_ignore(void)
{
}

const cpu_tile_kernels cpu_amx_emulated_tiles = {emu_block, emu_ignore, emu_ignore};
