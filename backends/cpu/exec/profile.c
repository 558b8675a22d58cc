/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cpu/exec/profile.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backends/cpu/exec/program.h"

struct cpu_profile_entry {
    cpu_profile_entry *next;
    uint64_t ns, least, runs;
    char text[192];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool on;
static clockid_t which;
static cpu_profile_entry *entries;

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
    cpu_profile_entry **best = &entries, *entry;
    for (cpu_profile_entry **at = &entries; *at; at = &(*at)->next)
        if ((*at)->ns > (*best)->ns)
            best = at;
    entry = *best;
    *best = entry->next;
    if (entry->runs)
        fprintf(stderr, "%10.3f ms %5.1f %% %8llu x %10.2f us (least %10.2f)  %s\n", (double)entry->ns * 1e-6,
                total ? 100.0 * (double)entry->ns / (double)total : 0.0, (unsigned long long)entry->runs,
                (double)entry->ns * 1e-3 / (double)entry->runs, (double)entry->least * 1e-3, entry->text);
    cpu_host->free(entry);
}

void cpu_profile_end(void)
{
    uint64_t total = 0;
    for (const cpu_profile_entry *entry = entries; entry; entry = entry->next)
        total += entry->ns;
    if (on)
        fprintf(stderr, "cpu profile: %.3f ms in all\n", (double)total * 1e-6);
    while (entries)
        print_longest(total);
}

typedef struct writer {
    char *text;
    size_t size, at;
} writer;

__attribute__((format(printf, 2, 3))) static void text_put(writer *w, const char *fmt, ...)
{
    va_list ap;
    if (w->at >= w->size)
        return;
    va_start(ap, fmt);
    int n = vsnprintf(w->text + w->at, w->size - w->at, fmt, ap);
    va_end(ap);
    w->at += n > 0 ? (size_t)n : 0;
}

static void text_put_value(writer *w, const yk_value *v)
{
    static const char *const name[] = {[YK_F32] = "f32", [YK_F16] = "f16", [YK_BF16] = "bf16", [YK_I32] = "i32",
                                       [YK_U8] = "u8", [YK_BOOL] = "bool"};
    text_put(w, " %s[", v->dtype < sizeof name / sizeof *name && name[v->dtype] ? name[v->dtype] : "?");
    for (int i = 0; i < v->dims; i++)
        text_put(w, i ? ",%lld" : "%lld", (long long)v->dim[i]);
    text_put(w, "]");
}

static void entry_describe(writer *w, const cpu_build *b, const yk_node *n, uint32_t part)
{
    text_put(w, part > 1 ? "%s, step %u" : "%s", cpu_op_name(n->op), (unsigned)part);
    if (n->n_body)
        text_put(w, "(%u ops)", (unsigned)n->n_body);
    for (uint32_t i = 0; i < n->n_out; i++)
        text_put_value(w, cpu_out(b, n, i));
    text_put(w, " <-");
    for (uint32_t i = 0; i < n->n_in; i++)
        text_put_value(w, cpu_in(b, n, i));
}

cpu_profile_entry *cpu_profile_entry_of(const cpu_build *b, const yk_node *n, uint32_t part)
{
    char text[sizeof entries->text];
    cpu_profile_entry *entry;
    if (!on)
        return NULL;
    writer w = {text, sizeof text, 0};
    entry_describe(&w, b, n, part);
    pthread_mutex_lock(&lock);
    for (entry = entries; entry && strcmp(entry->text, text) != 0; entry = entry->next)
        ;
    if (!entry && (entry = cpu_host->alloc(sizeof *entry, 64)) != NULL) {
        *entry = (cpu_profile_entry){.next = entries};
        memcpy(entry->text, text, sizeof text);
        entries = entry;
    }
    pthread_mutex_unlock(&lock);
    return entry;
}

uint64_t cpu_profile_now(void)
{
    struct timespec t;
    if (!on)
        return 0;
    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t cpu_profile_add(cpu_profile_entry *entry, uint64_t since)
{
    if (!entry)
        return since;
    uint64_t now = cpu_profile_now();
    pthread_mutex_lock(&lock);
    entry->ns += now - since;
    if (!entry->runs || now - since < entry->least)
        entry->least = now - since;
    entry->runs++;
    pthread_mutex_unlock(&lock);
    return now;
}
