/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the passes, and the plan they make. */
#include "core/plan/plan.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/plan/internal.h"

#define MOST_PARTS 64 /* blocks of recomputation tried for a memory limit */

static yk_status work_begin(yk__work *w, const yk__plan_request *r, yk__plan *p, yk_error *err)
{
    const uint32_t fixed = r->n_param + r->n_result + r->n_assign + 2;
    memset(w, 0, sizeof *w);
    w->r = r;
    w->plan = p;
    w->number = p->number;
    w->sums_stay = r->loss != YK_NONE; /* those of the trace: all ranks traced them, but may keep other values of it */
    w->cap_grad = 3 * r->n_param + 16;
    w->keep = yk__malloc((fixed + w->cap_grad) * sizeof *w->keep);
    w->grad_param = yk__calloc(w->cap_grad, sizeof *w->grad_param);
    w->assign_slot = yk__calloc(r->n_assign + 1ull, sizeof *w->assign_slot);
    w->result_offset = yk__calloc(r->n_result + 1ull, sizeof *w->result_offset);
    if (!w->keep || !w->grad_param || !w->assign_slot || !w->result_offset)
        return yk__fail_mem(err, fixed * 16ull, "a plan");
    w->param = w->keep;
    w->result = w->param + r->n_param;
    w->assign = w->result + r->n_result;
    w->loss = w->assign + r->n_assign;
    w->grad = w->loss + 2;
    w->n_keep = fixed;
    for (uint32_t i = 0; i < r->n_param; i++)
        w->param[i] = r->param[i].leaf;
    for (uint32_t i = 0; i < r->n_result; i++)
        w->result[i] = r->result[i];
    for (uint32_t i = 0; i < r->n_assign; i++)
        w->assign[i] = r->assign[i].value;
    w->loss[0] = r->loss;
    w->loss[1] = r->loss == YK_NONE ? YK_NONE : r->seed;
    yk__graph_init(&w->g);
    return YK_OK;
}

static void work_end(yk__work *w)
{
    yk__graph_free(&w->g);
    yk__free(w->info);
    yk__free(w->result_offset);
    yk__free(w->assign_slot);
    yk__free(w->grad_param);
    yk__free(w->keep);
}

static uint64_t round_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) / align * align;
}

static uint32_t find_state(const yk__graph *g, uint32_t state)
{
    for (uint32_t i = 1; i < g->n_slot; i++)
        if (g->slot[i].kind == YK_SLOT_STATE && g->slot[i].key == state)
            return i;
    return YK_NONE;
}

/* Slots for what leaves the program: buckets, results, states that are only written. */
static yk_status add_slots(yk__work *w, yk_error *err)
{
    const yk__plan_request *r = w->r;
    const uint64_t align = r->caps->align > 256 ? r->caps->align : 256;
    w->plan->nodes_after = (uint32_t)w->g.n_node;
    w->bucket_slot = (uint32_t)w->g.n_slot;
    for (uint32_t b = 0; b < r->n_bucket; b++)
        yk__slot_new(&w->g, YK_SLOT_GRAD, r->bucket_bytes[b], b);
    for (uint32_t i = 0; i < r->n_result; i++) {
        const yk_value *v = &r->trace->value[r->result[i]];
        const uint32_t each = v->dtype == YK_BF16 || v->dtype == YK_F16 ? 4 : yk_dtype_bytes(v->dtype);
        w->result_offset[i] = w->result_bytes;
        w->result_bytes += round_up((uint64_t)yk__value_count(v) * each, align);
    }
    w->result_slot = yk__slot_new(&w->g, YK_SLOT_RESULT, w->result_bytes, 0);
    for (uint32_t i = 0; i < r->n_assign; i++) {
        const yk_value *v = &r->trace->value[r->assign[i].value];
        w->assign_slot[i] = find_state(&w->g, r->assign[i].state);
        if (w->assign_slot[i] == YK_NONE)
            w->assign_slot[i] = yk__slot_new(&w->g, YK_SLOT_STATE, yk__value_bytes(v), r->assign[i].state);
    }
    if (w->g.error.status) /* any of them may have had no memory */
        *err = w->g.error;
    return err->status;
}

/* ---- The passes ---- */

static bool has_loss(const yk__plan_request *r)
{
    return r->loss != YK_NONE;
}

static bool has_gradients(const yk__plan_request *r)
{
    return r->loss != YK_NONE || r->zero;
}

static bool has_ranks(const yk__plan_request *r)
{
    return !r->single_rank;
}

static bool is_mixed_precision(const yk__plan_request *r)
{
    return r->precision == YK_BF16 || r->precision == YK_F16;
}

/* Until here all ranks came to the same sums; with other shapes and claims they must stay so. */
static yk_status keep_sums(yk__work *w, yk_error *err)
{
    w->sums_stay = true;
    return err->status;
}

