/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running an elementwise program that map_plan.c has compiled.
 *
 * Steps of map_node.c, cpu_dot.c and cpu_reduce.c call it on the workers. A piece begins with cpu_map_begin on scratch memory of that
 * worker. Then cpu_map_eval or cpu_map_sums takes one block after the other. No call writes to a compiled map, so workers share it.
 * Positions and lengths count elements of the output.
 */
#include "backends/cpu/map/map.h"

#include <string.h>

#include "backends/cpu/isa/map_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "backends/cpu/map/map_internal.h"
#include "plugins/kit/value.h"

size_t cpu_map_scratch(const cpu_map *map)
{
    return kit_round_bytes(map->bytes + 64, 64);
}

int64_t cpu_map_block(const cpu_map *map)
{
    return map->block;
}

double cpu_map_cost(const cpu_map *map)
{
    uint32_t blocks = map->n_out;
    for (uint32_t i = 0; i < map->n_in; i++)
        blocks += map->in[i].kind == CPU_IN_RANDOM ? 5 : map->in[i].kind == CPU_IN_DENSE || map->in[i].kind == CPU_IN_STRIDED;
    return 0.05 * map->n_ins + 0.1 * blocks;
}

static void *reg_at(const cpu_map_run *run, uint32_t reg)
{
    return run->regs + run->map->store[reg];
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
        isa->vec->to_f32(d, p, dtype, n);
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
        isa->vec->from_f32(d, p, dtype, n);
    }
}

/* ---- Operands that are not dense ---- */

typedef struct in_cursor {
    int64_t at[YK_MAX_DIMS], offset; /* index in each dimension, innermost first; elements from the operand's start */
} in_cursor;

static void cursor_seek(in_cursor *cursor, const cpu_map_in *in, int64_t pos)
{
    cursor->offset = 0;
    for (int i = 0; i < in->dims; i++) {
        cursor->at[i] = pos % in->len[i];
        pos /= in->len[i];
        cursor->offset += cursor->at[i] * in->stride[i];
    }
}

/* The run ends inside its innermost dimension, or at its end. */
static void cursor_advance(in_cursor *cursor, const cpu_map_in *in, int64_t run)
{
    cursor->offset += run * in->stride[0];
    cursor->at[0] += run;
    for (int i = 0; i + 1 < in->dims && cursor->at[i] == in->len[i]; i++) {
        cursor->offset += in->stride[i + 1] - in->len[i] * in->stride[i];
        cursor->at[i] = 0;
        cursor->at[i + 1]++;
    }
}

static void load_one(const cpu_ctx *ctx, const cpu_map_in *in, int64_t off, void *to)
{
    if (cpu_map_item(in->dtype) == 4)
        memcpy(to, (const char *)cpu_at(ctx, in->ref) + off * 4, 4);
    else
        block_widen(ctx->isa, to, (const char *)cpu_at(ctx, in->ref) + off * cpu_map_item(in->dtype), in->dtype, 1);
}

/* A broadcast operand: runs along its innermost dimension. */
static void broadcast_load(const cpu_ctx *ctx, const cpu_map_in *in, in_cursor *cursor, size_t n, char *d)
{
    const char *base = cpu_at(ctx, in->ref);
    uint32_t item = cpu_map_item(in->dtype), bits;
    while (n) {
        size_t run = (size_t)(in->len[0] - cursor->at[0]) < n ? (size_t)(in->len[0] - cursor->at[0]) : n;
        const char *p = base + cursor->offset * item;
        if (in->stride[0] == 0) {
            block_widen(ctx->isa, &bits, p, in->dtype, 1);
            ctx->isa->vec->fill32(d, bits, run);
        } else if (in->stride[0] == 1) {
            block_widen(ctx->isa, d, p, in->dtype, run);
        } else {
            for (size_t i = 0; i < run; i++)
                block_widen(ctx->isa, d + i * 4, p + (int64_t)i * in->stride[0] * item, in->dtype, 1);
        }
        d += run * 4;
        n -= run;
        cursor_advance(cursor, in, (int64_t)run);
    }
}

