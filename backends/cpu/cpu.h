/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU plugin's common types. One device is the cores this rank was given; a program is a list of steps, each a
 * function that is called for each of its pieces, by whichever worker is free; work is divided by shape alone so that
 * results do not depend on how many pieces and workers there are.
 */
#ifndef YOKE_BACKENDS_CPU_CPU_H
#define YOKE_BACKENDS_CPU_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yoke/plugin.h>

extern const yk_host *cpu_host; /* set by init, before anything else runs */

/* ---- Instruction sets ---- */

/* C[mr, nb] (+)= A[mr, kc] B[kc, nb]; kc counts 32-bit words along k; b_stride is B's row stride in words. n_prefetch (at most kc)
 * lines of the cache are fetched on the way, one for each word of k: more at once would wait for each other. */
typedef void (*cpu_gemm_kernel)(size_t kc, const void *a, const void *b, size_t b_stride, float *c, size_t ldc, size_t nb,
                                int add, const char *const *prefetch, size_t n_prefetch);

/* the same, row k of B at b + off[k] words, a whole panel of columns: two vectors, b_stride words apart */
typedef void (*cpu_taps_kernel)(size_t kc, const void *a, const void *b, size_t b_stride, const int32_t *off, float *c, size_t ldc,
                                int add);

/* C += A B with row i of A at a_row[i], not packed, a word for each k; B packed */
typedef void (*cpu_unpacked_kernel)(size_t kc, const char *const *a_row, const void *b, float *c, size_t ldc);

/* C (+)= sum over parts s of a block, its first `words` words: A's rows at a + off[s], the rest as in kern_block.inc */
typedef void (*cpu_rows_kernel)(size_t parts, size_t words, const void *a, const int32_t *off, const void *b, float *c,
                                size_t c_stride, int add);

/* C[vw, vectors] (+)= sum over lines of n positions of a block of A times vectors of B, b_stride apart; a_line, b_line: between lines */
typedef void (*cpu_outer_kernel)(size_t lines, size_t n, const float *a, size_t al, const float *b, size_t bl, size_t b_stride,
                                 float *c, size_t ldc, int add);

/* Lines of positions, bytes from one to the next; words of each; bytes from one of G's results to the next. */
typedef struct cpu_spans {
    size_t lines, words, x_row_pitch, g_row_pitch, g_plane_pitch;
} cpu_spans;

/* C[row, result] += a vector of sums: X's rows at x[i], those of C ldc numbers apart; see kern_span.inc */
typedef void (*cpu_spans_kernel)(const cpu_spans *a, const char *const *x, const char *g, float *c, size_t ldc);

/* Winograd's transforms: kern_wino.inc. */
typedef struct cpu_wino {
    void (*in)(float *v, size_t stride, const float *const *row, int64_t x, int64_t width, size_t tiles);
    void (*grad)(float *v, size_t stride, const float *const *row, int64_t x, int64_t width, size_t tiles);
    void (*out)(float *y, size_t row_stride, const float *m, size_t stride, size_t tiles);
    void (*taps)(float *u, size_t stride, const float *g, bool flip);
    void (*sums)(float *g, const float *m, size_t stride);
} cpu_wino;

/* Windows of a row that are cut alike: kern_pool.inc. Distances in words. */
typedef struct cpu_window {
    size_t rows, cols, row_stride, col_stride; /* terms, and how far they are apart */
    size_t stride;                             /* from one window to the next */
    float count;                               /* what a mean divides by */
} cpu_window;

typedef struct cpu_windows {
    void (*max)(float *y, const float *x, const cpu_window *w, size_t n);
    void (*max_bwd)(float *sum, const float *x, const float *g, const cpu_window *w, size_t n); /* sum += */
    void (*avg)(float *y, const float *x, const cpu_window *w, size_t n);
    void (*avg_bwd)(float *sum, const float *g, const cpu_window *w, size_t n);
} cpu_windows;

