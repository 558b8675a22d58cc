/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compute ABI: what a plugin for a kind of device implements, and what the host lends it.
 *
 * A plugin is one shared object with one exported symbol, yk_plugin_query, that returns a table of functions. It links
 * nothing of Yoke. The host hands it whole programs: flat graphs of static shape with a memory plan. The plugin turns a
 * graph into something it can run many times (a kernel list, a recorded command buffer, a device graph) and runs it in
 * an in-order queue.
 *
 * Growth: tables start with their size and only grow at the end; a reader tests `size` before it uses a later member.
 * New families of functions are named, versioned extensions ("yk.coll.1"). A major number (YK_ABI) is never reused.
 *
 * Threads, by tag in the comments: [any] from any thread at any time; [one] by one thread at a time for a given object.
 */
#ifndef YOKE_PLUGIN_H
#define YOKE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <yoke/dtype.h>
#include <yoke/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YK_ABI 1u         /* major version; the loader refuses any other */
#define YK_MAX_DIMS 8     /* dimensions of a value */
#define YK_NONE UINT32_MAX /* no slot, no value */

/* ---- Operations ------------------------------------------------------------------------------------------------ */

/*
 * X(enumerator, name, kind, precision class, tolerance class, least inputs, most inputs, outputs, attributes)
 *
 * kind       UN, BIN: elementwise on one, two operands; PRIM: other primitive; COMP: composite; CORE: handled by the
 *            core, a plugin never sees it.
 * precision  what autocast does with it: LOWP computes in the low format; FULL computes in f32; WIDE takes the widest
 *            format among its float inputs; KEEP takes its (first float) input's format; NONE is not about floats.
 * tolerance  against a float64 reference: EXACT bit for bit; ROUND one rounding; TRANS a few ulp; ACCUM c*sqrt(n)*eps
 *            of the sum of absolute products (c = 4, n = length of the sum).
 *
 * Attributes are int64; a float attribute holds the bits of a double (yk_attr_f64). Shapes and rules:
 *
 * All operands of an elementwise op have the shape of the output. Operands are dense row-major, or broadcast: any
 * subset of dimensions has stride 0, the remaining ones are dense among themselves. Only `copy` sees other strides,
 * and `dot` may see its last two dimensions swapped. Arithmetic of 16-bit floats is done in f32 and rounded once (to
 * nearest even) when stored; sums accumulate in f32 at least. An elementwise output may be the very memory of one of
 * its inputs of the same element size, never a shifted overlap.
 *
 * neg..erf      y = f(x), float. rsqrt = 1/sqrt(x), recip = 1/x.
 * cast          float, i32, u8, bool to any of these; float to i32 truncates; to bool: x != 0.
 * add..min      both operands and the output have one type: a float type or i32. max, min: if one operand is NaN, NaN.
 * lt, eq        output bool; operands of one type.
 * select        in: c bool, a, b; y = c ? a : b.
 * fill          attr value(f64); y[i] = value.
 * iota          attr axis; y = index along that axis (i32 or f32).
 * rng           attr stream; in: key i32[4], rows i32[R]; out f32 of n elements, R divides n: uniform in [0,1).
 *               element e: r = e / (n/R), c = rows[r] * (n/R) + e % (n/R) (64 bit, rows[r] >= 0);
 *               w = philox4x32-10(counter {lo(c/4), hi(c/4), stream, key[2]}, key {key[0], key[1]})[c % 4];
 *               y = (w >> 8) * 2^-24. key = {seed low, seed high, step, 0}. So the number depends on the global row,
 *               not on the device that holds it.
 * sum, rmax     attr bit mask of reduced axes; reduced axes have length 1 in the output. rmax of NaN is NaN.
 * argmax        attr axis; output i32, that axis of length 1; the first of equal maxima.
 * copy          in: x [, base]; any strides on x. With base: the output is a view of base (any strides), and the node
 *               writes only that view; base itself was completely written before.
 * gather        in: table [V, ...], index i32 [n]; out [n, ...]; a row whose index is outside 0..V-1 is zero.
 * scatter_add   in: src [n, ...], index i32 [n]; out [V, ...] = zeros, then out[index[k]] += src[k] in order of k; an
 *               index outside 0..V-1 is skipped. Asked with claims() whether it can accumulate, as a composite is.
 * unfold        attr kh kw sh sw ph pw dh dw pad(f64); x [N,C,H,W] -> [N, C*kh*kw, OH*OW]; pixels outside are `pad`.
 *               OH = (H + 2*ph - dh*(kh-1) - 1) / sh + 1.
 * fold          the adjoint: attr kh kw sh sw ph pw dh dw; x [N, C*kh*kw, OH*OW] -> [N,C,H,W], sums.
 * dot           a [.., M, K] x b [.., K, N] -> [.., M, N], 2 or 3 dimensions; the batch dimension may be broadcast;
 *               each of a, b dense or with its last two strides swapped. Inputs of one float type, output the same or
 *               f32. With YK_NODE_ACCUMULATE: out += result.
 *
 * Composites. Each has a body in primitives, which is its meaning; a plugin claims it, or the core replaces it.
 * map           body: elementwise nodes (and fill, iota is not allowed). Inputs (at most 24) and the 1..4 outputs have
 *               one shape; see yk_node.body.
 * dot_map       inputs a, b, then the leaves of the map; body: one dot, then elementwise nodes on its result. Outputs:
 *               1..3 values of the dot's shape (the dot's own result may be one).
 * map_sum       body: elementwise nodes, then one sum per output, all over the same axes.
 * conv2d        attr sh sw ph pw dh dw groups; x [N,C,H,W], w [O,C/groups,kh,kw] -> y [N,O,OH,OW].
 * conv2d_dx     the same attributes; gy, w -> gx [N,C,H,W].
 * conv2d_dw     the same; gy, x -> gw; may accumulate.
 * max_pool      attr kh kw sh sw ph pw dh dw; x -> y. Padding never wins. A NaN wins.
 * max_pool_bwd  the same; x, gy -> gx: each gy goes to the first maximum of its window in row-major order.
 * avg_pool      attr kh kw sh sw ph pw include_pad; x -> y. avg_pool_bwd: gy -> gx (shape of x from the output).
 * bn_stats      x [N,C,inner], shift f32 [C] -> f32 [3,C]: mean, sum((x-mean)^2), count. The result does not depend on the
 *               shift, a number near the mean: with s = sum(x-shift) the mean is shift + s/count, and the second row is
 *               sum((x-shift)^2) - s^2/count, which then cancels little.
 * layer_norm    attr eps(f64) ; x [R,C], gamma f32 [C], beta f32 [C] -> y [R,C], mean f32 [R], rstd f32 [R]
 *               (biased variance; rstd = 1/sqrt(var + eps)). Without gamma and beta (1 input): plain normalisation.
 *               With gamma alone (2 inputs): no beta. y has x's type, or 16 bits beside f32 (see claims).
 * layer_norm_bwd  gy, x, mean, rstd [, gamma] -> gx [, ggamma [C]] [, gbeta [C]]: 1 output without gamma, 3 with;
 *               attr 0 has no meaning to it.
 * softmax       attr log(0|1); over the last axis of [R,C]. softmax_bwd: attr log; gy, y -> gx.
 * attention     attr causal scale(f64) p(f64) stream flags; q [B,H,Tq,D], k, v [B,Hk,Tk,D] (Hk divides H), then, by
 *               flags: YK_ATT_KEEP key_keep f32 [B,Tk] (0 = never seen), YK_ATT_BIAS bias f32 (broadcast view of
 *               [B,H,Tq,Tk], added to the scaled scores), YK_ATT_DROP key i32[4], rows i32[B] (dropout of the
 *               probabilities by rng over [B,H,Tq,Tk], kept where u >= p, scaled by 1/(1-p))
 *               -> out [B,H,Tq,D], lse f32 [B,H,Tq]. causal: key j is seen by query i if j <= i + Tk - Tq. A query
 *               that sees no key gives 0 (lse = -inf) and passes no gradient.
 * attention_bwd the same attributes; gout, out, lse, then q, k, v and the rest as above -> gq, gk, gv
 *               [, gbias f32 of the full shape [B,H,Tq,Tk] if flags has YK_ATT_GBIAS].
 * cross_entropy attr ignore smoothing(f64); logits [R,C], labels i32 [R] [, weight f32 [C]] -> loss f32 [R], lse f32 [R].
 *               loss = w[y](1-s)(lse - z[y]) + s/C * sum_c w[c](lse - z[c]); 0 where y == ignore. A label outside
 *               0..C-1 that is not `ignore` gives NaN.
 * cross_entropy_bwd  the same; gloss f32 [R], logits, labels, lse [, weight] -> glogits [R,C]. Its probabilities are
 *               softmax(logits): with large logits lse, stored in f32, is too coarse to get them from. glogits may be
 *               the very memory of logits.
 * dropout       attr p(f64) stream; x, key i32[4], rows i32[R] -> y = u >= p ? x/(1-p) : 0 with u = rng.
 * relu..sigmoid y = f(x). gelu: x/2 (1 + erf(x/sqrt 2)); gelu_tanh: x/2 (1 + tanh(sqrt(2/pi)(x + 0.044715 x^3)));
 *               silu: x/(1+e^-x). X_bwd: x, gy -> gx (tanh_bwd, sigmoid_bwd: y, gy -> gx). relu_bwd is 0 at x = 0.
 *               These may stand inside the body of a map whose plugin claims them, and so may dropout: then its key and
 *               rows are operands of the map that keep their shapes, and lie in slots of the host's inputs.
 * adam_step     attr flags (YK_OPT_*); g, p, m, v, hyper f32 [16] [, vmax] -> p, m, v [, vmax], each in place, all
 *               flat f32 [n].
 * sgd_step      attr flags; g, p, b, hyper -> p, b in place (b is left out of both when momentum is not used).
 * grad_stats    g f32 [n] -> f32 [2]: sum of (g*hyper)^2 and the number of elements that are not finite; in: g,
 *               scale f32 [1].
 *
 * Numbers below the normal ones (in f32 and bf16 1.2e-38) may count as zero, in what is read and in what is written: the CPU
 * plugin does so, as some processors take a hundred times longer for them; OpenCL does as its driver does. So a loss of 1e-39
 * may be 0 on one device and not on another, and neither is wrong.
 *
 * hyper: see YK_HYPER_*. First g' = g * GRAD_SCALE, then clamped to [-CLIP, CLIP] (CLIP = inf: not), then negated if
 * YK_OPT_MAXIMIZE.
 *   adam: if DECOUPLED p *= 1 - LR*DECAY else g' += DECAY*p; m = B1 m + (1-B1) g'; v = B2 v + (1-B2) g'^2;
 *         (amsgrad: vmax = max(vmax, v), used for v); p -= LR/C1 * m / (sqrt(v)/sqrt(C2) + EPS), C1 = 1-B1^t, and
 *         hyper holds C1 and sqrt(C2).
 *   sgd:  g' += DECAY*p; b = FIRST ? g' : B1*b + (1-B2)*g' (B1 momentum, B2 dampening);
 *         p -= LR*(NESTEROV ? g' + B1*b : b).
 */
