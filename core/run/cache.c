/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs made so far, keyed by their trace and request. micro.c asks for one for each micro batch, in the step thread. A trace
 * without a program is planned and compiled here. The files api.c and update.c, and a new layout, clear the cache.
 *
 * Several shapes live side by side. If there are more than cache_most, or their plans pass cache_bytes, the least recently used programs
 * go, but for the LEAST that a window needs. All programs share one arena, one input buffer and one result buffer. The cache owns its
 * programs.
 */
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/run/exec.h"

#define LEAST 4
#define BYTES (64ull << 20)

static uint64_t key_of(const yk__exec *exec, const yk__micro *m)
{
    uint64_t h = yk__hash_u64(m->trace->hash, (uint64_t)m->loss << 32 | m->seed);
    h = yk__hash_u64(h, (uint64_t)exec->params->layouts << 8 | (m->loss != YK_NONE && !m->first && !exec->params->scatters));
    h = yk__hash_u64(h, yk__exchange_members(exec->exchange) == 1);
    for (uint32_t i = 0; i < m->n_result; i++)
        h = yk__hash_u64(h, (uint64_t)m->result[i] | 1ull << 40);
    for (uint32_t i = 0; i < m->n_assign; i++)
        h = yk__hash_u64(h, (uint64_t)m->assign[i].state << 32 | m->assign[i].value);
    for (uint32_t i = 0; i < m->n_recompute; i++)
        h = yk__hash_u64(h, (uint64_t)m->recompute[i].begin << 32 | m->recompute[i].end);
    for (uint32_t i = 0; i < m->n_full; i++)
        h = yk__hash_u64(h, ((uint64_t)m->full[i].first << 32 | m->full[i].last) ^ 1ull << 63);
    return h;
}

static yk__prog *look_up(yk__exec *exec, uint64_t key)
{
    for (size_t i = 0; i < exec->n_prog; i++)
        if (exec->prog[i]->key == key) {
            exec->prog[i]->used = exec->runs;
            return exec->prog[i];
        }
    return NULL;
}

static yk_status drop_oldest(yk__exec *exec, yk_error *err)
{
    size_t old = 0;
    for (size_t i = 1; i < exec->n_prog; i++)
        if (exec->prog[i]->used < exec->prog[old]->used)
            old = i;
    if (yk__queue_idle(exec->queue, err))
        return err->status;
    exec->prog_bytes -= exec->prog[old]->bytes;
    yk__prog_free(exec->queue->dev, exec->prog[old]);
    exec->prog[old] = exec->prog[--exec->n_prog];
    return YK_OK;
}

static yk_status drop_many(yk__exec *exec, yk_error *err)
{
    const uint64_t most = exec->cache_bytes ? exec->cache_bytes : BYTES;
    while (exec->n_prog >= exec->cache_most || (exec->n_prog >= LEAST && exec->prog_bytes > most))
        if (drop_oldest(exec, err))
            return err->status;
    return YK_OK;
}

/* Host memory of a program: the plugin's own program is assumed to be as large as the plan. */
static uint64_t bytes_of(const yk__plan *p)
{
    uint64_t n = yk__graph_bytes(&p->graph);
    for (uint32_t i = 0; i < p->n_segment; i++)
        n += yk__graph_bytes(&p->segment[i].own);
    return 2 * n;
}

/* Lists the parameters with their leaves in the trace. */
static yk__plan_param *list_params(const yk__params *params, const yk__graph *t)
{
    yk__plan_param *list = yk__calloc(params->n_param + 1, sizeof *list);
    if (!list)
        return NULL;
    for (size_t i = 0; i < params->n_param; i++) {
        const yk__param *p = &params->param[i];
        list[i] = (yk__plan_param){YK_NONE, (int64_t)p->n, p->trained ? p->bucket : YK_NONE, p->at * sizeof(float), p->bucket};
    }
    for (yk__vid v = 0; v < t->n_value; v++) {
        const yk_value *leaf = &t->value[v];
        const yk_slot *s = leaf->slot == YK_NONE ? NULL : &t->slot[leaf->slot];
        if (s && s->kind == YK_SLOT_PARAM && leaf->base == v && s->key < params->n_param && list[s->key].leaf == YK_NONE)
            list[s->key].leaf = v;
    }
    return list;
}

