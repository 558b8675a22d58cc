/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compute ABI: functions that a plugin for a kind of device implements, and functions that the host lends it.
 *
 * A plugin is one shared object with one exported symbol, yk_plugin_query, that returns a table of functions. It links
 * nothing of Yoke. The host hands it whole programs: flat graphs of static shape with a memory plan. The plugin compiles a graph (to a
 * kernel list, a recorded command buffer, a device graph). It runs the result many times in an in-order queue.
 *
 * Growth. These rules hold within a major number (YK_ABI); a major number is never reused.
 *   Tables and descriptions, which begin with `size`, grow at the end. `size` is the writer's; a reader uses a later member
 *     only if the size covers it. Words called `reserved` are 0: the host guarantees that, a plugin need not check.
 *   Records that lie in arrays (yk_value, yk_node, yk_slot, yk_wait) are frozen. Later additions to them come as parallel
 *     arrays at the end of yk_graph, yk_submit or yk_copy.
 *   Numbers (yk_op, yk_dtype, flags, bits, kinds, statuses) are appended and never change. The set of primitives is complete:
 *     a later operation is a composite, with a body. Both sides state the counts they were compiled with (n_op, n_dtype).
 *     The host never sends a number beyond the plugin's: it sends an operation's body instead, and avoids the type.
 *   YK_ABI_MINOR grows with each addition. A sentence that holds only since some minor names it.
 *   New families of functions are named, versioned extensions ("yk.coll.1": yoke/extension.h).
 *
 * Threads, by tag in the comments: [any] from any thread at any time; [one] by one thread at a time for a given object.
 *
 * Arrays and descriptions passed to a function live during the call and no longer, unless its comment says otherwise.
 *
 * The process belongs to the host. A plugin does not change signal handlers, signal masks, the locale, or the cores and
 * rounding modes of threads that are not its own. A vendor's library may handle faults (SIGSEGV, SIGBUS, SIGILL, SIGFPE,
 * SIGTRAP, SIGABRT, SIGUSR2).
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

#define YK_ABI 2u         /* major version; the loader refuses any other */
#define YK_ABI_MINOR 7u   /* additions to the major version so far */
#define YK_MAX_DIMS 8     /* dimensions of a value */
#define YK_NONE UINT32_MAX /* no slot, no value */

/* ---- Operations ------------------------------------------------------------------------------------------------ */