#define YK_OP_TABLE(X)                                                                                                 \
    X(YK_OP_NEG, "neg", UN, WIDE, EXACT, 1, 1, 1, 0)                                                                   \
    X(YK_OP_ABS, "abs", UN, WIDE, EXACT, 1, 1, 1, 0)                                                                   \
    X(YK_OP_EXP, "exp", UN, FULL, TRANS, 1, 1, 1, 0)                                                                   \
    X(YK_OP_LOG, "log", UN, FULL, TRANS, 1, 1, 1, 0)                                                                   \
    X(YK_OP_SQRT, "sqrt", UN, FULL, TRANS, 1, 1, 1, 0)                                                                 \
    X(YK_OP_RSQRT, "rsqrt", UN, FULL, TRANS, 1, 1, 1, 0)                                                               \
    X(YK_OP_RECIP, "recip", UN, FULL, TRANS, 1, 1, 1, 0)                                                               \
    X(YK_OP_TANH, "tanh", UN, WIDE, TRANS, 1, 1, 1, 0)                                                                 \
    X(YK_OP_ERF, "erf", UN, FULL, TRANS, 1, 1, 1, 0)                                                                   \
    X(YK_OP_CAST, "cast", UN, NONE, ROUND, 1, 1, 1, 0)                                                                 \
    X(YK_OP_ADD, "add", BIN, WIDE, ROUND, 2, 2, 1, 0)                                                                  \
    X(YK_OP_SUB, "sub", BIN, WIDE, ROUND, 2, 2, 1, 0)                                                                  \
    X(YK_OP_MUL, "mul", BIN, WIDE, ROUND, 2, 2, 1, 0)                                                                  \
    X(YK_OP_DIV, "div", BIN, WIDE, TRANS, 2, 2, 1, 0)                                                                  \
    X(YK_OP_MAX, "max", BIN, WIDE, EXACT, 2, 2, 1, 0)                                                                  \
    X(YK_OP_MIN, "min", BIN, WIDE, EXACT, 2, 2, 1, 0)                                                                  \
    X(YK_OP_LT, "lt", BIN, WIDE, EXACT, 2, 2, 1, 0)                                                                    \
    X(YK_OP_EQ, "eq", BIN, WIDE, EXACT, 2, 2, 1, 0)                                                                    \
    X(YK_OP_SELECT, "select", PRIM, WIDE, EXACT, 3, 3, 1, 0)                                                           \
    X(YK_OP_FILL, "fill", PRIM, NONE, EXACT, 0, 0, 1, 1)                                                               \
    X(YK_OP_IOTA, "iota", PRIM, NONE, EXACT, 0, 0, 1, 1)                                                               \
    X(YK_OP_RNG, "rng", PRIM, NONE, EXACT, 2, 2, 1, 1)                                                                 \
    X(YK_OP_SUM, "sum", PRIM, FULL, ACCUM, 1, 1, 1, 1)                                                                 \
    X(YK_OP_RMAX, "rmax", PRIM, KEEP, EXACT, 1, 1, 1, 1)                                                               \
    X(YK_OP_ARGMAX, "argmax", PRIM, NONE, EXACT, 1, 1, 1, 1)                                                           \
    X(YK_OP_COPY, "copy", PRIM, KEEP, EXACT, 1, 2, 1, 0)                                                               \
    X(YK_OP_GATHER, "gather", PRIM, KEEP, EXACT, 2, 2, 1, 0)                                                           \
    X(YK_OP_SCATTER_ADD, "scatter_add", PRIM, FULL, ACCUM, 2, 2, 1, 0)                                                 \
    X(YK_OP_UNFOLD, "unfold", PRIM, KEEP, EXACT, 1, 1, 1, 9)                                                           \
    X(YK_OP_FOLD, "fold", PRIM, FULL, ACCUM, 1, 1, 1, 8)                                                               \
    X(YK_OP_DOT, "dot", PRIM, LOWP, ACCUM, 2, 2, 1, 0)                                                                 \
    X(YK_OP_MAP, "map", COMP, NONE, TRANS, 0, 24, 0, 0)                                                                \
    X(YK_OP_DOT_MAP, "dot_map", COMP, NONE, ACCUM, 2, 24, 0, 0)                                                        \
    X(YK_OP_MAP_SUM, "map_sum", COMP, NONE, ACCUM, 1, 24, 0, 0)                                                        \
    X(YK_OP_CONV2D, "conv2d", COMP, LOWP, ACCUM, 2, 2, 1, 7)                                                           \
    X(YK_OP_CONV2D_DX, "conv2d_dx", COMP, LOWP, ACCUM, 2, 2, 1, 7)                                                     \
    X(YK_OP_CONV2D_DW, "conv2d_dw", COMP, LOWP, ACCUM, 2, 2, 1, 7)                                                     \
    X(YK_OP_MAX_POOL, "max_pool", COMP, KEEP, EXACT, 1, 1, 1, 8)                                                       \
    X(YK_OP_MAX_POOL_BWD, "max_pool_bwd", COMP, KEEP, ACCUM, 2, 2, 1, 8)                                               \
    X(YK_OP_AVG_POOL, "avg_pool", COMP, KEEP, ACCUM, 1, 1, 1, 7)                                                       \
    X(YK_OP_AVG_POOL_BWD, "avg_pool_bwd", COMP, KEEP, ACCUM, 1, 1, 1, 7)                                               \
    X(YK_OP_BN_STATS, "bn_stats", COMP, KEEP, ACCUM, 2, 2, 1, 0)                                                       \
    X(YK_OP_LAYER_NORM, "layer_norm", COMP, FULL, ACCUM, 1, 3, 3, 1)                                                   \
    X(YK_OP_LAYER_NORM_BWD, "layer_norm_bwd", COMP, FULL, ACCUM, 4, 5, 0, 1)                                           \
    X(YK_OP_SOFTMAX, "softmax", COMP, FULL, ACCUM, 1, 1, 1, 1)                                                         \
    X(YK_OP_SOFTMAX_BWD, "softmax_bwd", COMP, FULL, ACCUM, 2, 2, 1, 1)                                                 \
    X(YK_OP_ATTENTION, "attention", COMP, LOWP, ACCUM, 3, 7, 2, 5)                                                     \
    X(YK_OP_ATTENTION_BWD, "attention_bwd", COMP, LOWP, ACCUM, 6, 10, 0, 5)                                            \
    X(YK_OP_CROSS_ENTROPY, "cross_entropy", COMP, KEEP, ACCUM, 2, 3, 2, 2)                                             \
    X(YK_OP_CROSS_ENTROPY_BWD, "cross_entropy_bwd", COMP, KEEP, ACCUM, 4, 5, 1, 2)                                     \
    X(YK_OP_DROPOUT, "dropout", COMP, KEEP, ROUND, 3, 3, 1, 2)                                                         \
    X(YK_OP_RELU, "relu", COMP, WIDE, EXACT, 1, 1, 1, 0)                                                               \
    X(YK_OP_RELU_BWD, "relu_bwd", COMP, WIDE, EXACT, 2, 2, 1, 0)                                                       \
    X(YK_OP_GELU, "gelu", COMP, WIDE, TRANS, 1, 1, 1, 0)                                                               \
    X(YK_OP_GELU_BWD, "gelu_bwd", COMP, WIDE, TRANS, 2, 2, 1, 0)                                                       \
    X(YK_OP_GELU_TANH, "gelu_tanh", COMP, WIDE, TRANS, 1, 1, 1, 0)                                                     \
    X(YK_OP_GELU_TANH_BWD, "gelu_tanh_bwd", COMP, WIDE, TRANS, 2, 2, 1, 0)                                             \
    X(YK_OP_SILU, "silu", COMP, WIDE, TRANS, 1, 1, 1, 0)                                                               \
    X(YK_OP_SILU_BWD, "silu_bwd", COMP, WIDE, TRANS, 2, 2, 1, 0)                                                       \
    X(YK_OP_SIGMOID, "sigmoid", COMP, WIDE, TRANS, 1, 1, 1, 0)                                                         \
    X(YK_OP_SIGMOID_BWD, "sigmoid_bwd", COMP, WIDE, TRANS, 2, 2, 1, 0)                                                 \
    X(YK_OP_TANH_BWD, "tanh_bwd", COMP, WIDE, TRANS, 2, 2, 1, 0)                                                       \
    X(YK_OP_ADAM_STEP, "adam_step", COMP, NONE, TRANS, 5, 6, 0, 1)                                                     \
    X(YK_OP_SGD_STEP, "sgd_step", COMP, NONE, TRANS, 3, 4, 0, 1)                                                       \
    X(YK_OP_GRAD_STATS, "grad_stats", COMP, NONE, ACCUM, 2, 2, 1, 0)                                                   \
    X(YK_OP_ALL_STATS, "all_stats", CORE, KEEP, ACCUM, 2, 2, 1, 0)                                                     \
    X(YK_OP_ALL_REDUCE, "all_reduce", CORE, NONE, ACCUM, 1, 1, 1, 1)

