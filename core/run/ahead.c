/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the program of a later micro batch in a thread of its own, while the step thread runs others (docs/decisions/0095). The thread
 * changes its own object alone, and ends with its program. The step thread calls the yk__ahead functions: core/job asks by
 * yk__engine_prepare (micro.c), and cache.c gets the program, or waits for the thread before it frees programs.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/advance.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/device/compiling.h"
#include "core/run/exec.h"

typedef struct yk__ahead {
    yk__prog_maker maker;
    yk__micro_request request; /* points to the copies below */
    yk__graph trace;
    void *result, *assign, *recompute, *full;
    yk__cache_entry entry;
    uint64_t rows;
    double began;
    pthread_t thread;
    int stop;         /* atomic */
    atomic_bool done; /* the thread has set entry and err */
    yk_error err;
} yk__ahead;

static void *ahead_main(void *arg)
{
    yk__ahead *a = arg;
    yk__prog_make(&a->maker, &a->request.plan, &a->entry.prog, &a->err);
    a->entry.seconds = yk__clock_seconds() - a->began;
    atomic_store(&a->done, true);
    return NULL;
}

static void ahead_free(yk__ahead *a)
{
    yk__micro_request_free(&a->request);
    yk__graph_free(&a->trace);
    yk__free(a->result);
    yk__free(a->assign);
    yk__free(a->recompute);
    yk__free(a->full);
    yk__free(a);
}

/* A copy of a list of the step's; NULL when memory is gone. */
static void *list_copy(const void *list, uint64_t bytes)
{
    void *copy = yk__malloc(bytes + 1);
    if (copy && bytes)
        memcpy(copy, list, bytes);
    return copy;
}

static yk_status ahead_fill(yk__ahead *a, const yk__exec *exec, const yk__micro *m, uint32_t members, yk_error *err)
{
    yk__plan_request *r = &a->request.plan;
    a->maker = yk__prog_maker_of(exec);
    a->maker.stop = &a->stop;
    a->maker.arena_most = yk__micro_arena_most(exec, m);
    if (yk__micro_request_make(exec, m, false, &a->request, err))
        return err->status;
    yk__prog_for_members(exec, members, r);
    r->result = a->result = list_copy(m->result, m->n_result * sizeof *m->result);
    r->assign = a->assign = list_copy(m->assign, m->n_assign * sizeof *m->assign);
    r->recompute = a->recompute = list_copy(m->recompute, m->n_recompute * sizeof *m->recompute);
    r->full = a->full = list_copy(m->full, m->n_full * sizeof *m->full);
    if (!a->result || !a->assign || !a->recompute || !a->full)
        return yk__fail_mem(err, sizeof *a, "a program");
    a->trace = *m->trace;
    yk__graph_init(m->trace);
    r->trace = &a->trace;
    return YK_OK;
}

/* Signals go to the program's own threads. */
static yk_status thread_start(yk__ahead *a, yk_error *err)
{
    sigset_t all, kept;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    const int failed = pthread_create(&a->thread, NULL, ahead_main, a);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    return failed ? yk__fail(err, YK_E_MEM, "no thread: %s", yk__limit_thread_reason(failed).text) : YK_OK;
}

static void failure_note(yk__exec *exec, uint64_t rows, const yk_error *err)
{
    const bool reported = exec->tried.reported;
    exec->tried.reported = true;
    if (err->status != YK_E_CANCELLED && !reported)
        yk__log(YK_LOG_INFO, "run", "the program of %llu rows is made when its batch comes, not ahead: %s", (unsigned long long)rows,
                err->text);
}

/* Waits for the thread as in a compilation of this thread's own. */
static yk__ahead *ahead_join(yk__exec *exec)
{
    yk__ahead *a = exec->ahead;
    YK__ACT_HERE(YK__ACT_COMPILE);
    yk__compile_allowed_for(exec->queue->dev); /* a compilation of another device may have changed it meanwhile */
    pthread_join(a->thread, NULL);
    exec->ahead = NULL;
    return a;
}

/* The compiler may have told more scratch, and the step thread may have taken memory, since the thread began to plan. */
static yk_status ahead_fits(const yk__exec *exec, yk__ahead *a, yk_error *err)
{
    const yk__micro m = {.trace = &a->trace, .n_result = a->request.plan.n_result, .result = a->result};
    return yk__prog_fits(a->entry.prog, yk__micro_arena_most(exec, &m), err);
}

/* Waits for the thread, and gives its program to the cache. */
static void ahead_take(yk__exec *exec)
{
    yk__ahead *a = ahead_join(exec);
    if (a->err.status || yk__prog_adopt(exec, a->entry.prog, &a->err) || ahead_fits(exec, a, &a->err) ||
        yk__cache_reserve(exec, &a->err) || yk__cache_add(exec, &a->entry, &a->err)) {
        failure_note(exec, a->rows, &a->err);
        yk__prog_free(exec->queue->dev, a->entry.prog);
    }
    ahead_free(a);
}

bool yk__ahead_runs(yk__exec *exec)
{
    if (exec->ahead && atomic_load(&exec->ahead->done))
        ahead_take(exec);
    return exec->ahead != NULL;
}

void yk__ahead_await(yk__exec *exec, uint64_t key)
{
    if (exec->ahead && exec->ahead->entry.key == key)
        ahead_take(exec);
}

void yk__ahead_end(yk__exec *exec)
{
    exec->tried.n = 0;
    if (!exec->ahead)
        return;
    __atomic_store_n(&exec->ahead->stop, 1, __ATOMIC_RELEASE);
    yk__ahead *a = ahead_join(exec);
    yk__prog_free(exec->queue->dev, a->entry.prog);
    ahead_free(a);
}

/* True if the thread was asked for that program before, as the cache may drop it, or for as many of its rows as a wait may take. */
static bool is_tried(yk__exec *exec, uint64_t key, uint64_t rows)
{
    yk__tried *t = &exec->tried;
    if (t->rows != rows)
        *t = (yk__tried){.rows = rows};
    for (uint32_t i = 0; i < t->n; i++)
        if (t->key[i] == key)
            return true;
    if (t->n == sizeof t->key / sizeof t->key[0])
        return true;
    t->key[t->n++] = key;
    return false;
}

yk__prepared yk__ahead_prepare(yk__exec *exec, yk__micro *m, uint32_t members)
{
    const uint64_t key = yk__cache_key(exec, m, members);
    yk_error err = YK_ERROR_INIT;
    if (yk__ahead_runs(exec))
        return YK__PREPARING;
    if (yk__cache_has(exec, key))
        return YK__PREPARED;
    if (is_tried(exec, key, m->rows))
        return YK__UNPREPARED;
    yk__ahead *a = yk__calloc(1, sizeof *a);
    if (!a)
        return YK__UNPREPARED;
    *a = (yk__ahead){.entry = {.key = key, .trains = m->loss != YK_NONE}, .rows = m->rows, .began = yk__clock_seconds(),
                     .err = YK_ERROR_INIT};
    if (!ahead_fill(a, exec, m, members, &err) && !thread_start(a, &err)) {
        exec->ahead = a;
        yk__log(YK_LOG_DEBUG, "run", "a thread makes the program of %llu rows ahead", (unsigned long long)m->rows);
        return YK__PREPARING;
    }
    failure_note(exec, m->rows, &err);
    ahead_free(a);
    return YK__UNPREPARED;
}