typedef enum cpu_mapop {
    CPU_M_NEG, CPU_M_ABS, CPU_M_EXP, CPU_M_LOG, CPU_M_SQRT, CPU_M_RSQRT, CPU_M_RECIP, CPU_M_TANH, CPU_M_ERF,
    CPU_M_ADD, CPU_M_SUB, CPU_M_MUL, CPU_M_DIV, CPU_M_MAX, CPU_M_MIN, CPU_M_LT, CPU_M_EQ, CPU_M_AND, CPU_M_SELECT,
    CPU_M_INEG, CPU_M_IABS, CPU_M_IADD, CPU_M_ISUB, CPU_M_IMUL, CPU_M_IDIV, CPU_M_IMAX, CPU_M_IMIN, CPU_M_ILT, CPU_M_IEQ,
    CPU_M_F2I, CPU_M_I2F, CPU_M_F2B, CPU_M_I2B, CPU_M_I2U8, CPU_M_ROUND_BF16, CPU_M_ROUND_F16, CPU_M_MOVE,
    CPU_M_RELU, CPU_M_RELU_BWD, CPU_M_GELU, CPU_M_GELU_BWD, CPU_M_GELU_TANH, CPU_M_GELU_TANH_BWD, CPU_M_SILU,
    CPU_M_SILU_BWD, CPU_M_SIGMOID, CPU_M_SIGMOID_BWD, CPU_M_TANH_BWD,
    /* gelu and gelu_bwd of one x: bell(x); its distribution by (x, bell); the slope by (x, bell, distribution) */
    CPU_M_BELL, CPU_M_CDF, CPU_M_GELU_SLOPE,
    CPU_M_GELU_GATE, CPU_M_GELU_TANH_SLOPE, /* gelu_tanh: what x is multiplied with; the slope by (x, gate) */
    CPU_M_FMA, CPU_M_FMA_B, CPU_M_FMA_C, CPU_M_FMA_BC, /* a*b + c; with one element for b, c, both */
    CPU_M_SPREAD,                                      /* one element for all */
    /* one element for b; in the same order, for a */
    CPU_M_ADD_S, CPU_M_SUB_S, CPU_M_MUL_S, CPU_M_DIV_S, CPU_M_MAX_S, CPU_M_MIN_S, CPU_M_LT_S, CPU_M_EQ_S,
    CPU_M_S_ADD, CPU_M_S_SUB, CPU_M_S_MUL, CPU_M_S_DIV, CPU_M_S_MAX, CPU_M_S_MIN, CPU_M_S_LT, CPU_M_S_EQ,
    CPU_M_COUNT
} cpu_mapop;

/* d = op(a, b, c) on n 32-bit elements; d may be a, b or c, where these are not one element for all */
typedef void (*cpu_map_kernel)(void *d, const void *a, const void *b, const void *c, size_t n);

/* Batch norm's chains, see kern_chain.inc */
typedef enum cpu_chain_kind { CPU_CHAIN_FORWARD, CPU_CHAIN_BACKWARD, CPU_CHAIN_SUMS, CPU_CHAIN_KINDS } cpu_chain_kind;
enum { CPU_CHAIN_RELU = 1, CPU_CHAIN_ADD = 2 };

typedef struct cpu_chain {
    void *y;
    const void *x, *r, *h;
    const float *number[4];
    float *sum[2];
} cpu_chain;

typedef void (*cpu_chain_kernel)(const cpu_chain *a, size_t n);

/* gelu at the end of a product v, see kern_gelu.inc; a result that is not wanted is NULL: forward's first, backward's second */
typedef void (*cpu_gelu_kernel)(void *const y[2], const float *v, const void *x, size_t n);

struct cpu_adam {
    float lr, b1, b2, eps, decay, scale, clip, c1, sqrt_c2, first;
    int flags;
};

/* The gradient of a row of logits: factor exp(x - shift) - uniform w, less `one_hot` at `at`. */
typedef struct cpu_loss_row {
    float shift, factor, uniform, one_hot;
    const float *w; /* NULL: of ones */
    size_t at;      /* beyond the row: none */
} cpu_loss_row;

