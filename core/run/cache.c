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
#include "core/run/internal.h"

#define MOST 96
#define LEAST 4
#define BYTES (64ull << 20)

static uint64_t key_of(const yk__engine *e, const yk__micro *m)
{
    uint64_t h = yk__hash_u64(m->trace->hash, (uint64_t)m->loss << 32 | m->seed);
    h = yk__hash_u64(h, (uint64_t)e->layouts << 8 | (m->loss != YK_NONE && !m->first));
    for (uint32_t i = 0; i < m->n_result; i++)
        h = yk__hash_u64(h, (uint64_t)m->result[i] | 1ull << 40);
    for (uint32_t i = 0; i < m->n_assign; i++)
        h = yk__hash_u64(h, (uint64_t)m->assign[i].state << 32 | m->assign[i].value);
    for (uint32_t i = 0; i < m->n_recompute; i++)
        h = yk__hash_u64(h, (uint64_t)m->recompute[i].begin << 32 | m->recompute[i].end);
    return h;
}

static yk__prog *look_up(yk__engine *e, uint64_t key)
{
    for (size_t i = 0; i < e->n_prog; i++)
        if (e->prog[i]->key == key) {
            e->prog[i]->used = e->runs;
            return e->prog[i];
        }
    return NULL;
}

static yk_status drop_oldest(yk__engine *e, yk_error *err)
{
    size_t old = 0;
    for (size_t i = 1; i < e->n_prog; i++)
        if (e->prog[i]->used < e->prog[old]->used)
            old = i;
    if (yk__engine_idle(e, err))
        return err->status;
    e->prog_bytes -= e->prog[old]->bytes;
    yk__prog_free(e, e->prog[old]);
    e->prog[old] = e->prog[--e->n_prog];
    return YK_OK;
}

static yk_status drop_many(yk__engine *e, yk_error *err)
{
    const uint64_t most = e->config.cache_bytes ? e->config.cache_bytes : BYTES;
    while (e->n_prog >= MOST || (e->n_prog >= LEAST && e->prog_bytes > most))
        if (drop_oldest(e, err))
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
static yk__plan_param *list_params(const yk__engine *e, const yk__graph *t)
{
    yk__plan_param *p = yk__calloc(e->n_param + 1, sizeof *p);
    if (!p)
        return NULL;
    for (size_t i = 0; i < e->n_param; i++) {
        const yk__eparam *q = &e->param[i];
        p[i] = (yk__plan_param){YK_NONE, (int64_t)q->n, q->trained ? q->bucket : YK_NONE, q->at * sizeof(float)};
    }
    for (yk__vid v = 0; v < t->n_value; v++) {
        const yk_value *x = &t->value[v];
        const yk_slot *s = x->slot == YK_NONE ? NULL : &t->slot[x->slot];
        if (s && s->kind == YK_SLOT_PARAM && x->base == v && s->key < e->n_param && p[s->key].leaf == YK_NONE)
            p[s->key].leaf = v;
    }
    return p;
}

/* What else the device's memory holds, or will hold for inputs and results, is not the arena's: 0 when there is no
 * limit. */
static uint64_t arena_limit(const yk__engine *e, const yk__micro *m)
{
    uint64_t other = e->held - e->stats.arena_bytes - e->stats.input_bytes;
    if (!e->config.memory_limit)
        return 0;
    for (size_t i = 1; i < m->trace->n_slot; i++)
        other += m->trace->slot[i].kind == YK_SLOT_INPUT ? m->trace->slot[i].bytes + 256 : 0;
    for (uint32_t i = 0; i < m->n_result; i++)
        other += yk__bytes(&m->trace->value[m->result[i]]) * 2 + 256;
    return e->config.memory_limit > other ? e->config.memory_limit - other : 1;
}

static yk_status make_program(yk__engine *e, const yk__micro *m, bool zero, yk__prog **out, yk_error *err)
{
    yk__plan_param *param = list_params(e, m->trace);
    uint64_t *bytes = yk__calloc(e->n_bucket + 1ull, sizeof *bytes);
    yk__plan_request r;
    if (!param || !bytes) {
        yk__fail_mem(err, e->n_param * sizeof *param, "a program");
        goto free_lists;
    }
    for (uint32_t i = 0; i < e->n_bucket; i++)
        bytes[i] = e->bucket[i].n * sizeof(float);
    yk__prog_request(e, m->trace, &r);
    r.loss = m->loss, r.seed = m->seed;
    r.accumulate = !m->first && !zero;
    r.zero = zero;
    r.precision = e->config.precision;
    r.keep_compute = !e->config.memory_limit; /* where memory is short, casts are made again instead */
    r.n_param = (uint32_t)e->n_param, r.param = param;
    r.n_bucket = e->n_bucket, r.bucket_bytes = bytes;
    r.n_result = m->n_result, r.result = m->result;
    r.n_assign = m->n_assign, r.assign = m->assign;
    r.n_recompute = m->n_recompute, r.recompute = m->recompute;
    r.arena_limit = arena_limit(e, m);
    if (!yk__prog_new(e, &r, out, err) && r.arena_limit && (*out)->plan->graph.slot[0].bytes > arena_limit(e, m)) {
        yk__prog_free(e, *out); /* its scratch, known now, leaves less than it was planned for */
        r.arena_limit = arena_limit(e, m);
        yk__prog_new(e, &r, out, err);
    }
free_lists:
    yk__free(bytes);
    yk__free(param);
    return err->status;
}

static yk_status find_zero(yk__engine *e, yk__prog **p, yk_error *err)
{
    yk__graph g;
    const yk__micro m = {.trace = &g, .loss = YK_NONE, .seed = YK_NONE, .first = true};
    if (!e->zero) {
        yk__graph_init(&g);
        make_program(e, &m, true, &e->zero, err);
        yk__graph_free(&g);
    }
    *p = e->zero;
    return err->status;
}

yk_status yk__cache_find(yk__engine *e, const yk__micro *m, yk__prog **out, yk_error *err)
{
    const uint64_t key = m ? key_of(e, m) : 0;
    const double begin = yk__seconds();
    yk__prog *p;
    if (!m)
        return find_zero(e, out, err);
    p = look_up(e, key);
    if (p) {
        e->stats.hits++;
        *out = p;
        return YK_OK;
    }
    if (yk__grow(&e->prog, &e->cap_prog, e->n_prog + 1, sizeof *e->prog))
        return yk__fail_mem(err, sizeof *e->prog, "the cache of programs");
    if (drop_many(e, err) || make_program(e, m, false, &p, err))
        return err->status;
    p->bytes = bytes_of(p->plan);
    e->prog_bytes += p->bytes;
    p->key = key;
    p->used = e->runs;
    e->prog[e->n_prog++] = p;
    if (m->loss != YK_NONE && p->plan->kept_bytes > e->stats.kept_bytes)
        e->stats.kept_bytes = p->plan->kept_bytes;
    e->stats.compiles++;
    e->stats.plan_seconds = yk__seconds() - begin;
    yk__log(YK_LOG_DEBUG, "engine", "program %zu: %u nodes in %.1f ms", e->n_prog, p->plan->nodes_after,
            1e3 * e->stats.plan_seconds);
    *out = p;
    return YK_OK;
}

void yk__cache_clear(yk__engine *e)
{
    for (size_t i = 0; i < e->n_prog; i++)
        yk__prog_free(e, e->prog[i]);
    yk__free(e->prog);
    yk__prog_free(e, e->zero);
    e->prog = NULL;
    e->zero = NULL;
    e->n_prog = e->cap_prog = 0;
    e->prog_bytes = 0;
}