static void load_strided(cpu_map_run *run, const cpu_map_in *in, int64_t pos, size_t n)
{
    in_cursor cursor;
    cursor_seek(&cursor, in, pos);
    if (in->stride[0] == 1 && cpu_map_item(in->dtype) == 4 && (int64_t)n <= in->len[0] - cursor.at[0]) {
        run->at[in->reg] = (const char *)cpu_at(run->ctx, in->ref) + cursor.offset * 4;
        return;
    }
    run->at[in->reg] = reg_at(run, in->reg);
    broadcast_load(run->ctx, in, &cursor, n, reg_at(run, in->reg));
}

/* The mask of elements [pos, pos + n): random numbers by global row. */
static void load_random(const cpu_map_run *run, const cpu_map_in *in, int64_t pos, size_t n)
{
    const int32_t *rows = cpu_at(run->ctx, in->rows);
    int32_t *d = reg_at(run, in->reg);
    uint32_t key[3];
    memcpy(key, cpu_at(run->ctx, in->ref), sizeof key);
    while (n) {
        int64_t row = pos / in->row, at = pos % in->row;
        size_t m = (size_t)(in->row - at) < n ? (size_t)(in->row - at) : n;
        uint64_t first = (uint64_t)rows[row] * (uint64_t)in->row + (uint64_t)at;
        run->ctx->isa->random->keep(d, key, in->stream, first, in->least, m);
        pos += (int64_t)m, d += m, n -= m;
    }
}

/* ---- Evaluation ---- */

static void begin_in(cpu_map_run *run, const cpu_map_in *in)
{
    const cpu_isa *isa = run->ctx->isa;
    in_cursor cursor = {.offset = 0};
    uint32_t bits = in->bits;
    if (in->kind == CPU_IN_PERIOD) {
        broadcast_load(run->ctx, in, &cursor, (size_t)(in->period + run->map->block), run->regs + in->store);
        return;
    }
    if (in->kind == CPU_IN_SCALAR)
        load_one(run->ctx, in, 0, &bits);
    else if (in->kind != CPU_IN_CONST)
        return;
    memcpy(reg_at(run, in->reg), &bits, 4);
    if (in->filled)
        isa->vec->fill32(reg_at(run, in->filled), bits, (size_t)run->map->block);
}

void cpu_map_begin(cpu_map_run *run, const cpu_map *map, const cpu_ctx *ctx, void *scratch)
{
    *run = (cpu_map_run){map, ctx, scratch, scratch};
    for (uint32_t i = 0; i < map->n_reg; i++)
        run->at[i] = reg_at(run, i);
    for (uint32_t i = 0; i < map->n_in; i++)
        begin_in(run, &map->in[i]);
}

static void load_all(cpu_map_run *run, int64_t pos, size_t n, const float *special)
{
    const cpu_map *map = run->map;
    for (uint32_t i = 0; i < map->n_in; i++) {
        const cpu_map_in *in = &map->in[i];
        if (in->kind == CPU_IN_SPECIAL) {
            run->at[in->reg] = special;
        } else if (in->kind == CPU_IN_DENSE) {
            const char *p = (const char *)cpu_at(run->ctx, in->ref) + pos * cpu_map_item(in->dtype);
            if (cpu_map_item(in->dtype) == 4)
                run->at[in->reg] = p;
            else
                block_widen(run->ctx->isa, reg_at(run, in->reg), p, in->dtype, n);
        } else if (in->kind == CPU_IN_PERIOD) {
            run->at[in->reg] = run->regs + in->store + pos % in->period * 4;
        } else if (in->kind == CPU_IN_STRIDED) {
            load_strided(run, in, pos, n);
        } else if (in->kind == CPU_IN_RANDOM) {
            load_random(run, in, pos, n);
        }
    }
    for (uint32_t k = 0; k < map->n_out; k++)
        if (map->out[k].direct >= 0)
            run->at[map->out[k].reg] = (char *)cpu_at(run->ctx, map->out[k].ref) + pos * 4;
}

/* Elements [off, off + n) of the block. */
static void run_chunk(const cpu_map_run *run, size_t off, size_t n)
{
    const cpu_map_ins *ins = run->map->ins, *end = ins + run->map->n_ins;
    size_t o = off * 4;
    for (; ins < end; ins++)
        ins->fn((char *)run->at[ins->dst] + (o & (size_t)ins->dst_mask), (const char *)run->at[ins->a] + (o & (size_t)ins->a_mask),
                (const char *)run->at[ins->b] + (o & (size_t)ins->b_mask), (const char *)run->at[ins->c] + (o & (size_t)ins->c_mask),
                ins->one ? 1 : n);
}

