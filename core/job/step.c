/* SPDX-License-Identifier: Apache-2.0 */
/* The step under way: running its trace, values the host reads, its end. */
#include <math.h>
#include <string.h>

#include "core/base/log.h"
#include "core/job/job.h"

/* ---- The table of values that the host wants or has ---- */

yk__kept *yk__kept_find(yk_job *job, yk_t x)
{
    uint16_t gen = (uint16_t)(x.id >> 32);
    for (size_t i = job->n_kept; i-- > 0;)
        if (job->kept[i].gen == gen && job->kept[i].vid == (uint32_t)x.id && !job->kept[i].dead)
            return &job->kept[i];
    return NULL;
}

/* An input needs no run: the host has it. */
static void take_input(const yk_job *job, yk__kept *k)
{
    const yk_value *x = &job->g.value[k->source];
    if (x->slot == YK_NONE || job->g.slot[x->slot].kind != YK_SLOT_INPUT || job->g.slot[x->slot].key >= job->n_input)
        return;
    memcpy(k->host, (const char *)job->input[job->g.slot[x->slot].key].data + x->offset, (size_t)k->bytes);
    k->sent = k->ready = true;
}

/* Zeroed memory for a value, used again where an earlier step left some of that size. */
static bool take_host(yk_job *job, yk__kept *k)
{
    for (int i = 0; i < YK__SPARES && !k->host; i++)
        if (job->spare[i].memory && job->spare[i].bytes >= k->bytes && job->spare[i].bytes <= 2 * k->bytes + 64) {
            k->host = job->spare[i].memory;
            k->room = job->spare[i].bytes;
            job->spare[i].memory = NULL;
            memset(k->host, 0, (size_t)k->bytes);
        }
    if (!k->host) {
        k->host = yk__calloc((size_t)k->bytes + 8, 1);
        k->room = k->bytes + 8;
    }
    return k->host != NULL;
}

static void give_host(yk_job *job, yk__kept *k)
{
    for (int i = 0; i < YK__SPARES; i++)
        if (!job->spare[i].memory && k->host) {
            job->spare[i] = (yk__spare){k->host, k->room};
            k->host = NULL;
        }
    yk__free(k->host);
}

static void spare_clear(yk_job *job)
{
    for (int i = 0; i < YK__SPARES; i++) {
        yk__free(job->spare[i].memory);
        job->spare[i].memory = NULL;
    }
}

yk__kept *yk__kept_add(yk_job *job, yk__vid v)
{
    yk__kept *k = yk__kept_find(job, (yk_t){(uint64_t)job->gen << 32 | v});
    if (k)
        return k;
    if (yk__grow(&job->kept, &job->cap_kept, job->n_kept + 1, sizeof *k)) {
        yk__job_failf(job, YK_E_MEM, "out of memory for a value to be read");
        return NULL;
    }
    yk__vid dense = yk__dense(&job->g, v);
    k = &job->kept[job->n_kept];
    *k = (yk__kept){.gen = job->gen, .vid = v, .source = dense, .factor = 1.0};
    if (job->g.error.status || dense == YK_NONE) {
        yk__job_fail(job, &job->g.error);
        return NULL;
    }
    k->value = job->g.value[v];
    k->bytes = (uint64_t)yk__value_count(&k->value) * (yk__dtype_is_float(k->value.dtype) ? 4 : yk_dtype_bytes(k->value.dtype));
    if (!take_host(job, k)) {
        yk__job_failf(job, YK_E_MEM, "out of memory (%llu bytes for a value to be read)", (unsigned long long)k->bytes);
        return NULL;
    }
    take_input(job, k);
    job->n_kept++;
    return k;
}

static void limbo_clear(yk_job *job)
{
    for (size_t i = 0; i < job->n_limbo; i++)
        yk__free(job->limbo[i]);
    job->n_limbo = 0;
}

