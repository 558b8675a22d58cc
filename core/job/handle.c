/* SPDX-License-Identifier: Apache-2.0 */
/* Handles, the table of open jobs, and sticky errors with the user's place. */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/advance.h"
#include "core/job/job.h"

#define JOBS 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(yk_job *) table[JOBS];
static uint16_t serials;

static _Thread_local const char *here_file;
static _Thread_local int here_line;

void yk_here(const char *file, int line)
{
    here_file = file;
    here_line = line;
}

void yk__here_place(const char **file, int *line)
{
    *file = here_file;
    *line = here_line;
}

const char *yk__here_text(char *buf, size_t n)
{
    snprintf(buf, n, "%s:%d", here_file ? here_file : "?", here_line);
    return buf;
}

yk_status yk__job_register(yk_job *job, yk_error *err)
{
    yk_status s = YK_E_ARG;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < JOBS && s; i++)
        if (!atomic_load(&table[i])) {
            if (++serials == 0)
                serials = 1;
            job->serial = serials;
            atomic_store(&table[i], job);
            s = YK_OK;
        }
    pthread_mutex_unlock(&lock);
    return s ? yk__fail(err, s, "%d jobs are open: close some first", JOBS) : YK_OK;
}

void yk__job_unregister(yk_job *job)
{
    for (int i = 0; i < JOBS; i++) {
        yk_job *mine = job;
        atomic_compare_exchange_strong(&table[i], &mine, NULL);
    }
}

yk_job *yk__job_of(yk_t x)
{
    uint16_t serial = (uint16_t)(x.id >> 48);
    if (!serial)
        return NULL;
    for (int i = 0; i < JOBS; i++) {
        yk_job *j = atomic_load_explicit(&table[i], memory_order_acquire);
        if (j && j->serial == serial)
            return j;
    }
    return NULL;
}

yk_job *yk_job_of(yk_t x)
{
    return yk__job_of(x);
}

void yk__job_fail(yk_job *job, yk_error *err)
{
    if (!job->error.status) {
        job->error = *err;
        if (here_file)
            yk__fail_in(&job->error, "%s:%d", here_file, here_line);
        if (job->group)
            yk__group_abort(job->group, &job->error);
    }
    *err = (yk_error)YK_ERROR_INIT;
}

void yk__job_failf(yk_job *job, yk_status status, const char *fmt, ...)
{
    char text[YK_ERROR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    yk_error err = YK_ERROR_INIT;
    yk__fail(&err, status, "%s", text);
    yk__job_fail(job, &err);
}

bool yk_ok(const yk_job *job)
{
    yk__advance(); /* nearly every call comes by here */
    return job && job->error.status == YK_OK;
}

yk_status yk_error_status(const yk_job *job)
{
    return job ? job->error.status : YK_E_MEM;
}

const char *yk_error_text(const yk_job *job)
{
    return job ? job->error.text : "out of memory";
}

void yk_fail(yk_job *job, yk_status status, const char *text)
{
    if (yk_ok(job))
        yk__job_failf(job, status ? status : YK_E_ARG, "%s", text ? text : "");
}

bool yk__is_none(yk_t x)
{
    return x.id == 0;
}

bool yk__job_alive(yk_job *job)
{
    if (job && job->g.error.status)
        yk__job_fail(job, &job->g.error);
    return yk_ok(job);
}

yk_job *yk__op_enter(const char *name, uint32_t n, const yk_t *x)
{
    yk_job *job = NULL;
    for (uint32_t i = 0; i < n && !job; i++)
        job = yk__job_of(x[i]);
    if (!yk__job_alive(job))
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        if (x[i].id && (uint16_t)(x[i].id >> 48) != job->serial) {
            yk__job_failf(job, YK_E_ARG, "%s: operand %u is a value of another job, or of one that was closed", name,
                          i + 1);
            return NULL;
        }
    job->g.stream = ++job->n_call;
    job->op_name = name;
    return job;
}

/* Why a handle is no value of the step under way. */
static void fail_dead(yk_job *job, const char *name, yk_t x)
{
    if (!x.id)
        yk__job_failf(job, YK_E_ARG, "%s: an operand is YK_NO", name);
    else if ((uint16_t)(x.id >> 48) != job->serial)
        yk__job_failf(job, YK_E_ARG, "%s: a value of another job, or of one that was closed", name);
    else if (yk__kept_find(job, x))
        yk__job_failf(job, YK_E_ARG, "%s: the value was kept for reading; its step is over, so it cannot be computed with",
                      name);
    else
        yk__job_failf(job, YK_E_ARG, "%s: the value died at the end of its step (yk_keep makes a value readable after it)",
                      name);
}

yk__vid yk__step_value(yk_job *job, const char *name, yk_t x)
{
    uint32_t index = (uint32_t)x.id;
    uint16_t gen = (uint16_t)(x.id >> 32);
    if (!yk_ok(job))
        return YK_NONE;
    if ((uint16_t)(x.id >> 48) == job->serial) {
        if (gen == 0 && index < job->n_param)
            return yk__param_leaf(job, &job->param[index]);
        if (gen == job->gen && index < job->g.n_value)
            return index;
    }
    fail_dead(job, name, x);
    return YK_NONE;
}

yk_t yk__handle(yk_job *job, yk__vid v)
{
    if (job->g.error.status)
        yk__job_fail(job, &job->g.error);
    if (v == YK_NONE || job->error.status)
        return YK__POISON;
    return (yk_t){(uint64_t)job->serial << 48 | (uint64_t)job->gen << 32 | v};
}

const yk_value *yk__handle_info(const yk_job *job, yk_t x, yk_value *buf)
{
    uint32_t index = (uint32_t)x.id;
    uint16_t gen = (uint16_t)(x.id >> 32);
    if (gen == 0 && index < job->n_param) {
        const yk__job_param *p = &job->param[index];
        *buf = (yk_value){.dtype = (uint8_t)p->dtype, .dims = (uint8_t)p->dims};
        memcpy(buf->dim, p->dim, sizeof p->dim);
        return buf;
    }
    if (gen == job->gen && index < job->g.n_value)
        return &job->g.value[index];
    for (size_t i = 0; i < job->n_kept; i++)
        if (job->kept[i].gen == gen && job->kept[i].vid == index)
            return &job->kept[i].value;
    return NULL;
}

uint32_t yk_dims(yk_t x)
{
    yk_value buf;
    yk_job *job = yk__job_of(x);
    const yk_value *v = job ? yk__handle_info(job, x, &buf) : NULL;
    return v ? v->dims : 0;
}

int64_t yk_dim(yk_t x, int32_t axis)
{
    yk_value buf;
    yk_job *job = yk__job_of(x);
    const yk_value *v = job ? yk__handle_info(job, x, &buf) : NULL;
    if (!v)
        return -1;
    if (axis < 0)
        axis += v->dims;
    return axis >= 0 && axis < v->dims ? v->dim[axis] : -1;
}