typedef enum yk_op {
#define YK_OP_ENUM(e, name, kind, prec, tol, least, most, outs, attrs) e,
    YK_OP_TABLE(YK_OP_ENUM)
#undef YK_OP_ENUM
        YK_OP_COUNT
} yk_op;

enum { YK_REDUCE_SUM, YK_REDUCE_MOMENTS, YK_REDUCE_MAX }; /* all_reduce: how; moments of [3,C] as bn_stats makes them */
enum { YK_ATT_KEEP = 1, YK_ATT_BIAS = 2, YK_ATT_DROP = 4, YK_ATT_GBIAS = 8 };          /* attention: flags */
enum { YK_OPT_DECOUPLED = 1, YK_OPT_AMSGRAD = 2, YK_OPT_NESTEROV = 4, YK_OPT_MAXIMIZE = 8 }; /* adam_step, sgd_step */
enum { /* positions in hyper */
    YK_HYPER_LR, YK_HYPER_B1, YK_HYPER_B2, YK_HYPER_EPS, YK_HYPER_DECAY, YK_HYPER_GRAD_SCALE, YK_HYPER_CLIP,
    YK_HYPER_C1, YK_HYPER_SQRT_C2, YK_HYPER_FIRST, YK_HYPER_COUNT = 16
};

/* ---- Graphs ---------------------------------------------------------------------------------------------------- */

