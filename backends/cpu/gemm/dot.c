/* SPDX-License-Identifier: Apache-2.0 */
/* dot, and dot_map: the elementwise program runs on each finished block of C while it is in cache. */
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/map/map.h"

#include <stdatomic.h>

#define PACKED_MOST (16 << 20) /* bytes of an operand packed for all workers */
#define PIECE 256              /* rows or columns of a piece, at most */
#define TRANSPOSED_LEAST 128             /* columns of a piece of a transposed product, at least, if that gives each worker two */
#define SHARED_LEAST (1 << 24) /* multiplications that pay for another meeting of the workers */

/* The operand that is packed once for all workers; each packs its pieces of the other one. */
typedef enum dot_shared { DOT_SHARED_NONE, DOT_SHARED_A, DOT_SHARED_B } dot_shared;

typedef struct dot_args {
    cpu_gemm g;
    int64_t m, n; /* of C: g's, or the other way round if that is transposed */
    cpu_src a, b; /* without their addresses */
    cpu_ref ra, rb, rc;
    int64_t batch, batch_stride_a, batch_stride_b; /* elements from one product to the next */
    int gm, gn;
    uint8_t dtype; /* of C */
    bool accumulate;
    const cpu_map *map;
    size_t map_at; /* where the map's scratch lies in the worker's */
    dot_shared shared;
    int64_t pieces;
} dot_args;

typedef struct dot_run {
    const dot_args *d;
    const cpu_ctx *c;
    int64_t batch;
    cpu_map_run map;
    size_t n_stream; /* what is read and written beside A and B: from where, bytes of an element */
    const char *from[CPU_MAP_STREAMS];
    size_t item[CPU_MAP_STREAMS];
} dot_run;

static void begin_run(dot_run *r, const dot_args *d, const cpu_ctx *c)
{
    r->d = d;
    r->c = c;
    if (d->map) {
        cpu_map_begin(&r->map, d->map, c, c->thread_ws + d->map_at);
        r->n_stream = cpu_map_streams(&r->map, r->from, r->item);
        return;
    }
    r->n_stream = 1;
    r->from[0] = cpu_at(c, d->rc);
    r->item[0] = d->dtype == YK_F32 ? 4 : 2;
}

/* a finished block goes through the map */
static void block_map(void *arg, int64_t i, int64_t ni, int64_t j, int64_t nj, float *acc, int64_t ld)
{
    dot_run *r = arg;
    const dot_args *d = r->d;
    int64_t most = cpu_map_block(d->map), rows = nj == d->n && ld == nj ? most / nj : 1;
    rows = rows < 1 ? 1 : rows;
    for (int64_t q = 0; q < ni; q += rows) {
        int64_t n = (ni - q < rows ? ni - q : rows) * nj;
        int64_t pos = (r->batch * d->m + i + q) * d->n + j;
        for (int64_t e = 0; e < n; e += most)
            cpu_map_eval(&r->map, pos + e, (size_t)(n - e < most ? n - e : most), acc + q * ld + e);
    }
}

static void block_store(void *arg, int64_t i, int64_t ni, int64_t j, int64_t nj, float *acc, int64_t ld)
{
    dot_run *r = arg;
    const dot_args *d = r->d;
    int64_t item = d->dtype == YK_F32 ? 4 : 2;
    char *c = cpu_at(r->c, d->rc);
    if (!d->accumulate && nj == d->n && nj == ld) { /* rows follow each other in both */
        nj *= ni;
        ni = 1;
    }
    for (int64_t q = 0; q < ni; q++) {
        char *to = c + ((r->batch * d->m + i + q) * d->n + j) * item;
        float old[256];
        if (d->accumulate) { /* blocks are at most 256 wide */
            r->c->isa->to_f32(old, to, d->dtype, (size_t)nj);
            r->c->isa->add(acc + q * ld, old, (size_t)nj);
        }
        r->c->isa->from_f32(to, acc + q * ld, d->dtype, (size_t)nj);
    }
}

