/* SPDX-License-Identifier: Apache-2.0 */
/* A planned graph as programs of the device: compiling, binding buffers, uploading inputs, running the segments. */
#include <string.h>

#include "core/base/mem.h"
#include "core/base/advance.h"
#include "core/run/inner.h"

#define ALIGN 256u

/* ---- Making ---- */

static uint32_t ask_device(void *arg, const yk_graph *g, uint32_t node)
{
    const yk__device *dev = arg;
    return yk__device_claims(dev, g, node);
}

void yk__prog_request(yk__engine *e, const yk__graph *trace, yk__plan_request *r)
{
    *r = (yk__plan_request){
        .trace = trace,
        .loss = YK_NONE,
        .seed = YK_NONE,
        .alone = e->world == 1,
        .precision = YK_F32,
        .caps = &e->dev->caps,
        .claims = ask_device,
        .claims_arg = e->dev,
    };
}

/* Inputs lie one behind the other in one buffer, filled by one transfer. */
static yk_status lay_inputs(yk__engine *e, yk__prog *p, yk_error *err)
{
    const yk__graph *g = &p->plan->graph;
    const uint64_t align = e->dev->caps.align > ALIGN ? e->dev->caps.align : ALIGN;
    for (size_t i = 1; i < g->n_slot; i++)
        if (g->slot[i].kind == YK_SLOT_INPUT && g->slot[i].key >= p->n_input)
            p->n_input = g->slot[i].key + 1;
    p->input_offset = yk__calloc(p->n_input + 1ull, sizeof *p->input_offset);
    p->input_size = yk__calloc(p->n_input + 1ull, sizeof *p->input_size);
    if (!p->input_offset || !p->input_size)
        return yk__fail_mem(err, p->n_input * 16ull, "a program");
    for (size_t i = 1; i < g->n_slot; i++) {
        const yk_slot *s = &g->slot[i];
        if (s->kind != YK_SLOT_INPUT || p->input_size[s->key])
            continue;
        p->input_size[s->key] = s->bytes;
        p->input_offset[s->key] = p->input_bytes;
        p->input_bytes += (s->bytes + align - 1) / align * align;
    }
    return YK_OK;
}

/* What the plugin will take beside the slots is counted before it does. */
static yk_status count_scratch(yk__engine *e, const yk__plan *plan, yk_error *err)
{
    for (uint32_t i = 0; i < plan->n_segment; i++) {
        uint64_t bytes = 0;
        yk_status st;
        if (!plan->segment[i].graph.n_node)
            continue;
        yk__plugin_words();
        st = e->dev->table->graph_scratch(e->dev->handle, &plan->segment[i].graph, &bytes);
        if (st)
            return yk__plugin_fail(err, e->dev->plugin, st, "the scratch memory of a program");
        if (bytes > e->stats.scratch_bytes)
            yk__engine_count(e, bytes - e->stats.scratch_bytes, &e->stats.scratch_bytes);
    }
    return YK_OK;
}

static yk_status compile(yk__engine *e, yk__prog *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->plan->n_segment && !e->config.dry; i++) {
        const yk__segment *s = &p->plan->segment[i];
        yk_status st;
        if (!s->graph.n_node)
            continue;
        yk__plugin_words();
        st = e->dev->table->program_new(e->dev->handle, &s->graph, &p->program[i]);
        yk__advance();
        if (st)
            return yk__plugin_fail(err, e->dev->plugin, st, "compiling a program");
    }
    return YK_OK;
}