typedef struct yk_device yk_device;   /* opaque; owned by the plugin, as are the next three */
typedef struct yk_buffer yk_buffer;
typedef struct yk_queue yk_queue;
typedef struct yk_program yk_program;
typedef struct yk_graph yk_graph;

/* What a slot holds. */
typedef enum yk_slot_kind {
    YK_SLOT_ARENA,  /* scratch of the program; always slot 0; nothing survives a step there */
    YK_SLOT_INPUT,  /* written by the host before a run: batches, scalars, random keys */
    YK_SLOT_PARAM,  /* trained */
    YK_SLOT_STATE,  /* optimizer state, running statistics */
    YK_SLOT_GRAD,   /* a gradient bucket */
    YK_SLOT_RESULT, /* read by the host after a run */
    YK_SLOT_KIND_COUNT
} yk_slot_kind;

typedef struct yk_slot {
    uint64_t bytes;
    uint32_t kind; /* yk_slot_kind */
    uint32_t key;  /* the core's own name for the buffer; means nothing to a plugin */
} yk_slot;

typedef struct yk_value {
    uint8_t dtype, dims; /* yk_dtype; number of dimensions, 0 = scalar of one element */
    uint16_t flags;      /* YK_VALUE_* */
    uint32_t base;       /* the value this one is a view of, or its own index */
    uint32_t slot;       /* index into yk_graph.slot; YK_NONE before the memory plan (in claims()) and in bodies */
    uint32_t reserved;
    uint64_t offset;                /* bytes from the start of the slot (views: already with their own offset) */
    int64_t dim[YK_MAX_DIMS];       /* lengths; 0 is never seen by a plugin */
    int64_t stride[YK_MAX_DIMS];    /* in elements; 0 = broadcast */
} yk_value;