/* Frees an entry's memory; where a run may still write to it, later. */
static void kept_release(yk_job *job, yk__kept *k)
{
    yk_error err = YK_ERROR_INIT;
    if (k->sent && !k->ready && job->engine) {
        if (job->n_limbo >= 64 && !yk__engine_wait(job->engine, 0, &err))
            limbo_clear(job);
        if (!yk__grow(&job->limbo, &job->cap_limbo, job->n_limbo + 1, sizeof *job->limbo)) {
            job->limbo[job->n_limbo++] = k->host;
            return;
        }
        yk__engine_wait(job->engine, 0, &err);
    }
    give_host(job, k);
}

void yk__kept_clear(yk_job *job, bool all)
{
    size_t n = 0;
    for (size_t i = 0; i < job->n_kept; i++) {
        yk__kept *k = &job->kept[i];
        bool old = !k->hold || k->age >= 1 || all;
        if (old && k->pinned && !all)
            k->dead = true;
        if (old && (!k->pinned || all)) {
            kept_release(job, k);
            continue;
        }
        k->age = k->age < 255 ? (uint8_t)(k->age + 1) : k->age;
        job->kept[n++] = *k;
    }
    job->n_kept = n;
    if (all) {
        limbo_clear(job);
        spare_clear(job);
    }
}

/* ---- Running ---- */

/* Lists what the host wants of this step; false after a failure. */
static bool gather_wanted(yk_job *job, uint32_t *n)
{
    yk__room *r = &job->room;
    *n = 0;
    if (yk__grow(&r->value, &r->cap_value, job->n_kept, sizeof *r->value) ||
        yk__grow(&r->host, &r->cap_host, job->n_kept, sizeof *r->host) ||
        yk__grow(&r->input, &r->cap_input, job->n_input, sizeof *r->input) ||
        yk__grow(&r->input_bytes, &r->cap_input_bytes, job->n_input, sizeof *r->input_bytes)) {
        yk__job_failf(job, YK_E_MEM, "out of memory for a step");
        return false;
    }
    for (size_t i = 0; i < job->n_kept; i++) {
        const yk__kept *k = &job->kept[i];
        if (k->gen != job->gen || k->sent)
            continue;
        r->value[*n] = k->source;
        r->host[(*n)++] = k->host;
    }
    return true;
}

static void mark_sent(yk_job *job, uint64_t ticket)
{
    for (size_t i = 0; i < job->n_kept; i++) {
        yk__kept *k = &job->kept[i];
        if (k->gen != job->gen || k->sent)
            continue;
        k->sent = true;
        k->ticket = ticket;
        k->ready = job->empty && !yk__sharding_of(job, k->vid).met;
        k->absent = !k->loss && yk__sharding_of(job, k->vid).met && job->world > 1 && !yk__group_member(job->group, job->rank);
    }
    job->loss_sent = job->loss != YK_NONE;
    job->assign_sent = job->n_assign;
}

#define WARM_UP 8 /* runs in which programs are expected to be made */

/* Says once that a program had to be made in the middle of training, and which input's shape is new. */
static void note_compile(yk_job *job)
{
    yk__engine_stats st;
    char was[96], is[96], where[160];
    yk__engine_stats_get(job->engine, &st);
    bool made = ++job->runs > WARM_UP && st.compiles != job->compiles && !job->told_compile;
    uint32_t n = job->n_input < 8 ? (uint32_t)job->n_input : 8;
    for (uint32_t i = 0; i < n; i++) {
        yk__vid leaf = job->input[i].leaf;
        if (leaf >= job->g.n_value || job->input[i].scalars)
            continue;
        const yk_value *x = &job->g.value[leaf];
        if (made && i < job->n_last && !job->told_compile && !yk__value_same_shape(x, &job->last_input[i])) {
            yk__log(YK_LOG_INFO, "job", "%s: a program was made again after the start: input %u was %s and is %s",
                    yk__here_text(where, sizeof where), i, yk__value_shape_text(&job->last_input[i], was, sizeof was),
                    yk__value_shape_text(x, is, sizeof is));
            job->told_compile = true;
        }
        job->last_input[i] = *x;
    }
    job->n_last = n;
    job->compiles = st.compiles;
}

