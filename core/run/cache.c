/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs made so far, by what they were made from. Several shapes live side by side; when there are more than
 * MOST, or their plans take more memory than is meant for them, those that were used longest ago go, but for the LEAST that
 * a window needs. Arena, inputs and results are one for all of them.
 */
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/run/exec.h"

#define MOST 96
#define LEAST 4
#define BYTES (64ull << 20)

static uint64_t key_of(const yk__exec *x, const yk__micro *m)
{
    uint64_t h = yk__hash_u64(m->trace->hash, (uint64_t)m->loss << 32 | m->seed);
    h = yk__hash_u64(h, (uint64_t)x->params->layouts << 8 | (m->loss != YK_NONE && !m->first));
    for (uint32_t i = 0; i < m->n_result; i++)
        h = yk__hash_u64(h, (uint64_t)m->result[i] | 1ull << 40);
    for (uint32_t i = 0; i < m->n_assign; i++)
        h = yk__hash_u64(h, (uint64_t)m->assign[i].state << 32 | m->assign[i].value);
    for (uint32_t i = 0; i < m->n_recompute; i++)
        h = yk__hash_u64(h, (uint64_t)m->recompute[i].begin << 32 | m->recompute[i].end);
    return h;
}

static yk__prog *look_up(yk__exec *x, uint64_t key)
{
    for (size_t i = 0; i < x->n_prog; i++)
        if (x->prog[i]->key == key) {
            x->prog[i]->used = x->runs;
            return x->prog[i];
        }
    return NULL;
}

static yk_status drop_oldest(yk__exec *x, yk_error *err)
{
    size_t old = 0;
    for (size_t i = 1; i < x->n_prog; i++)
        if (x->prog[i]->used < x->prog[old]->used)
            old = i;
    if (yk__queue_idle(x->queue, err))
        return err->status;
    x->prog_bytes -= x->prog[old]->bytes;
    yk__prog_free(x, x->prog[old]);
    x->prog[old] = x->prog[--x->n_prog];
    return YK_OK;
}

static yk_status drop_many(yk__exec *x, yk_error *err)
{
    const uint64_t most = x->cache_bytes ? x->cache_bytes : BYTES;
    while (x->n_prog >= MOST || (x->n_prog >= LEAST && x->prog_bytes > most))
        if (drop_oldest(x, err))
            return err->status;
    return YK_OK;
}

/* The plugin's own program is taken to be as large as the plan. */
static uint64_t bytes_of(const yk__plan *p)
{
    uint64_t n = yk__graph_bytes(&p->graph);
    for (uint32_t i = 0; i < p->n_segment; i++)
        n += yk__graph_bytes(&p->segment[i].own);
    return 2 * n;
}

/* Parameters with their leaves in the trace. */
static yk__plan_param *list_params(const yk__params *params, const yk__graph *t)
{
    yk__plan_param *list = yk__calloc(params->n_param + 1, sizeof *list);
    if (!list)
        return NULL;
    for (size_t i = 0; i < params->n_param; i++) {
        const yk__param *p = &params->param[i];
        list[i] = (yk__plan_param){YK_NONE, (int64_t)p->n, p->trained ? p->bucket : YK_NONE, p->at * sizeof(float)};
    }
    for (yk__vid v = 0; v < t->n_value; v++) {
        const yk_value *leaf = &t->value[v];
        const yk_slot *s = leaf->slot == YK_NONE ? NULL : &t->slot[leaf->slot];
        if (s && s->kind == YK_SLOT_PARAM && leaf->base == v && s->key < params->n_param && list[s->key].leaf == YK_NONE)
            list[s->key].leaf = v;
    }
    return list;
}

/* What else the device's memory holds, or will hold for inputs and results, is not the arena's: 0 when there is no
 * limit. */
static uint64_t arena_limit(const yk__exec *x, const yk__micro *m)
{
    const uint64_t *held = x->queue->bytes;
    uint64_t other = x->queue->held - held[YK__ARENA_BYTES] - held[YK__INPUT_BYTES];
    if (!x->queue->limit)
        return 0;
    for (size_t i = 1; i < m->trace->n_slot; i++)
        other += m->trace->slot[i].kind == YK_SLOT_INPUT ? m->trace->slot[i].bytes + 256 : 0;
    for (uint32_t i = 0; i < m->n_result; i++)
        other += yk__bytes(&m->trace->value[m->result[i]]) * 2 + 256;
    return x->queue->limit > other ? x->queue->limit - other : 1;
}

