/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cpu/isa/isa_bf16.inc"

#if defined __x86_64__
#include "backends/cpu/isa/target.h"
CPU_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-bf16")

#define T_ZERO(t) _tile_zero(t)
#define T_LOAD(t, p, stride) _tile_loadd(t, p, stride)
#define T_DOT(c, a, b) _tile_dpbf16ps(c, a, b)
#define T_STORE(t, p, stride) _tile_stored(t, p, stride)
#define AMX_NAME cpu_amx_tile
#include "backends/cpu/isa/kern_amx.inc"

/* all eight tiles: 16 rows of 64 bytes */
void cpu_amx_begin(void)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } __attribute__((packed)) cfg = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        cfg.bytes[i] = 64;
        cfg.rows[i] = 16;
    }
    _tile_loadconfig(&cfg);
}

void cpu_amx_end(void)
{
    _tile_release();
}
CPU_TARGET_END
#endif
