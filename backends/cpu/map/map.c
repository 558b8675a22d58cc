/* SPDX-License-Identifier: Apache-2.0 */
/* Running an elementwise program. */
#include "backends/cpu/map/map.h"

#include <string.h>

#include "backends/cpu/map/map_inner.h"

#define SHARE 2048 /* elements that are not divided between workers */

uint32_t cpu_map_item(int dtype)
{
    return yk_dtype_bytes((uint32_t)dtype);
}

size_t cpu_map_scratch(const cpu_map *m)
{
    return cpu_round(m->bytes + 64, 64);
}

int64_t cpu_map_block(const cpu_map *m)
{
    return m->block;
}

double cpu_map_cost(const cpu_map *m)
{
    uint32_t blocks = m->n_out;
    for (uint32_t i = 0; i < m->n_in; i++)
        blocks += m->in[i].kind == CPU_IN_RANDOM ? 5 : m->in[i].kind == CPU_IN_DENSE || m->in[i].kind == CPU_IN_STRIDED;
    return 0.05 * m->n_ins + 0.1 * blocks;
}

static void *reg_at(const cpu_map_run *r, uint32_t reg)
{
    return r->regs + r->map->store[reg];
}

/* n elements from p to 32-bit registers */
static void block_widen(const cpu_isa *isa, void *d, const void *p, int dtype, size_t n)
{
    if (dtype == YK_BOOL || dtype == YK_U8) {
        const uint8_t *s = p;
        int32_t *t = d;
        for (size_t i = 0; i < n; i++)
            t[i] = s[i];
    } else if (dtype == YK_I32) {
        memcpy(d, p, n * 4);
    } else {
        isa->to_f32(d, p, dtype, n);
    }
}

static void block_narrow(const cpu_isa *isa, void *d, const void *p, int dtype, size_t n)
{
    if (dtype == YK_BOOL || dtype == YK_U8) {
        const int32_t *s = p;
        uint8_t *t = d;
        for (size_t i = 0; i < n; i++)
            t[i] = (uint8_t)s[i];
    } else if (dtype == YK_I32) {
        memmove(d, p, n * 4);
    } else {
        isa->from_f32(d, p, dtype, n);
    }
}

/* ---- Operands that are not dense ---- */

typedef struct cursor {
    int64_t at[YK_MAX_DIMS], off; /* index in each dimension, innermost first; elements from the operand's start */
} cursor;

static void cursor_seek(cursor *k, const cpu_map_in *in, int64_t pos)
{
    k->off = 0;
    for (int i = 0; i < in->dims; i++) {
        k->at[i] = pos % in->len[i];
        pos /= in->len[i];
        k->off += k->at[i] * in->stride[i];
    }
}

/* The run ends inside its innermost dimension, or at its end. */
static void cursor_advance(cursor *k, const cpu_map_in *in, int64_t run)
{
    k->off += run * in->stride[0];
    k->at[0] += run;
    for (int i = 0; i + 1 < in->dims && k->at[i] == in->len[i]; i++) {
        k->off += in->stride[i + 1] - in->len[i] * in->stride[i];
        k->at[i] = 0;
        k->at[i + 1]++;
    }
}

static void load_one(const cpu_ctx *c, const cpu_map_in *in, int64_t off, void *to)
{
    if (cpu_map_item(in->dtype) == 4)
        memcpy(to, (const char *)cpu_at(c, in->ref) + off * 4, 4);
    else
        block_widen(c->isa, to, (const char *)cpu_at(c, in->ref) + off * cpu_map_item(in->dtype), in->dtype, 1);
}

/* A broadcast operand: runs along its innermost dimension. */
static void broadcast_load(const cpu_ctx *c, const cpu_map_in *in, cursor *k, size_t n, char *d)
{
    const char *base = cpu_at(c, in->ref);
    uint32_t item = cpu_map_item(in->dtype), bits;
    while (n) {
        size_t run = (size_t)(in->len[0] - k->at[0]) < n ? (size_t)(in->len[0] - k->at[0]) : n;
        const char *p = base + k->off * item;
        if (in->stride[0] == 0) {
            block_widen(c->isa, &bits, p, in->dtype, 1);
            c->isa->fill32(d, bits, run);
        } else if (in->stride[0] == 1) {
            block_widen(c->isa, d, p, in->dtype, run);
        } else {
            for (size_t i = 0; i < run; i++)
                block_widen(c->isa, d + i * 4, p + (int64_t)i * in->stride[0] * item, in->dtype, 1);
        }
        d += run * 4;
        n -= run;
        cursor_advance(k, in, (int64_t)run);
    }
}

