/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu_kit.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void kit_log(int level, const char *who, const char *fmt, ...)
{
    (void)level, (void)who, (void)fmt;
}

static void kit_fail(const char *who, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "%s: ", who);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
}

static const char *kit_option(const char *plugin, const char *key)
{
    (void)plugin, (void)key;
    return NULL;
}

void kit_host(void)
{
    static const yk_host host = {.size = sizeof host, .abi = YK_ABI, .alloc = kit_alloc, .free = free, .log = kit_log,
                                 .fail = kit_fail, .option = kit_option};
    cpu_host = &host;
}

typedef struct kit_job {
    const cpu_prog *p;
    cpu_ctx c;
    cpu_pool *pool;
} kit_job;

/* bench/gate counts what runs below this function */
__attribute__((noinline)) static void kit_worker(void *arg, int worker)
{
    kit_job *j = arg;
    cpu_ctx c = j->c;
    c.mine += (size_t)worker * cpu_round(cpu_prog_mine(j->p) + 64, 4096);
    c.tid = worker;
    cpu_prog_run(j->p, &c, j->pool);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(getenv("KIT_CPU_TIME") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double kit_time(kit *k, const cpu_isa *isa, int nt, int times)
{
    cpu_prog *p;
    kit_host();
    if (cpu_prog_new(&k->g, isa, nt, &p) != YK_OK)
        return -1.0;
    int cores[64];
    for (int i = 0; i < nt; i++)
        cores[i] = -1;
    cpu_pool *pool = cpu_pool_new(cores, nt);
    char *shared = kit_alloc(cpu_prog_shared(p) + 64, 4096);
    char *mine = kit_alloc((size_t)nt * cpu_round(cpu_prog_mine(p) + 64, 4096), 4096);
    kit_job j = {p, {k->data, isa, shared, mine, 0, nt}, pool};
    double best = 1e30;
    for (int i = 0; i < times; i++) {
        double from = now();
        if (cpu_prog_is_serial(p))
            kit_worker(&j, 0);
        else
            cpu_pool_run(pool, kit_worker, &j);
        best = fmin(best, now() - from);
    }
    cpu_pool_free(pool);
    free(mine);
    free(shared);
    cpu_prog_free(p);
    if (!kit_guarded(k))
        abort();
    return best;
}

yk_status kit_run(kit *k, const cpu_isa *isa, int nt)
{
    return kit_time(k, isa, nt, 1) < 0 ? YK_E_UNSUPPORTED : YK_OK;
}

const cpu_isa *kit_isa(int i)
{
    static const cpu_isa *have[5];
    int n = cpu_isa_list(have);
    return i < n ? have[i] : NULL;
}
