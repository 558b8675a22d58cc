/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters and states (yk_param, yk_state): their table, first values, reading and writing. The values lie in the engine (core/run); a
 * handle stays valid until the job closes.
 *
 * The user's program and models call it in the step thread, in the same order on all ranks. First values follow from name and seed, so all
 * ranks have the same. Numbers are f32 unless a call says otherwise.
 */
#include "core/job/param.h"

#include <math.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/job/first_values.h"
#include "core/job/input.h"
#include "core/job/opt.h"
#include "core/io/safetensors.h"

yk_t yk__param_handle(const yk_job *job, size_t i)
{
    return (yk_t){(uint64_t)job->serial << 48 | (uint32_t)i};
}

yk__job_param *yk__param_named(const yk_job *job, const char *name)
{
    for (size_t i = 0; i < job->n_param; i++)
        if (!strcmp(job->param[i].name, name))
            return &job->param[i];
    return NULL;
}

/* The reason why a parameter cannot have this name, in the job or its files; NULL if it can. */
static const char *name_wrong(const yk_job *job, const char *name)
{
    if (!name || !*name)
        return "it needs a name";
    const char *wrong = yk__safetensors_name_wrong(name);
    return wrong ? wrong : yk__param_named(job, name) ? "there is one of that name already" : NULL;
}

/* Appends an entry and reserves it in the engine; NULL after a failure. */
static yk__job_param *param_add(yk_job *job, const char *name, bool state, yk_dtype dtype, uint32_t dims, const int64_t *dim,
                       yk_init init)
{
    yk_error err = YK_ERROR_INIT;
    yk__job_param p = {.state = state, .pending = true, .dtype = dtype, .dims = dims, .init = init};
    if (!yk_ok(job))
        return NULL;
    const char *wrong = name_wrong(job, name);
    if (wrong) {
        yk__job_failf(job, YK_E_ARG, "a %s named \"%s\": %s", state ? "state" : "parameter", name ? name : "", wrong);
        return NULL;
    }
    if (init.kind > YK_INIT_UNIFORM || !isfinite(init.a) || !isfinite(init.b)) {
        yk__job_failf(job, YK_E_ARG, "parameter %s: its init is kind %d of %g and %g: expected one of yk_init_kind, and numbers", name,
                      (int)init.kind, (double)init.a, (double)init.b);
        return NULL;
    }
    if (!yk__dims_count(job, name, dims, dim, 1, &p.n))
        return NULL;
    for (uint32_t i = 0; i < dims; i++)
        p.dim[i] = dim[i];
    p.frozen = !state && job->config.inference;
    if (yk__grow(&job->param, &job->cap_param, job->n_param + 1, sizeof p) || !(p.name = yk__strdup(name))) {
        yk__job_failf(job, YK_E_MEM, "out of memory for parameter %s", name);
        return NULL;
    }
    yk_status s = state ? yk__engine_state(job->engine, p.name, dtype, p.n, &p.number, &err)
                        : yk__engine_param(job->engine, p.name, p.n, true, &p.number, &err);
    if (s) {
        yk__free(p.name);
        yk__job_fail(job, &err);
        return NULL;
    }
    if (!state && dims > 1)
        yk__engine_param_rows(job->engine, p.number, (uint64_t)dim[0]);
    p.sign = yk__hash_u64(yk__hash_bytes(YK_HASH_SEED, p.name, strlen(p.name)), (uint64_t)dims << 8 | (uint64_t)dtype << 1 | state);
    p.sign = yk__hash_bytes(p.sign, p.dim, dims * sizeof *dim);
    p.given = yk__hash_bytes(yk__hash_u64(YK_HASH_SEED, init.kind), (const float[2]){init.a, init.b}, 2 * sizeof(float));
    job->param[job->n_param] = p;
    return &job->param[job->n_param++];
}

yk_t yk_param(yk_job *job, const char *name, uint32_t dims, const int64_t *dim, yk_init init)
{
    if (yk_ok(job) && job->params_fixed) {
        yk__job_failf(job, YK_E_ARG, "parameter %s: the optimizer has stepped already; make parameters before", name);
        return YK__POISON;
    }
    if (yk_ok(job) && !yk__opt_window_ended(job, "yk_param", "would be lost"))
        return YK__POISON;
    yk__job_param *p = param_add(job, name, false, YK_F32, dims, dim, init);
    return p ? yk__param_handle(job, (size_t)(p - job->param)) : YK__POISON;
}

yk_t yk_state(yk_job *job, const char *name, yk_dtype dtype, uint32_t dims, const int64_t *dim, float value)
{
    if (yk_ok(job) && dtype != YK_F32 && dtype != YK_I32) {
        yk__job_failf(job, YK_E_ARG, "state %s: its type must be f32 or i32", name);
        return YK__POISON;
    }
    yk__job_param *p = param_add(job, name, true, dtype, dims, dim, (yk_init){YK_INIT_UNIFORM, value, value});
    return p ? yk__param_handle(job, (size_t)(p - job->param)) : YK__POISON;
}