static void load_strided(cpu_map_run *r, const cpu_map_in *in, int64_t pos, size_t n)
{
    cursor k;
    cursor_seek(&k, in, pos);
    if (in->stride[0] == 1 && cpu_map_item(in->dtype) == 4 && (int64_t)n <= in->len[0] - k.at[0]) {
        r->at[in->reg] = (const char *)cpu_at(r->ctx, in->ref) + k.off * 4;
        return;
    }
    r->at[in->reg] = reg_at(r, in->reg);
    broadcast_load(r->ctx, in, &k, n, reg_at(r, in->reg));
}

/* The mask of elements [pos, pos + n): random numbers by global row. */
static void load_random(const cpu_map_run *r, const cpu_map_in *in, int64_t pos, size_t n)
{
    const int32_t *rows = cpu_at(r->ctx, in->rows);
    int32_t *d = reg_at(r, in->reg);
    uint32_t key[3];
    memcpy(key, cpu_at(r->ctx, in->ref), sizeof key);
    while (n) {
        int64_t row = pos / in->row, at = pos % in->row;
        size_t m = (size_t)(in->row - at) < n ? (size_t)(in->row - at) : n;
        uint64_t first = (uint64_t)rows[row] * (uint64_t)in->row + (uint64_t)at;
        r->ctx->isa->keep(d, key, in->stream, first, in->least, m);
        pos += (int64_t)m, d += m, n -= m;
    }
}

/* ---- Evaluation ---- */

static void begin_in(cpu_map_run *r, const cpu_map_in *in)
{
    const cpu_isa *isa = r->ctx->isa;
    cursor k = {.off = 0};
    uint32_t bits = in->bits;
    if (in->kind == CPU_IN_PERIOD) {
        broadcast_load(r->ctx, in, &k, (size_t)(in->period + r->map->block), r->regs + in->store);
        return;
    }
    if (in->kind == CPU_IN_SCALAR)
        load_one(r->ctx, in, 0, &bits);
    else if (in->kind != CPU_IN_CONST)
        return;
    memcpy(reg_at(r, in->reg), &bits, 4);
    if (in->filled)
        isa->fill32(reg_at(r, in->filled), bits, (size_t)r->map->block);
}

void cpu_map_begin(cpu_map_run *r, const cpu_map *m, const cpu_ctx *c, void *scratch)
{
    *r = (cpu_map_run){m, c, scratch, scratch};
    for (uint32_t i = 0; i < m->n_reg; i++)
        r->at[i] = reg_at(r, i);
    for (uint32_t i = 0; i < m->n_in; i++)
        begin_in(r, &m->in[i]);
}

static void load_all(cpu_map_run *r, int64_t pos, size_t n, const float *special)
{
    const cpu_map *m = r->map;
    for (uint32_t i = 0; i < m->n_in; i++) {
        const cpu_map_in *in = &m->in[i];
        if (in->kind == CPU_IN_SPECIAL) {
            r->at[in->reg] = special;
        } else if (in->kind == CPU_IN_DENSE) {
            const char *p = (const char *)cpu_at(r->ctx, in->ref) + pos * cpu_map_item(in->dtype);
            if (cpu_map_item(in->dtype) == 4)
                r->at[in->reg] = p;
            else
                block_widen(r->ctx->isa, reg_at(r, in->reg), p, in->dtype, n);
        } else if (in->kind == CPU_IN_PERIOD) {
            r->at[in->reg] = r->regs + in->store + pos % in->period * 4;
        } else if (in->kind == CPU_IN_STRIDED) {
            load_strided(r, in, pos, n);
        } else if (in->kind == CPU_IN_RANDOM) {
            load_random(r, in, pos, n);
        }
    }
    for (uint32_t k = 0; k < m->n_out; k++)
        if (m->out[k].direct >= 0)
            r->at[m->out[k].reg] = (char *)cpu_at(r->ctx, m->out[k].ref) + pos * 4;
}

/* Elements [off, off + n) of the block. */
static void run_chunk(const cpu_map_run *r, size_t off, size_t n)
{
    const cpu_map_ins *s = r->map->ins, *end = s + r->map->n_ins;
    size_t o = off * 4;
    for (; s < end; s++)
        s->fn((char *)r->at[s->d] + (o & (size_t)s->md), (const char *)r->at[s->a] + (o & (size_t)s->ma),
              (const char *)r->at[s->b] + (o & (size_t)s->mb), (const char *)r->at[s->c] + (o & (size_t)s->mc),
              s->one ? 1 : n);
}