static bool run(yk_job *job, uint32_t n_wanted, bool train)
{
    yk_error err = YK_ERROR_INIT;
    uint64_t ticket = 0;
    for (size_t i = 0; i < job->n_input; i++) {
        job->room.input[i] = job->input[i].data;
        job->room.input_bytes[i] = job->input[i].bytes;
    }
    uint32_t done = job->opt ? job->opt->micro : 0;
    const yk__micro m = {.trace = &job->g,
                         .loss = train ? job->loss : YK_NONE,
                         .seed = train ? job->seed : YK_NONE,
                         .first = done == 0,
                         .empty = job->empty,
                         .n_input = (uint32_t)job->n_input,
                         .input = job->room.input,
                         .input_bytes = job->room.input_bytes,
                         .n_result = n_wanted,
                         .result = job->room.value,
                         .result_host = job->room.host,
                         .n_assign = (uint32_t)(job->n_assign - job->assign_sent),
                         .assign = job->n_assign ? job->assign + job->assign_sent : NULL,
                         .n_recompute = (uint32_t)job->n_recompute,
                         .recompute = job->recompute};
    if (yk__engine_run(job->engine, &m, &ticket, &err)) {
        yk__job_fail(job, &err);
        return false;
    }
    if (train)
        note_compile(job);
    yk__share_note(job, train);
    mark_sent(job, ticket);
    return true;
}

/* A rank without rows computed no running statistics: it takes those of the first rank that has rows. */
static bool spread_states(yk_job *job, size_t from)
{
    yk_error err = YK_ERROR_INIT;
    double with[YK__RANKS] = {0};
    uint32_t root = 0;
    with[job->rank] = job->empty ? 0.0 : 1.0;
    yk_status s = yk__group_sum_members(job->group, with, job->world, &err);
    while (root + 1 < job->world && with[root] == 0.0)
        root++;
    for (size_t i = from; i < job->n_assign && !s && yk__group_member(job->group, job->rank); i++)
        for (size_t k = 0; k < job->n_param && !s; k++) {
            yk__jparam *p = &job->param[k];
            if (!p->state || p->number != job->assign[i].state)
                continue;
            uint64_t bytes = p->n * yk_dtype_bytes(p->dtype);
            void *v = yk__malloc(bytes);
            s = v ? yk__engine_state_read(job->engine, p->number, v, &err) : yk__fail_mem(&err, bytes, p->name);
            s = s ? s : yk__group_broadcast_members(job->group, root, v, bytes, &err);
            s = s || !job->empty ? s : yk__engine_state_write(job->engine, p->number, v, &err);
            yk__free(v);
        }
    if (s)
        yk__job_fail(job, &err);
    return !s;
}

/* Whether what is to be read or assigned follows from an exchange: then all ranks are here, and it needs their counts. */
static bool needs_counts(const yk_job *job)
{
    bool met = job->assigns_met;
    if (job->world == 1 || job->counted_ranks)
        return false;
    for (size_t i = 0; i < job->n_kept && !met; i++)
        met = job->kept[i].gen == job->gen && !job->kept[i].sent && yk__sharding_of(job, job->kept[i].vid).met;
    return met;
}

bool yk__flush(yk_job *job)
{
    uint32_t wanted;
    bool train = job->loss != YK_NONE && !job->loss_sent;
    size_t assigned = job->assign_sent;
    if (!yk__job_alive(job))
        return false;
    if (job->recomputing) {
        yk__job_failf(job, YK_E_ARG, "yk_recompute_begin without its yk_recompute_end");
        return false;
    }
    if (!gather_wanted(job, &wanted))
        return false;
    if (!train && !wanted && job->n_assign == job->assign_sent)
        return true;
    if (needs_counts(job) && !yk__count_ranks(job))
        return false;
    if (!yk__params_ready(job) || !run(job, wanted, train))
        return false;
    bool without = job->world > 1 && job->any_empty && assigned < job->n_assign;
    return !without || spread_states(job, assigned);
}

/* ---- Reading ---- */