yk_status yk__prog_new(yk__engine *e, const yk__plan_request *r, yk__prog **out, yk_error *err)
{
    yk__prog *p = yk__calloc(1, sizeof *p);
    size_t n;
    if (!p)
        return yk__fail_mem(err, sizeof *p, "a program");
    if (yk__plan_new(r, &p->plan, err))
        goto free_prog;
    n = p->plan->graph.n_slot;
    p->n_slot = (uint32_t)n;
    p->program = yk__calloc(p->plan->n_segment + 1ull, sizeof *p->program);
    p->slot = yk__calloc(n, sizeof *p->slot);
    p->slot_offset = yk__calloc(n, sizeof *p->slot_offset);
    p->slot_version = yk__calloc(n, sizeof *p->slot_version);
    if (!p->program || !p->slot || !p->slot_offset || !p->slot_version) {
        yk__fail_mem(err, n * 24, "a program");
        goto free_prog;
    }
    if (lay_inputs(e, p, err) || yk__low_make(e, p, err) || count_scratch(e, p->plan, err) || compile(e, p, err))
        goto free_prog;
    *out = p;
    return YK_OK;
free_prog:
    yk__prog_free(e, p);
    return err->status;
}

void yk__prog_free(yk__engine *e, yk__prog *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; p->program && i < p->plan->n_segment; i++)
        if (p->program[i])
            e->dev->table->program_free(p->program[i]);
    yk__plan_free(p->plan);
    yk__free(p->program);
    yk__free(p->slot);
    yk__free(p->slot_offset);
    yk__free(p->slot_version);
    yk__free(p->input_offset);
    yk__free(p->input_size);
    yk__free(p);
}

/* ---- Running ---- */

static void bind_param(const yk__engine *e, yk__prog *p, uint32_t i, uint32_t key)
{
    if (key & YK__PACKED) {
        p->slot[i] = e->pack[key & ~YK__PACKED].value;
        p->slot_offset[i] = 0;
    } else if (key & YK__HELD_LOW) {
        p->slot[i] = e->param[key & ~YK__HELD_LOW].low;
        p->slot_offset[i] = 0;
    } else {
        p->slot[i] = e->pack[e->param[key].pack].value;
        p->slot_offset[i] = e->param[key].at * sizeof(float);
    }
    p->slot_version[i] = e->version;
}

static void bind_state(const yk__engine *e, yk__prog *p, uint32_t i, uint32_t key)
{
    if (key & YK__PACKED)
        p->slot[i] = e->pack[key & 0xffffffu].moment[(key & ~YK__PACKED) >> 24];
    else
        p->slot[i] = e->state[key].buffer;
}

static void bind(const yk__engine *e, yk__prog *p, yk_buffer *input)
{
    for (uint32_t i = 0; i < p->n_slot; i++) {
        const yk_slot *s = &p->plan->graph.slot[i];
        p->slot_version[i] = e->runs;
        if (s->kind == YK_SLOT_ARENA) {
            p->slot[i] = e->arena;
        } else if (s->kind == YK_SLOT_INPUT) {
            p->slot[i] = input;
            p->slot_offset[i] = p->input_offset[s->key];
        } else if (s->kind == YK_SLOT_PARAM) {
            bind_param(e, p, i, s->key);
        } else if (s->kind == YK_SLOT_STATE) {
            bind_state(e, p, i, s->key);
        } else if (s->kind == YK_SLOT_GRAD) {
            p->slot[i] = e->pack[s->key].grad;
        } else {
            p->slot[i] = e->result;
        }
    }
}

void yk__stage_free(yk__engine *e, yk__stage *s)
{
    if (s->buffer)
        yk__engine_unbuffer(e, &s->buffer, s->bytes, &e->stats.input_bytes);
    yk__free(s->host);
    *s = (yk__stage){0};
}

static yk_status stage_new(yk__engine *e, yk__stage *s, uint64_t bytes, yk_error *err)
{
    yk_status st = YK_OK;
    if (s->bytes >= bytes)
        return YK_OK;
    yk__stage_free(e, s);
    s->host = yk__aligned(bytes, 4096);
    if (!s->host)
        return yk__fail_mem(err, bytes, "the inputs of a step");
    s->bytes = bytes;
    if (yk__engine_wraps(e))
        st = yk__engine_wrap(e, s->host, bytes, &s->buffer, &e->stats.input_bytes, err);
    if (st)
        yk__stage_free(e, s);
    return st;
}

/* Of those that nothing reads any more the smallest that is large enough, else the smallest; else the one in use longest.
 * So that no more of them grow than are in use at once. */
