/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The AMX kernel on the processor's own tiles; isa_amx_emu.c is the same kernel on tiles in memory, for tests.
 *
 * cpuid.c lists the instruction set "amx" only if the processor has tiles and Linux permits them, so nothing here asks. The table of "amx"
 * (isa_avx512bf16.c) points to this kernel. cpu_gemm_run (gemm.c) calls begin and end around each product, on the worker that computes it:
 * the setting of tiles belongs to a thread.
 */
#include "backends/cpu/isa/gemm_kernels.h"

#if defined __x86_64__
#include "backends/cpu/isa/target.h"
CPU_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-bf16")

#define T_ZERO(t) _tile_zero(t)
#define T_LOAD(t, p, stride) _tile_loadd(t, p, stride)
#define T_DOT(c, a, b) _tile_dpbf16ps(c, a, b)
#define T_STORE(t, p, stride) _tile_stored(t, p, stride)
#define AMX_NAME amx_block
#include "backends/cpu/isa/kern_amx.inc"

/* The operand of ldtilecfg: all eight tiles have 16 rows of 64 bytes. Constant, because gcc's intrinsic declares that it reads only
 * eight of these bytes, so gcc dropped stores to the other bytes. */
static const struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} __attribute__((packed, aligned(64))) tiles_of_16 = {
    .palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

static void amx_begin(void)
{
    _tile_loadconfig(&tiles_of_16);
}

static void amx_end(void)
{
    _tile_release();
}

const cpu_tile_kernels cpu_amx_tiles = {amx_block, amx_begin, amx_end};
CPU_TARGET_END
#endif