static void block_prefetch(void *arg, int64_t i, int64_t ni, int64_t j, int64_t nj, cpu_prefetch_list *list)
{
    dot_run *r = arg;
    const dot_args *d = r->d;
    const size_t at = (size_t)((r->batch * d->m + i) * d->n + j);
    for (size_t k = 0; k < r->n_stream; k++) {
        const size_t item = r->item[k];
        cpu_prefetch_add(list, r->from[k] + at * item, (size_t)nj * item, (size_t)d->n * item, (size_t)ni);
    }
}

typedef struct rect {
    int64_t i0, i1, j0, j1;
} rect;

static void dot_rect(dot_run *r, cpu_src *a, cpu_src *b, const rect *t)
{
    const dot_args *d = r->d;
    const cpu_ctx *c = r->c;
    a->p = (const char *)cpu_at(c, d->ra) + r->batch * d->batch_stride_a * (a->dtype == YK_F32 ? 4 : 2);
    b->p = (const char *)cpu_at(c, d->rb) + r->batch * d->batch_stride_b * (b->dtype == YK_F32 ? 4 : 2);
    cpu_sink s = {NULL, d->g.n, d->accumulate, d->map ? block_map : block_store, block_prefetch, r};
    if (!d->g.scratch)
        s = (cpu_sink){(float *)cpu_at(c, d->rc) + r->batch * d->g.m * d->g.n, d->g.n, d->accumulate, NULL, NULL, NULL};
    if (t->i0 < t->i1 && t->j0 < t->j1)
        cpu_gemm_run(&d->g, c->isa, c->thread_ws, a, b, t->i0, t->i1, t->j0, t->j1, &s);
}

static void dot_step(const void *args, const cpu_ctx *c)
{
    const dot_args *d = args;
    dot_run r;
    int64_t lo, hi, rects = d->gm * d->gn;
    begin_run(&r, d, c);
    cpu_part(d->batch * rects, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        rect at;
        cpu_src a = d->a, b = d->b;
        r.batch = t / rects;
        cpu_gemm_part(&d->g, d->gm, d->gn, (int)(t % rects), &at.i0, &at.i1, &at.j0, &at.j1);
        dot_rect(&r, &a, &b, &at);
    }
}

static void shared_pack_step(const void *args, const cpu_ctx *c)
{
    const dot_args *d = args;
    int64_t lo, hi;
    if (d->shared == DOT_SHARED_A) {
        cpu_src a = d->a;
        a.p = cpu_at(c, d->ra);
        cpu_part(cpu_gemm_strips(&d->g), c->tid, c->nt, &lo, &hi);
        cpu_gemm_pack_strips(&d->g, c->isa, c->thread_ws, &a, lo, hi, c->shared_ws);
    } else {
        cpu_src b = d->b;
        b.p = cpu_at(c, d->rb);
        cpu_part(cpu_gemm_panels(&d->g), c->tid, c->nt, &lo, &hi);
        cpu_gemm_pack_panels(&d->g, c->isa, c->thread_ws, &b, lo, hi, c->shared_ws);
    }
}

static void shared_step(const void *args, const cpu_ctx *c)
{
    const dot_args *d = args;
    dot_run r;
    int64_t first, end;
    r.batch = 0;
    cpu_src a = d->a, b = d->b;
    cpu_src *packed = d->shared == DOT_SHARED_A ? &a : &b;
    packed->packed = c->shared_ws;
    packed->ld = d->g.k;
    begin_run(&r, d, c);
    cpu_part(d->pieces, c->tid, c->nt, &first, &end);
    for (int64_t piece = first; piece < end; piece++) {
        rect at = {0, d->g.m, 0, d->g.n};
        int64_t lo, hi, unit = d->shared == DOT_SHARED_A ? d->g.nr : d->g.mr;
        cpu_part(d->shared == DOT_SHARED_A ? cpu_gemm_panels(&d->g) : cpu_gemm_strips(&d->g), (int)piece, (int)d->pieces,
                 &lo, &hi);
        if (d->shared == DOT_SHARED_A)
            at.j0 = lo * unit, at.j1 = hi * unit < d->g.n ? hi * unit : d->g.n;
        else
            at.i0 = lo * unit, at.i1 = hi * unit < d->g.m ? hi * unit : d->g.m;
        dot_rect(&r, &a, &b, &at);
    }
}