bool yk__param_put(yk_job *job, yk__job_param *p, const void *data)
{
    yk_error err = YK_ERROR_INIT;
    yk_status s = p->state ? yk__engine_state_write(job->engine, p->number, data, &err)
                           : yk__engine_param_write(job->engine, p->number, data, &err);
    if (s)
        yk__job_fail(job, &err);
    else
        p->pending = false;
    return !s;
}

/* Writes values of the program or a file, which the ranks compare. */
static bool param_give(yk_job *job, yk__job_param *p, const void *data)
{
    if (job->team.world > 1)
        p->given = yk__hash_bytes(YK_HASH_SEED, data, (size_t)(p->n * yk_dtype_bytes(p->dtype)));
    return yk__param_put(job, p, data);
}

/* Converts in place, as both types have 4 bytes. */
static void to_own_type(const yk__job_param *p, float *data)
{
    for (uint64_t i = 0; i < p->n && p->dtype == YK_I32; i++) {
        const int32_t v = data[i] >= 0x1p31f ? INT32_MAX : data[i] >= -0x1p31f ? (int32_t)data[i] : INT32_MIN;
        memcpy(&data[i], &v, sizeof v);
    }
}

/* Puts a state's first values to the device: a state lies whole on each rank. */
static bool state_begin(yk_job *job, yk__job_param *p, yk__source source)
{
    yk_error err = YK_ERROR_INIT;
    float *v = yk__malloc(p->n * sizeof *v);
    bool put = false;
    if (!v)
        yk__job_failf(job, YK_E_MEM, "out of memory for the first values of %s (%llu bytes)", p->name,
                      (unsigned long long)(p->n * sizeof *v));
    else if (!source.read(source.object, 0, p->n, v, &err)) {
        to_own_type(p, v);
        put = yk__param_put(job, p, v);
    }
    yk__free(v);
    source.free(source.object);
    return put;
}

bool yk__param_give(yk_job *job, yk__job_param *p, yk__source source)
{
    yk_error err = YK_ERROR_INIT;
    p->pending = false;
    p->given = source.sign;
    if (yk__engine_param_give(job->engine, p->number, source, &err))
        yk__job_fail(job, &err);
    return !err.status;
}

bool yk__params_ready(yk_job *job)
{
    for (; job->n_ready < job->n_param && yk_ok(job); job->n_ready++) {
        yk__job_param *p = &job->param[job->n_ready];
        yk_error err = YK_ERROR_INIT;
        yk__source source;
        if (job->config.plan_only)
            p->pending = false;
        if (!p->pending)
            continue;
        if (yk__first_values(p, job->config.seed, &source, &err)) {
            yk__job_fail(job, &err);
            return false;
        }
        if (!(p->state ? state_begin(job, p, source) : yk__param_give(job, p, source)))
            return false;
    }
    return yk_ok(job);
}

yk__vid yk__param_leaf(yk_job *job, yk__job_param *p)
{
    if (p->leaf_gen != job->gen) {
        uint64_t bytes = p->n * yk_dtype_bytes(p->dtype);
        p->slot = yk__slot_new(&job->step.trace, p->state ? YK_SLOT_STATE : YK_SLOT_PARAM, bytes, p->number);
        p->leaf = yk__leaf(&job->step.trace, p->slot, 0, p->dtype, p->dims, p->dim);
        p->leaf_gen = job->gen;
    }
    return p->leaf;
}

yk__job_param *yk__param_of(yk_job *job, const char *name, yk_t x)
{
    if (!yk_ok(job))
        return NULL;
    if ((uint16_t)(x.id >> 32) != 0 || (uint32_t)x.id >= job->n_param) {
        yk__job_failf(job, YK_E_ARG, "%s: expected a parameter or state of this job, got another handle: "
                      "pass one of yk_param or yk_state", name);
        return NULL;
    }
    return &job->param[(uint32_t)x.id];
}

void yk_freeze(yk_t param, bool frozen)
{
    yk_error err = YK_ERROR_INIT;
    yk_job *job = yk__job_of(param);
    yk__job_param *p = job ? yk__param_of(job, "yk_freeze", param) : NULL;
    if (!p || p->frozen == frozen || !yk__job_trains(job, "yk_freeze"))
        return;
    if (p->state)
        yk__job_failf(job, YK_E_ARG, "yk_freeze: %s is a state, which is never trained", p->name);
    else if (!yk__opt_window_ended(job, "yk_freeze", "would be lost"))
        return;
    else if (yk__engine_param_trained(job->engine, p->number, !frozen, &err))
        yk__job_fail(job, &err);
    else
        p->frozen = frozen;
}