static yk__stage *choose_stage(yk__engine *e, uint64_t bytes)
{
    yk__stage *best = &e->stage[0];
    for (yk__stage *s = best + 1; s < e->stage + YK__STAGES; s++) {
        const bool idle = s->point <= e->waited, best_idle = best->point <= e->waited;
        const bool fits = s->bytes >= bytes, best_fits = best->bytes >= bytes;
        if (idle != best_idle ? idle : !idle ? s->point < best->point : fits != best_fits ? fits : s->bytes < best->bytes)
            best = s;
    }
    return best;
}

/* A host area that no transfer or program reads any more. */
static yk_status take_stage(yk__engine *e, const yk__prog *p, yk__stage **out, yk_error *err)
{
    const bool updates = p == e->opt_prog || p == e->stat_prog;
    yk__stage *s = updates ? &e->stage[YK__STAGES] : choose_stage(e, p->input_bytes);
    if (yk__engine_wait_point(e, s->point, err) || stage_new(e, s, p->input_bytes, err))
        return err->status;
    *out = s;
    return YK_OK;
}

/* The inputs to where the program reads them; *stage: what it reads them from itself, or NULL. */
static yk_status upload(yk__engine *e, const yk__prog *p, uint32_t n, const void *const *input, const uint64_t *bytes,
                        yk__stage **stage, yk_error *err)
{
    yk__stage *s = NULL;
    *stage = NULL;
    if (!p->input_bytes)
        return YK_OK;
    if (take_stage(e, p, &s, err))
        return err->status;
    for (uint32_t i = 0; i < p->n_input; i++) {
        if (!p->input_size[i])
            continue;
        if (i >= n || bytes[i] < p->input_size[i])
            return yk__fail(err, YK_E_INTERNAL, "input %u has %llu bytes; the program reads %llu", i,
                            i < n ? (unsigned long long)bytes[i] : 0ull, (unsigned long long)p->input_size[i]);
        memcpy((char *)s->host + p->input_offset[i], input[i], p->input_size[i]);
    }
    if (s->buffer) {
        *stage = s;
        return YK_OK;
    }
    if (yk__engine_put(e, e->input, 0, s->host, p->input_bytes, err))
        return err->status;
    s->point = e->last_point;
    return YK_OK;
}

static yk_status sum_room(yk__engine *e, uint64_t bytes, yk_error *err)
{
    if (e->sum_bytes >= bytes)
        return YK_OK;
    if (e->sum && yk__engine_idle(e, err)) /* the last sum may still be on its way to the device */
        return err->status;
    yk__free(e->sum);
    e->sum_bytes = 0;
    e->sum = yk__aligned(bytes, 64);
    if (!e->sum)
        return yk__fail_mem(err, bytes, "a sum over ranks");
    e->sum_bytes = bytes;
    return YK_OK;
}

static yk_status submit(yk__engine *e, yk__prog *p, uint32_t i, yk_error *err)
{
    const yk_submit s = {
        .size = sizeof s,
        .n_slot = p->n_slot,
        .program = p->program[i],
        .slot = p->slot,
        .slot_offset = p->slot_offset,
        .slot_version = p->slot_version,
    };
    yk_status st;
    e->last_point += e->config.dry;
    if (!p->program[i])
        return YK_OK;
    yk__plugin_words();
    st = e->dev->table->queue_run(e->dev->queue, &s, &e->last_point);
    return st ? yk__plugin_fail(err, e->dev->plugin, st, "starting a program") : YK_OK;
}

/* Segment i, and which buckets are complete with it. */
static yk_status run_segment(yk__engine *e, yk__prog *p, uint32_t i, yk_error *err)
{
    const yk__segment *s = &p->plan->segment[i];
    if (submit(e, p, i, err))
        return err->status;
    for (uint32_t k = 0; k < s->n_done; k++)
        e->pack[p->plan->done[s->first_done + k]].point = e->last_point;
    return YK_OK;
}

