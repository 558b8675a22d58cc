/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cpu/exec/profile.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backends/cpu/exec/program.h"

struct cpu_line {
    cpu_line *next;
    uint64_t ns, least, runs;
    char text[192];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool on;
static clockid_t which;
static cpu_line *lines;

void cpu_profile_begin(void)
{
    const char *word = cpu_host->option("cpu", "PROFILE");
    on = word && *word && strcmp(word, "0") != 0;
    which = on && strcmp(word, "own") == 0 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
}

void cpu_profile_workers(int n)
{
    if (n > 1 && which == CLOCK_THREAD_CPUTIME_ID)
        which = CLOCK_PROCESS_CPUTIME_ID;
}

/* The longest line goes to the front of what is left: the list is short and this runs once. */
static void print_longest(uint64_t total)
{
    cpu_line **best = &lines, *l;
    for (cpu_line **at = &lines; *at; at = &(*at)->next)
        if ((*at)->ns > (*best)->ns)
            best = at;
    l = *best;
    *best = l->next;
    if (l->runs)
        fprintf(stderr, "%10.3f ms %5.1f %% %8llu x %10.2f us (least %10.2f)  %s\n", (double)l->ns * 1e-6,
                total ? 100.0 * (double)l->ns / (double)total : 0.0, (unsigned long long)l->runs,
                (double)l->ns * 1e-3 / (double)l->runs, (double)l->least * 1e-3, l->text);
    cpu_host->free(l);
}

void cpu_profile_end(void)
{
    uint64_t total = 0;
    for (const cpu_line *l = lines; l; l = l->next)
        total += l->ns;
    if (on)
        fprintf(stderr, "cpu profile: %.3f ms in all\n", (double)total * 1e-6);
    while (lines)
        print_longest(total);
}

typedef struct writer {
    char *text;
    size_t size, at;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *fmt, ...)
{
    va_list ap;
    if (w->at >= w->size)
        return;
    va_start(ap, fmt);
    int n = vsnprintf(w->text + w->at, w->size - w->at, fmt, ap);
    va_end(ap);
    w->at += n > 0 ? (size_t)n : 0;
}

static void put_value(writer *w, const yk_value *v)
{
    static const char *const name[] = {[YK_F32] = "f32", [YK_F16] = "f16", [YK_BF16] = "bf16", [YK_I32] = "i32",
                                       [YK_U8] = "u8", [YK_BOOL] = "bool"};
    put(w, " %s[", v->dtype < sizeof name / sizeof *name && name[v->dtype] ? name[v->dtype] : "?");
    for (int i = 0; i < v->dims; i++)
        put(w, i ? ",%lld" : "%lld", (long long)v->dim[i]);
    put(w, "]");
}

static void describe(writer *w, const cpu_build *b, const yk_node *n, uint32_t part)
{
    put(w, part > 1 ? "%s, step %u" : "%s", cpu_op_name(n->op), (unsigned)part);
    if (n->n_body)
        put(w, "(%u ops)", (unsigned)n->n_body);
    for (uint32_t i = 0; i < n->n_out; i++)
        put_value(w, cpu_out(b, n, i));
    put(w, " <-");
    for (uint32_t i = 0; i < n->n_in; i++)
        put_value(w, cpu_in(b, n, i));
}

cpu_line *cpu_profile_line(const cpu_build *b, const yk_node *n, uint32_t part)
{
    char text[sizeof lines->text];
    cpu_line *l;
    if (!on)
        return NULL;
    writer w = {text, sizeof text, 0};
    describe(&w, b, n, part);
    pthread_mutex_lock(&lock);
    for (l = lines; l && strcmp(l->text, text) != 0; l = l->next)
        ;
    if (!l && (l = cpu_host->alloc(sizeof *l, 64)) != NULL) {
        *l = (cpu_line){.next = lines};
        memcpy(l->text, text, sizeof text);
        lines = l;
    }
    pthread_mutex_unlock(&lock);
    return l;
}

uint64_t cpu_profile_now(void)
{
    struct timespec t;
    if (!on)
        return 0;
    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t cpu_profile_add(cpu_line *line, uint64_t since)
{
    if (!line)
        return since;
    uint64_t now = cpu_profile_now();
    pthread_mutex_lock(&lock);
    line->ns += now - since;
    if (!line->runs || now - since < line->least)
        line->least = now - since;
    line->runs++;
    pthread_mutex_unlock(&lock);
    return now;
}
