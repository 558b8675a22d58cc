/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner of matrix products: dot, and dot_map. The second has an elementwise program that runs on each finished block of C while it is
 * in cache.
 *
 * cpu_ops.c calls cpu_plan_dot for a node while a program is compiled, in any thread. The emitted steps run on the workers, each on
 * rectangles of C; gemm.c does the arithmetic.
 */
#include "backends/cpu/gemm/cpu_dot.h"
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "backends/cpu/map/map.h"
#include "plugins/kit/value.h"

#include <stdatomic.h>

#define PACKED_MOST (16 << 20) /* bytes of an operand packed for all workers */
#define PIECE 256              /* rows or columns of a piece, at most */
#define TRANSPOSED_LEAST 128             /* columns of a piece of a transposed product, at least, if that gives each worker two */
#define SHARED_LEAST (1 << 24) /* multiplications that pay for another meeting of the workers */

/* The operand that is packed once for all workers; each worker packs its pieces of the other operand. */
typedef enum dot_shared { DOT_SHARED_NONE, DOT_SHARED_A, DOT_SHARED_B } dot_shared;

typedef struct dot_args {
    cpu_gemm gemm;
    int64_t m, n; /* shape of C: g's, or swapped if that is transposed */
    cpu_src a, b; /* without their addresses */
    cpu_ref a_ref, b_ref, c_ref;
    int64_t batch, batch_stride_a, batch_stride_b; /* elements from one product to the next */
    int grid_m, grid_n;
    uint8_t dtype; /* type of C */
    bool accumulate;
    const cpu_map *map;
    size_t map_at; /* offset of the map's scratch in the worker's */
    dot_shared shared;
    int64_t pieces;
} dot_args;

typedef struct dot_run {
    const dot_args *dot;
    const cpu_ctx *ctx;
    int64_t batch;
    cpu_map_run map;
    size_t n_stream; /* streams besides A and B: addresses, bytes of an element */
    const char *from[CPU_MAP_STREAMS];
    size_t item[CPU_MAP_STREAMS];
} dot_run;

static void begin_run(dot_run *run, const dot_args *dot, const cpu_ctx *ctx)
{
    run->dot = dot;
    run->ctx = ctx;
    if (dot->map) {
        cpu_map_begin(&run->map, dot->map, ctx, ctx->thread_ws + dot->map_at);
        run->n_stream = cpu_map_streams(&run->map, run->from, run->item);
        return;
    }
    run->n_stream = 1;
    run->from[0] = cpu_at(ctx, dot->c_ref);
    run->item[0] = dot->dtype == YK_F32 ? 4 : 2;
}

/* Sends a finished block of C through the map. */
static void block_map(void *arg, int64_t i, int64_t ni, int64_t j, int64_t nj, float *acc, int64_t ld)
{
    dot_run *run = arg;
    const dot_args *dot = run->dot;
    int64_t most = cpu_map_block(dot->map), rows = nj == dot->n && ld == nj ? most / nj : 1;
    rows = rows < 1 ? 1 : rows;
    for (int64_t q = 0; q < ni; q += rows) {
        int64_t n = (ni - q < rows ? ni - q : rows) * nj;
        int64_t pos = (run->batch * dot->m + i + q) * dot->n + j;
        for (int64_t e = 0; e < n; e += most)
            cpu_map_eval(&run->map, pos + e, (size_t)(n - e < most ? n - e : most), acc + q * ld + e);
    }
}

static void block_store(void *arg, int64_t i, int64_t ni, int64_t j, int64_t nj, float *acc, int64_t ld)
{
    dot_run *run = arg;
    const dot_args *dot = run->dot;
    int64_t item = dot->dtype == YK_F32 ? 4 : 2;
    char *c = cpu_at(run->ctx, dot->c_ref);
    if (!dot->accumulate && nj == dot->n && nj == ld) { /* rows are contiguous in both */
        nj *= ni;
        ni = 1;
    }
    for (int64_t q = 0; q < ni; q++) {
        char *to = c + ((run->batch * dot->m + i + q) * dot->n + j) * item;
        float old[256];
        if (dot->accumulate) { /* blocks are at most 256 wide */
            run->ctx->isa->vec->to_f32(old, to, dot->dtype, (size_t)nj);
            run->ctx->isa->vec->add(acc + q * ld, old, (size_t)nj);
        }
        run->ctx->isa->vec->from_f32(to, acc + q * ld, dot->dtype, (size_t)nj);
    }
}