/*
 * X(enumerator, number, name, kind, precision class, tolerance class, least inputs, most inputs, outputs, attributes)
 *
 * number     never changes; a new operation gets the next one and stands at the end, whatever its kind.
 * kind       UN, BIN: elementwise on one, two operands; PRIM: other primitive; COMP: composite; CORE: handled by the
 *            core, a plugin never sees it. yk_op_is_primitive: UN, BIN, PRIM.
 * precision  autocast's class. LOWP computes in the low format, FULL in f32. WIDE takes the widest format among its float inputs. KEEP
 *            takes the format of input 0, but cross_entropy_bwd that of the logits, and a copy that of its base. NONE gets no casts.
 * tolerance  against a float64 reference: EXACT bit for bit, ROUND one rounding, TRANS a few ulp. ACCUM c*sqrt(n)*eps of the sum of
 *            absolute products (c = 4, n = length of the sum). The suite's group `long` holds sums in f32 of any length to 1e-6 and
 *            products to 2e-6 of their absolute terms, attention excepted.
 *
 * Attributes are int64; a float attribute holds the bits of a double (yk_attr_f64). Shapes and rules:
 *
 * All operands of an elementwise op have the shape of the output. Operands are dense row-major, or broadcast: any
 * subset of dimensions has stride 0, the remaining ones are dense among themselves. The stride of a dimension of length 1
 * is arbitrary. Only `copy` receives other strides, and `dot` may receive its last two dimensions swapped. Further
 * strides come only to plugins that claim them (YK_CLAIM_STRIDED_OUT).
 * Arithmetic of 16-bit floats is done in f32 and rounded once (to nearest even) when stored; overflow gives an infinity.
 * Sums accumulate in f32 at least: an addition loses at most 2^-24 of the absolute terms, so n of them lose at most n 2^-24. A device
 * with YK_CAP_LONG_SUMS loses at most 1e-6 of them, and 2e-6 in a product, whatever n is. An operation that only moves data
 * keeps its bits, also of -0. An elementwise output may share exactly the memory of one of its inputs of the same element size,
 * never a shifted overlap.
 *
 * neg..erf      y = f(x), float. rsqrt = 1/sqrt(x), recip = 1/x. NaN gives NaN. At 0: log gives -inf, sqrt 0, rsqrt and recip inf.
 *               At inf: log and sqrt give inf, rsqrt and recip 0.
 * cast          float, i32, u8, bool to any of these. Float to i32 or u8 truncates; NaN and values outside the type give
 *               any number. So do values of i32 outside u8. To bool: x != 0, so NaN is true. From i32 to a 16-bit float
 *               directly or over f32. NaN stays NaN in every float type, whatever its payload.
 * add..min      both operands and the output have one type: a float type or i32. Arithmetic of i32 wraps around. Its div truncates, and
 *               gives any number, without a trap, for a divisor of 0 and for -2^31 / -1. For max and min: NaN if one operand is NaN; for +0
 *               and -0 either of them.
 * lt, eq        output bool; operands of one type: float or i32. With NaN false.
 * select        in: c bool, a, b; y = c ? a : b. a, b and y of one type: float or i32. NaN passes as it is.
 * fill          attr value(f64); y[i] = value.
 * iota          attr axis; y = index along that axis (i32 or f32).
 * rng           attr stream; in: key i32[4], rows i32[R]; out f32 of n elements, R divides n: uniform in [0,1).
 *               Element e: r = e / (n/R), c = rows[r] * (n/R) + e % (n/R) (64 bit, rows[r] >= 0).
 *               Word w = philox4x32-10(counter {lo(c/4), hi(c/4), stream, key[2]}, key {key[0], key[1]})[c % 4].
 *               Number y = (w >> 8) * 2^-24.
 *               Philox (Salmon et al., 2011) has multipliers 0xD2511F53, 0xCD9E8D57; key increments 0x9E3779B9, 0xBB67AE85.
 *               The key = {seed low, seed high, step, 0}. So the number depends on the global row, not on the device that holds it.
 *               The key and rows are dense.
 * sum, rmax     attr bit mask of reduced axes; reduced axes have length 1 in the output. The rmax of NaN is NaN. Both rmax and argmax are
 *               of float types; an axis of -inf alone gives -inf and its first index.
 * argmax        attr axis; output i32, that axis of length 1; the first of equal maxima; with NaN on the axis any index.
 * copy          in: x [, base]; any strides on x. With base: the output is a view of base (any strides), and the node
 *               writes only that view; base itself was completely written before.
 * gather        in: table [V, ...], index i32 [n]; out [n, ...]; a row whose index is outside 0..V-1 is zero.
 * scatter_add   in: src [n, ...], index i32 [n]; out [V, ...] = zeros, then out[index[k]] += src[k] in order of k. Or it adds in partial
 *               sums of several k each, determined by shapes and indices. An index outside 0..V-1 is skipped. It is a primitive, so the
 *               host always sends it; claims() only tells that it can accumulate (YK_CLAIM_ACCUMULATE), and then it may come with
 *               YK_NODE_ACCUMULATE.
 * unfold        attr kh kw sh sw ph pw dh dw pad(f64); x [N,C,H,W] -> [N, C*kh*kw, OH*OW]; pixels outside are `pad`.
 *               OH = (H + 2*ph - dh*(kh-1) - 1) / sh + 1.
 * fold          the adjoint: attr kh kw sh sw ph pw dh dw; x [N, C*kh*kw, OH*OW] -> [N,C,H,W], sums.
 * dot           a [.., M, K] x b [.., K, N] -> [.., M, N], 2 or 3 dimensions; the batch dimension may be broadcast. Each of a, b is dense
 *               or with its last two strides swapped. Inputs of one float type, output the same or f32. K = 0 gives zeros. With
 *               YK_NODE_ACCUMULATE: out += result, in all these forms, if out is f32. YK_NODE_A_*, YK_NODE_B_*: operands that 8 bits can
 *               hold; then an infinity may count as NaN.
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
 * bn_stats      x [N,C,inner], shift f32 [C] -> f32 [3,C]: mean, sum((x-mean)^2), count. The result does not depend on the shift, a number
 *               near the mean. With s = sum(x-shift) the mean is shift + s/count. The second row is sum((x-shift)^2) - s^2/count, which
 *               then cancels little. A single element gives x, 0, 1.
 * layer_norm    attr eps(f64) ; x [R,C], gamma f32 [C], beta f32 [C] -> y [R,C], mean f32 [R], rstd f32 [R]. The variance is biased;
 *               rstd = 1/sqrt(var + eps). Without gamma and beta (1 input): plain normalisation. With gamma alone (2 inputs): no beta.
 *               The type of y is x's, or 16 bits beside f32 (see claims).
 * layer_norm_bwd  gy, x, mean, rstd [, gamma] -> gx [, ggamma [C]] [, gbeta [C]]: 1 output without gamma, 3 with. Attr 0 has no meaning to
 *               it.
 * softmax       attr log(0|1); over the last axis of [R,C]. softmax_bwd: attr log; gy, y -> gx.
 * attention     attr causal scale(f64) p(f64) stream flags; q [B,H,Tq,D], k, v [B,Hk,Tk,D] (Hk divides H), then inputs by flags -> out
 *               [B,H,Tq,D], lse f32 [B,H,Tq]. YK_ATT_KEEP: key_keep f32 [B,Tk] (0 = never seen). YK_ATT_BIAS: bias f32, a broadcast view of
 *               [B,H,Tq,Tk], added to the scaled scores. YK_ATT_DROP: key i32[4], rows i32[B]; dropout of the probabilities by rng over
 *               [B,H,Tq,Tk], kept where u >= p, scaled by 1/(1-p). If causal, key j is seen by query i if j <= i + Tk - Tq. A query that
 *               sees no key gives 0 (lse = -inf) and passes no gradient.
 * attention_bwd the same attributes; gout, out, lse, then q, k, v and the rest as above -> gq, gk, gv [, gbias]. If flags has YK_ATT_GBIAS,
 *               gbias is f32 of the full shape [B,H,Tq,Tk].
 * cross_entropy attr ignore smoothing(f64); logits [R,C], labels i32 [R] [, weight f32 [C]] -> loss f32 [R], lse f32 [R].
 *               The loss = w[y](1-s)(lse - z[y]) + s/C * sum_c w[c](lse - z[c]); 0 where y == ignore. A label outside 0..C-1 that is
 *               not `ignore` gives NaN.
 * cross_entropy_bwd  the same; gloss f32 [R], logits, labels, lse [, weight] -> glogits [R,C]. Its probabilities are
 *               softmax(logits): with large logits lse, stored in f32, is too coarse to get them from. Memory of glogits may be that of
 *               logits.
 * dropout       attr p(f64) stream; x, key i32[4], rows i32[R] -> y = u >= p ? x/(1-p) : 0 with u = rng.
 * relu..sigmoid y = f(x). gelu: x/2 (1 + erf(x/sqrt 2)); gelu_tanh: x/2 (1 + tanh(sqrt(2/pi)(x + 0.044715 x^3)));
 *               silu: x/(1+e^-x). X_bwd: x, gy -> gx (tanh_bwd, sigmoid_bwd: y, gy -> gx). relu_bwd is 0 at x = 0.
 *               These may stand inside the body of a map whose plugin claims them, and so may dropout. Then its key and rows are operands
 *               of the map that keep their shapes, and lie in slots of the host's inputs.
 * adam_step     attr flags (YK_OPT_*); g, p, m, v, hyper f32 [16] [, vmax] -> p, m, v [, vmax], each in place. All of these are flat f32
 *               [n].
 * sgd_step      attr flags; g, p, b, hyper -> p, b in place (b is left out of both when momentum is not used).
 * grad_stats    g f32 [n] -> f32 [2]: sum of (g*hyper)^2 and the number of elements that are not finite; in: g,
 *               scale f32 [1].
 * round8        attr format (YK_ROUND8_*); x -> y of its type: each element rounded to 8 bits of that format, with one scale for all. The
 *               scale s = the largest power of two that scales max |x| to at most the format's largest number (448, 57344). In place of max
 *               |x| stands 2^-90 if that is larger. Then y = r(x s) / s. Here r rounds to the nearest number of the format, on a tie to the
 *               one whose last bit is 0. If an element is not finite, s = 1: such elements stay, and finite elements beyond the largest
 *               number become it. A zero may have either sign.
 * sinh          (since minor 2) y = (e^x - e^-x)/2, as near for x near 0. It may stand inside a map, as relu may.
 *
 * A result depends on the operands alone: memory of an output may hold anything before, NaN too, unless the node adds to it.
 *
 * Subnormal numbers (in f32 and bf16 below 1.2e-38) may count as zero, as inputs and as results. The CPU plugin does so, as
 * some processors are a hundred times slower on them; OpenCL does as its driver does. So a loss of 1e-39 may be 0 on one
 * device and not on another, and both results are valid. Subnormals of f16 (below 6.1e-5) are ordinary numbers.
 *
 * hyper: see YK_HYPER_*. First g' = g * GRAD_SCALE, then clamped to [-CLIP, CLIP] (CLIP = inf: not), then negated if
 * YK_OPT_MAXIMIZE.
 *   adam: if DECOUPLED p *= 1 - LR*DECAY else g' += DECAY*p.
 *         Moments: m = B1 m + (1-B1) g'; v = B2 v + (1-B2) g'^2. With amsgrad: vmax = max(vmax, v), used for v.
 *         Update: p -= LR/C1 * m / (sqrt(v)/sqrt(C2) + EPS), C1 = 1-B1^t. Here hyper holds C1 and sqrt(C2).
 *   sgd:  g' += DECAY*p; b = FIRST ? g' : B1*b + (1-B2)*g' (B1 momentum, B2 dampening).
 *         Update: p -= LR*(NESTEROV ? g' + B1*b : b).
 */
