/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs made so far, keyed by their trace and request. micro.c asks for one for each micro batch, in the step thread. A trace
 * without a program is planned and compiled here, unless ahead.c has added its program. The files api.c and update.c, and a new layout,
 * clear the cache.
 *
 * Several shapes live side by side. If there are more than cache_most, or their plans pass cache_bytes, the least recently used programs
 * go, but for the LEAST that a window needs, and those made ahead for the next one. All programs share one arena, one input buffer and one
 * result buffer. The cache owns its programs.
 */
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/run/exec.h"

#define LEAST 4
#define BYTES (64ull << 20)

uint64_t yk__cache_key(const yk__exec *exec, const yk__micro *m, uint32_t members)
{
    uint64_t h = yk__hash_u64(m->trace->hash, (uint64_t)m->loss << 32 | m->seed);
    h = yk__hash_u64(h, (uint64_t)exec->params->layouts << 8 | (m->loss != YK_NONE && !m->first && !exec->params->scatters));
    h = yk__hash_u64(h, members == 1);
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

yk_status yk__cache_reserve(yk__exec *exec, yk_error *err)
{
    const uint64_t most = exec->cache_bytes ? exec->cache_bytes : BYTES;
    while (exec->n_prog >= exec->cache_most || (exec->n_prog >= LEAST + exec->tried.n && exec->prog_bytes > most))
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

/* Plans a program once more, with recomputation, if it does not fit the memory that the device said was free. If that does not help, the
 * first plan is tried: other programs may have given memory back since. */
static yk_status plan_smaller(yk__exec *exec, const yk__micro *m, yk__plan_request *r, yk__prog **out, yk_error *err)
{
    const uint64_t bytes = (*out)->plan->arena_bytes, budget = yk__micro_arena_most(exec, m);
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

static yk_status plan_program(yk__exec *exec, const yk__micro *m, bool zero, yk__plan_request *r, yk__prog **out, yk_error *err)
{
    exec->queue->open.rows = m->rows;
    exec->queue->open.evaluates = m->loss == YK_NONE && !zero;
    exec->queue->open.recomputes = exec->queue->open.recomputes && !m->n_recompute;
    if (yk__prog_new(exec, r, out, err) || !yk__micro_arena_most(exec, m) || (*out)->plan->arena_bytes <= yk__micro_arena_most(exec, m))
        return err->status;
    if (!exec->queue->limit)
        return plan_smaller(exec, m, r, out, err);
    yk__prog_free(exec->queue->dev, *out); /* its scratch, known now, leaves less memory than its plan assumed */
    r->arena_limit = yk__micro_arena_most(exec, m);
    return yk__prog_new(exec, r, out, err);
}

static yk_status make_program(yk__exec *exec, const yk__micro *m, bool zero, yk__prog **out, yk_error *err)
{
    yk__micro_request r;
    if (yk__micro_request_make(exec, m, zero, &r, err))
        return err->status;
    plan_program(exec, m, zero, &r.plan, out, err);
    yk__micro_request_free(&r);
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

bool yk__cache_has(yk__exec *exec, uint64_t key)
{
    return look_up(exec, key) != NULL;
}

yk_status yk__cache_add(yk__exec *exec, const yk__cache_entry *entry, yk_error *err)
{
    yk__prog *p = entry->prog;
    if (yk__grow(&exec->prog, &exec->cap_prog, exec->n_prog + 1, sizeof *exec->prog))
        return yk__fail_mem(err, sizeof *exec->prog, "the cache of programs");
    p->bytes = bytes_of(p->plan);
    exec->prog_bytes += p->bytes;
    p->key = entry->key;
    p->used = exec->runs;
    exec->prog[exec->n_prog++] = p;
    if (entry->trains && p->plan->kept_bytes > exec->kept_bytes)
        exec->kept_bytes = p->plan->kept_bytes;
    exec->compiles++;
    exec->plan_seconds = entry->seconds;
    yk__log(YK_LOG_DEBUG, "engine", "program %zu: %u nodes in %.1f ms", exec->n_prog, p->plan->nodes_after, 1e3 * entry->seconds);
    return YK_OK;
}

yk_status yk__cache_find(yk__exec *exec, const yk__micro *m, yk__prog **out, yk_error *err)
{
    yk__cache_entry entry = {.trains = m && m->loss != YK_NONE};
    const double begin = yk__clock_seconds();
    if (!m)
        return find_zero(exec, out, err);
    entry.key = yk__cache_key(exec, m, yk__exchange_members(exec->exchange));
    *out = look_up(exec, entry.key);
    if (*out) {
        exec->hits++;
        return YK_OK;
    }
    yk__ahead_await(exec, entry.key);
    *out = look_up(exec, entry.key);
    if (*out)
        return YK_OK;
    if (yk__cache_reserve(exec, err) || make_program(exec, m, false, &entry.prog, err))
        return err->status;
    entry.seconds = yk__clock_seconds() - begin;
    *out = entry.prog;
    if (yk__cache_add(exec, &entry, err))
        yk__prog_free(exec->queue->dev, entry.prog);
    return err->status;
}

void yk__cache_clear(yk__exec *exec)
{
    yk__ahead_end(exec);
    for (size_t i = 0; i < exec->n_prog; i++)
        yk__prog_free(exec->queue->dev, exec->prog[i]);
    yk__free(exec->prog);
    yk__prog_free(exec->queue->dev, exec->zero_prog);
    exec->prog = NULL;
    exec->zero_prog = NULL;
    exec->n_prog = exec->cap_prog = 0;
    exec->prog_bytes = 0;
}
