/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An instruction set: its vectors and its tables of kernels. Each subject has a table, declared in its own header next to the kernels
 * (gemm_kernels.h with kern_gemm.inc, ..). All sets are compiled from the same sources (isa_*.c); the opening of a device chooses one.
 * Constant data: any thread.
 */
#ifndef YOKE_BACKENDS_CPU_ISA_ISA_H
#define YOKE_BACKENDS_CPU_ISA_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yoke/plugin.h>

/* How products of bf16 are made. */
typedef enum cpu_bf16 {
    CPU_BF16_WIDENED, /* no instructions for them: as f32 */
    CPU_BF16_PAIRS,   /* vdpbf16ps: a 32-bit word is a pair of numbers along k */
    CPU_BF16_TILES    /* AMX */
} cpu_bf16;

/* Words of k that products are made of: the index of gemm and conv below. */
enum { CPU_WORDS_F32, CPU_WORDS_PAIRS };

typedef struct cpu_isa {
    const char *name;
    int vw; /* lanes of 32 bits */
    int mr; /* most rows of a register block; its columns are 2 * vw */
    cpu_bf16 bf16;
    const struct cpu_gemm_kernels *gemm[2]; /* for f32; for bf16 pairs, or NULL */
    const struct cpu_tile_kernels *tiles;   /* NULL without AMX */
    const struct cpu_conv_kernels *conv[2]; /* as gemm */
    const struct cpu_wino_kernels *wino;
    const struct cpu_pool_kernels *pool;
    const struct cpu_map_kernels *map;
    const struct cpu_row_kernels *rows; /* [0]: for f32, [1]: for bf16 */
    const struct cpu_vec_kernels *vec;
    const struct cpu_pack_kernels *pack;
    const struct cpu_random_kernels *random;
    const struct cpu_optim_kernels *optim;
} cpu_isa;

extern const cpu_isa cpu_isa_portable, cpu_isa_avx2, cpu_isa_avx512, cpu_isa_avx512bf16, cpu_isa_amx;

/* ---- cpuid.c: which of them this machine has ---- */

/* The set with the name `want`, or the best one for NULL; NULL after a failure, and *why lists the sets. */
const cpu_isa *cpu_isa_choose(const char *want, const char **why);
/* True if products of pairs beat f32 products for bf16 operands; ns: the time of one try of either. */
bool cpu_pairs_pay(const cpu_isa *isa, double (*ns)(const cpu_isa *, bool pairs));
/* How many ns a product takes here for one of a planner's guess, which counts with CPU_GUESSED_RATE operations each; measured,
 * a tenth of a millisecond. */
double cpu_isa_slowness(const cpu_isa *isa);
#define CPU_GUESSED_RATE 100.0
/* All sets this machine can run, best last. */
int cpu_isa_list(const cpu_isa *out[5]);

#endif
