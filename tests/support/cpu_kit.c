/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a small graph by the functions of the CPU plugin that plan and run nodes: a test names the instruction set and the workers. */
#include "tests/support/cpu_kit.h"

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

/* bench/gate counts what runs below this function */
__attribute__((noinline)) static void kit_worker(cpu_prog *prog, const cpu_bound *bound, cpu_pool *pool)
{
    static const atomic_int never_stops;
    cpu_prog_run(prog, bound, pool, &never_stops);
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(getenv("KIT_CPU_TIME") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double kit_time(kit *k, const cpu_isa *isa, int nt, int times)
{
    cpu_prog *prog;
    kit_host();
    if (cpu_prog_new(&k->g, isa, nt, &prog) != YK_OK)
        return -1.0;
    int cores[64];
    for (int i = 0; i < nt; i++)
        cores[i] = -1;
    cpu_pool *pool = cpu_pool_new(cores, nt);
    const cpu_bound bound = {k->data, isa, kit_alloc(cpu_prog_scratch(prog, nt) + 64, 4096)};
    double best = 1e30;
    for (int i = 0; i < times; i++) {
        double from = seconds_now();
        kit_worker(prog, &bound, pool);
        best = fmin(best, seconds_now() - from);
    }
    cpu_pool_free(pool);
    free(bound.scratch);
    cpu_prog_free(prog);
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
    static int n; /* cpuid leaves a virtual machine: thousands of calls take half a minute */
    if (!n)
        n = cpu_isa_list(have);
    return i < n ? have[i] : NULL;
}
