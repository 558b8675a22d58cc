/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the passes, and the construction of a plan.
 *
 * core/run/prog.c calls yk__plan_new in the step thread, for each new program. That is one of a micro batch that no cached program fits, of
 * the optimizer's step, or of casts. Apart from the device's claims a plan follows from the request alone. If the arena is above
 * request->arena_limit (bytes), the passes run again with more recomputation.
 */
#include "core/plan/plan.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/round.h"
#include "core/plan/plan_internal.h"

#define MOST_PARTS 64 /* blocks of recomputation tried for a memory limit */

static yk_status work_begin(yk__work *work, const yk__plan_request *request, yk__plan *plan, yk_error *err)
{
    const uint32_t fixed = request->n_param + request->n_result + request->n_assign + 2;
    memset(work, 0, sizeof *work);
    work->request = request;
    work->plan = plan;
    work->number = plan->number;
    work->sums_stay = request->loss != YK_NONE; /* the trace's sums: all ranks traced them, but may keep other values of it */
    work->cap_grad = 3 * request->n_param + 16;
    work->keep = yk__malloc((fixed + work->cap_grad) * sizeof *work->keep);
    work->grad_param = yk__calloc(work->cap_grad, sizeof *work->grad_param);
    work->assign_slot = yk__calloc(request->n_assign + 1ull, sizeof *work->assign_slot);
    work->result_offset = yk__calloc(request->n_result + 1ull, sizeof *work->result_offset);
    if (!work->keep || !work->grad_param || !work->assign_slot || !work->result_offset)
        return yk__fail_mem(err, fixed * 16ull, "a plan");
    work->param = work->keep;
    work->result = work->param + request->n_param;
    work->assign = work->result + request->n_result;
    work->loss = work->assign + request->n_assign;
    work->grad = work->loss + 2;
    work->n_keep = fixed;
    for (uint32_t i = 0; i < request->n_param; i++)
        work->param[i] = request->param[i].leaf;
    for (uint32_t i = 0; i < request->n_result; i++)
        work->result[i] = request->result[i];
    for (uint32_t i = 0; i < request->n_assign; i++)
        work->assign[i] = request->assign[i].value;
    work->loss[0] = request->loss;
    work->loss[1] = request->loss == YK_NONE ? YK_NONE : request->seed;
    yk__graph_init(&work->g);
    return YK_OK;
}

static void work_end(yk__work *work)
{
    yk__graph_free(&work->g);
    yk__free(work->info);
    yk__free(work->result_offset);
    yk__free(work->assign_slot);
    yk__free(work->grad_param);
    yk__free(work->keep);
}

static uint32_t find_state(const yk__graph *g, uint32_t state)
{
    for (uint32_t i = 1; i < g->n_slot; i++)
        if (g->slot[i].kind == YK_SLOT_STATE && g->slot[i].key == state)
            return i;
    return YK_NONE;
}

/* Adds slots for the program's outputs: buckets, results, states that are only written. */
static yk_status add_slots(yk__work *work, yk_error *err)
{
    const yk__plan_request *request = work->request;
    const uint64_t align = request->caps->align > 256 ? request->caps->align : 256;
    work->plan->nodes_after = (uint32_t)work->g.n_node;
    work->bucket_slot = (uint32_t)work->g.n_slot;
    for (uint32_t b = 0; b < request->n_bucket; b++)
        yk__slot_new(&work->g, YK_SLOT_GRAD, request->bucket_bytes[b], b);
    for (uint32_t i = 0; i < request->n_result; i++) {
        const yk_value *v = &request->trace->value[request->result[i]];
        const uint32_t each = v->dtype == YK_BF16 || v->dtype == YK_F16 ? 4 : yk_dtype_bytes(v->dtype);
        work->result_offset[i] = work->result_bytes;
        work->result_bytes += yk__round_up((uint64_t)yk__value_count(v) * each, align);
    }
    work->result_slot = yk__slot_new(&work->g, YK_SLOT_RESULT, work->result_bytes, 0);
    for (uint32_t i = 0; i < request->n_assign; i++) {
        const yk_value *v = &request->trace->value[request->assign[i].value];
        work->assign_slot[i] = find_state(&work->g, request->assign[i].state);
        if (work->assign_slot[i] == YK_NONE)
            work->assign_slot[i] = yk__slot_new(&work->g, YK_SLOT_STATE, yk__value_bytes(v), request->assign[i].state);
    }
    if (work->g.error.status) /* any slot may have failed for lack of memory */
        *err = work->g.error;
    return err->status;
}