/* Runs the segments from *i that need not wait for a sum; the device is idle afterwards. */
static yk_status run_beside(yk__engine *e, yk__prog *p, uint32_t *i, yk_error *err)
{
    for (; *i < p->plan->n_segment && p->plan->segment[*i].beside; ++*i)
        if (run_segment(e, p, *i, err))
            return err->status;
    return yk__engine_idle(e, err);
}

/* Where the host sees this vector of the device's memory, or NULL. It may look while the device is idle. */
static float *in_place(const yk__engine *e, const yk__prog *p, const yk__segment *s)
{
    char *map = NULL;
    if (e->dev->caps.flags & YK_CAP_HOST_VISIBLE)
        map = e->dev->table->buffer_map(p->slot[s->slot]);
    return map ? (float *)(void *)(map + p->slot_offset[s->slot] + s->offset) : NULL;
}

/* Messages of what is reduced: the columns of one row, or of the three of moments. */
static yk_status reduce_columns(yk__engine *e, yk__prog *p, const yk__segment *s, float *v, uint32_t *i, yk_error *err)
{
    const uint32_t rows = s->moments ? 3 : 1, most = YK__GROUP_FLOATS / rows;
    const uint64_t columns = s->count / rows;
    double begin;
    for (uint64_t from = 0; from < columns; from += most) {
        const yk__columns c = {v + from, rows, (uint32_t)(columns - from < most ? columns - from : most), columns, s->max};
        if (yk__group_reduce_begin(e->group, &c, err) || run_beside(e, p, i, err))
            return err->status;
        begin = yk__seconds();
        if (yk__group_reduce_end(e->group, &c, err))
            return err->status;
        e->idle += yk__seconds() - begin;
    }
    return YK_OK;
}

/* Reduces a vector of the program's memory over the ranks: the one thing that is waited for inside a step. Segments that do
 * not need it (from *i) run while it is on its way. Where the host does not see it, it is fetched, and goes back without a
 * wait: the queue is in order, so that the host's copy is read before the next one is fetched into it. */
static yk_status all_reduce(yk__engine *e, yk__prog *p, const yk__segment *s, uint32_t *i, yk_error *err)
{
    const uint64_t bytes = s->count * sizeof(float);
    const uint64_t at = p->slot_offset[s->slot] + s->offset;
    float *seen, *v;
    if (e->config.dry)
        return run_beside(e, p, i, err);
    seen = in_place(e, p, s);
    if (seen ? yk__engine_idle(e, err)
             : sum_room(e, bytes, err) || yk__store_io(e, p->slot[s->slot], at, e->sum, bytes, false, err))
        return err->status;
    v = seen ? seen : e->sum;
    if (reduce_columns(e, p, s, v, i, err))
        return err->status;
    return seen ? YK_OK : yk__engine_put(e, p->slot[s->slot], at, v, bytes, err);
}

static yk_status make_room(yk__engine *e, const yk__prog *p, yk_error *err)
{
    if (yk__engine_room(e, &e->arena, &e->arena_bytes, p->plan->arena_bytes, &e->stats.arena_bytes, err))
        return err->status;
    if (!yk__engine_wraps(e) &&
        yk__engine_room(e, &e->input, &e->input_bytes, p->input_bytes, &e->stats.input_bytes, err))
        return err->status;
    return yk__engine_room(e, &e->result, &e->result_bytes, p->plan->result_bytes, &e->stats.input_bytes, err);
}

yk_status yk__prog_run(yk__engine *e, yk__prog *p, uint32_t n_input, const void *const *input, const uint64_t *bytes,
                       yk_error *err)
{
    yk__stage *stage;
    if (make_room(e, p, err) || upload(e, p, n_input, input, bytes, &stage, err))
        return err->status;
    e->runs++;
    bind(e, p, stage ? stage->buffer : e->input);
    for (uint32_t i = 0; i < p->plan->n_segment;) {
        const yk__segment *s = &p->plan->segment[i];
        if (run_segment(e, p, i++, err) || (s->boundary == YK_BOUND_ALL_REDUCE && all_reduce(e, p, s, &i, err)))
            return err->status;
    }
    if (stage)
        stage->point = e->last_point;
    return YK_OK;
}