/* Chunks that share the numbers of the PLANE operands. */
static void run_planes(cpu_map_run *run, int64_t pos, size_t n)
{
    const cpu_map *map = run->map;
    const cpu_map_in *plane[CPU_MAP_IN];
    in_cursor cursor[CPU_MAP_IN];
    uint32_t planes = 0;
    for (uint32_t i = 0; i < map->n_in; i++)
        if (map->in[i].kind == CPU_IN_PLANE) {
            plane[planes] = &map->in[i];
            cursor_seek(&cursor[planes++], &map->in[i], pos);
        }
    for (size_t off = 0; off < n;) {
        int64_t left = map->plane_run - (pos + (int64_t)off) % map->plane_run;
        size_t len = (size_t)left < n - off ? (size_t)left : n - off;
        for (uint32_t i = 0; i < planes; i++) {
            load_one(run->ctx, plane[i], cursor[i].offset, reg_at(run, plane[i]->reg));
            cursor_advance(&cursor[i], plane[i], (int64_t)len);
        }
        run_chunk(run, off, len);
        off += len;
    }
}

static const char *dense_at(const cpu_map_run *run, uint32_t in, int64_t pos)
{
    const cpu_map_in *i = &run->map->in[in];
    return (const char *)cpu_at(run->ctx, i->ref) + pos * cpu_map_item(i->dtype);
}

/* Elements that share the chain's numbers, or have a row of them. */
static void chain_chunk(const cpu_map_run *run, const cpu_chain *a, size_t off, size_t n)
{
    const cpu_map_chain *chain = &run->map->chain;
    const size_t o = off * (chain->bf16 ? 2 : 4);
    const cpu_chain at = {a->y ? (char *)a->y + o : NULL, (const char *)a->x + o, (const char *)a->r + o, (const char *)a->h + o,
                          {a->number[0], a->number[1], a->number[2], a->number[3]}, {a->sum[0], a->sum[1]}};
    run->ctx->isa->map->chain[chain->kind][chain->bf16][chain->rows][chain->form](&at, n);
}

static void chain_planes(const cpu_map_run *run, cpu_chain *a, int64_t pos, size_t n)
{
    const cpu_map *map = run->map;
    in_cursor cursor[4];
    for (int i = 0; i < map->chain.n_number; i++) {
        cursor_seek(&cursor[i], &map->in[map->chain.number[i]], pos);
        a->number[i] = reg_at(run, map->in[map->chain.number[i]].reg);
    }
    for (size_t off = 0; off < n;) {
        int64_t left = map->plane_run - (pos + (int64_t)off) % map->plane_run;
        size_t len = (size_t)left < n - off ? (size_t)left : n - off;
        for (int i = 0; i < map->chain.n_number; i++) {
            const cpu_map_in *in = &map->in[map->chain.number[i]];
            load_one(run->ctx, in, cursor[i].offset, reg_at(run, in->reg));
            cursor_advance(&cursor[i], in, (int64_t)len);
        }
        chain_chunk(run, a, off, len);
        off += len;
        for (int i = 0; i < 2 && a->sum[0]; i++)
            a->sum[i]++;
    }
}

static void run_chain(const cpu_map_run *run, int64_t pos, size_t n, float *const sum[2])
{
    const cpu_map *map = run->map;
    const cpu_map_chain *chain = &map->chain;
    cpu_chain a = {.x = dense_at(run, chain->x, pos), .r = dense_at(run, chain->r, pos), .h = dense_at(run, chain->h, pos)};
    if (sum) {
        a.sum[0] = sum[chain->swapped];
        a.sum[1] = sum[!chain->swapped];
    } else {
        a.y = (char *)cpu_at(run->ctx, map->out[0].ref) + pos * cpu_map_item(map->out[0].dtype);
    }
    if (!chain->rows) {
        chain_planes(run, &a, pos, n);
        return;
    }
    for (int i = 0; i < chain->n_number; i++) {
        const cpu_map_in *in = &map->in[chain->number[i]];
        a.number[i] = (const float *)(void *)(run->regs + in->store) + pos % in->period;
    }
    chain_chunk(run, &a, 0, n);
}

bool cpu_map_sums_rows(const cpu_map *map)
{
    return map->chain.found && map->chain.kind == CPU_CHAIN_SUMS && map->chain.rows;
}

