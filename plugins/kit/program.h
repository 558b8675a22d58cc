/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a graph is lowered to (lower/lower.h): units to compile, launches in order, and their arguments, for a device that
 * is described by a kit_target. A backend reads the tables; only the lowering fills them.
 *
 * Thread rule: one thread per object; targets are only read. No state elsewhere.
 */
#ifndef YOKE_PLUGINS_KIT_PROGRAM_H
#define YOKE_PLUGINS_KIT_PROGRAM_H

#include <stdbool.h>
#include <string.h>

#include "plugins/kit/text.h"

/* What every device must have: shared memory of a group in the CPU shape, work-items of a group in the GPU shape. */
#define KIT_LOCAL_LEAST (32u << 10)
#define KIT_GROUP_LEAST 128u
#define KIT_GROUP_MOST 256u /* more are not used */

/* Slots and scratch memory begin at multiples of it, where products are a library's. */
#define KIT_PRODUCT_ALIGN 256u

/* An operand of a product, in elements; a batch that is broadcast has stride 0. */
typedef struct kit_matrix {
    int64_t row_stride, col_stride, batch_stride;
    uint32_t dtype;
    uint32_t align; /* bytes that its place in memory is a multiple of; KIT_PRODUCT_ALIGN at most */
} kit_matrix;

/*
 * C[z] = A[z] x B[z], or that added to C: A of `rows` x `terms`, B of `terms` x `cols`, C dense. Operands of 8 bits have a scale each that
 * they are multiplied with. Without padding: equal bytes, equal products.
 */
typedef struct kit_product {
    int64_t batch, rows, cols, terms;
    kit_matrix a, b, c;
    uint64_t accumulate;
    /*
     * What is done before it is stored, not of 8 bits; bias, before and addend are further arguments. bias: a row of C's type is added to
     * all rows; gelu (in its tanh form), KIT_GELU: C is gelu of that sum, which also goes to `before`, a matrix like C, if there is one;
     * KIT_GELU_GRADIENT: the product is multiplied with the slope of gelu at `before`; addend: a matrix like C is added.
     */
    uint32_t bias, gelu, before, addend;
} kit_product;
enum { KIT_GELU = 1, KIT_GELU_GRADIENT = 2 };

/* Strides of batch, head and row; the elements of a head lie side by side. */
typedef struct kit_heads {
    int64_t batch, head, row;
} kit_heads;

/*
 * Attention of 16 bits without masks but the causal one and without dropout, or its gradients: operands [batch, heads, queries or keys,
 * size], each at a multiple of 16 bytes, lse dense. Without padding: equal bytes, equal attention.
 */
typedef struct kit_attention {
    int64_t batch, heads, queries, keys, size;
    kit_heads q, k, v, out, gout, gq, gk, gv; /* forward: the first four */
    uint32_t dtype, causal, backward;
    float scale;
} kit_attention;

/*
 * y = x * w, a convolution, or one of its gradients, from the gradient of y and the other: x [images, channels, height, width],
 * w [filters, channels / groups, tall, wide], y [images, filters, rows, cols], all dense, of one type, each at a multiple of 16 bytes. Sums
 * are in fp32. Without padding: equal bytes, equal convolution.
 */
typedef struct kit_convolution {
    int64_t images, channels, height, width, filters, tall, wide, rows, cols, groups;
    int64_t stride[2], zeros[2], dilation[2]; /* of rows, of columns; zeros: before the first and behind the last */
    uint32_t kind, dtype;
    uint64_t accumulate; /* it is added to what is there */
} kit_convolution;
enum { KIT_CONV_FORWARD, KIT_CONV_DATA, KIT_CONV_FILTER };

/* Matrices of rows x terms and of terms x cols, and their product. */
typedef struct kit_coop {
    uint32_t rows, cols, terms;
} kit_coop;
enum { KIT_COOP_F16, KIT_COOP_BF16, KIT_COOPS };

/* A device, as far as it decides about launches. A member comes with the first kernel that asks for it. */
typedef struct kit_target {
    const yk_host *host;   /* allocates, and tells the user why something failed */
    const char *plugin;    /* who says so */
    bool cpu_shape;        /* a work-item is a group of its own and computes in vectors; no: groups of many work-items */
    bool four;             /* GPU shape, a compiler of C++: a work-item computes four elements of rows at once (K_FOUR of dialect.kc) */
    uint32_t lanes;        /* GPU shape: work-items are lanes of a processor's vector, so many of them; 0: of a GPU */
    uint32_t units;        /* groups that run at the same time, at least: compute units, multiprocessors, cores */
    /*
     * GPU shape: terms of a product of small matrices by tensor cores (kernels/mma.kc): 16, of bf16 and f16; 8, of f16 alone; 0: there are
     * none. A group's work-items are warps of 32 then.
     */
    uint32_t mma;
    /*
     * GPU shape: cooperative matrices that a subgroup of coop_lanes work-items computes with (coop.h), of operands in f16 and in bf16;
     * rows 0: there are none.
     */
    kit_coop coop[KIT_COOPS];
    uint32_t coop_lanes;
    uint32_t max_group;    /* work-items of a group; 0: KIT_GROUP_MOST */
    uint32_t max_local;    /* bytes of memory that a group's work-items share */
    uint64_t max_alloc;    /* bytes of one allocation; 0: no limit known */
    uint64_t memory;       /* bytes that the device has, for how much a product's copies may take; 0: not known */
    /*
     * Whether a library of the vendor's computes this product, and the bytes of scratch memory that it then needs; always the same answer
     * for one device. NULL: the kit's kernels compute them all.
     */
    bool (*product)(yk_device *dev, const kit_product *product, uint64_t *scratch);
    /* The same of attention; NULL: the kit's kernels compute it. */
    bool (*attention)(yk_device *dev, const kit_attention *attention, uint64_t *scratch);
    /* The same of a convolution. */
    bool (*convolution)(yk_device *dev, const kit_convolution *convolution, uint64_t *scratch);
    bool eight;     /* it may be asked for products of YK_F8E4M3 and YK_F8E5M2, whose terms lie side by side */
    yk_device *dev; /* for it */
} kit_target;