/* Chunks that share the numbers of the PLANE operands. */
static void run_planes(cpu_map_run *r, int64_t pos, size_t n)
{
    const cpu_map *m = r->map;
    const cpu_map_in *plane[CPU_MAP_IN];
    cursor k[CPU_MAP_IN];
    uint32_t planes = 0;
    for (uint32_t i = 0; i < m->n_in; i++)
        if (m->in[i].kind == CPU_IN_PLANE) {
            plane[planes] = &m->in[i];
            cursor_seek(&k[planes++], &m->in[i], pos);
        }
    for (size_t off = 0; off < n;) {
        int64_t left = m->plane_run - (pos + (int64_t)off) % m->plane_run;
        size_t len = (size_t)left < n - off ? (size_t)left : n - off;
        for (uint32_t i = 0; i < planes; i++) {
            load_one(r->ctx, plane[i], k[i].off, reg_at(r, plane[i]->reg));
            cursor_advance(&k[i], plane[i], (int64_t)len);
        }
        run_chunk(r, off, len);
        off += len;
    }
}

static const char *dense_at(const cpu_map_run *r, uint32_t in, int64_t pos)
{
    const cpu_map_in *i = &r->map->in[in];
    return (const char *)cpu_at(r->ctx, i->ref) + pos * cpu_map_item(i->dtype);
}

/* Elements that share the chain's numbers, or have a row of them. */
static void chain_chunk(const cpu_map_run *r, const cpu_chain *a, size_t off, size_t n)
{
    const cpu_map_chain *c = &r->map->chain;
    const size_t o = off * (c->bf16 ? 2 : 4);
    const cpu_chain at = {a->y ? (char *)a->y + o : NULL, (const char *)a->x + o, (const char *)a->r + o, (const char *)a->h + o,
                          {a->number[0], a->number[1], a->number[2], a->number[3]}, {a->sum[0], a->sum[1]}};
    r->ctx->isa->chain[c->kind][c->bf16][c->rows][c->form](&at, n);
}

static void chain_planes(const cpu_map_run *r, cpu_chain *a, int64_t pos, size_t n)
{
    const cpu_map *m = r->map;
    cursor k[4];
    for (int i = 0; i < m->chain.n_number; i++) {
        cursor_seek(&k[i], &m->in[m->chain.number[i]], pos);
        a->number[i] = reg_at(r, m->in[m->chain.number[i]].reg);
    }
    for (size_t off = 0; off < n;) {
        int64_t left = m->plane_run - (pos + (int64_t)off) % m->plane_run;
        size_t len = (size_t)left < n - off ? (size_t)left : n - off;
        for (int i = 0; i < m->chain.n_number; i++) {
            const cpu_map_in *in = &m->in[m->chain.number[i]];
            load_one(r->ctx, in, k[i].off, reg_at(r, in->reg));
            cursor_advance(&k[i], in, (int64_t)len);
        }
        chain_chunk(r, a, off, len);
        off += len;
        for (int i = 0; i < 2 && a->sum[0]; i++)
            a->sum[i]++;
    }
}

static void run_chain(const cpu_map_run *r, int64_t pos, size_t n, float *const sum[2])
{
    const cpu_map *m = r->map;
    const cpu_map_chain *c = &m->chain;
    cpu_chain a = {.x = dense_at(r, c->x, pos), .r = dense_at(r, c->r, pos), .h = dense_at(r, c->h, pos)};
    if (sum) {
        a.sum[0] = sum[c->swapped];
        a.sum[1] = sum[!c->swapped];
    } else {
        a.y = (char *)cpu_at(r->ctx, m->out[0].ref) + pos * cpu_map_item(m->out[0].dtype);
    }
    if (!c->rows) {
        chain_planes(r, &a, pos, n);
        return;
    }
    for (int i = 0; i < c->n_number; i++) {
        const cpu_map_in *in = &m->in[c->number[i]];
        a.number[i] = (const float *)(void *)(r->regs + in->store) + pos % in->period;
    }
    chain_chunk(r, &a, 0, n);
}

bool cpu_map_has_sums(const cpu_map *m, bool rows)
{
    return m->chain.found && m->chain.kind == CPU_CHAIN_SUMS && m->chain.rows == rows;
}

void cpu_map_sums(cpu_map_run *r, int64_t pos, size_t n, float *sum[2])
{
    run_chain(r, pos, n, sum);
}

size_t cpu_map_streams(const cpu_map_run *r, const char *from[CPU_MAP_STREAMS], size_t item[CPU_MAP_STREAMS])
{
    const cpu_map *m = r->map;
    size_t n = 0;
    for (uint32_t i = 0; i < m->n_in; i++)
        if (m->in[i].kind == CPU_IN_DENSE) {
            from[n] = cpu_at(r->ctx, m->in[i].ref);
            item[n++] = cpu_map_item(m->in[i].dtype);
        }
    for (uint32_t k = 0; k < m->n_out; k++)
        if (m->out[k].store || m->out[k].direct >= 0) {
            from[n] = cpu_at(r->ctx, m->out[k].ref);
            item[n++] = cpu_map_item(m->out[k].dtype);
        }
    return n;
}