/* ---- The passes ---- */

static bool has_loss(const yk__plan_request *request)
{
    return request->loss != YK_NONE;
}

static bool has_gradients(const yk__plan_request *request)
{
    return request->loss != YK_NONE || request->zero;
}

static bool has_ranks(const yk__plan_request *request)
{
    return !request->single_rank;
}

static bool stores_values(const yk__plan_request *request)
{
    return request->stores && has_loss(request);
}

static bool is_mixed_precision(const yk__plan_request *request)
{
    return request->precision == YK_BF16 || request->precision == YK_F16;
}

/* Keeps every sum from here on: up to here all ranks have the same sums, but later passes see shapes and claims that differ. */
static yk_status keep_sums(yk__work *work, yk_error *err)
{
    work->sums_stay = true;
    return err->status;
}

typedef struct pass {
    const char *name;
    yk_status (*run)(yk__work *work, yk_error *err);
    bool (*applies)(const yk__plan_request *request); /* NULL: applies to every plan */
    bool prune_after;                           /* it leaves unneeded nodes */
} pass;

/* The passes in order; docs/flow-step.md gives the purpose of each. */
static const pass passes[] = {
    {"trace", yk__plan_trace, NULL, true},
    {"grad", yk__plan_grad, has_gradients, false},
    {"inverse", yk__plan_inverse, NULL, false},
    {"stats", yk__plan_stats, has_ranks, false},
    {"relu", yk__plan_relu, NULL, false},
    {"factor", yk__plan_factor, NULL, true},
    {"keep-sums", keep_sums, NULL, false},
    {"empty", yk__plan_empty, NULL, true},
    {"autocast", yk__plan_autocast, is_mixed_precision, true},
    {"remat", yk__plan_remat, NULL, true},
    {"recompute", yk__plan_recompute, has_loss, true},
    {"operands", yk__plan_operands, NULL, false},
    {"claim", yk__plan_claim, NULL, false},
    {"results", yk__plan_results, NULL, false},
    {"narrow", yk__plan_narrow, NULL, true},
    {"fuse", yk__plan_fuse, NULL, true},
    {"lines", yk__plan_lines, is_mixed_precision, false},
    {"overlap", yk__plan_overlap, has_ranks, false},
    {"slots", add_slots, NULL, false},
    {"place", yk__plan_place, NULL, false},
    {"away", yk__plan_away, stores_values, false},
    {"memory", yk__plan_memory, NULL, false},
    {"cut", yk__plan_cut, NULL, false},
};

static yk_status run_pass(yk__work *work, const pass *p, yk_error *err)
{
    const double begin = yk__clock_seconds();
    if (p->run(work, err) || (p->prune_after && yk__plan_prune(work, err)))
        return err->status;
    yk__log(YK_LOG_DEBUG, "plan", "%u %s: %zu nodes, %.2f ms", work->number, p->name, work->g.n_node, 1e3 * (yk__clock_seconds() - begin));
    yk__plan_dump_pass(work, (uint32_t)(p - passes), p->name);
    return YK_OK;
}

static yk_status run_passes(yk__work *work, yk_error *err)
{
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if ((!passes[i].applies || passes[i].applies(work->request)) && run_pass(work, &passes[i], err))
            return err->status;
    return YK_OK;
}