uint32_t yk_param_count(const yk_job *job)
{
    return job ? (uint32_t)job->n_param : 0;
}

const char *yk_param_name(const yk_job *job, uint32_t i)
{
    return job && i < job->n_param ? job->param[i].name : NULL;
}

bool yk_param_is_state(const yk_job *job, uint32_t i)
{
    return job && i < job->n_param && job->param[i].state;
}

yk_t yk_param_at(yk_job *job, uint32_t i)
{
    return job && i < job->n_param ? yk__param_handle(job, i) : YK__POISON;
}

yk_t yk_param_find(yk_job *job, const char *name)
{
    yk__job_param *p = job && name ? yk__param_named(job, name) : NULL;
    return p ? yk__param_handle(job, (size_t)(p - job->param)) : YK__POISON;
}

/* The parameter of a transfer of n elements; NULL after a failure. */
static yk__job_param *sized_param(const char *name, yk_t param, size_t n, yk_job **job)
{
    *job = yk__job_of(param);
    yk__job_param *p = *job ? yk__param_of(*job, name, param) : NULL;
    if (p && p->n != n) {
        yk__job_failf(*job, YK_E_ARG, "%s: %s has %llu elements, not %zu", name, p->name, (unsigned long long)p->n, n);
        return NULL;
    }
    return p;
}

void yk_param_write(yk_t param, const float *data, size_t n)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_job *job;
    yk__job_param *p = sized_param("yk_param_write", param, n, &job);
    float *own = p && p->dtype == YK_I32 ? yk__malloc(n * sizeof *own) : NULL;
    if (!p)
        return;
    if (p->dtype != YK_I32) {
        param_give(job, p, data);
    } else if (own) {
        memcpy(own, data, n * sizeof *own);
        to_own_type(p, own);
        param_give(job, p, own);
    } else {
        yk__job_failf(job, YK_E_MEM, "out of memory for %s", p->name);
    }
    yk__free(own);
}

bool yk__param_get(yk_job *job, yk__job_param *p, void *data)
{
    yk_error err = YK_ERROR_INIT;
    if (!yk__params_ready(job))
        return false;
    yk_status s = p->state ? yk__engine_state_read(job->engine, p->number, data, &err)
                           : yk__engine_param_read(job->engine, p->number, data, &err);
    if (s)
        yk__job_fail(job, &err);
    return !s;
}

yk_dtype yk__param_file_type(const yk__job_param *p)
{
    return p->dtype == YK_I32 ? YK_I64 : YK_F32;
}

void yk__param_to_file(const yk__job_param *p, void *data)
{
    for (uint64_t k = p->n; k-- > 0 && p->dtype == YK_I32;) { /* from the end, as a wide element covers later narrow ones */
        const int64_t v = ((const int32_t *)data)[k];
        memcpy((int64_t *)data + k, &v, sizeof v);
    }
}

bool yk__param_get_file(yk_job *job, yk__job_param *p, void *data)
{
    if (!yk__param_get(job, p, data))
        return false;
    yk__param_to_file(p, data);
    return true;
}

bool yk__param_put_file(yk_job *job, yk__job_param *p, void *data)
{
    for (uint64_t k = 0; k < p->n && p->dtype == YK_I32; k++) {
        int64_t v;
        memcpy(&v, (const int64_t *)data + k, sizeof v);
        if (v < INT32_MIN || v > INT32_MAX) {
            yk__job_failf(job, YK_E_FORMAT, "%s: the file has %lld, expected a number of 32 bits", p->name, (long long)v);
            return false;
        }
        ((int32_t *)data)[k] = (int32_t)v;
    }
    return param_give(job, p, data);
}

void yk_param_read(yk_t param, float *data, size_t n)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_job *job;
    yk__job_param *p = sized_param("yk_param_read", param, n, &job);
    if (!p || !yk__param_get(job, p, data))
        return;
    for (size_t i = 0; i < n && p->dtype == YK_I32; i++) {
        int32_t v;
        memcpy(&v, &data[i], sizeof v);
        data[i] = (float)v;
    }
}

void yk_grad_read(yk_t param, float *data, size_t n)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_job *job;
    yk_error err = YK_ERROR_INIT;
    yk__job_param *p = sized_param("yk_grad_read", param, n, &job);
    if (!p || !yk__job_trains(job, "yk_grad_read"))
        return;
    if (p->state || p->frozen)
        yk__job_failf(job, YK_E_ARG, "yk_grad_read: %s is %s", p->name, p->state ? "a state" : "frozen");
    else if (yk__opt_window_ended(job, "yk_grad_read", "are not yet complete") &&
             yk__engine_grad_read(job->engine, p->number, data, &err))
        yk__job_fail(job, &err);
}