/* Kernels on a row of numbers of one type, read and written in place: x, y, gx, gy, a, b; all else is f32. */
typedef struct cpu_rows {
    float (*sum)(const void *x, size_t n);
    float (*max)(const void *x, size_t n);
    float (*dot)(const void *a, const void *b, size_t n);
    void (*add)(float *d, const void *x, size_t n);  /* d += x */
    void (*vmax)(float *d, const void *x, size_t n); /* d = max(d, x) */
    float (*exp_sum)(const void *x, float m, size_t n);         /* sum of exp(x - m) */
    void (*moments)(const void *x, float shift, size_t n, float *s1, float *s2); /* sums of x-shift and its square */
    void (*norm)(void *y, const void *x, float mean, float rstd, const float *g, const float *b, size_t n);
    /* sums over the row of d = gy*g and of d*xhat */
    void (*norm_sums)(const void *gy, const void *x, const float *g, float mean, float rstd, size_t n, float *s1, float *s2);
    void (*norm_bwd)(void *gx, const void *gy, const void *x, const float *g, float mean, float rstd, float m1, float m2,
                     float *gg, float *gb, size_t n);
    void (*softmax)(void *y, const void *x, float *e, int log, size_t n); /* e: room for a row of f32 */
    void (*softmax_bwd)(void *gx, const void *gy, const void *y, int log, size_t n);
    void (*loss_grad)(void *y, const void *x, const cpu_loss_row *a, size_t n);
    float (*weigh)(const void *x, const float *w, size_t n); /* sum of w x */
} cpu_rows;

