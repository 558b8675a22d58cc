/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's request for a micro batch, with its lists of parameters and buckets. cache.c makes one for each new program, ahead.c for a
 * program that another thread makes, in the step thread. The caller frees it after planning, as a plan keeps nothing of it.
 */
#include "core/base/mem.h"
#include "core/run/exec.h"

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

uint64_t yk__micro_arena_most(const yk__exec *exec, const yk__micro *m)
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

static void list_buckets(const yk__params *params, yk__micro_request *r)
{
    for (uint32_t i = 0; i < params->n_all_bucket; i++) {
        r->bucket_bytes[i] = params->bucket[i].layout.n * sizeof(float);
        r->pulls[i] = params->bucket[i].home->pulled;
    }
}

static void request_fill(const yk__exec *exec, const yk__micro *m, bool zero, yk__micro_request *request)
{
    yk__plan_request *r = &request->plan;
    yk__prog_request(exec, m->trace, r);
    r->loss = m->loss, r->seed = m->seed;
    r->accumulate = !m->first && !zero && !exec->params->scatters;
    r->scatters = exec->params->scatters && m->loss != YK_NONE;
    r->zero = zero;
    r->precision = exec->params->precision;
    r->rounds8 = exec->params->rounds8;
    r->stores = exec->stores;
    r->keep_compute = r->keep_cheap = !exec->queue->limit; /* if memory is short, cheap values are made again instead */
    r->n_param = (uint32_t)exec->params->n_param, r->param = request->param;
    r->n_bucket = exec->params->n_bucket, r->n_pulled = exec->params->n_all_bucket, r->bucket_bytes = request->bucket_bytes;
    r->pulls = exec->params->slices ? request->pulls : NULL;
    r->pulls_stay = exec->params->pulls_stay, r->pulls_ahead = exec->params->pulls_ahead;
    r->n_result = m->n_result, r->result = m->result;
    r->n_assign = m->n_assign, r->assign = m->assign;
    r->n_recompute = m->n_recompute, r->recompute = m->recompute;
    r->n_full = m->n_full, r->full = m->full;
    r->arena_limit = exec->queue->limit ? yk__micro_arena_most(exec, m) : 0;
}

yk_status yk__micro_request_make(const yk__exec *exec, const yk__micro *m, bool zero, yk__micro_request *r, yk_error *err)
{
    const uint64_t n = exec->params->n_all_bucket + 1ull;
    *r = (yk__micro_request){.param = list_params(exec->params, m->trace),
                             .bucket_bytes = yk__calloc(n, sizeof *r->bucket_bytes),
                             .pulls = yk__calloc(n, sizeof *r->pulls)};
    if (!r->param || !r->bucket_bytes || !r->pulls) {
        yk__micro_request_free(r);
        return yk__fail_mem(err, exec->params->n_param * sizeof *r->param, "a program");
    }
    list_buckets(exec->params, r);
    request_fill(exec, m, zero, r);
    return YK_OK;
}

void yk__micro_request_free(yk__micro_request *r)
{
    yk__free(r->param);
    yk__free(r->bucket_bytes);
    yk__free(r->pulls);
    *r = (yk__micro_request){0};
}