static void block_prefetch(void *arg, int64_t i, int64_t ni, int64_t j, int64_t nj, cpu_prefetch_list *list)
{
    dot_run *run = arg;
    const dot_args *dot = run->dot;
    const size_t at = (size_t)((run->batch * dot->m + i) * dot->n + j);
    for (size_t k = 0; k < run->n_stream; k++) {
        const size_t item = run->item[k];
        cpu_prefetch_add(list, run->from[k] + at * item, (size_t)nj * item, (size_t)dot->n * item, (size_t)ni);
    }
}

typedef struct dot_range {
    int64_t i0, i1, j0, j1;
} dot_range;

static void dot_rect(dot_run *run, cpu_src *a, cpu_src *b, const dot_range *rect)
{
    const dot_args *dot = run->dot;
    const cpu_ctx *ctx = run->ctx;
    a->p = (const char *)cpu_at(ctx, dot->a_ref) + run->batch * dot->batch_stride_a * (a->dtype == YK_F32 ? 4 : 2);
    b->p = (const char *)cpu_at(ctx, dot->b_ref) + run->batch * dot->batch_stride_b * (b->dtype == YK_F32 ? 4 : 2);
    cpu_sink sink = {NULL, dot->gemm.n, dot->accumulate, dot->map ? block_map : block_store, block_prefetch, run};
    if (!dot->gemm.scratch)
        sink = (cpu_sink){(float *)cpu_at(ctx, dot->c_ref) + run->batch * dot->gemm.m * dot->gemm.n,
                          dot->gemm.n,
                          dot->accumulate,
                          NULL,
                          NULL,
                          NULL};
    if (rect->i0 < rect->i1 && rect->j0 < rect->j1)
        cpu_gemm_run(&dot->gemm, ctx, a, b, rect->i0, rect->i1, rect->j0, rect->j1, &sink);
}

static void dot_step(const void *args, const cpu_ctx *ctx)
{
    const dot_args *dot = args;
    dot_run run;
    int64_t lo, hi, rects = dot->grid_m * dot->grid_n;
    begin_run(&run, dot, ctx);
    cpu_part(dot->batch * rects, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        dot_range at;
        cpu_src a = dot->a, b = dot->b;
        run.batch = t / rects;
        cpu_gemm_rect(&dot->gemm, dot->grid_m, dot->grid_n, (int)(t % rects), &at.i0, &at.i1, &at.j0, &at.j1);
        dot_rect(&run, &a, &b, &at);
    }
}

static void shared_pack_step(const void *args, const cpu_ctx *ctx)
{
    const dot_args *dot = args;
    int64_t lo, hi;
    if (dot->shared == DOT_SHARED_A) {
        cpu_src a = dot->a;
        a.p = cpu_at(ctx, dot->a_ref);
        cpu_part(cpu_gemm_a_panels(&dot->gemm), ctx->piece, ctx->pieces, &lo, &hi);
        cpu_gemm_pack_a_panels(&dot->gemm, ctx->isa, ctx->thread_ws, &a, lo, hi, ctx->shared_ws);
    } else {
        cpu_src b = dot->b;
        b.p = cpu_at(ctx, dot->b_ref);
        cpu_part(cpu_gemm_b_panels(&dot->gemm), ctx->piece, ctx->pieces, &lo, &hi);
        cpu_gemm_pack_b_panels(&dot->gemm, ctx->isa, ctx->thread_ws, &b, lo, hi, ctx->shared_ws);
    }
}

static void shared_step(const void *args, const cpu_ctx *ctx)
{
    const dot_args *dot = args;
    dot_run run;
    int64_t first, end;
    run.batch = 0;
    cpu_src a = dot->a, b = dot->b;
    cpu_src *packed = dot->shared == DOT_SHARED_A ? &a : &b;
    packed->packed = ctx->shared_ws;
    packed->ld = dot->gemm.k;
    begin_run(&run, dot, ctx);
    cpu_part(dot->pieces, ctx->piece, ctx->pieces, &first, &end);
    for (int64_t piece = first; piece < end; piece++) {
        dot_range at = {0, dot->gemm.m, 0, dot->gemm.n};
        int64_t lo, hi, unit = dot->shared == DOT_SHARED_A ? dot->gemm.nr : dot->gemm.mr;
        cpu_part(dot->shared == DOT_SHARED_A ? cpu_gemm_b_panels(&dot->gemm) : cpu_gemm_a_panels(&dot->gemm), (int)piece,
                 (int)dot->pieces, &lo, &hi);
        if (dot->shared == DOT_SHARED_A)
            at.j0 = lo * unit, at.j1 = hi * unit < dot->gemm.n ? hi * unit : dot->gemm.n;
        else
            at.i0 = lo * unit, at.i1 = hi * unit < dot->gemm.m ? hi * unit : dot->gemm.m;
        dot_rect(&run, &a, &b, &at);
    }
}