enum { YK_VALUE_INPUT = 1, YK_VALUE_OUTPUT = 2 }; /* comes from, goes to a slot that outlives the program's run */

typedef struct yk_node {
    uint16_t op, flags;          /* yk_op; YK_NODE_* */
    uint16_t n_in, n_out;
    uint32_t in, out;            /* first entry in index[]: value numbers */
    uint32_t attr, n_attr;       /* first entry in attr[] */
    uint32_t body, n_body;       /* map, dot_map, map_sum: nodes in node[] after the n_node top ones; n_body = 0: none.
                                    Body nodes use the composite's own input and output values, and values of their own
                                    that have no slot. */
    uint32_t stream, reserved;   /* number of the node in the user's program, for messages */
} yk_node;

enum { YK_NODE_ACCUMULATE = 1 }; /* out += result; only if claims() allowed it, always allowed on dot into f32 */

struct yk_graph {
    uint32_t size;             /* bytes of this struct that are filled */
    uint32_t n_value, n_node;  /* top nodes, in execution order */
    uint32_t n_all_node;       /* with bodies */
    uint32_t n_index, n_attr, n_slot, reserved;
    const yk_value *value;
    const yk_node *node;
    const uint32_t *index;
    const int64_t *attr;
    const yk_slot *slot;
    uint64_t hash;             /* of everything above */
};