#define YK_OP_TABLE(X)                                                                                                 \
    X(YK_OP_NEG, 0, "neg", UN, WIDE, EXACT, 1, 1, 1, 0)                                                                \
    X(YK_OP_ABS, 1, "abs", UN, WIDE, EXACT, 1, 1, 1, 0)                                                                \
    X(YK_OP_EXP, 2, "exp", UN, FULL, TRANS, 1, 1, 1, 0)                                                                \
    X(YK_OP_LOG, 3, "log", UN, FULL, TRANS, 1, 1, 1, 0)                                                                \
    X(YK_OP_SQRT, 4, "sqrt", UN, FULL, TRANS, 1, 1, 1, 0)                                                              \
    X(YK_OP_RSQRT, 5, "rsqrt", UN, FULL, TRANS, 1, 1, 1, 0)                                                            \
    X(YK_OP_RECIP, 6, "recip", UN, FULL, TRANS, 1, 1, 1, 0)                                                            \
    X(YK_OP_TANH, 7, "tanh", UN, WIDE, TRANS, 1, 1, 1, 0)                                                              \
    X(YK_OP_ERF, 8, "erf", UN, FULL, TRANS, 1, 1, 1, 0)                                                                \
    X(YK_OP_CAST, 9, "cast", UN, NONE, ROUND, 1, 1, 1, 0)                                                              \
    X(YK_OP_ADD, 10, "add", BIN, WIDE, ROUND, 2, 2, 1, 0)                                                              \
    X(YK_OP_SUB, 11, "sub", BIN, WIDE, ROUND, 2, 2, 1, 0)                                                              \
    X(YK_OP_MUL, 12, "mul", BIN, WIDE, ROUND, 2, 2, 1, 0)                                                              \
    X(YK_OP_DIV, 13, "div", BIN, WIDE, TRANS, 2, 2, 1, 0)                                                              \
    X(YK_OP_MAX, 14, "max", BIN, WIDE, EXACT, 2, 2, 1, 0)                                                              \
    X(YK_OP_MIN, 15, "min", BIN, WIDE, EXACT, 2, 2, 1, 0)                                                              \
    X(YK_OP_LT, 16, "lt", BIN, WIDE, EXACT, 2, 2, 1, 0)                                                                \
    X(YK_OP_EQ, 17, "eq", BIN, WIDE, EXACT, 2, 2, 1, 0)                                                                \
    X(YK_OP_SELECT, 18, "select", PRIM, WIDE, EXACT, 3, 3, 1, 0)                                                       \
    X(YK_OP_FILL, 19, "fill", PRIM, NONE, EXACT, 0, 0, 1, 1)                                                           \
    X(YK_OP_IOTA, 20, "iota", PRIM, NONE, EXACT, 0, 0, 1, 1)                                                           \
    X(YK_OP_RNG, 21, "rng", PRIM, NONE, EXACT, 2, 2, 1, 1)                                                             \
    X(YK_OP_SUM, 22, "sum", PRIM, FULL, ACCUM, 1, 1, 1, 1)                                                             \
    X(YK_OP_RMAX, 23, "rmax", PRIM, KEEP, EXACT, 1, 1, 1, 1)                                                           \
    X(YK_OP_ARGMAX, 24, "argmax", PRIM, NONE, EXACT, 1, 1, 1, 1)                                                       \
    X(YK_OP_COPY, 25, "copy", PRIM, KEEP, EXACT, 1, 2, 1, 0)                                                           \
    X(YK_OP_GATHER, 26, "gather", PRIM, KEEP, EXACT, 2, 2, 1, 0)                                                       \
    X(YK_OP_SCATTER_ADD, 27, "scatter_add", PRIM, FULL, ACCUM, 2, 2, 1, 0)                                             \
    X(YK_OP_UNFOLD, 28, "unfold", PRIM, KEEP, EXACT, 1, 1, 1, 9)                                                       \
    X(YK_OP_FOLD, 29, "fold", PRIM, FULL, ACCUM, 1, 1, 1, 8)                                                           \
    X(YK_OP_DOT, 30, "dot", PRIM, LOWP, ACCUM, 2, 2, 1, 0)                                                             \
    X(YK_OP_MAP, 31, "map", COMP, NONE, TRANS, 0, 24, 0, 0)                                                            \
    X(YK_OP_DOT_MAP, 32, "dot_map", COMP, NONE, ACCUM, 2, 24, 0, 0)                                                    \
    X(YK_OP_MAP_SUM, 33, "map_sum", COMP, NONE, ACCUM, 1, 24, 0, 0)                                                    \
    X(YK_OP_CONV2D, 34, "conv2d", COMP, LOWP, ACCUM, 2, 2, 1, 7)                                                       \
    X(YK_OP_CONV2D_DX, 35, "conv2d_dx", COMP, LOWP, ACCUM, 2, 2, 1, 7)                                                 \
    X(YK_OP_CONV2D_DW, 36, "conv2d_dw", COMP, LOWP, ACCUM, 2, 2, 1, 7)                                                 \
    X(YK_OP_MAX_POOL, 37, "max_pool", COMP, KEEP, EXACT, 1, 1, 1, 8)                                                   \
    X(YK_OP_MAX_POOL_BWD, 38, "max_pool_bwd", COMP, KEEP, ACCUM, 2, 2, 1, 8)                                           \
    X(YK_OP_AVG_POOL, 39, "avg_pool", COMP, KEEP, ACCUM, 1, 1, 1, 7)                                                   \
    X(YK_OP_AVG_POOL_BWD, 40, "avg_pool_bwd", COMP, KEEP, ACCUM, 1, 1, 1, 7)                                           \
    X(YK_OP_BN_STATS, 41, "bn_stats", COMP, KEEP, ACCUM, 2, 2, 1, 0)                                                   \
    X(YK_OP_LAYER_NORM, 42, "layer_norm", COMP, FULL, ACCUM, 1, 3, 3, 1)                                               \
    X(YK_OP_LAYER_NORM_BWD, 43, "layer_norm_bwd", COMP, FULL, ACCUM, 4, 5, 0, 1)                                       \
    X(YK_OP_SOFTMAX, 44, "softmax", COMP, FULL, ACCUM, 1, 1, 1, 1)                                                     \
    X(YK_OP_SOFTMAX_BWD, 45, "softmax_bwd", COMP, FULL, ACCUM, 2, 2, 1, 1)                                             \
    X(YK_OP_ATTENTION, 46, "attention", COMP, LOWP, ACCUM, 3, 7, 2, 5)                                                 \
    X(YK_OP_ATTENTION_BWD, 47, "attention_bwd", COMP, LOWP, ACCUM, 6, 10, 0, 5)                                        \
    X(YK_OP_CROSS_ENTROPY, 48, "cross_entropy", COMP, KEEP, ACCUM, 2, 3, 2, 2)                                         \
    X(YK_OP_CROSS_ENTROPY_BWD, 49, "cross_entropy_bwd", COMP, KEEP, ACCUM, 4, 5, 1, 2)                                 \
    X(YK_OP_DROPOUT, 50, "dropout", COMP, KEEP, ROUND, 3, 3, 1, 2)                                                     \
    X(YK_OP_RELU, 51, "relu", COMP, WIDE, EXACT, 1, 1, 1, 0)                                                           \
    X(YK_OP_RELU_BWD, 52, "relu_bwd", COMP, WIDE, EXACT, 2, 2, 1, 0)                                                   \
    X(YK_OP_GELU, 53, "gelu", COMP, WIDE, TRANS, 1, 1, 1, 0)                                                           \
    X(YK_OP_GELU_BWD, 54, "gelu_bwd", COMP, WIDE, TRANS, 2, 2, 1, 0)                                                   \
    X(YK_OP_GELU_TANH, 55, "gelu_tanh", COMP, WIDE, TRANS, 1, 1, 1, 0)                                                 \
    X(YK_OP_GELU_TANH_BWD, 56, "gelu_tanh_bwd", COMP, WIDE, TRANS, 2, 2, 1, 0)                                         \
    X(YK_OP_SILU, 57, "silu", COMP, WIDE, TRANS, 1, 1, 1, 0)                                                           \
    X(YK_OP_SILU_BWD, 58, "silu_bwd", COMP, WIDE, TRANS, 2, 2, 1, 0)                                                   \
    X(YK_OP_SIGMOID, 59, "sigmoid", COMP, WIDE, TRANS, 1, 1, 1, 0)                                                     \
    X(YK_OP_SIGMOID_BWD, 60, "sigmoid_bwd", COMP, WIDE, TRANS, 2, 2, 1, 0)                                             \
    X(YK_OP_TANH_BWD, 61, "tanh_bwd", COMP, WIDE, TRANS, 2, 2, 1, 0)                                                   \
    X(YK_OP_ADAM_STEP, 62, "adam_step", COMP, NONE, TRANS, 5, 6, 0, 1)                                                 \
    X(YK_OP_SGD_STEP, 63, "sgd_step", COMP, NONE, TRANS, 3, 4, 0, 1)                                                   \
    X(YK_OP_GRAD_STATS, 64, "grad_stats", COMP, NONE, ACCUM, 2, 2, 1, 0)                                               \
    X(YK_OP_ALL_STATS, 65, "all_stats", CORE, KEEP, ACCUM, 2, 2, 1, 0)                                                 \
    X(YK_OP_ALL_REDUCE, 66, "all_reduce", CORE, NONE, ACCUM, 1, 1, 1, 1)                                               \
    X(YK_OP_ROUND8, 67, "round8", COMP, KEEP, EXACT, 1, 1, 1, 1)                                                       \
    X(YK_OP_SINH, 68, "sinh", COMP, WIDE, TRANS, 1, 1, 1, 0)