/* Strides of the matrix (x, k); false if neither direction is dense. */
static bool set_source(cpu_src *s, const yk_value *v, int64_t nx, int64_t nk, int64_t sx, int64_t sk)
{
    s->dtype = v->dtype;
    if (nk == 1 ? sx != 1 && nx > 1 : sk == 1 && (nx == 1 || sx != 1)) {
        s->kcontig = 1;
        s->ld = nx == 1 ? nk : sx;
        return true;
    }
    s->kcontig = 0;
    s->ld = nk == 1 ? nx : sk;
    return sx == 1 || nx == 1;
}

/* Said once: what 16-bit products cost where there are no instructions for them. */
static void say_emulated(const cpu_build *b, int dtype)
{
    static atomic_bool said;
    if (dtype == YK_F32 || (dtype == YK_BF16 && b->isa->bf16) || atomic_exchange(&said, true))
        return;
    cpu_host->log(2, "cpu", "%s has no fast products of %s: they are widened to fp32 as they are packed, about as fast as "
                  "--precision fp32; activations take half the memory", b->isa->name, dtype == YK_BF16 ? "bf16" : "fp16");
}

/* Pieces of `n` rows or columns, at least `least` each: several for each worker, or 0. */
static int64_t pieces_of(int64_t n, int64_t least, int nt)
{
    int64_t per = (n + PIECE * nt - 1) / (PIECE * nt);
    per = per < 4 ? 4 : per;
    return n >= per * nt * least ? per * nt : 0;
}

/* The smaller operand, if it is small enough and the other one long enough to be cut; none, if every worker reads A in place. */
static void choose_shared(cpu_build *b, dot_args *d)
{
    const cpu_gemm *g = &d->g;
    int64_t at[4];
    size_t pa = cpu_gemm_packed_a(g), pb = cpu_gemm_packed(g);
    if (b->nt == 1 || d->batch > 1 || g->m < 64 || g->n < 64 || g->m * g->n < SHARED_LEAST / g->k)
        return;
    cpu_gemm_part(g, d->gm, d->gn, 0, &at[0], &at[1], &at[2], &at[3]);
    if (d->gm == 1 && !g->transposed && cpu_gemm_in_place(g, &d->a, at[1], at[3], g->scratch))
        return;
    bool first = pa < pb && !g->transposed;
    d->shared = first ? DOT_SHARED_A : DOT_SHARED_B;
    d->pieces = g->transposed ? b->nt * (g->m >= 2 * TRANSPOSED_LEAST * b->nt ? 2 : 1) : pieces_of(first ? g->n : g->m, 64, b->nt);
    if (!d->pieces || (first ? pa : pb) > PACKED_MOST)
        d->shared = DOT_SHARED_NONE;
    if (d->shared)
        cpu_need_shared_ws(b, first ? pa : pb);
}

static void init_gemm(cpu_build *b, dot_args *d, int64_t k)
{
    if (d->batch > 1 || !cpu_gemm_prefers_transposed(b->isa, d->m, d->n, k, &d->a, &d->b)) {
        cpu_gemm_init(&d->g, b->isa, d->m, d->n, k, d->a.dtype, d->b.dtype, d->map || d->dtype != YK_F32);
        return;
    }
    cpu_src a = d->a;
    cpu_ref ra = d->ra;
    d->a = d->b, d->ra = d->rb;
    d->b = a, d->rb = ra;
    cpu_gemm_init_transposed(&d->g, b->isa, d->n, d->m, k, d->a.dtype, d->b.dtype);
}