typedef struct cpu_isa {
    const char *name;
    int vw;                                                            /* lanes of 32 bits */
    int mr;                                                            /* most rows of a register block; its columns are 2 * vw */
    int bf16;                                                          /* 0: converts to f32; 1: pairs (vdpbf16ps); 2: AMX tiles */
    const cpu_gemm_kernel (*f32)[3];                                   /* [rows][vectors] */
    const cpu_gemm_kernel (*pair)[3];                                  /* bf16 pairs, or NULL */
    const cpu_taps_kernel *f32_taps, *pair_taps;                       /* [rows] */
    const cpu_unpacked_kernel (*f32_unpacked)[3], (*pair_unpacked)[3]; /* [rows, at most 9][vectors] */
    const cpu_rows_kernel (*f32_rows)[3], (*pair_rows)[3];             /* [rows][vectors] */
    const cpu_outer_kernel *f32_outer, *pair_outer;                    /* [vectors] */
    const cpu_spans_kernel (*f32_spans)[2], (*pair_spans)[2];          /* [rows, at most span_rows][0: one result, 1: four] */
    int span_rows;
    const cpu_wino *wino;
    const cpu_windows *pool;
    void (*tile)(size_t kblocks, const void *a, const void *b, float *c, size_t ldc, size_t mb, size_t nb, int add);
    void (*tile_begin)(void);
    void (*tile_end)(void);
    const cpu_map_kernel *map;
    const cpu_map_kernel *map_bf16;           /* bf16 in place of f32, or NULL: kern_bf16.inc */
    cpu_map_kernel map_bf16_dropout;          /* dropout: a number, the mask of 32-bit numbers, one divisor */
    const cpu_chain_kernel (*chain)[2][2][4]; /* [kind][bf16][a number for each element][form] */
    const cpu_gelu_kernel (*gelu)[2][2];      /* [backward][tanh][bf16] */
    /* dst[c*ldd + r] = word c of row r, rows of src being `pitch` bytes apart; rows of dst are written in order and
     * may run over by vw - 1 words */
    void (*transpose)(uint32_t *dst, size_t ldd, const void *src, size_t pitch, size_t rows, size_t cols);
    /* the same of bf16, widened to f32 */
    void (*transpose_bf16)(uint32_t *dst, size_t ldd, const void *src, size_t pitch, size_t rows, size_t cols);
    /* at most vw rows of words that are pairs of a number of either; the second one's first `n_second` rows, then zeros; rows are
     * `stride` numbers apart, those of dst whole vectors */
    void (*transpose_pairs)(uint32_t *dst, size_t ldd, const uint16_t *first, const uint16_t *second, size_t stride, size_t rows,
                            size_t n_second, size_t cols);
    /* a row of n words to strips of w words, `stride` words apart, the same slack */
    void (*strips)(uint32_t *dst, size_t w, size_t stride, const uint32_t *row, size_t n);
    /* two rows of n 16-bit numbers, interleaved, to strips; r1 NULL: zeros */
    void (*strip_pairs)(uint32_t *dst, size_t w, size_t stride, const uint16_t *r0, const uint16_t *r1, size_t n);
    /* pairs of two rows of n 16-bit numbers (r1 NULL: zeros), those of even numbers apart from the odd ones' */
    void (*split_pairs)(uint32_t *even, uint32_t *odd, const uint16_t *r0, const uint16_t *r1, size_t n);
    void (*to_f32)(float *d, const void *s, int dtype, size_t n); /* f32, f16, bf16 */
    void (*from_f32)(void *d, const float *s, int dtype, size_t n);
    void (*spread)(float *to, size_t stride, const float *from, size_t from_stride, size_t n); /* n vectors, copied */
    /* planes of bf16, `stride` numbers apart, to pixels of a vector, a plane in each lane; and back */
    void (*planes_in)(float *to, const uint16_t *from, size_t stride, size_t planes, size_t pixels);
    void (*planes_out)(uint16_t *to, size_t stride, const float *from, size_t pixels, size_t planes);
    void (*fill32)(void *d, uint32_t v, size_t n);
    void (*uniform)(float *d, const uint32_t key[3], uint32_t stream, uint64_t first, size_t n);
    void (*drop)(float *y, const float *x, const float *u, float p, float q, size_t n); /* u >= p ? x / q : 0 */
    /* of uniform's numbers, all bits where u 2^24 >= least, else none */
    void (*keep)(int32_t *d, const uint32_t key[3], uint32_t stream, uint64_t first, int32_t least, size_t n);
    const cpu_rows *rows;                           /* [1]: of bf16, else of f32 */
    void (*add)(float *d, const void *x, size_t n); /* d += x, both f32 */
    void (*scale)(float *d, const float *x, float a, size_t n);
    /* y = exp(a x - m) and their sum; y may be x */
    float (*exp_scaled)(float *y, const float *x, float a, float m, size_t n);
    void (*softmax_grad)(float *gx, const float *gy, const float *y, float s, size_t n); /* y (gy - s) */
    void (*adam)(const struct cpu_adam *h, const float *g, float *p, float *m, float *v, float *vmax, size_t n);
    void (*sgd)(const struct cpu_adam *h, const float *g, float *p, float *b, size_t n);
    void (*stats)(const float *g, float scale, size_t n, double *sum, double *bad);
} cpu_isa;

extern const cpu_isa cpu_isa_portable, cpu_isa_avx2, cpu_isa_avx512, cpu_isa_avx512bf16, cpu_isa_amx;

static inline const cpu_rows *cpu_rows_of(const cpu_isa *isa, int dtype)
{
    return isa->rows + (dtype == YK_BF16);
}

/* The set named by `want`, or the best there is if NULL; on failure NULL and *why names what there is. */
const cpu_isa *cpu_isa_choose(const char *want, const char **why);
/* Whether products of pairs beat those of f32 for bf16 operands; ns: what one try of either takes. */
bool cpu_pairs_pay(const cpu_isa *isa, double (*ns)(const cpu_isa *, bool pairs));
/* All sets this machine can run, best last. */
int cpu_isa_list(const cpu_isa *out[5]);

/* ---- Programs ---- */

typedef struct cpu_ref {
    uint32_t slot; /* YK_NONE: nothing */
    uint64_t offset;
} cpu_ref;

typedef struct cpu_ctx {
    char *const *slot; /* where each slot lies for this run */
    const cpu_isa *isa;
    char *shared_ws;   /* scratch of the program, seen by all workers; contents live until the node's last step */
    char *thread_ws;   /* scratch of this worker; nothing in it outlives the piece */
    int piece, pieces; /* the piece, and of how many */
} cpu_ctx;