typedef enum yk_op {
#define YK_OP_ENUM(e, number, name, kind, prec, tol, least, most, outs, attrs) e = number,
    YK_OP_TABLE(YK_OP_ENUM)
#undef YK_OP_ENUM
        YK_OP_COUNT /* this header's count; see yk_plugin.n_op for the other side's */
} yk_op;

enum { YK_OP_KIND_NONE, YK_OP_KIND_UN, YK_OP_KIND_BIN, YK_OP_KIND_PRIM, YK_OP_KIND_COMP, YK_OP_KIND_CORE };

/* The kind in the table above; YK_OP_KIND_NONE for a number that this header does not know. [any] */
static inline int yk_op_kind(uint32_t op)
{
    switch (op) {
#define YK_OP_CASE(e, number, name, kind, prec, tol, least, most, outs, attrs)                                         \
    case number:                                                                                                       \
        return YK_OP_KIND_##kind;
        YK_OP_TABLE(YK_OP_CASE)
#undef YK_OP_CASE
    default:
        return YK_OP_KIND_NONE;
    }
}

/* True for an operation that every plugin runs, without a claim. */
#define yk_op_is_primitive(op) (yk_op_kind(op) >= YK_OP_KIND_UN && yk_op_kind(op) <= YK_OP_KIND_PRIM)

