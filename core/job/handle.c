/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps handles to jobs, and keeps a job's first error with the user's place. Nearly every public call passes here, in the step thread.
 *
 * The table of open jobs serves all threads: its writers and yk_cancel take a lock, and yk__job_of reads it without. The user's place, and
 * the job last used, belong to the calling thread. A job's first error ends the job on all ranks (fail_at).
 *
 * A job belongs to the process that opened it. In a fork its memory is the parent's at that moment, its shared memory and its connections
 * are the parent's still, and its threads are not there. So a fork's calls on it fail, and leave the parent's job alone.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/job/job.h"

#define JOBS 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(yk_job *) table[JOBS];
static _Atomic uint16_t serial_of[JOBS]; /* by place in the table; 0: free. Another thread may free a job at any time, with its own copy */
static uint16_t serials;

static pthread_once_t forks_once = PTHREAD_ONCE_INIT;
static atomic_uint forks; /* of this process from its parent, its parent from its own, and so on, since the first job was opened */

static void fork_count(void)
{
    atomic_fetch_add(&forks, 1);
}

static void forks_watch(void)
{
    pthread_atfork(NULL, NULL, fork_count);
}

bool yk__job_is_parents(const yk_job *job)
{
    return job->forks != atomic_load_explicit(&forks, memory_order_relaxed);
}

#define PARENTS "the job belongs to the process that opened it, and this process is a fork of that: expected a job of its own (yk_open)"

static _Thread_local const char *here_file;
static _Thread_local int here_line;
static _Thread_local uint16_t last_serial; /* job that this thread last opened, or called yk_backward in */

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
    if (here_file)
        snprintf(buf, n, "%s:%d", here_file, here_line);
    else
        snprintf(buf, n, "an unknown line");
    return buf;
}

/* A serial that no open job has, as a job may outlive 65535 later ones. */
static uint16_t serial_next(void)
{
    bool used = true;
    while (used) {
        used = ++serials == 0;
        for (int i = 0; i < JOBS; i++)
            used |= atomic_load(&serial_of[i]) == serials;
    }
    return serials;
}

yk_status yk__job_register(yk_job *job, yk_error *err)
{
    yk_status s = YK_E_ARG;
    pthread_once(&forks_once, forks_watch);
    job->forks = atomic_load(&forks);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < JOBS && s; i++)
        if (!atomic_load(&table[i])) {
            job->serial = serial_next();
            atomic_store(&table[i], job);
            atomic_store(&serial_of[i], job->serial);
            s = YK_OK;
        }
    pthread_mutex_unlock(&lock);
    return s ? yk__fail(err, s, "%d jobs are open: close some first", JOBS) : YK_OK;
}

void yk__job_unregister(yk_job *job)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < JOBS; i++)
        if (atomic_load(&table[i]) == job) {
            atomic_store(&serial_of[i], 0);
            atomic_store(&table[i], NULL);
        }
    pthread_mutex_unlock(&lock);
}

void yk__job_while_open(yk_job *job, void (*call)(yk_job *job))
{
    bool is_open = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < JOBS && job && !is_open; i++)
        is_open = atomic_load(&table[i]) == job;
    if (is_open)
        call(job);
    pthread_mutex_unlock(&lock);
}

yk_job *yk__job_of(yk_t x)
{
    uint16_t serial = (uint16_t)(x.id >> 48);
    if (!serial)
        return NULL;
    for (int i = 0; i < JOBS; i++)
        if (atomic_load_explicit(&serial_of[i], memory_order_acquire) == serial)
            return atomic_load_explicit(&table[i], memory_order_acquire);
    return NULL;
}

void yk__job_meant(const yk_job *job)
{
    last_serial = job->serial;
}

yk_job *yk__job_last(void)
{
    return yk__job_of((yk_t){(uint64_t)last_serial << 48});
}

yk_job *yk_job_of(yk_t x)
{
    return yk__job_of(x);
}

/* at NULL: the place is the user's last call. */
static void fail_at(yk_job *job, yk_error *err, const yk__call_site *at)
{
    const yk__call_site here = {here_file, here_line};
    if (!job->error.status) {
        job->error = *err;
        at = at ? at : &here;
        if (at->file)
            yk__fail_in(&job->error, "%s:%d", at->file, at->line);
        if (job->team.group && !yk__job_is_parents(job))
            yk__group_abort(job->team.group, &job->error);
        if (job->emergency.failed && !yk__job_is_parents(job))
            job->emergency.failed(job);
    }
    *err = (yk_error)YK_ERROR_INIT;
}