typedef enum kit_arg_kind {
    KIT_ARG_SLOT,    /* memory: a slot of the graph, as it was bound at submission */
    KIT_ARG_SCRATCH, /* memory: what a node's launches tell each other; the next node overwrites it */
    KIT_ARG_META,    /* memory: kit_program.meta, which launches only read */
    KIT_ARG_I64,
    KIT_ARG_I32,
    KIT_ARG_F32
} kit_arg_kind;

/* One argument. Memory takes two parameters of the kernel: where it begins, and a 64-bit offset in elements. */
typedef struct kit_arg {
    uint8_t kind;    /* kit_arg_kind */
    uint8_t element; /* memory: bytes of an element */
    uint32_t slot;   /* KIT_ARG_SLOT: which */
    union {
        uint64_t offset; /* memory: bytes from its beginning (a slot's: from where the slot begins) */
        int64_t i64;
        int32_t i32;
        float f32;
    } value;
} kit_arg;

#define KIT_NAME 32   /* characters of a kernel's name, with the end */
#define KIT_MACROS 256 /* characters of the macros of a unit */

/* What is compiled together: a file of the kit under some macros, or one kernel that was generated. */
typedef struct kit_unit {
    const char *file;        /* NULL: generated */
    char macros[KIT_MACROS]; /* "-DT=f32 -DNV=2" */
    char kernel[KIT_NAME];   /* generated: its name, which is made of the key */
    uint64_t key;            /* generated: of its text. Equal keys, equal kernels, over all programs of a target */
    size_t begin, end;       /* generated: its text in kit_program.text */
} kit_unit;

typedef struct kit_launch {
    uint32_t unit;         /* which unit has it; YK_NONE: it is a library's, a product, an attention or a convolution */
    uint32_t product;      /* a product, of kit_program.product, over A, B, C, scratch memory, and of 8 bits
                              the scales of A and B; then bias, before, addend, those it has; YK_NONE: it is none */
    uint32_t attention;    /* an attention, of kit_program.attention, over q, k, v, out, lse, scratch memory; or gout, out, lse, q, k, v,
                              gq, gk, gv, delta (f32, a number for each query), scratch memory. YK_NONE: it is none */
    uint32_t convolution;  /* a convolution, of kit_program.convolution, over x, w, y, scratch memory; or gy, w, gx; or gy, x, gw. YK_NONE:
                              it is none */
    uint32_t node;         /* for messages */
    char kernel[KIT_NAME];
    uint64_t groups[3];    /* how many, in x, y, z; none is 0 */
    uint32_t local;        /* work-items of a group, all in x; 1 in the CPU shape */
    uint32_t arg, n_arg;   /* kit_program.arg[arg .. arg + n_arg - 1], in the kernel's order */
} kit_launch;

typedef struct kit_program {
    kit_unit *unit;
    kit_launch *launch; /* in order; each depends on all before it */
    kit_arg *arg;
    int64_t *meta;
    kit_product *product; /* the library's */
    kit_attention *attention;
    kit_convolution *convolution;
    size_t n_unit, n_launch, n_arg, n_meta, n_product, n_attention, n_convolution;
    size_t cap_unit, cap_launch, cap_arg, cap_meta, cap_product, cap_attention, cap_convolution;
    uint64_t scratch_bytes; /* of memory that a run needs beside slots and meta */
    kit_text text;          /* of generated kernels */
    const yk_host *host;
} kit_program;

void kit_program_init(kit_program *program, const yk_host *host); /* empty */
void kit_program_free(kit_program *program); /* an empty or zeroed one too */

/* "dot gemm_0f.. [64,784] [784,256] -> [64,256]": a launch's operation, kernel and shapes; cut where it is long. */
#define KIT_LAUNCH_TEXT 160
void kit_launch_text(const yk_graph *graph, const kit_launch *launch, char text[KIT_LAUNCH_TEXT]);

/*
 * The element at which a memory argument begins, if what it lies in begins at byte `at` of the memory a kernel is given.
 * False: not at a multiple of its elements.
 */
static inline bool kit_arg_element(const kit_arg *arg, uint64_t at, uint64_t *element)
{
    *element = (at + arg->value.offset) / arg->element;
    return (at + arg->value.offset) % arg->element == 0;
}

/* A number's bits at the beginning of 8 bytes, as every kernel interface takes them; the bytes behind them are 0. */
static inline uint64_t kit_arg_bits(const kit_arg *arg)
{
    uint64_t bits = 0;
    memcpy(&bits, &arg->value, arg->kind == KIT_ARG_I64 ? sizeof arg->value.i64 : sizeof arg->value.i32);
    return bits;
}

static inline bool kit_arg_is_memory(const kit_arg *arg)
{
    return arg->kind <= KIT_ARG_META;
}

#endif