typedef struct pass {
    const char *name;
    yk_status (*run)(yk__work *w, yk_error *err);
    bool (*applies)(const yk__plan_request *r); /* NULL: to every plan */
    bool prune_after;                           /* it leaves nodes that nothing needs any more */
} pass;

/* In this order; docs/architecture.md says what each is for. */
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
    {"overlap", yk__plan_overlap, has_ranks, false},
    {"slots", add_slots, NULL, false},
    {"place", yk__plan_place, NULL, false},
    {"memory", yk__plan_memory, NULL, false},
    {"cut", yk__plan_cut, NULL, false},
};

static double clock_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static yk_status run_pass(yk__work *w, const pass *p, yk_error *err)
{
    const double begin = clock_ms();
    if (p->run(w, err) || (p->prune_after && yk__plan_prune(w, err)))
        return err->status;
    yk__log(YK_LOG_DEBUG, "plan", "%u %s: %zu nodes, %.2f ms", w->number, p->name, w->g.n_node, clock_ms() - begin);
    yk__plan_dump_pass(w, (uint32_t)(p - passes), p->name);
    return YK_OK;
}

static yk_status run_passes(yk__work *w, yk_error *err)
{
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if ((!passes[i].applies || passes[i].applies(w->r)) && run_pass(w, &passes[i], err))
            return err->status;
    return YK_OK;
}

static yk_status make_plan(const yk__plan_request *r, bool lean, const yk__recompute *block, uint32_t n_block, yk__plan **out,
                      yk_error *err)
{
    static atomic_uint count; /* plans of this process, for logs and dumps */
    yk__plan *p = yk__calloc(1, sizeof *p);
    yk__work w;
    if (!p)
        return yk__fail_mem(err, sizeof *p, "a plan");
    p->number = atomic_fetch_add(&count, 1);
    if (!work_begin(&w, r, p, err)) {
        w.block = block;
        w.n_block = n_block;
        w.lean = lean;
        run_passes(&w, err);
    }
    p->graph = w.g;
    p->result_offset = w.result_offset;
    p->bucket_slot = w.bucket_slot;
    p->result_slot = w.result_slot;
    p->arena_bytes = w.arena_bytes;
    p->kept_bytes = w.kept_bytes;
    p->result_bytes = w.result_bytes;
    memset(&w.g, 0, sizeof w.g);
    w.result_offset = NULL;
    work_end(&w);
    if (err->status) {
        yk__plan_free(p);
        return err->status;
    }
    *out = p;
    return YK_OK;
}

/* Makes casts of weights again, then recomputes in more and more, smaller blocks until the arena is below the limit. */
static yk_status make_plan_below(const yk__plan_request *r, yk__plan **p, yk_error *err)
{
    yk__recompute block[MOST_PARTS];
    uint64_t least = (*p)->arena_bytes;
    uint32_t n = 0;
    for (uint32_t parts = 1; parts <= MOST_PARTS && (*p)->arena_bytes > r->arena_limit; parts += (parts + 1) / 2) {
        yk__plan_free(*p);
        *p = NULL;
        if ((parts > 1 && yk__plan_blocks(r->trace, parts, block, &n, err)) ||
            make_plan(r, true, parts > 1 ? block : r->recompute, parts > 1 ? n : r->n_recompute, p, err))
            return err->status;
        least = (*p)->arena_bytes < least ? (*p)->arena_bytes : least;
    }
    if ((*p)->arena_bytes <= r->arena_limit)
        return YK_OK;
    yk__plan_free(*p);
    *p = NULL;
    return yk__fail(err, YK_E_MEM,
                    "a step needs %llu bytes for activations even when they are recomputed, and the memory limit leaves "
                    "%llu; take a smaller batch or raise the limit",
                    (unsigned long long)least, (unsigned long long)r->arena_limit);
}

yk_status yk__plan_new(const yk__plan_request *r, yk__plan **out, yk_error *err)
{
    yk__plan *p = NULL;
    if (make_plan(r, false, r->recompute, r->n_recompute, &p, err) ||
        (r->arena_limit && p->arena_bytes > r->arena_limit && make_plan_below(r, &p, err)))
        return err->status;
    yk__log(YK_LOG_DEBUG, "plan", "%u: %u nodes, %u after fusion, %u segments, arena %llu bytes", p->number, p->nodes_before,
            p->nodes_after, p->n_segment, (unsigned long long)p->arena_bytes);
    yk__plan_dump(p);
    *out = p;
    return YK_OK;
}

void yk__plan_free(yk__plan *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; i < p->n_segment; i++)
        yk__graph_free(&p->segment[i].own);
    yk__graph_free(&p->graph);
    yk__free(p->segment);
    yk__free(p->action);
    yk__free(p->before);
    yk__free(p->use);
    yk__free(p->result_offset);
    yk__free(p);
}