static inline double yk_attr_f64(int64_t a)
{
    double d;
    memcpy(&d, &a, sizeof d);
    return d;
}

static inline int64_t yk_attr_of_f64(double d)
{
    int64_t a;
    memcpy(&a, &d, sizeof a);
    return a;
}

/* ---- What the host lends --------------------------------------------------------------------------------------- */

typedef struct yk_host {
    uint32_t size;                         /* bytes of this table that are filled */
    uint32_t abi;                          /* YK_ABI of the host */
    void *(*alloc)(size_t bytes, size_t align);                       /* [any]; NULL when memory is gone */
    void (*free)(void *p);                                            /* [any] */
    void (*log)(int level, const char *who, const char *fmt, ...);    /* [any]; 0 error .. 4 trace */
    void (*fail)(const char *who, const char *fmt, ...);              /* [any]; explains the status returned next by
                                                                         this thread (for a queue: by queue_wait) */
    /* The value of the option YOKE_<PLUGIN>_<KEY> (or the device spec's own setting, which wins), or NULL. The string
     * lives until fini. Keys every host sets: CORES, the cores for this rank's threads ("0-3,6"). [any] */
    const char *(*option)(const char *plugin, const char *key);
    /* Reference kernel: runs one node (composites too) on host memory in double precision, storing in the values'
     * types; slot[i] is where slot i lies. Slow. [any] */
    yk_status (*eval_node)(const yk_graph *g, uint32_t node, void *const *slot);
    /* Where a plugin may keep compiled kernels: a folder that exists and can be written, or NULL. [any] */
    const char *(*cache_dir)(void);
} yk_host;