static yk_status make_program(yk__exec *x, const yk__micro *m, bool zero, yk__prog **out, yk_error *err)
{
    yk__plan_param *param = list_params(x->params, m->trace);
    uint64_t *bytes = yk__calloc(x->params->n_bucket + 1ull, sizeof *bytes);
    yk__plan_request r;
    if (!param || !bytes) {
        yk__fail_mem(err, x->params->n_param * sizeof *param, "a program");
        goto free_lists;
    }
    for (uint32_t i = 0; i < x->params->n_bucket; i++)
        bytes[i] = x->params->bucket[i].n * sizeof(float);
    yk__prog_request(x, m->trace, &r);
    r.loss = m->loss, r.seed = m->seed;
    r.accumulate = !m->first && !zero;
    r.zero = zero;
    r.precision = x->params->precision;
    r.keep_compute = !x->queue->limit; /* where memory is short, casts are made again instead */
    r.n_param = (uint32_t)x->params->n_param, r.param = param;
    r.n_bucket = x->params->n_bucket, r.bucket_bytes = bytes;
    r.n_result = m->n_result, r.result = m->result;
    r.n_assign = m->n_assign, r.assign = m->assign;
    r.n_recompute = m->n_recompute, r.recompute = m->recompute;
    r.arena_limit = arena_limit(x, m);
    if (!yk__prog_new(x, &r, out, err) && r.arena_limit && (*out)->plan->graph.slot[0].bytes > arena_limit(x, m)) {
        yk__prog_free(x, *out); /* its scratch, known now, leaves less than it was planned for */
        r.arena_limit = arena_limit(x, m);
        yk__prog_new(x, &r, out, err);
    }
free_lists:
    yk__free(bytes);
    yk__free(param);
    return err->status;
}

static yk_status find_zero(yk__exec *x, yk__prog **p, yk_error *err)
{
    yk__graph g;
    const yk__micro m = {.trace = &g, .loss = YK_NONE, .seed = YK_NONE, .first = true};
    if (!x->zero_prog) {
        yk__graph_init(&g);
        make_program(x, &m, true, &x->zero_prog, err);
        yk__graph_free(&g);
    }
    *p = x->zero_prog;
    return err->status;
}

yk_status yk__cache_find(yk__exec *x, const yk__micro *m, yk__prog **out, yk_error *err)
{
    const uint64_t key = m ? key_of(x, m) : 0;
    const double begin = yk__seconds();
    yk__prog *p;
    if (!m)
        return find_zero(x, out, err);
    p = look_up(x, key);
    if (p) {
        x->hits++;
        *out = p;
        return YK_OK;
    }
    if (yk__grow(&x->prog, &x->cap_prog, x->n_prog + 1, sizeof *x->prog))
        return yk__fail_mem(err, sizeof *x->prog, "the cache of programs");
    if (drop_many(x, err) || make_program(x, m, false, &p, err))
        return err->status;
    p->bytes = bytes_of(p->plan);
    x->prog_bytes += p->bytes;
    p->key = key;
    p->used = x->runs;
    x->prog[x->n_prog++] = p;
    if (m->loss != YK_NONE && p->plan->kept_bytes > x->kept_bytes)
        x->kept_bytes = p->plan->kept_bytes;
    x->compiles++;
    x->plan_seconds = yk__seconds() - begin;
    yk__log(YK_LOG_DEBUG, "engine", "program %zu: %u nodes in %.1f ms", x->n_prog, p->plan->nodes_after,
            1e3 * x->plan_seconds);
    *out = p;
    return YK_OK;
}

void yk__cache_clear(yk__exec *x)
{
    for (size_t i = 0; i < x->n_prog; i++)
        yk__prog_free(x, x->prog[i]);
    yk__free(x->prog);
    yk__prog_free(x, x->zero_prog);
    x->prog = NULL;
    x->zero_prog = NULL;
    x->n_prog = x->cap_prog = 0;
    x->prog_bytes = 0;
}