/* Strides of the matrix (x, k); false if neither direction is dense. */
static bool set_source(cpu_src *src, const yk_value *v, int64_t nx, int64_t nk, int64_t sx, int64_t sk)
{
    src->dtype = v->dtype;
    if (nk == 1 ? sx != 1 && nx > 1 : sk == 1 && (nx == 1 || sx != 1)) {
        src->kcontig = 1;
        src->ld = nx == 1 ? nk : sx;
        return true;
    }
    src->kcontig = 0;
    src->ld = nk == 1 ? nx : sk;
    return sx == 1 || nx == 1;
}

/* Logs once that 16-bit products are slow on a set without instructions for them. */
static void say_emulated(const cpu_build *build, int dtype)
{
    static atomic_bool said;
    if (dtype == YK_F32 || (dtype == YK_BF16 && build->isa->bf16) || atomic_exchange(&said, true))
        return;
    cpu_host->log(2, "cpu", "%s has no fast products of %s: they are widened to fp32 as they are packed, about as fast as "
                  "--precision fp32; activations take half the memory", build->isa->name, dtype == YK_BF16 ? "bf16" : "fp16");
}

/* Pieces of `n` rows or columns, at least `least` each: several for each worker, or 0. */
static int64_t pieces_of(int64_t n, int64_t least, int nt)
{
    int64_t per = (n + PIECE * nt - 1) / (PIECE * nt);
    per = per < 4 ? 4 : per;
    return n >= per * nt * least ? per * nt : 0;
}

/* Shares the smaller operand (B if transposed) if it is small and the other operand is long enough to cut. One worker, batches and small
 * products share none; nor do workers that read A in place. */
static void choose_shared(cpu_build *build, dot_args *dot)
{
    const cpu_gemm *gemm = &dot->gemm;
    int64_t at[4];
    size_t pa = cpu_gemm_packed_a_bytes(gemm), pb = cpu_gemm_packed_b_bytes(gemm);
    if (build->workers == 1 || dot->batch > 1 || gemm->m < 64 || gemm->n < 64 || gemm->m * gemm->n < SHARED_LEAST / gemm->k)
        return;
    cpu_gemm_rect(gemm, dot->grid_m, dot->grid_n, 0, &at[0], &at[1], &at[2], &at[3]);
    if (dot->grid_m == 1 && !gemm->transposed && cpu_gemm_in_place(gemm, &dot->a, at[1], at[3], gemm->scratch))
        return;
    bool first = pa < pb && !gemm->transposed;
    dot->shared = first ? DOT_SHARED_A : DOT_SHARED_B;
    dot->pieces = gemm->transposed ? build->workers * (gemm->m >= 2 * TRANSPOSED_LEAST * build->workers ? 2 : 1)
                                   : pieces_of(first ? gemm->n : gemm->m, 64, build->workers);
    if (!dot->pieces || (first ? pa : pb) > PACKED_MOST)
        dot->shared = DOT_SHARED_NONE;
    if (dot->shared)
        cpu_need_shared_ws(build, first ? pa : pb);
}

static void init_gemm(cpu_build *build, dot_args *dot, int64_t k)
{
    if (dot->batch > 1 || !cpu_gemm_prefers_transposed(build->isa, dot->m, dot->n, k, &dot->a, &dot->b)) {
        cpu_gemm_init(&dot->gemm, build->isa, dot->m, dot->n, k, dot->a.dtype, dot->b.dtype, dot->map || dot->dtype != YK_F32);
        return;
    }
    cpu_src a = dot->a;
    cpu_ref ra = dot->a_ref;
    dot->a = dot->b, dot->a_ref = dot->b_ref;
    dot->b = a, dot->b_ref = ra;
    cpu_gemm_init_transposed(&dot->gemm, build->isa, dot->n, dot->m, k, dot->a.dtype, dot->b.dtype);
}

/* Scratch of a product. A transposed product takes at least as much as the plain one, so a step's need never falls as its rows grow. Ranks
 * with limited memory rely on that. */
