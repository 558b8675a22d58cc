/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lowered graph (lower/lower.h): units to compile, launches in order, and their arguments, for the device of a kit_target. A backend
 * reads the tables; only the lowering fills them.
 *
 * Thread rule: one thread per object; targets are only read. No state elsewhere.
 */
#ifndef YOKE_PLUGINS_KIT_KIT_PROGRAM_H
#define YOKE_PLUGINS_KIT_KIT_PROGRAM_H

#include <stdbool.h>
#include <string.h>

#include "plugins/kit/kit_text.h"

/* Every device must have this: shared memory of a group in the CPU shape, work-items of a group in the GPU shape. */
#define KIT_LOCAL_LEAST (32u << 10)
#define KIT_GROUP_LEAST 128u
#define KIT_GROUP_MOST 256u /* more are not used */

/* Alignment of slots and scratch memory if a library computes products. */
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
     * Work on the result before it is stored, not for 8 bits; bias, before and addend are further arguments. bias: a row of C's type is
     * added to all rows. Form KIT_GELU: C is gelu (in its tanh form) of that sum, and `before`, a matrix like C, gets the sum, if present.
     * Or it is KIT_GELU_GRADIENT: the product is multiplied with gelu's slope at `before`. addend: a matrix like C is added.
     */
    uint32_t bias, gelu, before, addend;
} kit_product;
enum { KIT_GELU = 1, KIT_GELU_GRADIENT = 2 };

/* Strides of batch, head and row; the elements of a head lie side by side. */
typedef struct kit_heads {
    int64_t batch, head, row;
} kit_heads;

/*
 * Attention of 16 bits without masks but the causal one and without dropout, or its gradients. Operands are [batch, heads, queries or keys,
 * size], each at a multiple of 16 bytes; lse is dense. Without padding: equal bytes, equal attention.
 */
typedef struct kit_attention {
    int64_t batch, heads, queries, keys, size;
    kit_heads q, k, v, out, gout, gq, gk, gv; /* forward: the first four */
    uint32_t dtype, causal, backward;
    float scale;
} kit_attention;

/*
 * y = x * w, a convolution, or one of its gradients, from the gradient of y and the other operand. x [images, channels, height, width], w
 * [filters, channels / groups, tall, wide], y [images, filters, rows, cols]. They are dense, of one type, each at a multiple of 16 bytes.
 * Sums are in fp32. The struct has no padding, so equal bytes mean equal convolutions.
 */
typedef struct kit_convolution {
    int64_t images, channels, height, width, filters, tall, wide, rows, cols, groups;
    int64_t stride[2], zeros[2], dilation[2]; /* of rows, of columns; zeros: before the first and after the last */
    uint32_t kind, dtype;
    uint64_t accumulate; /* add to the output */
} kit_convolution;
enum { KIT_CONV_FORWARD, KIT_CONV_DATA, KIT_CONV_FILTER };

/* Matrices of rows x terms and of terms x cols, and their product. */
typedef struct kit_coop {
    uint32_t rows, cols, terms;
} kit_coop;
enum { KIT_COOP_F16, KIT_COOP_BF16, KIT_COOPS };

/* Where a node is computed. */
enum {
    KIT_PLACE_KERNELS, /* by kernels of the kit */
    KIT_PLACE_LIBRARY, /* by a library of operators */
    KIT_PLACE_HOST,    /* by the host, on copies of its operands */
    KIT_PLACE_NONE     /* nowhere: the program is refused */
};