/* ---- What a plugin offers -------------------------------------------------------------------------------------- */

enum {
    YK_CAP_HOST_VISIBLE = 1 << 0,  /* buffer_map works */
    YK_CAP_WRAP = 1 << 1,          /* buffer_wrap works */
    YK_CAP_DETERMINISTIC = 1 << 2, /* equal inputs give equal bits */
    YK_CAP_CPU = 1 << 3,           /* computes on the host's cores, which it should not share with another rank */
    YK_CAP_STRIDED_ATTENTION = 1 << 4, /* attention operands may have any strides but a dense last dimension */
    YK_CAP_CORES = 1 << 5, /* the plugin's one device is the host's cores, any subset of them by option CORES: in device
                             specs: "PLUGIN:0-3" then names cores, and "PLUGIN/2" splits them between two ranks */
    YK_CAP_STRIDED_RESULTS = 1 << 6 /* attention's out, and gq, gk, gv of its gradient, may be views with any strides but a
                                       dense last dimension, of values that the node alone writes and that are all of the
                                       view, or of two or three of the gradients side by side */
};

typedef struct yk_device_caps {
    uint32_t size, flags;
    char name[96];
    char locality[64];           /* "pci:0000:c1:00.0", "cores:0-3", or "" when unknown */
    uint64_t mem_total, mem_free; /* bytes, now; 0 = unknown */
    uint64_t max_alloc;          /* bytes of one buffer; 0 = no limit known */
    uint32_t align;              /* slot offsets are multiples of this; a power of two */
    uint32_t units;              /* compute units or threads; for reports */
    uint32_t store, compute;     /* bit masks of dtypes: can be stored; have arithmetic (inputs of dot and map) */
    char isa[64];                /* what it computes with ("avx512bf16", "sm_90"), for reports */
} yk_device_caps;

typedef struct yk_wait {
    yk_queue *queue; /* of the same plugin */
    uint64_t point;
} yk_wait;

typedef struct yk_submit {
    uint32_t size, n_wait, n_slot, reserved;
    const yk_wait *wait;          /* start only when these points are done */
    yk_program *program;
    yk_buffer *const *slot;       /* one per slot of the graph; NULL where the program does not touch it */
    const uint64_t *slot_offset;  /* where in the buffer the slot starts, bytes; a multiple of caps.align */
    const uint64_t *slot_version; /* grows when the contents were changed by anything but this program's own nodes */
} yk_submit;