bool yk__kept_fetch(yk_job *job, yk__kept *k)
{
    yk_error err = YK_ERROR_INIT;
    size_t at = (size_t)(k - job->kept);
    if (!k->sent && !yk__flush(job))
        return false;
    k = &job->kept[at];
    if (!k->ready && yk__engine_wait(job->engine, k->ticket, &err)) {
        yk__job_fail(job, &err);
        return false;
    }
    k->ready = true;
    return yk_ok(job);
}

static double first_number(const yk__kept *k)
{
    float f;
    int32_t i;
    if (yk__dtype_is_float(k->value.dtype)) {
        memcpy(&f, k->host, sizeof f);
        return (double)f;
    }
    if (k->value.dtype == YK_I32) {
        memcpy(&i, k->host, sizeof i);
        return (double)i;
    }
    return (double)*(const uint8_t *)k->host;
}

double yk__kept_number(yk_job *job, yk__kept *k)
{
    yk_error err = YK_ERROR_INIT;
    if (!k->loss)
        return first_number(k);
    if (!k->summed) {
        k->sum = k->factor == 0.0 ? 0.0 : first_number(k) * k->factor;
        if (job->world > 1 && yk__group_sum_members(job->group, &k->sum, 1, &err))
            yk__job_fail(job, &err);
        k->summed = true;
    }
    return k->sum;
}

/* The entry of a living handle, with its data here; NULL after a failure. */
static yk__kept *fetched(yk_job *job, const char *name, yk_t x)
{
    yk__kept *k = yk__kept_find(job, x);
    if (!k) {
        yk__vid v = yk__use(job, name, x);
        k = v == YK_NONE ? NULL : yk__kept_add(job, v);
    }
    if (!k)
        return NULL;
    size_t at = (size_t)(k - job->kept);
    if (!yk__kept_fetch(job, k))
        return NULL;
    if (!job->kept[at].absent)
        return &job->kept[at];
    yk__job_failf(job, YK_E_ARG, "%s: rank %u is excluded from the steps at present, and this value follows from what the others exchanged "
                                 "in one: read it where yk_share is above 0, or the loss, which all ranks have; '!' behind its device "
                                 "spec keeps the rank in", name, job->rank);
    return NULL;
}

static bool is_param(yk_t x)
{
    return (uint16_t)(x.id >> 32) == 0;
}

static double param_number(yk_job *job, yk__jparam *p)
{
    float f = NAN;
    int32_t i;
    if (!yk__param_get(job, p, &f))
        return (double)NAN;
    memcpy(&i, &f, sizeof i);
    return p->dtype == YK_I32 ? (double)i : (double)f;
}

double yk_item(yk_t x)
{
    yk_job *job = yk__job_of(x);
    yk_value buf;
    if (!yk_ok(job))
        return (double)NAN;
    const yk_value *v = yk__peek(job, x, &buf);
    if (v && (v->dims == 0 || yk__value_count(v) == 1) && is_param(x)) {
        return param_number(job, &job->param[(uint32_t)x.id]);
    }
    if (v && yk__value_count(v) != 1 && !(v->dims && yk__value_count(v) == 0)) {
        char text[96];
        yk__job_failf(job, YK_E_ARG, "yk_item of %s: it must be one number", yk__value_shape_text(v, text, sizeof text));
        return (double)NAN;
    }
    yk__kept *k = fetched(job, "yk_item", x);
    double d = k ? yk__kept_number(job, k) : (double)NAN;
    return yk_ok(job) ? d : (double)NAN;
}

void yk_read(yk_t x, void *data, size_t bytes)
{
    yk_job *job = yk__job_of(x);
    if (!yk_ok(job))
        return;
    if (is_param(x)) {
        yk__jparam *p = yk__param_of(job, "yk_read", x);
        if (p && p->dtype == YK_F32)
            yk_param_read(x, data, bytes / sizeof(float));
        else if (p)
            yk__job_failf(job, YK_E_ARG, "yk_read: %s is a state of integers; read it by yk_param_read", p->name);
        return;
    }
    yk__kept *k = fetched(job, "yk_read", x);
    if (!k)
        return;
    if (k->bytes != bytes) {
        char text[96];
        yk__job_failf(job, YK_E_ARG, "yk_read: %s has %llu bytes, room is %zu",
                      yk__value_shape_text(&k->value, text, sizeof text), (unsigned long long)k->bytes, bytes);
        return;
    }
    memcpy(data, k->host, bytes);
}