/* A row of the bias may end within the block, in memory; one that was spread out goes on. */
static void run_gelu(const cpu_map_run *r, int64_t pos, size_t n, const float *v)
{
    const cpu_map *m = r->map;
    const cpu_map_gelu *g = &m->gelu;
    const cpu_map_in *in = &m->in[g->x];
    for (size_t off = 0, len = n; off < n; off += len, len = n - off) {
        const int64_t p = pos + (int64_t)off;
        const char *x = (const char *)cpu_at(r->ctx, in->ref);
        void *y[2] = {NULL, NULL};
        for (int k = 0; k < 2; k++)
            if (g->out[k] >= 0)
                y[k] = (char *)cpu_at(r->ctx, m->out[g->out[k]].ref) + p * (g->bf16 ? 2 : 4);
        if (g->back)
            x += p * (g->bf16 ? 2 : 4);
        else if (in->kind == CPU_IN_PERIOD)
            x = r->regs + in->store + p % in->period * 4;
        else
            x += p % in->len[0] * 4, len = len < (size_t)(in->len[0] - p % in->len[0]) ? len : (size_t)(in->len[0] - p % in->len[0]);
        r->ctx->isa->gelu[g->back][g->tanh][g->bf16](y, v + off, x, len);
    }
}

/* One operation on bf16; or dropout, whose second operand is drawn and whose divisor is in a register. */
static void map_run_bf16(const cpu_map_run *r, int64_t pos, size_t n)
{
    const cpu_map *m = r->map;
    const cpu_map_in *b = &m->in[m->bf16_b];
    char *y = (char *)cpu_at(r->ctx, m->out[0].ref) + pos * 2;
    const char *x = dense_at(r, m->bf16_a, pos);
    if (b->kind == CPU_IN_RANDOM) {
        load_random(r, b, pos, n);
        m->bf16_op(y, x, reg_at(r, b->reg), r->at[m->ins[0].b], n);
    } else {
        m->bf16_op(y, x, dense_at(r, m->bf16_b, pos), NULL, n);
    }
}

void cpu_map_eval(cpu_map_run *r, int64_t pos, size_t n, const float *special)
{
    const cpu_map *m = r->map;
    if (m->gelu.found) {
        run_gelu(r, pos, n, special);
        return;
    }
    if (m->chain.found && m->chain.kind != CPU_CHAIN_SUMS) {
        run_chain(r, pos, n, NULL);
        return;
    }
    if (m->bf16_op) {
        map_run_bf16(r, pos, n);
        return;
    }
    load_all(r, pos, n, special);
    if (m->n_plane)
        run_planes(r, pos, n);
    else
        run_chunk(r, 0, n);
    for (uint32_t k = 0; k < m->n_out; k++) {
        const cpu_map_out *o = &m->out[k];
        if (o->store)
            block_narrow(r->ctx->isa, (char *)cpu_at(r->ctx, o->ref) + pos * cpu_map_item(o->dtype), r->at[o->reg], o->dtype, n);
    }
}

const float *cpu_map_result(const cpu_map_run *r, uint32_t k)
{
    return r->at[r->map->out[k].reg];
}

/* ---- The node ---- */

typedef struct map_args {
    const cpu_map *map;
    int64_t n, block;
} map_args;

static void map_step(const void *args, const cpu_ctx *c)
{
    const map_args *a = args;
    int64_t lo, hi;
    cpu_part((a->n + a->block - 1) / a->block, c->tid, c->nt, &lo, &hi);
    cpu_map_run r;
    cpu_map_begin(&r, a->map, c, c->thread_ws);
    int64_t end = hi * a->block < a->n ? hi * a->block : a->n;
    for (int64_t pos = lo * a->block; pos < end; pos += a->map->block)
        cpu_map_eval(&r, pos, (size_t)(end - pos < a->map->block ? end - pos : a->map->block), NULL);
}

void cpu_plan_map(cpu_build *b, const yk_node *n)
{
    uint32_t first = (uint32_t)(n - b->g->node), count = 1;
    if (n->op == YK_OP_MAP) {
        first = n->body;
        count = n->n_body;
    }
    const yk_value *shape = cpu_out(b, n, 0);
    map_args *a = cpu_args(b, sizeof *a);
    if (!a || n->n_out > CPU_MAP_OUT) {
        cpu_refuse(b, n, "too many results of one map");
        return;
    }
    cpu_map *m = cpu_map_compile(b, first, count, shape, YK_NONE, &b->g->index[n->out], n->n_out, true);
    if (!m)
        return;
    a->map = m;
    a->n = cpu_count(shape);
    a->block = m->block < SHARE ? SHARE / m->block * m->block : m->block;
    cpu_need_thread_ws(b, cpu_map_scratch(m));
    cpu_emit(b, map_step, a, (double)a->n * cpu_map_cost(m));
}