/* Bytes left for the arena: the device's memory less all other buffers, and less the memory that inputs and results will need. Zero if the
 * size of the memory is unknown. */
static uint64_t arena_limit(const yk__exec *exec, const yk__micro *m)
{
    const uint64_t *held = exec->queue->bytes;
    uint64_t other = exec->queue->held - held[YK__ARENA_BYTES] - held[YK__INPUT_BYTES];
    const uint64_t most = yk__queue_most(exec->queue);
    if (!most)
        return 0;
    for (size_t i = 1; i < m->trace->n_slot; i++)
        other += m->trace->slot[i].kind == YK_SLOT_INPUT ? m->trace->slot[i].bytes + 256 : 0;
    for (uint32_t i = 0; i < m->n_result; i++)
        other += yk__value_bytes(&m->trace->value[m->result[i]]) * 2 + 256;
    return most > other ? most - other : 1;
}

/* Plans a program once more, with recomputation, if it does not fit the memory that the device said was free. If that does not help, the
 * first plan is tried: other programs may have given memory back since. */
static yk_status plan_smaller(yk__exec *exec, const yk__micro *m, yk__plan_request *r, yk__prog **out, yk_error *err)
{
    const uint64_t bytes = (*out)->plan->arena_bytes, budget = arena_limit(exec, m);
    yk_error why = YK_ERROR_INIT;
    yk__prog *smaller = NULL;
    r->keep_compute = r->keep_cheap = false;
    r->arena_limit = budget;
    yk__prog_new(exec, r, &smaller, &why);
    if (why.status && why.status != YK_E_MEM)
        return *err = why, err->status;
    if (why.status) {
        yk__log(YK_LOG_WARN, "run", "%s has %llu bytes free for activations, and a step takes %llu; %s", exec->queue->dev->caps.name,
                (unsigned long long)budget, (unsigned long long)bytes, why.text);
        return YK_OK;
    }
    yk__log(YK_LOG_INFO, "run", "%s has %llu bytes free for activations, and a step takes %llu: some are computed again, not kept",
            exec->queue->dev->caps.name, (unsigned long long)budget, (unsigned long long)bytes);
    yk__prog_free(exec->queue->dev, *out);
    *out = smaller;
    return YK_OK;
}

/* The buckets as a plan sees them: their bytes, and if a program pulls them. */
typedef struct bucket_list {
    uint64_t *bytes;
    bool *pulls;
} bucket_list;

static void list_buckets(const yk__params *params, const bucket_list *list)
{
    for (uint32_t i = 0; i < params->n_all_bucket; i++) {
        list->bytes[i] = params->bucket[i].layout.n * sizeof(float);
        list->pulls[i] = params->bucket[i].home->pulled;
    }
}

static yk_status plan_program(yk__exec *exec, const yk__micro *m, bool zero, yk__plan_param *param, const bucket_list *list,
                              yk__prog **out, yk_error *err)
{
    yk__plan_request r;
    list_buckets(exec->params, list);
    yk__prog_request(exec, m->trace, &r);
    r.loss = m->loss, r.seed = m->seed;
    r.accumulate = !m->first && !zero && !exec->params->scatters;
    r.scatters = exec->params->scatters && m->loss != YK_NONE;
    r.zero = zero;
    r.precision = exec->params->precision;
    r.rounds8 = exec->params->rounds8;
    r.stores = exec->stores;
    r.keep_compute = r.keep_cheap = !exec->queue->limit; /* if memory is short, cheap values are made again instead */
    r.n_param = (uint32_t)exec->params->n_param, r.param = param;
    r.n_bucket = exec->params->n_bucket, r.n_pulled = exec->params->n_all_bucket, r.bucket_bytes = list->bytes;
    r.pulls = exec->params->slices ? list->pulls : NULL;
    r.pulls_stay = exec->params->pulls_stay, r.pulls_ahead = exec->params->pulls_ahead;
    r.n_result = m->n_result, r.result = m->result;
    r.n_assign = m->n_assign, r.assign = m->assign;
    r.n_recompute = m->n_recompute, r.recompute = m->recompute;
    exec->queue->open.rows = m->rows;
    exec->queue->open.evaluates = m->loss == YK_NONE && !zero;
    exec->queue->open.recomputes = exec->queue->open.recomputes && !m->n_recompute;
    r.n_full = m->n_full, r.full = m->full;
    r.arena_limit = exec->queue->limit ? arena_limit(exec, m) : 0;
    if (yk__prog_new(exec, &r, out, err) || !arena_limit(exec, m) || (*out)->plan->arena_bytes <= arena_limit(exec, m))
        return err->status;
    if (!exec->queue->limit)
        return plan_smaller(exec, m, &r, out, err);
    yk__prog_free(exec->queue->dev, *out); /* its scratch, known now, leaves less memory than its plan assumed */
    r.arena_limit = arena_limit(exec, m);
    return yk__prog_new(exec, &r, out, err);
}