/* What claims answers. */
enum {
    YK_CLAIM_RUN = 1,        /* the device runs the node */
    YK_CLAIM_ACCUMULATE = 2, /* also with YK_NODE_ACCUMULATE */
    YK_CLAIM_NARROW_OUT = 4, /* layer_norm of f32: also with y in a 16-bit format */
};

typedef struct yk_plugin {
    uint32_t size, abi;     /* sizeof(yk_plugin) as the plugin was compiled; YK_ABI */
    const char *name;       /* a-z0-9_, as in YOKE_DEVICES */
    const char *version;
    const char *sanitizer;  /* "none", "address" or "thread": another than the host's is refused */
    yk_status (*init)(const yk_host *host); /* once, before everything else */
    void (*fini)(void);                     /* once; returns with all plugin threads joined */
    yk_status (*device_count)(uint32_t *n); /* 0 without an error where driver or device is absent */
    yk_status (*device_caps)(uint32_t i, yk_device_caps *caps); /* fills at most caps->size bytes */
    yk_status (*device_open)(uint32_t i, yk_device **dev);
    void (*device_close)(yk_device *dev);
    /* Whether the device runs this composite node: 0, or YK_CLAIM_RUN with what else holds (YK_CLAIM_*).
     * Asked before the memory plan: values have shapes, dtypes and strides, no offsets. [any] */
    uint32_t (*claims)(yk_device *dev, const yk_graph *g, uint32_t node);
    yk_status (*buffer_new)(yk_device *dev, uint64_t bytes, yk_buffer **b); /* contents undefined [any] */
    /* A buffer over host memory that the caller keeps alive and page-aligned; needs YK_CAP_WRAP. [any] */
    yk_status (*buffer_wrap)(yk_device *dev, void *host, uint64_t bytes, yk_buffer **b);
    void (*buffer_free)(yk_buffer *b); /* the queues that used it are idle [any] */
    /* Host address of a buffer, for reading and writing while no queue uses it; NULL if not host visible. [any] */
    void *(*buffer_map)(yk_buffer *b);
    /* Compiles. The graph and all it points to lives as long as the program. [any] */
    yk_status (*program_new)(yk_device *dev, const yk_graph *g, yk_program **p);
    void (*program_free)(yk_program *p);
    yk_status (*queue_new)(yk_device *dev, yk_queue **q);
    void (*queue_free)(yk_queue *q); /* waits for what runs */
    /* The next five: [one] per queue. Each of run, put, get returns the point that completes it; points grow by one.
     * src and dst stay valid until then. After a failure every later call returns the same status; a call that is
     * refused for its arguments (YK_E_ARG) may instead change nothing, not even take a point. */
    yk_status (*queue_run)(yk_queue *q, const yk_submit *s, uint64_t *point);
    yk_status (*queue_put)(yk_queue *q, yk_buffer *b, uint64_t offset, const void *src, uint64_t bytes, uint64_t *point);
    yk_status (*queue_get)(yk_queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, uint64_t *point);
    yk_status (*queue_poll)(yk_queue *q, uint64_t *done); /* last finished point */
    /* YK_E_TIMEOUT if the point is not done within timeout_ns (UINT64_MAX = for ever). */
    yk_status (*queue_wait)(yk_queue *q, uint64_t point, uint64_t timeout_ns);
    const void *(*extension)(const char *name); /* NULL: unknown. The pointer itself may be NULL */
    /* Bytes of device memory that running this graph takes beside its slots (packed operands, sums in parts). Programs of
     * a device take turns, so it holds as much as the greediest of them needs. Neither allocates device memory nor
     * compiles. The pointer may be NULL: nothing worth counting, or not known beforehand. [any] */
    yk_status (*graph_scratch)(yk_device *dev, const yk_graph *g, uint64_t *bytes);
} yk_plugin;

/* The one exported symbol: `const yk_plugin *yk_plugin_query(uint32_t abi)`. NULL if it cannot serve that major. */
typedef const yk_plugin *(*yk_plugin_query_fn)(uint32_t abi);
#define YK_PLUGIN_SYMBOL "yk_plugin_query"

#ifdef __cplusplus
}
#endif
#endif