/* A transposed product takes no less than the same one not transposed, so that what a step needs does not fall as its rows grow:
 * ranks whose memory is limited count on that. */
static size_t scratch_of(const cpu_build *b, const dot_args *d, int64_t k)
{
    cpu_gemm plain;
    if (!d->g.transposed)
        return d->g.bytes;
    cpu_gemm_init(&plain, b->isa, d->m, d->n, k, d->b.dtype, d->a.dtype, d->map || d->dtype != YK_F32);
    return plain.bytes > d->g.bytes ? plain.bytes : d->g.bytes;
}

static void emit_dot(cpu_build *b, const yk_node *n, dot_args *d, const yk_value *va, const yk_value *vb,
                     const yk_value *vc)
{
    int q = vc->dims - 2;
    int64_t m = vc->dim[q], nn = vc->dim[q + 1], k = va->dim[q + 1];
    d->batch = q ? vc->dim[0] : 1;
    d->batch_stride_a = q && va->dim[0] > 1 ? va->stride[0] : 0;
    d->batch_stride_b = q && vb->dim[0] > 1 ? vb->stride[0] : 0;
    if (!set_source(&d->a, va, m, k, va->stride[q], va->stride[q + 1]) ||
        !set_source(&d->b, vb, nn, k, vb->stride[q + 1], vb->stride[q])) {
        cpu_refuse(b, n, "an operand is neither dense nor transposed");
        return;
    }
    if (d->batch > 1 && d->batch_stride_b == 0 && d->a.kcontig && d->batch_stride_a == m * d->a.ld) { /* one tall product */
        m *= d->batch;
        d->batch = 1;
    }
    say_emulated(b, va->dtype);
    d->ra = cpu_ref_of(va);
    d->rb = cpu_ref_of(vb);
    d->rc = cpu_ref_of(vc);
    d->dtype = vc->dtype;
    d->accumulate = n->flags & YK_NODE_ACCUMULATE;
    d->m = m;
    d->n = nn;
    init_gemm(b, d, k);
    cpu_gemm_grid(&d->g, d->batch, b->nt, &d->gm, &d->gn);
    choose_shared(b, d);
    d->map_at = cpu_round(scratch_of(b, d, k), 64);
    cpu_need_thread_ws(b, d->map_at + (d->map ? cpu_map_scratch(d->map) : 0));
    double rate = d->g.mode == CPU_GEMM_F32 ? 100.0 : 200.0;
    double work = 2.0 * (double)d->batch * (double)m * (double)nn * (double)k / rate;
    if (d->shared)
        cpu_emit(b, shared_pack_step, d, (double)(d->shared == DOT_SHARED_A ? d->g.m : d->g.n) * (double)k * 0.3);
    work += d->map ? (double)(m * nn) * cpu_map_cost(d->map) : 0.0;
    if (d->shared)
        cpu_emit_pieces(b, shared_step, d, work, d->pieces);
    else
        cpu_emit(b, dot_step, d, work);
}

void cpu_plan_dot(cpu_build *b, const yk_node *n)
{
    dot_args *d = cpu_args(b, sizeof *d);
    if (!d)
        return;
    const yk_node *dot = n;
    if (n->op == YK_OP_DOT_MAP) {
        const yk_node *body = &b->g->node[n->body];
        for (dot = body; dot < body + n->n_body && dot->op != YK_OP_DOT;)
            dot++;
        if (dot == body + n->n_body) {
            cpu_refuse(b, n, "a body without a dot");
            return;
        }
        d->map = cpu_map_compile(b, n->body, n->n_body, cpu_out(b, dot, 0), b->g->index[dot->out],
                                 &b->g->index[n->out], n->n_out, true);
        if (!d->map)
            return;
    }
    emit_dot(b, n, d, cpu_in(b, dot, 0), cpu_in(b, dot, 1), cpu_out(b, dot, 0));
}