/* If a lower layer names a node of the step, the error has the place of that node's call. The call that noticed it comes last. */
void yk__job_fail(yk_job *job, yk_error *err)
{
    const yk__call_site *at = yk__call_sites_find(&job->sites, err->node);
    char text[YK_ERROR_TEXT], where[200];
    yk__group_explain(job->team.group, err);
    if (at && here_file) {
        memcpy(text, err->text, sizeof text);
        yk__fail(err, err->status, "%s (noticed at %s)", text, yk__here_text(where, sizeof where));
    }
    fail_at(job, err, at);
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
    fail_at(job, &err, NULL);
}

bool yk__job_given(yk_job *job, const char *call, const char *argument, const void *value)
{
    if (!value)
        yk__job_failf(job, YK_E_ARG, "%s: %s is NULL", call, argument);
    return value;
}

bool yk__job_trains(yk_job *job, const char *call)
{
    if (job->config.inference)
        yk__job_failf(job, YK_E_ARG, "%s: this job is for inference (yk_config.inference) and has no gradients: expected a job that was "
                      "opened without it", call);
    return !job->config.inference;
}

bool yk_ok(const yk_job *job)
{
    yk__advance(); /* nearly every call passes here */
    return job && job->error.status == YK_OK && !atomic_load_explicit(&job->cancelled, memory_order_relaxed) && !yk__job_is_parents(job);
}

yk_status yk_error_status(const yk_job *job)
{
    if (job && !job->error.status && yk__job_is_parents(job))
        return YK_E_ARG;
    if (job && !job->error.status && atomic_load(&job->cancelled))
        return YK_E_CANCELLED;
    return job ? job->error.status : YK_E_MEM;
}

const char *yk_error_text(const yk_job *job)
{
    if (job && !job->error.status && yk__job_is_parents(job))
        return PARENTS;
    if (job && !job->error.status && atomic_load(&job->cancelled))
        return job->cancel_text;
    return job ? job->error.text : "out of memory";
}

yk_status yk__job_why(const yk_job *job, yk_error *err)
{
    return yk__fail(err, yk_error_status(job), "%s", yk_error_text(job));
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
    if (job && !job->error.status && yk__job_is_parents(job))
        yk__job_failf(job, YK_E_ARG, PARENTS);
    if (job && job->step.trace.error.status)
        yk__job_fail(job, &job->step.trace.error);
    if (job && atomic_load_explicit(&job->cancelled, memory_order_relaxed))
        yk__cancel_noticed(job);
    return yk_ok(job);
}

/* Settings that change results: dropout and batch norm differ in evaluation, products in a block of full precision. */
static void mode_compared(yk_job *job)
{
    if (!job->training)
        yk__recipe_setting_add(&job->step.recipes, "yk_train off", 1.0);
    if (job->step.is_full)
        yk__recipe_setting_add(&job->step.recipes, "full precision", 1.0);
}

/* Sign of an operand; 0 for YK_NO. */
static uint64_t operand_sign(const yk_job *job, yk_t x)
{
    const uint32_t index = (uint32_t)x.id;
    const uint16_t gen = (uint16_t)(x.id >> 32);
    if (!x.id)
        return 0;
    if (gen == 0)
        return index < job->n_param ? job->param[index].sign : 0;
    if (gen == job->gen && index < job->step.cap_sharding && job->step.sharding[index].sign)
        return job->step.sharding[index].sign;
    for (size_t i = 0; i < job->n_param; i++)
        if (job->param[i].leaf_gen == job->gen && job->param[i].leaf == index)
            return job->param[i].sign;
    return 0;
}

void yk__op_operand(yk_job *job, yk_t x)
{
    if (job->team.world > 1)
        yk__recipe_operand(&job->step.recipes, operand_sign(job, x));
}

void yk__op_again(yk_job *job, const char *name, uint32_t n, const yk_t *x)
{
    if (job->team.world == 1)
        return;
    yk__recipe_begin(&job->step.recipes, job->step.n_call, name);
    mode_compared(job);
    for (uint32_t i = 0; i < n; i++)
        yk__op_operand(job, x[i]);
}

void yk__op_begin(yk_job *job, const char *name)
{
    const uint32_t number = ++job->step.n_call;
    job->step.trace.stream = number;
    job->step.op_name = name;
    yk__call_sites_add(&job->sites, number, here_file, here_line);
    if (job->team.world > 1)
        yk__recipe_begin(&job->step.recipes, number, name);
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
    yk__op_begin(job, name);
    yk__op_again(job, name, n, x);
    return job;
}

yk_t yk__handle(yk_job *job, yk__vid v)
{
    if (job->step.trace.error.status)
        yk__job_fail(job, &job->step.trace.error);
    if (v == YK_NONE || job->error.status)
        return YK__POISON;
    return (yk_t){(uint64_t)job->serial << 48 | (uint64_t)job->gen << 32 | v};
}