typedef void (*cpu_fn)(const void *args, const cpu_ctx *ctx);

static inline void *cpu_at(const cpu_ctx *ctx, cpu_ref r)
{
    return r.slot == YK_NONE ? NULL : ctx->slot[r.slot] + r.offset;
}

/* The part [*lo, *hi) of n items of piece `piece` of `pieces`. */
static inline void cpu_part(int64_t n, int piece, int pieces, int64_t *lo, int64_t *hi)
{
    *lo = n * piece / pieces;
    *hi = n * (piece + 1) / pieces;
}

typedef struct cpu_build cpu_build;

struct cpu_build {
    const yk_graph *graph;
    const cpu_isa *isa;
    int workers;
    struct cpu_prog *prog;
    yk_status status;
    const yk_node *node; /* being planned */
    uint32_t step;       /* steps it has so far */
    uint32_t joined;     /* nodes behind it that its steps do as well */
};

/* Memory that lives as long as the program, zeroed; NULL (and b->status) when there is none. */
void *cpu_args(cpu_build *build, size_t bytes);
/* Adds a step of a piece for each worker. work: a guess of its nanoseconds on one core; small steps are one piece. */
void cpu_emit(cpu_build *build, cpu_fn fn, const void *args, double work);
/* The same of so many pieces. */
void cpu_emit_pieces(cpu_build *build, cpu_fn fn, const void *args, double work, int64_t pieces);
/* Scratch of this node, shared or per worker: at least this many bytes, 64-byte aligned. */
void cpu_need_shared_ws(cpu_build *build, size_t bytes);
void cpu_need_thread_ws(cpu_build *build, size_t bytes);
/* The reason a node cannot be run. */
yk_status cpu_refuse(cpu_build *build, const yk_node *n, const char *why);

static inline const yk_value *cpu_in(const cpu_build *build, const yk_node *n, uint32_t i)
{
    return &build->graph->value[build->graph->index[n->in + i]];
}

static inline const yk_value *cpu_out(const cpu_build *build, const yk_node *n, uint32_t i)
{
    return &build->graph->value[build->graph->index[n->out + i]];
}

static inline int64_t cpu_attr(const cpu_build *build, const yk_node *n, uint32_t i)
{
    return i < n->n_attr ? build->graph->attr[n->attr + i] : 0;
}

static inline cpu_ref cpu_ref_of(const yk_value *v)
{
    return (cpu_ref){v->slot, v->offset};
}

static inline int64_t cpu_count(const yk_value *v)
{
    int64_t n = 1;
    for (int i = 0; i < v->dims; i++)
        n *= v->dim[i];
    return n;
}

static inline bool cpu_is_float(int dtype)
{
    return dtype == YK_F32 || dtype == YK_F16 || dtype == YK_BF16;
}

bool cpu_is_dense(const yk_value *v);

static inline size_t cpu_round(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* One planner per family; each adds the node's steps. */
void cpu_plan_map(cpu_build *build, const yk_node *n);      /* elementwise, select, cast, map, activations, dropout */
void cpu_plan_map_sum(cpu_build *build, const yk_node *n);
void cpu_plan_dot(cpu_build *build, const yk_node *n);      /* dot, dot_map */
void cpu_plan_conv(cpu_build *build, const yk_node *n);
void cpu_plan_reduce(cpu_build *build, const yk_node *n);   /* sum, rmax, argmax */
void cpu_plan_data(cpu_build *build, const yk_node *n);     /* fill iota rng copy gather scatter_add */
void cpu_plan_pool(cpu_build *build, const yk_node *n);     /* unfold, fold, max_pool, avg_pool and backward */
void cpu_plan_norm(cpu_build *build, const yk_node *n);     /* bn_stats, layer_norm, softmax and backward */
void cpu_plan_loss(cpu_build *build, const yk_node *n);     /* cross_entropy and backward */
void cpu_plan_attention(cpu_build *build, const yk_node *n);
void cpu_plan_optim(cpu_build *build, const yk_node *n);

#endif
