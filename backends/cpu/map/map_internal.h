/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled elementwise program from inside: made by map_plan.c, run by map.c. */
#ifndef YOKE_BACKENDS_CPU_MAP_MAP_INTERNAL_H
#define YOKE_BACKENDS_CPU_MAP_MAP_INTERNAL_H

#include "backends/cpu/isa/map_kernels.h"
#include "backends/cpu/exec/cpu.h"

#define CPU_MAP_IN 120 /* fusion gives 24 operands and 48 operations at most, an operation has two constants at most */
#define CPU_MAP_OUT 4
#define CPU_MAP_REGS 512

typedef enum cpu_in_kind {
    CPU_IN_SPECIAL, /* handed to every evaluation */
    CPU_IN_DENSE,
    CPU_IN_CONST,   /* one number of the program */
    CPU_IN_SCALAR,  /* one element of memory */
    CPU_IN_PLANE,   /* one element for every `run` elements: a channel's number */
    CPU_IN_PERIOD,  /* repeats after a few thousand elements: spread out once a run */
    CPU_IN_STRIDED,
    CPU_IN_RANDOM   /* dropout's mask: all bits of the elements that are kept */
} cpu_in_kind;

typedef struct cpu_map_in {
    cpu_in_kind kind;
    uint8_t dtype;
    uint16_t reg, filled; /* CONST, SCALAR: one element in reg, a block of it in filled (0 if unneeded) */
    cpu_ref ref;
    uint32_t bits; /* CONST */
    int dims;      /* collapsed, innermost first */
    int64_t len[YK_MAX_DIMS], stride[YK_MAX_DIMS];
    int64_t period;
    size_t store; /* PERIOD: offset in the scratch */
    cpu_ref rows; /* RANDOM: ref is the key */
    int64_t row;  /* elements of a row */
    uint32_t stream;
    int32_t least; /* kept from here on, of 2^24 */
} cpu_map_in;

typedef struct cpu_map_ins {
    cpu_map_kernel fn;
    uint16_t dst, a, b, c;
    uint8_t op;
    bool one;                                /* computes one element, for the whole chunk */
    int8_t dst_mask, a_mask, b_mask, c_mask; /* -1: a block, 0: one element */
} cpu_map_ins;

typedef struct cpu_map_out {
    cpu_ref ref;
    uint8_t dtype;
    uint16_t reg;
    bool store;     /* copied out after the block */
    int32_t direct; /* the instruction that writes straight to memory, or -1 */
} cpu_map_out;

/* The whole map is one of batch norm's chains: which operands are which. */
typedef struct cpu_map_chain {
    bool found, bf16, rows, swapped; /* rows: numbers of PERIOD operands; swapped: the sum of g comes second */
    uint8_t kind, form, x, r, h, n_number;
    uint8_t number[4];
} cpu_map_chain;

/* The whole map is gelu of a product and a bias, or gelu's backward with or without gelu again. */
typedef struct cpu_map_gelu {
    bool found, back, tanh, bf16;
    uint8_t x;     /* the operand next to the product: the bias, or gelu's input */
    int8_t out[2]; /* indices of its results; -1 if unneeded */
} cpu_map_gelu;

typedef struct cpu_map {
    uint32_t n_in, n_ins, n_out, n_reg, n_plane;
    int64_t block, plane_run; /* run: elements that share the numbers of the PLANE operands; 0 without such operands */
    size_t bytes;             /* scratch */
    cpu_map_in in[CPU_MAP_IN];
    cpu_map_out out[CPU_MAP_OUT];
    cpu_map_chain chain;
    cpu_map_gelu gelu;
    cpu_map_kernel bf16_op;  /* the whole map is one operation from bf16 to bf16 ... */
    uint32_t bf16_a, bf16_b; /* ... of these operands */
    size_t *store;           /* by register: offset in the scratch */
    cpu_map_ins *ins;
} cpu_map;

/* bytes of an element */
static inline uint32_t cpu_map_item(int dtype)
{
    return yk_dtype_bytes((uint32_t)dtype);
}

/* Before the forms of instructions are chosen. */
void cpu_map_find_chain(cpu_map *map);
/* Before gelu and its backward are taken apart. */
void cpu_map_find_gelu(cpu_map *map);

#endif