/* A device, as far as it decides about launches. A member comes with the first kernel that asks for it. */
typedef struct kit_target {
    const yk_host *host;   /* allocates, and reports failures to the user */
    const char *plugin;    /* name in these reports */
    bool cpu_shape;        /* a work-item is a group and computes in vectors; false: groups of many work-items */
    bool four;             /* GPU shape, a compiler of C++: a work-item computes four elements of rows at once (K_FOUR of dialect.kc) */
    uint32_t lanes;        /* GPU shape on a processor: so many work-items are the lanes of a vector; 0 on a GPU */
    uint32_t units;        /* groups that run at the same time, at least: compute units, multiprocessors, cores */
    /*
     * GPU shape: terms of a product of small matrices by tensor cores (kernels/mma.kc): 16 for bf16 and f16; 8 for f16 only; 0 without
     * tensor cores. A group's work-items are then warps of 32.
     */
    uint32_t mma;
    /*
     * GPU shape: cooperative matrices of a subgroup of coop_lanes work-items (kit_coop.h), for operands in f16 and in bf16; rows is 0
     * without them.
     */
    kit_coop coop[KIT_COOPS];
    uint32_t coop_lanes;
    uint32_t max_group;    /* work-items of a group; 0: KIT_GROUP_MOST */
    uint32_t max_local;    /* bytes of memory that a group's work-items share */
    uint64_t max_alloc;    /* bytes of one allocation; 0: no limit known */
    uint64_t memory;       /* bytes that the device has, for how much a product's copies may take; 0: not known */
    /*
     * True if a vendor's library computes this product, and the bytes of scratch memory for it; always the same answer for one device.
     * NULL if the kit's kernels compute every product.
     */
    bool (*product)(yk_device *dev, const kit_product *product, uint64_t *scratch);
    /* The same of attention; NULL: the kit's kernels compute it. */
    bool (*attention)(yk_device *dev, const kit_attention *attention, uint64_t *scratch);
    /* The same of a convolution. */
    bool (*convolution)(yk_device *dev, const kit_convolution *convolution, uint64_t *scratch);
    bool eight;     /* `product` accepts YK_F8E4M3 and YK_F8E5M2, with contiguous terms */
    /*
     * KIT_PLACE_*; NULL: kernels compute every node. A node elsewhere is one launch without a unit; its arguments are the node's inputs,
     * then its outputs, in elements of one byte.
     */
    uint32_t (*place)(yk_device *dev, const yk_graph *graph, uint32_t node);
    yk_device *dev; /* for these functions */
} kit_target;

typedef enum kit_arg_kind {
    KIT_ARG_SLOT,    /* memory: a slot of the graph, as bound at submission */
    KIT_ARG_SCRATCH, /* memory: data between a node's launches; the next node overwrites it */
    KIT_ARG_META,    /* memory: kit_program.meta, which launches only read */
    KIT_ARG_I64,
    KIT_ARG_I32,
    KIT_ARG_F32
} kit_arg_kind;

/* One argument. Memory takes two parameters of the kernel: its begin, and a 64-bit offset in elements. */
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

/* One compilation: a file of the kit under some macros, or one generated kernel. */
typedef struct kit_unit {
    const char *file;        /* NULL: generated */
    char macros[KIT_MACROS]; /* "-DT=f32 -DNV=2" */
    char kernel[KIT_NAME];   /* generated: its name, which is made of the key */
    uint64_t key;            /* generated: hash of its text. Equal keys mean equal kernels, over all programs of a target */
    size_t begin, end;       /* generated: its text in kit_program.text */
} kit_unit;

typedef struct kit_launch {
    uint32_t unit;         /* index of its unit; YK_NONE for a library's product, attention or convolution */
    uint32_t product;      /* index in kit_program.product; arguments A, B, C, scratch memory, and for 8 bits the scales of A and B; then
                            * its bias, before, addend. YK_NONE for other launches */
    uint32_t attention;    /* index in kit_program.attention; arguments q, k, v, out, lse, scratch memory; or gout, out, lse, q, k, v,
                            * gq, gk, gv, delta (f32, a number for each query), scratch memory. YK_NONE for other launches */
    uint32_t convolution;  /* index in kit_program.convolution; arguments x, w, y, scratch memory; or gy, w, gx; or gy, x, gw. YK_NONE
                            * for other launches */
    uint32_t place;        /* KIT_PLACE_* */
    uint32_t node;         /* of the graph, for messages and other places */
    char kernel[KIT_NAME];
    uint64_t groups[3];    /* number of groups in x, y, z, never 0 */
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
    uint64_t scratch_bytes; /* memory that a run needs besides slots and meta */
    kit_text text;          /* text of generated kernels */
    const yk_host *host;
} kit_program;

void kit_program_init(kit_program *program, const yk_host *host); /* empty */
void kit_program_free(kit_program *program); /* an empty or zeroed one too */

/* "dot gemm_0f.. [64,784] [784,256] -> [64,256]": a launch's operation, kernel and shapes; cut where it is long. */
#define KIT_LAUNCH_TEXT 160
void kit_launch_text(const yk_graph *graph, const kit_launch *launch, char text[KIT_LAUNCH_TEXT]);

/*
 * The element at which a memory argument begins, if its memory begins at byte `at` of the kernel's buffer. False if that is no multiple
 * of its elements.
 */
static inline bool kit_arg_element(const kit_arg *arg, uint64_t at, uint64_t *element)
{
    *element = (at + arg->value.offset) / arg->element;
    return (at + arg->value.offset) % arg->element == 0;
}

/* A number's bits in the first of 8 bytes, as every kernel interface takes them; the other bytes are 0. */
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
