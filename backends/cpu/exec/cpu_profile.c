/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YOKE_CPU_PROFILE=1: times of steps, in a list of entries by op, algorithm and shapes, printed to standard error when the plugin ends.
 *
 * cpu_plugin.c begins the list and prints it at the end. cpu_build.c makes a step's entry, and cpu_program.c adds each run's nanoseconds,
 * in any thread: one lock guards the list. Without the variable nothing is timed.
 */
#include "backends/cpu/exec/cpu_profile.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "plugins/kit/kit_clock.h"
#include "plugins/kit/value.h"

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

/* Moves the longest line to the front of the remaining list, which is short; this runs once. */
static void print_longest(uint64_t total)
{
    cpu_profile_entry **best = &entries, *entry;
    for (cpu_profile_entry **at = &entries; *at; at = &(*at)->next)
        if ((*at)->ns > (*best)->ns)
            best = at;
    entry = *best;
    *best = entry->next;
    if (entry->runs)
        cpu_host->log(0, "cpu", "%10.3f ms %5.1f %% %8llu x %10.2f us (least %10.2f)  %s", (double)entry->ns * 1e-6,
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
        cpu_host->log(0, "cpu", "profile: %.3f ms in all", (double)total * 1e-6);
    while (entries)
        print_longest(total);
}

typedef struct text_writer {
    char *text;
    size_t size, at;
} text_writer;

__attribute__((format(printf, 2, 3))) static void text_put(text_writer *out, const char *fmt, ...)
{
    va_list ap;
    if (out->at >= out->size)
        return;
    va_start(ap, fmt);
    int n = vsnprintf(out->text + out->at, out->size - out->at, fmt, ap);
    va_end(ap);
    out->at += n > 0 ? (size_t)n : 0;
}

static void text_put_value(text_writer *out, const yk_value *v)
{
    static const char *const name[] = {[YK_F32] = "f32", [YK_F16] = "f16", [YK_BF16] = "bf16", [YK_I32] = "i32",
                                       [YK_U8] = "u8", [YK_BOOL] = "bool"};
    text_put(out, " %s[", v->dtype < sizeof name / sizeof *name && name[v->dtype] ? name[v->dtype] : "?");
    for (int i = 0; i < v->dims; i++)
        text_put(out, i ? ",%lld" : "%lld", (long long)v->dim[i]);
    text_put(out, "]");
}

static void entry_describe(text_writer *out, const cpu_build *build, const yk_node *node, uint32_t part)
{
    text_put(out, "%s", kit_op_name(node->op));
    if (build->algorithm)
        text_put(out, " (%s)", build->algorithm);
    if (part > 1)
        text_put(out, ", step %u", (unsigned)part);
    if (node->n_body)
        text_put(out, "(%u ops)", (unsigned)node->n_body);
    for (uint32_t i = 0; i < node->n_out; i++)
        text_put_value(out, cpu_out(build, node, i));
    text_put(out, " <-");
    for (uint32_t i = 0; i < node->n_in; i++)
        text_put_value(out, cpu_in(build, node, i));
}

cpu_profile_entry *cpu_profile_entry_of(const cpu_build *build, const yk_node *node, uint32_t part)
{
    char text[sizeof entries->text];
    cpu_profile_entry *entry;
    if (!on)
        return NULL;
    text_writer out = {text, sizeof text, 0};
    entry_describe(&out, build, node, part);
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
    return on ? kit_clock_ns(which) : 0;
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