enum { YK_REDUCE_SUM, YK_REDUCE_MOMENTS, YK_REDUCE_MAX }; /* all_reduce: how; moments of [3,C] as bn_stats makes them */
enum { YK_ATT_KEEP = 1, YK_ATT_BIAS = 2, YK_ATT_DROP = 4, YK_ATT_GBIAS = 8 };          /* attention: flags */
enum { YK_ROUND8_E4M3, YK_ROUND8_E5M2 }; /* round8 */
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

/* Contents of a slot. */
typedef enum yk_slot_kind {
    YK_SLOT_ARENA,  /* scratch of the step, whose programs share it; its contents end with the step. A value that one program
                       leaves for a later one has YK_VALUE_OUTPUT in the one and YK_VALUE_INPUT in the other. Without a mark the plugin
                       chooses its place. There may be several, anywhere among the slots: the host splits temporaries that exceed
                       caps.max_alloc */
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
    uint32_t key;  /* the host's own name for the buffer; means nothing to a plugin */
} yk_slot;

typedef struct yk_value {
    uint8_t dtype, dims; /* yk_dtype; number of dimensions, 0 = scalar of one element */
    uint16_t flags;      /* YK_VALUE_* */
    uint32_t base;       /* the value this one is a view of, or its own index */
    uint32_t slot;       /* index into yk_graph.slot; YK_NONE before the memory plan (in claims()) and in bodies */
    uint32_t reserved;
    uint64_t offset;                /* bytes from the start of the slot, for views with their own offset added. A value
                                       that is no view: a multiple of its element's size (see caps.value_align) */
    int64_t dim[YK_MAX_DIMS];       /* lengths; 0 only as K of a dot */
    int64_t stride[YK_MAX_DIMS];    /* in elements; 0 = broadcast */
} yk_value;

enum { YK_VALUE_INPUT = 1, YK_VALUE_OUTPUT = 2 }; /* comes from, goes to memory that outlives the program's run: any slot but an arena. An
                                                     arena counts, too, if another program of the step has made, or will read, the value */

/*
 * Writers: one node writes a value that is no view, before any node that reads it. Three kinds of nodes write into existing memory. A copy
 * with a base and a composite with strided results write views of their value. Nodes of adam_step and sgd_step write views that are their
 * operands. Nodes with YK_NODE_ACCUMULATE add to their output. Two values may share memory if the first is no longer read. An elementwise
 * output (also map's) may begin exactly at an operand of its element size.
 */

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

enum {
    YK_NODE_ACCUMULATE = 1, /* out += result; only if claims() allowed it, always allowed on dot into f32 */
    /* For dot, in a body too: operand a, or b, is a result of round8 in this format. Sent to a plugin that claims a round8.
       The plugin may ignore it, or compute the product from 8 bits. With round8's scale for the operand, each element is a number of the
       format. */
    YK_NODE_A_E4M3 = 2, YK_NODE_A_E5M2 = 4, YK_NODE_B_E4M3 = 8, YK_NODE_B_E5M2 = 16
};

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
    uint64_t hash;             /* hash of the members above; equal in every process and on every machine */
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

/* ---- Functions of the host ------------------------------------------------------------------------------------- */

