/* SPDX-License-Identifier: Apache-2.0 */
/* The bf16 products of AMX, compiled in a file of their own. */
#ifndef CPU_ISA_BF16_H
#define CPU_ISA_BF16_H

#include "cpu.h"

/* One block of 32 x 32: tiles of A (two of 16 x 32 for each 32 of k), a panel of B (pairs of k, 32 columns). */
void cpu_amx_tile(size_t kblocks, const void *a, const void *b, float *c, size_t ldc, size_t mb, size_t nb, int add);
void cpu_amx_begin(void);
void cpu_amx_end(void);
/* The same through emulated tiles, on any machine. */
void cpu_amx_emu_tile(size_t kblocks, const void *a, const void *b, float *c, size_t ldc, size_t mb, size_t nb,
                      int add);

#endif