static yk_status make_program(yk__exec *exec, const yk__micro *m, bool zero, yk__prog **out, yk_error *err)
{
    yk__plan_param *param = list_params(exec->params, m->trace);
    const uint64_t n = exec->params->n_all_bucket + 1ull;
    const bucket_list list = {.bytes = yk__calloc(n, sizeof *list.bytes), .pulls = yk__calloc(n, sizeof *list.pulls)};
    if (!param || !list.bytes || !list.pulls)
        yk__fail_mem(err, exec->params->n_param * sizeof *param, "a program");
    else
        plan_program(exec, m, zero, param, &list, out, err);
    yk__free(list.bytes);
    yk__free(list.pulls);
    yk__free(param);
    return err->status;
}

static yk_status find_zero(yk__exec *exec, yk__prog **p, yk_error *err)
{
    yk__graph g;
    const yk__micro m = {.trace = &g, .loss = YK_NONE, .seed = YK_NONE, .first = true};
    if (!exec->zero_prog) {
        yk__graph_init(&g);
        make_program(exec, &m, true, &exec->zero_prog, err);
        yk__graph_free(&g);
    }
    *p = exec->zero_prog;
    return err->status;
}

yk_status yk__cache_find(yk__exec *exec, const yk__micro *m, yk__prog **out, yk_error *err)
{
    const uint64_t key = m ? key_of(exec, m) : 0;
    const double begin = yk__clock_seconds();
    yk__prog *p;
    if (!m)
        return find_zero(exec, out, err);
    p = look_up(exec, key);
    if (p) {
        exec->hits++;
        *out = p;
        return YK_OK;
    }
    if (yk__grow(&exec->prog, &exec->cap_prog, exec->n_prog + 1, sizeof *exec->prog))
        return yk__fail_mem(err, sizeof *exec->prog, "the cache of programs");
    if (drop_many(exec, err) || make_program(exec, m, false, &p, err))
        return err->status;
    p->bytes = bytes_of(p->plan);
    exec->prog_bytes += p->bytes;
    p->key = key;
    p->used = exec->runs;
    exec->prog[exec->n_prog++] = p;
    if (m->loss != YK_NONE && p->plan->kept_bytes > exec->kept_bytes)
        exec->kept_bytes = p->plan->kept_bytes;
    exec->compiles++;
    exec->plan_seconds = yk__clock_seconds() - begin;
    yk__log(YK_LOG_DEBUG, "engine", "program %zu: %u nodes in %.1f ms", exec->n_prog, p->plan->nodes_after,
            1e3 * exec->plan_seconds);
    *out = p;
    return YK_OK;
}

void yk__cache_clear(yk__exec *exec)
{
    for (size_t i = 0; i < exec->n_prog; i++)
        yk__prog_free(exec->queue->dev, exec->prog[i]);
    yk__free(exec->prog);
    yk__prog_free(exec->queue->dev, exec->zero_prog);
    exec->prog = NULL;
    exec->zero_prog = NULL;
    exec->n_prog = exec->cap_prog = 0;
    exec->prog_bytes = 0;
}
