/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the candidates of `yoke plan`, as columns of fixed width, so that scripts can cut them, or as JSON. cmd_plan.c calls it in the
 * main thread, after the search (search.c); cmd_estimate.c writes bytes as text by it.
 */
#include "tools/plan/table.h"

#include "core/base/number.h"

const char *table_bytes_text(double bytes, char *buf, size_t n)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t u = 0;
    for (; bytes >= 1024 && u < 4; u++)
        bytes /= 1024;
    snprintf(buf, n, u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
    return buf;
}

static const char *time_text(double seconds, char *buf, size_t n)
{
    if (seconds < 1)
        snprintf(buf, n, "%.3g ms", seconds * 1e3);
    else
        snprintf(buf, n, "%.3g s", seconds);
    return buf;
}

/* Width of the column of --offload, which has no folders; 0 if no candidate has it. */
static int table_offloads(const search *s)
{
    int width = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const int n = s->list[i].offload ? (int)strcspn(s->list[i].offload, ":") : 0;
        width = n > width ? n : width;
    }
    return width;
}

static void print_candidate(const search *s, const candidate *c, uint32_t number)
{
    char a[32], b[32], d[32], e[32], rank[4] = "-";
    if (c->fits)
        snprintf(rank, sizeof rank, "%u", number % 100);
    printf("%2s  %-10s ", rank, c->shard);
    const int width = table_offloads(s);
    if (width)
        printf("%-*.*s ", width, c->offload ? (int)strcspn(c->offload, ":") : 2, c->offload ? c->offload : "no");
    printf("%-9s %6llu %6llu", c->recomputes ? "blocks" : "no", (unsigned long long)c->batch, (unsigned long long)c->micros);
    if (c->fits) {
        printf("  %9s %11s %11s %11s\n", time_text(c->seconds, a, sizeof a), table_bytes_text(c->largest, b, sizeof b),
               table_bytes_text(c->shared, d, sizeof d), table_bytes_text(c->wire, e, sizeof e));
        return;
    }
    if (c->failure) {
        printf("  failed: %s\n", c->failure);
        return;
    }
    if (c->refusal && c->needs <= c->has) { /* a rank under a limit shares less with its neighbours */
        static const char launcher[] = "yoke launch: ";
        const char *text = c->refusal + (strncmp(c->refusal, launcher, strlen(launcher)) ? 0 : strlen(launcher));
        const char *remedies = strstr(text, "; remedies: "); /* the table has them */
        printf("  %.*s\n", remedies ? (int)(remedies - text) : (int)strlen(text), text);
        return;
    }
    printf("  needs %s of %s on %s: activations %s,", table_bytes_text(c->needs, a, sizeof a), table_bytes_text(c->has, b, sizeof b),
           c->where, table_bytes_text(c->activations, d, sizeof d));
    printf(" moments %s\n", table_bytes_text(c->state, a, sizeof a));
}

/* "rank 0-3  cpu:0    bound by compute: compute 80 %, memory 12 % .." */
static void print_bounds(const search *s, const candidate *c)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < s->devices.n; i++) {
        const device_row *row = &s->devices.row[i];
        const cost_rank *r = &c->rank[i];
        char ranks[32];
        snprintf(ranks, sizeof ranks, row->count > 1 ? "%u-%u" : "%u", first, first + row->count - 1);
        printf("rank %s  %s  bound by %s:", ranks, row->name, cost_names[cost_bound_of(r)]);
        for (int k = 0; k < (c->disk > 0 ? COST_BOUNDS : COST_DISK); k++)
            printf("%s %s %.0f %%", k ? "," : "", cost_names[k], 100 * r->part[k] / cost_sum(r));
        printf("\n");
        first += row->count;
    }
}

/* "disk: 1.5 GiB a step at 2.1 GiB/s: 714 ms, beside the update" */
static void print_disk(const search *s, const candidate *c)
{
    char bytes[32], rate[32], time[32];
    if (!(c->disk > 0) || !(s->devices.disk > 0))
        return;
    printf("disk: reads and writes %s a step at %s/s: %s, beside the update\n", table_bytes_text(c->disk, bytes, sizeof bytes),
           table_bytes_text(1 / s->devices.disk, rate, sizeof rate), time_text(c->disk * s->devices.disk, time, sizeof time));
}

void table_print(const search *s)
{
    const int width = table_offloads(s);
    printf(" #  --shard    %-*srecompute   rows micros       step        rank      shared on the wire\n", width ? width + 1 : 0,
           width ? "--offload" : "");
    for (uint32_t i = 0; i < s->n; i++)
        print_candidate(s, &s->list[i], i + 1);
    if (!s->n || !s->list[0].fits)
        return;
    print_bounds(s, &s->list[0]);
    print_disk(s, &s->list[0]);
    printf("use:");
    search_print(s, &s->list[0]);
    printf("\n");
}

static void print_json_ranks(const search *s, const candidate *c)
{
    for (uint32_t i = 0; i < s->devices.n; i++) {
        printf("%s{\"device\": ", i ? ", " : "");
        yk__json_text(s->devices.row[i].name);
        printf(", \"count\": %u, \"rows_factor\": %s, \"bound\": \"%s\"", s->devices.row[i].count,
               yk__number_text(c->rank[i].rows, 6).text, cost_names[cost_bound_of(&c->rank[i])]);
        for (int k = 0; k < COST_BOUNDS; k++)
            printf(", \"%s_s\": %s", cost_names[k], yk__number_text(c->rank[i].part[k], 6).text);
        printf("}");
    }
}

static void print_json_candidate(const search *s, const candidate *c)
{
    char text[OPTIONS_MOST];
    search_options(s, c, text, sizeof text);
    printf("{\"shard\": \"%s\", \"offload\": ", c->shard);
    if (c->offload)
        yk__json_text(c->offload);
    else
        printf("null");
    printf(", \"gradient_checkpointing\": %s, \"global_batch\": %llu, ", c->recomputes ? "true" : "false", (unsigned long long)c->batch);
    printf("\"gradient_accumulation_steps\": %llu, ", (unsigned long long)c->micros);
    printf("\"times\": \"%s\", ", c->times == TIMES_MODEL ? "model" : c->times == TIMES_MEASURED ? "measured" : "scaled");
    printf("\"fits\": %s, \"step_s\": %s, \"rank_bytes\": %.0f, \"shared_bytes\": %.0f, \"host_bytes\": %.0f, ",
           c->fits ? "true" : "false", yk__number_text(c->seconds, 6).text, c->largest, c->shared, c->host);
    printf("\"wire_bytes\": %.0f, \"disk_step_bytes\": %.0f, ", c->wire, c->disk);
    printf("\"needs_bytes\": %.0f, \"has_bytes\": %.0f, \"options\": ", c->needs, c->has);
    yk__json_text(text);
    if (c->failure)
        printf(", \"failed\": "), yk__json_text(c->failure);
    printf(", \"ranks\": [");
    print_json_ranks(s, c);
    printf("]}");
}

void table_print_json(const search *s)
{
    printf("{\"candidates\": [");
    for (uint32_t i = 0; i < s->n; i++) {
        printf("%s", i ? ", " : "");
        print_json_candidate(s, &s->list[i]);
    }
    printf("]}\n");
}