bool cpu_map_sums_planes(const cpu_map *map, int64_t len)
{
    return map->chain.found && map->chain.kind == CPU_CHAIN_SUMS && !map->chain.rows && map->plane_run == len;
}

void cpu_map_sums(cpu_map_run *run, int64_t pos, size_t n, float *sum[2])
{
    run_chain(run, pos, n, sum);
}

size_t cpu_map_streams(const cpu_map_run *run, const char *from[CPU_MAP_STREAMS], size_t item[CPU_MAP_STREAMS])
{
    const cpu_map *map = run->map;
    size_t n = 0;
    for (uint32_t i = 0; i < map->n_in; i++)
        if (map->in[i].kind == CPU_IN_DENSE) {
            from[n] = cpu_at(run->ctx, map->in[i].ref);
            item[n++] = cpu_map_item(map->in[i].dtype);
        }
    for (uint32_t k = 0; k < map->n_out; k++)
        if (map->out[k].store || map->out[k].direct >= 0) {
            from[n] = cpu_at(run->ctx, map->out[k].ref);
            item[n++] = cpu_map_item(map->out[k].dtype);
        }
    return n;
}

/* A row of a bias in memory may end within the block; a spread-out bias continues. */
static void run_gelu(const cpu_map_run *run, int64_t pos, size_t n, const float *v)
{
    const cpu_map *map = run->map;
    const cpu_map_gelu *fused = &map->gelu;
    const cpu_map_in *in = &map->in[fused->x];
    for (size_t off = 0, len = n; off < n; off += len, len = n - off) {
        const int64_t p = pos + (int64_t)off;
        const char *x = (const char *)cpu_at(run->ctx, in->ref);
        void *y[2] = {NULL, NULL};
        for (int k = 0; k < 2; k++)
            if (fused->out[k] >= 0)
                y[k] = (char *)cpu_at(run->ctx, map->out[fused->out[k]].ref) + p * (fused->bf16 ? 2 : 4);
        if (fused->back)
            x += p * (fused->bf16 ? 2 : 4);
        else if (in->kind == CPU_IN_PERIOD)
            x = run->regs + in->store + p % in->period * 4;
        else
            x += p % in->len[0] * 4, len = len < (size_t)(in->len[0] - p % in->len[0]) ? len : (size_t)(in->len[0] - p % in->len[0]);
        run->ctx->isa->map->gelu[fused->back][fused->tanh][fused->bf16](y, v + off, x, len);
    }
}

/* One operation on bf16; or dropout, with a drawn second operand and its divisor in a register. */
static void map_run_bf16(const cpu_map_run *run, int64_t pos, size_t n)
{
    const cpu_map *map = run->map;
    const cpu_map_in *b = &map->in[map->bf16_b];
    char *y = (char *)cpu_at(run->ctx, map->out[0].ref) + pos * 2;
    const char *x = dense_at(run, map->bf16_a, pos);
    if (b->kind == CPU_IN_RANDOM) {
        load_random(run, b, pos, n);
        map->bf16_op(y, x, reg_at(run, b->reg), run->at[map->ins[0].b], n);
    } else {
        map->bf16_op(y, x, dense_at(run, map->bf16_b, pos), NULL, n);
    }
}

void cpu_map_eval(cpu_map_run *run, int64_t pos, size_t n, const float *special)
{
    const cpu_map *map = run->map;
    if (map->gelu.found) {
        run_gelu(run, pos, n, special);
        return;
    }
    if (map->chain.found && map->chain.kind != CPU_CHAIN_SUMS) {
        run_chain(run, pos, n, NULL);
        return;
    }
    if (map->bf16_op) {
        map_run_bf16(run, pos, n);
        return;
    }
    load_all(run, pos, n, special);
    if (map->n_plane)
        run_planes(run, pos, n);
    else
        run_chunk(run, 0, n);
    for (uint32_t k = 0; k < map->n_out; k++) {
        const cpu_map_out *o = &map->out[k];
        if (o->store)
            block_narrow(run->ctx->isa, (char *)cpu_at(run->ctx, o->ref) + pos * cpu_map_item(o->dtype), run->at[o->reg], o->dtype, n);
    }
}

const float *cpu_map_result(const cpu_map_run *run, uint32_t k)
{
    return run->at[run->map->out[k].reg];
}