/* Every member up to `size` is present. */
typedef struct yk_host {
    uint32_t size;                         /* bytes of this table that are filled */
    uint32_t abi, minor;                   /* YK_ABI, YK_ABI_MINOR of the host */
    uint32_t n_op, n_dtype;                /* YK_OP_COUNT, YK_DTYPE_COUNT of the host */
    uint32_t reserved;
    void *(*alloc)(size_t bytes, size_t align);                       /* [any]; NULL when memory is gone */
    void (*free)(void *p);                                            /* [any] */
    void (*log)(int level, const char *who, const char *fmt, ...);    /* [any]; 0 error .. 4 trace */
    /* Explains the status that the plugin's function, called by this very thread, is about to return. A thread of the
     * plugin keeps its failure, and the call that returns the failed queue's status explains it. [any] */
    void (*fail)(const char *who, const char *fmt, ...);
    /* The value of the option YOKE_<PLUGIN>_<KEY>, or of the device spec's own setting, which wins; NULL if absent. The
     * string lives until fini. Every host sets CORES, the cores for this rank's threads ("0-3,6"), and since minor 6 DEVICE. DEVICE is the
     * number of the one device that this process opens, before init; "" if not known. It means nothing with YK_CAP_CORES. [any] */
    const char *(*option)(const char *plugin, const char *key);
    /* Reference kernel: runs one node (composites too) on host memory in double precision, storing in the values'
     * types; slot[i] is where slot i lies. Slow. [any] */
    yk_status (*eval_node)(const yk_graph *g, uint32_t node, void *const *slot);
    /* Folder for compiled kernels, existing and writable; NULL if absent. [any] */
    const char *(*cache_dir)(void);
    const void *(*extension)(const char *name); /* further functions of the host; NULL if unknown. [any] */
    /* As fail, where one node failed: `node` is its yk_node.stream, by which the host finds the line of the user's program.
     * Since minor 2. [any] */
    void (*fail_node)(const char *who, uint32_t node, const char *fmt, ...);
} yk_host;

/* ---- Functions of a plugin ------------------------------------------------------------------------------------- */

enum {
    YK_CAP_HOST_VISIBLE = 1 << 0,  /* buffer_map works, and its memory needs no flush: memory that is not coherent is not
                                      host visible */
    YK_CAP_WRAP = 1 << 1,          /* buffer_wrap works */
    YK_CAP_DETERMINISTIC = 1 << 2, /* equal inputs give equal bits */
    YK_CAP_CPU = 1 << 3,           /* computes on the host's cores, which it should not share with another rank */
    YK_CAP_CORES = 1 << 4, /* the plugin's one device is the host's cores, any subset of them by option CORES. In device
                             specs "PLUGIN:0-3" then names cores, and "PLUGIN/2" splits them between two ranks */
    YK_CAP_PINS = 1 << 5,  /* host_pin works */
    /* Results in f32 of sum, scatter_add, and composites that add up lie within 1e-6 of their absolute terms, for any number of terms.
     * Those of products (dot, and what has means or squares) lie within 2e-6, of convolutions within 1e-5. A result of 16 bits adds one
     * rounding. Ways to hold it: at most 32 terms in f32 and then double; or Kahan's sum. Without this bit n terms may lose n 2^-24. Since
     * minor 2. */
    YK_CAP_LONG_SUMS = 1 << 6
};

/* Two calls in a process give equal capabilities, but for sizes of memory. The texts have no control characters. */
typedef struct yk_device_caps {
    uint32_t size, flags;
    char name[96];
    char locality[64];           /* "pci:0000:c1:00.0", "cores:0-3", or "" when unknown */
    uint64_t mem_total, mem_free; /* bytes, now; 0 = unknown; free is at most total, and falls with the buffers that are in use */
    uint64_t max_alloc;          /* bytes of one buffer, at most mem_total; 0 = no limit known */
    uint32_t align;              /* slot offsets are multiples of this; a power of two up to 65536 */
    uint32_t units;              /* compute units or threads, one at least; for reports */
    uint32_t store, compute;     /* bit masks of dtypes: can be stored; have arithmetic (inputs of dot and map). compute has f32, and
                                    nothing that store has not. The host looks at its float types alone: i32 may stand there */
    char isa[64];                /* instruction set or architecture ("avx512bf16", "sm_90"), for reports */
    uint64_t max_bind;           /* bytes one slot may span (a storage buffer's range); 0 = as max_alloc */
    uint32_t value_align;        /* in its slot, a value that is no view and has at least so many bytes begins at a multiple of this. A
                                    power of two up to 65536. 0, or a smaller value: its element's size */
    uint32_t reserved;
    /* Usual ms of program_new for a large graph, an estimate; at most 4,320,000. Compiling so long is no fault: other ranks wait for 20
     * times as long, and for YOKE_STUCK_MS at least. 0: not known, so YOKE_STUCK_MS decides. Since minor 4. */
    uint64_t compile_ms;
    /* The device's part of a batch is to be a multiple of so many rows (65536 at most), as others are programs more to compile. The host
     * keeps to it, in a short last batch to the usual rows or none, where rows, memory and ranks allow. 0, 1: any number. Since minor 5. */
    uint64_t row_quantum;
    /* Bits of the significand, the first one counted, that a product keeps of each operand in f32. They are 11 for TF32, 8 for one pass in
     * bf16, 15 for three passes. 0 or 24: each bit; fewer than 8 is an error. It speaks of dot, convolutions and attention. Rounding or
     * cutting off changes an operand by less than 2^(1-bits) of it. So it changes a product of two by less than 2^(2-bits) of it, to the
     * first order. This is the unit roundoff of Higham, Accuracy and Stability of Numerical Algorithms, 2.2, doubled for cutting off. The
     * suite and the start-up probe allow that share of the absolute terms beside the errors of f32. Sums and elementwise operations stay in
     * f32. Since minor 7. */
    uint64_t product_bits;
} yk_device_caps;

/* Purpose of a buffer. Use and flags help to choose memory; contents are undefined when it is made. */
enum {
    YK_BUF_HOST_WRITES = 1, /* written by copies from the host, often */
    YK_BUF_HOST_READS = 2,  /* read by copies to the host, often */
    YK_BUF_EXPORT = 4       /* yk.share.1 may export it; YK_E_UNSUPPORTED if the device cannot */
};