yk_t yk_keep(yk_t x)
{
    yk_job *job = yk__job_of(x);
    if (!yk_ok(job))
        return YK__POISON;
    if (is_param(x))
        return x;
    yk__kept *k = yk__kept_find(job, x);
    if (!k) {
        yk__vid v = yk__use(job, "yk_keep", x);
        k = v == YK_NONE ? NULL : yk__kept_add(job, v);
    }
    if (!k)
        return YK__POISON;
    k->hold = true;
    return x;
}

/* ---- Backward and the end ---- */

void yk_backward(yk_t loss)
{
    yk_job *job = yk__enter("yk_backward", 1, &loss);
    yk__vid v = job ? yk__use(job, "yk_backward", loss) : YK_NONE;
    if (v == YK_NONE)
        return;
    if (job->g.value[v].dtype != YK_F32 || yk__value_count(&job->g.value[v]) != 1) {
        char text[96];
        yk__job_failf(job, YK_E_ARG, "yk_backward: the loss is %s; it must be one f32 number",
                      yk__value_shape_text(&job->g.value[v], text, sizeof text));
        return;
    }
    if (job->loss != YK_NONE) {
        yk__job_failf(job, YK_E_ARG, "yk_backward: once per micro batch; add the losses up and call it on their sum");
        return;
    }
    job->loss = v;
    if (!yk__sharding_loss(job, v) || !yk__count_ranks(job) || !yk__weigh(job))
        return;
    /* where all ranks have the loss itself, each gives its share of it */
    const double term = job->world > 1 && yk__sharding_of(job, v).spread == YK__REPLICATED ? job->row_share : 1.0;
    if (job->opt && job->opt->unit == 0.0 && job->loss_weight > 0.0)
        job->opt->unit = job->loss_weight;
    double unit = job->opt && job->opt->unit > 0.0 ? job->opt->unit : 1.0;
    double seed = (job->scaling ? job->scaler.scale : 1.0) * job->loss_weight / unit * term;
    job->seed_scalar = yk__scalar_new(job, seed, &job->seed);
    yk__kept *k = yk__kept_add(job, v);
    if (!k)
        return;
    k->loss = k->hold = true;
    k->factor = term;
    if (k->sent && yk__kept_fetch(job, k)) /* read before: its counts were this rank's own */
        k->sent = k->ready = k->summed = false;
}

bool yk__step_open(const yk_job *job)
{
    return job->g.n_value > 0 || job->n_input > 0 || job->rows_set;
}

void yk__step_end(yk_job *job)
{
    if (++job->gen == 0) {
        job->gen = 1;
        for (size_t i = 0; i < job->n_param; i++)
            job->param[i].leaf_gen = job->param[i].assigned = 0;
    }
    yk__sharding_clear(job);
    yk__graph_clear(&job->g);
    yk__inputs_clear(job);
    yk__kept_clear(job, false);
    job->calls = 0;
    job->loss = job->seed = YK_NONE;
    job->loss_sent = job->any_empty = job->window_end = job->recomputing = false;
    job->n_counted = 0;
    job->n_assign = job->assign_sent = job->n_recompute = 0;
}

static bool holds_pending(const yk_job *job)
{
    for (size_t i = 0; i < job->n_kept; i++)
        if (job->kept[i].gen == job->gen && job->kept[i].hold && !job->kept[i].sent)
            return true;
    return job->n_assign > job->assign_sent;
}

void yk_end(yk_job *job)
{
    if (!job || !yk__step_open(job))
        return;
    if (yk__job_alive(job) && holds_pending(job))
        yk__flush(job);
    yk__log_flush(job, false);
    yk__step_end(job);
}