static yk_status make_plan(const yk__plan_request *request, bool lean, const yk__recompute *block, uint32_t n_block, yk__plan **out,
                      yk_error *err)
{
    static atomic_uint count; /* plans of this process, for logs and dumps */
    yk__plan *plan = yk__calloc(1, sizeof *plan);
    yk__work work;
    if (!plan)
        return yk__fail_mem(err, sizeof *plan, "a plan");
    plan->number = atomic_fetch_add(&count, 1);
    if (!work_begin(&work, request, plan, err)) {
        work.block = block;
        work.n_block = n_block;
        work.lean = lean;
        run_passes(&work, err);
    }
    plan->graph = work.g;
    plan->result_offset = work.result_offset;
    plan->bucket_slot = work.bucket_slot;
    plan->result_slot = work.result_slot;
    plan->n_arena = work.n_arena;
    plan->arena_slot = work.arena_slot;
    plan->arena_bytes = work.arena_bytes;
    plan->kept_bytes = work.kept_bytes;
    plan->result_bytes = work.result_bytes;
    memset(&work.g, 0, sizeof work.g);
    work.result_offset = NULL;
    work_end(&work);
    if (err->status) {
        yk__plan_free(plan);
        return err->status;
    }
    *out = plan;
    return YK_OK;
}

/* Recomputes casts of weights, then smaller and smaller blocks, until the arena is below the limit. */
static yk_status make_plan_below(const yk__plan_request *request, yk__plan **p, yk_error *err)
{
    yk__recompute block[MOST_PARTS];
    uint64_t least = (*p)->arena_bytes;
    uint32_t n = 0;
    for (uint32_t parts = 1; parts <= MOST_PARTS && (*p)->arena_bytes > request->arena_limit; parts += (parts + 1) / 2) {
        yk__plan_free(*p);
        *p = NULL;
        if ((parts > 1 && yk__plan_blocks(request->trace, parts, block, &n, err)) ||
            make_plan(request, true, parts > 1 ? block : request->recompute, parts > 1 ? n : request->n_recompute, p, err))
            return err->status;
        least = (*p)->arena_bytes < least ? (*p)->arena_bytes : least;
    }
    if ((*p)->arena_bytes <= request->arena_limit)
        return YK_OK;
    yk__plan_free(*p);
    *p = NULL;
    if (request->least)
        *request->least = least;
    return yk__fail(err, YK_E_MEM,
                    "a step needs %llu bytes for activations even when they are recomputed, and the memory limit leaves "
                    "%llu",
                    (unsigned long long)least, (unsigned long long)request->arena_limit);
}

yk_status yk__plan_new(const yk__plan_request *request, yk__plan **out, yk_error *err)
{
    yk__plan *plan = NULL;
    if (make_plan(request, false, request->recompute, request->n_recompute, &plan, err) ||
        (request->arena_limit && plan->arena_bytes > request->arena_limit && make_plan_below(request, &plan, err)))
        return err->status;
    yk__log(YK_LOG_DEBUG, "plan", "%u: %u nodes, %u after fusion, %u segments, arena %llu bytes", plan->number, plan->nodes_before,
            plan->nodes_after, plan->n_segment, (unsigned long long)plan->arena_bytes);
    yk__plan_dump(plan);
    *out = plan;
    return YK_OK;
}

void yk__plan_free(yk__plan *plan)
{
    if (!plan)
        return;
    for (uint32_t i = 0; i < plan->n_segment; i++)
        yk__graph_free(&plan->segment[i].own);
    yk__graph_free(&plan->graph);
    yk__free(plan->segment);
    yk__free(plan->action);
    yk__free(plan->before);
    yk__free(plan->use);
    yk__free(plan->result_offset);
    yk__free(plan->lane);
    yk__free(plan->grad_lanes.bytes);
    yk__free(plan->pull_lanes.bytes);
    yk__free(plan->pull);
    yk__free(plan->away);
    yk__free(plan->written);
    yk__free(plan);
}