typedef struct yk_buffer_desc {
    uint32_t size;
    uint32_t use;   /* bit 1 << yk_slot_kind for each kind of slot it may be bound to; 0 = any */
    uint32_t flags; /* YK_BUF_* */
    uint32_t reserved;
    uint64_t bytes; /* 0: a buffer that only copies of 0 bytes touch */
} yk_buffer_desc;

/* A plugin may serve all kinds alike; queues should run in parallel if the device can. */
enum {
    YK_QUEUE_COMPUTE, /* runs and copies */
    YK_QUEUE_COPY,    /* copies only: copy engines that run beside the kernels */
    YK_QUEUE_COLL     /* yk.coll.1 and copies */
};

typedef struct yk_queue_desc {
    uint32_t size, kind; /* YK_QUEUE_* */
    int32_t priority;    /* higher goes first, if the device has priorities; 0 is usual */
    uint32_t reserved;
} yk_queue_desc;

typedef struct yk_wait {
    yk_queue *queue; /* a queue of the same plugin, on any of its devices */
    uint64_t point;  /* a point that the queue has returned already */
} yk_wait;

typedef struct yk_submit {
    uint32_t size, n_wait, n_slot, reserved;
    const yk_wait *wait;          /* start only when these points are done */
    yk_program *program;
    yk_buffer *const *slot;       /* one per slot of the graph, NULL if the program does not touch it. Another number, or a
                                     buffer shorter than its slot, is YK_E_ARG */
    const uint64_t *slot_offset;  /* start of the slot in the buffer, bytes; a multiple of caps.align */
    const uint64_t *slot_version; /* grows when anything but this program's own nodes changes the contents. Data derived from
                                     a slot (packed weights) hold until then, or until a node writes there */
} yk_submit;

/* Copies bytes. At least one end is a buffer of the queue's device; the other is host memory or a buffer of the same plugin. A plugin
 * may answer YK_E_UNSUPPORTED for a buffer of another device. The ends do not overlap. Until the point is done, host memory stays
 * valid and source memory unchanged. */
typedef struct yk_copy {
    uint32_t size, n_wait;
    const yk_wait *wait;            /* start only when these points are done */
    yk_buffer *src, *dst;           /* NULL if that end is host memory.. */
    const void *src_host;           /* .. which begins here */
    void *dst_host;
    uint64_t src_offset, dst_offset; /* in the buffers, bytes, any; 0 for host memory */
    uint64_t bytes;                 /* 0: takes a point and touches nothing */
} yk_copy;

/* Answers of claims. */
enum {
    YK_CLAIM_RUN = 1,        /* the device runs the node */
    YK_CLAIM_ACCUMULATE = 2, /* also with YK_NODE_ACCUMULATE */
    YK_CLAIM_NARROW_OUT = 4, /* layer_norm of f32: also with y in a 16-bit format */
    YK_CLAIM_STRIDED_OUT = 8 /* attention's out, and gq, gk, gv of its gradient, may be views with any strides but a dense
                                last dimension. The node alone writes their value. One view covers the value, or two or three of the
                                gradients lie side by side in it. The bit also serves dot of two dimensions, cross_entropy and its
                                gradient, in 16 bits. There a, b and the result, the logits and their gradient may be views of matrices
                                with longer rows. Memory behind a row means nothing and may be overwritten by any bits. A strided result
                                comes only without YK_NODE_ACCUMULATE */
};

typedef struct yk_pin yk_pin; /* opaque; owned by the plugin */

/* Bytes of device memory that one run of a program takes, by the account of the compiler that made it. Since minor 6. */
typedef struct yk_program_memory {
    uint32_t size, reserved;
    uint64_t argument, result; /* arrays that the run reads and writes; contents of slots */
    uint64_t alias;            /* part of `result` that lies where arguments lay, at most min(argument, result) */
    uint64_t temporary;        /* beside them, during the run */
    uint64_t code;             /* instructions and constants, as long as the program lives; programs may share them */
} yk_program_memory;

/*
 * A member is present unless its comment gives a meaning of NULL.
 *
 * Failures. A refused call (YK_E_ARG for an argument, YK_E_UNSUPPORTED, YK_E_MEM of a *_new) changes nothing and takes no
 * point. Any other failure of a queue is permanent: that call, pending waits, and every later call on the queue except
 * queue_free return the same status. Work that was not done by then never is, but for work that the device had begun. Work
 * of another queue that waits for it starts only if it was done; else that queue fails too, with the same status or YK_E_CANCELLED.
 */