static size_t scratch_of(const cpu_build *build, const dot_args *dot, int64_t k)
{
    cpu_gemm plain;
    if (!dot->gemm.transposed)
        return dot->gemm.bytes;
    cpu_gemm_init(&plain, build->isa, dot->m, dot->n, k, dot->b.dtype, dot->a.dtype, dot->map || dot->dtype != YK_F32);
    return plain.bytes > dot->gemm.bytes ? plain.bytes : dot->gemm.bytes;
}

/* Clears C: a sum of no products. */
static void zero_step(const void *args, const cpu_ctx *ctx)
{
    const dot_args *dot = args;
    const int64_t item = dot->dtype == YK_F32 ? 4 : 2;
    int64_t lo, hi;
    cpu_part(dot->batch * dot->m * dot->n, ctx->piece, ctx->pieces, &lo, &hi);
    memset((char *)cpu_at(ctx, dot->c_ref) + lo * item, 0, (size_t)((hi - lo) * item));
}

static void emit_dot(cpu_build *build, const yk_node *node, dot_args *dot, const yk_value *va, const yk_value *vb,
                     const yk_value *vc)
{
    int q = vc->dims - 2;
    int64_t m = vc->dim[q], nn = vc->dim[q + 1], k = va->dim[q + 1];
    dot->batch = q ? vc->dim[0] : 1;
    dot->batch_stride_a = q && va->dim[0] > 1 ? va->stride[0] : 0;
    dot->batch_stride_b = q && vb->dim[0] > 1 ? vb->stride[0] : 0;
    if (!set_source(&dot->a, va, m, k, va->stride[q], va->stride[q + 1]) ||
        !set_source(&dot->b, vb, nn, k, vb->stride[q + 1], vb->stride[q])) {
        cpu_refuse(build, node, "an operand is neither dense nor transposed");
        return;
    }
    if (dot->batch > 1 && dot->batch_stride_b == 0 && dot->a.kcontig && dot->batch_stride_a == m * dot->a.ld) { /* one tall product */
        m *= dot->batch;
        dot->batch = 1;
    }
    say_emulated(build, va->dtype);
    dot->a_ref = cpu_ref_of(va);
    dot->b_ref = cpu_ref_of(vb);
    dot->c_ref = cpu_ref_of(vc);
    dot->dtype = vc->dtype;
    dot->accumulate = node->flags & YK_NODE_ACCUMULATE;
    dot->m = m;
    dot->n = nn;
    if (!k) {
        if (!dot->accumulate)
            cpu_emit(build, zero_step, dot, (double)(dot->batch * m * nn));
        return;
    }
    init_gemm(build, dot, k);
    cpu_gemm_grid(&dot->gemm, dot->batch, build->workers, &dot->grid_m, &dot->grid_n);
    choose_shared(build, dot);
    dot->map_at = kit_round_bytes(scratch_of(build, dot, k), 64);
    cpu_need_thread_ws(build, dot->map_at + (dot->map ? cpu_map_scratch(dot->map) : 0));
    double rate = (dot->gemm.mode == CPU_GEMM_F32 ? 1.0 : 2.0) * CPU_GUESSED_RATE;
    double work = 2.0 * (double)dot->batch * (double)m * (double)nn * (double)k / rate;
    if (dot->shared)
        cpu_emit(build, shared_pack_step, dot, (double)(dot->shared == DOT_SHARED_A ? dot->gemm.m : dot->gemm.n) * (double)k * 0.3);
    work += dot->map ? (double)(m * nn) * cpu_map_cost(dot->map) : 0.0;
    if (dot->shared)
        cpu_emit_pieces(build, shared_step, dot, work, dot->pieces);
    else
        cpu_emit(build, dot_step, dot, work);
}

void cpu_plan_dot(cpu_build *build, const yk_node *node)
{
    dot_args *dot = cpu_args(build, sizeof *dot);
    if (!dot)
        return;
    const yk_node *dot_node = node;
    if (node->op == YK_OP_DOT_MAP) {
        const yk_node *body = &build->graph->node[node->body];
        for (dot_node = body; dot_node < body + node->n_body && dot_node->op != YK_OP_DOT;)
            dot_node++;
        if (dot_node == body + node->n_body) {
            cpu_refuse(build, node, "a body without a dot");
            return;
        }
        dot->map = cpu_map_compile(build, node->body, node->n_body, cpu_out(build, dot_node, 0), build->graph->index[dot_node->out],
                                   &build->graph->index[node->out], node->n_out, true);
        if (!dot->map)
            return;
    }
    emit_dot(build, node, dot, cpu_in(build, dot_node, 0), cpu_in(build, dot_node, 1), cpu_out(build, dot_node, 0));
}