typedef struct yk_plugin {
    uint32_t size, abi, minor; /* sizeof(yk_plugin), YK_ABI, YK_ABI_MINOR as the plugin was compiled */
    uint32_t n_op, n_dtype;    /* YK_OP_COUNT, YK_DTYPE_COUNT as the plugin was compiled */
    uint32_t reserved;
    const char *name;       /* a-z0-9_, as in YOKE_DEVICES */
    const char *version;    /* may be NULL */
    const char *sanitizer;  /* "none", "address" or "thread"; the host refuses a value other than its own */
    /* Called before all other functions; may be called again after fini. NULL: no initialisation. [one] */
    yk_status (*init)(const yk_host *host);
    /* Called with all devices closed. On return the plugin's threads are joined, except a vendor library's. NULL: nothing
     * to end. [one] */
    void (*fini)(void);
    yk_status (*device_count)(uint32_t *n); /* 0 without an error if the driver or device is absent [any] */
    yk_status (*device_caps)(uint32_t i, yk_device_caps *caps); /* fills at most caps->size bytes [any] */
    yk_status (*device_open)(uint32_t i, yk_device **dev);      /* the same device may be open several times [any] */
    void (*device_close)(yk_device *dev); /* all objects made on it are released; NULL: nothing to do [one] */
    /* The device's abilities for this node: 0 or YK_CLAIM_* bits. The host asks about composites. It sends a primitive in any
     * case, and asks about it only for YK_CLAIM_ACCUMULATE of scatter_add and YK_CLAIM_STRIDED_OUT of dot. Asked before the
     * memory plan: values have shapes, dtypes and strides, no offsets. The same node always gets the same answer. NULL: 0. [any] */
    uint32_t (*claims)(yk_device *dev, const yk_graph *g, uint32_t node);
    yk_status (*buffer_new)(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **b); /* [any] */
    /* Makes a buffer over page-aligned host memory that the caller keeps alive. NULL without YK_CAP_WRAP. [any] */
    yk_status (*buffer_wrap)(yk_device *dev, void *host, uint64_t bytes, yk_buffer **b);
    void (*buffer_free)(yk_buffer *b); /* the queues that used it are idle [any] */
    /* Host address of a buffer, for reading and writing while no queue uses it. NULL without YK_CAP_HOST_VISIBLE. [any] */
    void *(*buffer_map)(yk_buffer *b);
    /* Compiles a graph, which lives, with its arrays, as long as the program. Refuses, in words (YK_E_UNSUPPORTED), a node with an
     * operation unknown to the plugin, and a composite whose claims are 0. The host sends neither: the refusal tells a mistake of
     * the host from wrong numbers. [any] */
    yk_status (*program_new)(yk_device *dev, const yk_graph *g, yk_program **p);
    void (*program_free)(yk_program *p); /* the queues that run it are idle [one] */
    yk_status (*queue_new)(yk_device *dev, const yk_queue_desc *desc, yk_queue **q); /* [any] */
    /* Waits for running work; after queue_abort for a limited time. By then no thread is in a wait on the queue. [one] */
    void (*queue_free)(yk_queue *q);
    /* Enqueues work and returns the point that completes it. Points of a queue begin at 1 and grow by one. A point is done with
     * all points before it: every queue and buffer_map see their results. [one] per queue */
    yk_status (*queue_run)(yk_queue *q, const yk_submit *s, uint64_t *point);
    yk_status (*queue_copy)(yk_queue *q, const yk_copy *c, uint64_t *point);
    yk_status (*queue_poll)(yk_queue *q, uint64_t *done); /* last finished point [any] */
    /* YK_E_TIMEOUT if the point is not done within timeout_ns (UINT64_MAX = no limit); YK_E_ARG, at once, for a point that
     * the queue has not returned. [any] */
    yk_status (*queue_wait)(yk_queue *q, uint64_t point, uint64_t timeout_ns);
    const void *(*extension)(const char *name); /* NULL if unknown. The pointer itself may be NULL [any] */
    /* Bytes of device memory that a run of this graph takes beside its slots (packed operands, partial sums). Programs of a
     * device take turns, so the device holds the maximum over them. The call neither allocates device memory nor compiles.
     * The pointer may be NULL: nothing worth counting, or unknown beforehand. [any] */
    yk_status (*graph_scratch)(yk_device *dev, const yk_graph *g, uint64_t *bytes);
    /* Fails the queue with `why`: every wait on it returns within 100 ms, and its work may or may not be done. queue_free
     * then waits while points get done, and for 2 s in which none does: one run may be longer, and never end. It leaves such work behind.
     * The host never closes such a device and never frees its buffers, as the device may still write there. NULL: the host can only give
     * up the whole device. [any] */
    void (*queue_abort)(yk_queue *q, yk_status why);
    /* Begin and end of a finished point's work, in ns of one clock per device, unrelated to other clocks. YK_E_ARG: not done,
     * or more than 64 points ago; those of the last 63 points are known. NULL: unknown. [one] per queue */
    yk_status (*queue_span)(yk_queue *q, uint64_t point, uint64_t *begin_ns, uint64_t *end_ns);
    /* Registers host memory, so that the driver copies from and to it directly. The range begins and ends anywhere, stays mapped
     * until unpinned, and may be pinned on several devices. NULL without YK_CAP_PINS. [any] */
    yk_status (*host_pin)(yk_device *dev, void *memory, uint64_t bytes, yk_pin **pin);
    void (*host_unpin)(yk_pin *pin); /* no copy uses it [any] */
    /* The account of a program that was made, for a device whose compiler alone knows its memory. It fills at most m->size bytes. Equal
     * programs of a device have equal accounts. The host counts `temporary` as graph_scratch's bytes, and compiles to estimate memory.
     * YK_E_UNSUPPORTED: not known. The pointer may be NULL: graph_scratch says it. Since minor 6. [any] */
    yk_status (*program_memory)(const yk_program *p, yk_program_memory *m);
} yk_plugin;

/* The two usual copies, in short form. [one] per queue */
static inline yk_status yk_put(const yk_plugin *t, yk_queue *q, yk_buffer *b, uint64_t offset, const void *src, uint64_t bytes,
                               uint64_t *point)
{
    const yk_copy c = {sizeof(yk_copy), 0, NULL, NULL, b, src, NULL, 0, offset, bytes};
    return t->queue_copy(q, &c, point);
}

static inline yk_status yk_get(const yk_plugin *t, yk_queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes,
                               uint64_t *point)
{
    const yk_copy c = {sizeof(yk_copy), 0, NULL, b, NULL, NULL, dst, offset, 0, bytes};
    return t->queue_copy(q, &c, point);
}

/* The one exported symbol: `const yk_plugin *yk_plugin_query(uint32_t abi)`. NULL if it cannot serve that major. */
typedef const yk_plugin *(*yk_plugin_query_fn)(uint32_t abi);
#define YK_PLUGIN_SYMBOL "yk_plugin_query"

#ifdef __cplusplus
}
#endif
#endif
