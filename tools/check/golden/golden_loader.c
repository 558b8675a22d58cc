/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `yoke test --golden DIR`, folder loader/: the rows of each rank. Every case is compared with the law (core/data/shard.h), for all its
 * ranks. cmd_test.c calls it in the main thread, on all ranks. For cases with as many ranks as the run the library itself then does it,
 * with batches that go from rank to rank (loader_ranks.c).
 *
 * If Accelerate is at fault (README of the tables), only the rows are compared, not its derived numbers: a remainder of -1 or of a stream,
 * and gathers with repeated rows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/shard.h"
#include "tools/check/golden/golden.h"
#include "tools/check/golden/loader_case.h"
#include "tools/check/golden/loader_ranks.h"

static yk__shard case_shard(const char *file, json_t *c)
{
    const uint32_t ranks = (uint32_t)golden_loader_int(c, "ranks");
    const bool even = !json_object_get(c, "even") || golden_loader_on(c, "even");
    return (yk__shard){.rows = golden_loader_int(c, "n"),
                       .global_batch = golden_loader_global(c),
                       .ranks = ranks,
                       .tail = golden_loader_on(c, "drop_last") ? YK__TAIL_DROP
                               : !strcmp(file, "dispatch")      ? YK__TAIL_SPREAD
                               : even                           ? yk__shard_even(ranks)
                                                                : YK__TAIL_SHORT};
}

/* Rank r's rows of a round. */
static int64_t round_rows(const yk__shard *s, int64_t i, uint32_t r, int64_t *row)
{
    const yk__shard_round round = yk__shard_at(s, i);
    int64_t count = s->global_batch / s->ranks, first = r * count;
    yk__shard_part(s, &round, r, &first, &count);
    for (int64_t k = 0; k < count; k++)
        row[k] = yk__shard_row(s, round.place + first + k);
    return count;
}

/* Rank r's batches from round `skip` on; a possibly short last batch without rows does not count. */
static bool rank_is_law(const yk__shard *s, int64_t skip, uint32_t r, json_t *want)
{
    int64_t row[GOLDEN_LOADER_ROWS];
    size_t have = 0;
    for (int64_t i = skip; i < yk__shard_rounds(s); i++) {
        const int64_t n = round_rows(s, i, r, row);
        if ((n || s->tail != YK__TAIL_SHORT) && !golden_loader_rows_are(json_array_get(want, have++), row, n))
            return false;
    }
    return have == json_array_size(want);
}

/* Compares the number of new rows in the last round, if the table has it. */
static bool remainder_is_law(const char *file, const yk__shard *s, json_t *c)
{
    const yk__shard_round last = yk__shard_at(s, yk__shard_rounds(s) - 1);
    json_t *want = json_object_get(c, "remainder");
    if (!strcmp(file, "iterable") || !json_is_integer(want) || json_integer_value(want) < 0)
        return true;
    return json_integer_value(want) == (strcmp(file, "dispatch") && last.full ? 0 : last.unique);
}

static bool length_is_law(const yk__shard *s, json_t *c)
{
    json_t *len = json_object_get(c, "len");
    const bool cut = s->tail == YK__TAIL_SHORT && s->ranks > 1; /* it then reports a wrong number for some ranks */
    for (size_t r = 0; r < json_array_size(len) && !cut; r++)
        if (json_is_integer(json_array_get(len, r)) && json_integer_value(json_array_get(len, r)) != yk__shard_rounds(s))
            return false;
    return true;
}

/* Refused: a batch that the ranks do not divide; or, by a fault, no round if none is full. */
static bool error_is_law(const yk__shard *s, json_t *c)
{
    if (!strcmp(json_string_value(json_object_get(c, "error")), "TypeError"))
        return yk__shard_rounds(s) == 0;
    return s->global_batch % s->ranks != 0;
}

static bool table_case(const char *file, json_t *c)
{
    const yk__shard s = case_shard(file, c);
    int64_t skip = golden_loader_int(c, "skip"), unique = 0;
    bool same = remainder_is_law(file, &s, c) && length_is_law(&s, c);
    if (json_object_get(c, "error"))
        return error_is_law(&s, c);
    for (uint32_t r = 0; r < s.ranks; r++)
        same = same && rank_is_law(&s, skip, r, json_array_get(json_object_get(c, "batches"), r));
    for (int64_t i = 0; i < yk__shard_rounds(&s); i++)
        unique += yk__shard_at(&s, i).unique;
    json_t *gather = json_object_get(c, "gather");
    if (json_is_string(gather) && !strcmp(json_string_value(gather), "exact"))
        same = same && unique == s.rows;
    return same && unique == golden_loader_kept(c);
}

/* Batches of any size follow the law with batches for rows. */
static bool variable_case(const char *file, json_t *c)
{
    json_t *sizes = json_object_get(c, "sizes");
    const uint32_t ranks = (uint32_t)golden_loader_int(c, "ranks");
    const yk__shard s = {.rows = (int64_t)json_array_size(sizes),
                         .global_batch = ranks,
                         .ranks = ranks,
                         .tail = golden_loader_on(c, "even") ? yk__shard_even(ranks) : YK__TAIL_SHORT};
    (void)file;
    for (uint32_t r = 0; r < ranks; r++) {
        json_t *want = json_array_get(json_object_get(c, "batches"), r);
        size_t have = 0;
        int64_t number, row[GOLDEN_LOADER_ROWS];
        for (int64_t i = 0; i < yk__shard_rounds(&s); i++)
            if (round_rows(&s, i, r, &number)) {
                const int64_t n = golden_loader_batch_rows(sizes, number, row);
                if (!golden_loader_rows_are(json_array_get(want, have++), row, n))
                    return false;
            }
        if (have != json_array_size(want))
            return false;
    }
    return true;
}

static bool split_case(const char *file, json_t *c)
{
    const uint32_t ranks = (uint32_t)golden_loader_int(c, "ranks");
    const int64_t n = golden_loader_int(c, "n");
    (void)file;
    for (uint32_t r = 0; r < ranks; r++) {
        int64_t first, count, row[GOLDEN_LOADER_ROWS];
        yk__shard_split(n, ranks, r, &first, &count);
        const int64_t repeats = golden_loader_on(c, "padding") ? (n + ranks - 1) / ranks - count : 0;
        if (!golden_loader_rows_are(json_array_get(json_object_get(c, "parts"), r), row,
                                    golden_loader_part(n, first, count, repeats, row)))
            return false;
    }
    return true;
}

/* The rest of an epoch after `skip` rounds, each row once. */
static bool metrics_case(const char *file, json_t *c)
{
    const yk__shard s = case_shard(file, c);
    const int64_t skip = golden_loader_int(c, "skip");
    json_t *want = json_object_get(c, "gathered");
    int64_t row[GOLDEN_LOADER_ROWS], n = 0;
    for (int64_t i = skip; i < yk__shard_rounds(&s); i++) {
        const yk__shard_round round = yk__shard_at(&s, i);
        for (int64_t k = 0; k < round.unique && n < GOLDEN_LOADER_ROWS; k++)
            row[n++] = yk__shard_row(&s, round.place + k);
    }
    const int64_t first = skip * s.global_batch < s.rows ? skip * s.global_batch : s.rows;
    return golden_loader_gathered_ok(want, first, s.rows, row, n);
}

/* A file: the check of a case against the law, and the check that the run's ranks follow it. */
typedef struct loader_file {
    const char *name;
    bool (*law)(const char *file, json_t *c);
    bool (*done)(yk_job *job, const char *file, json_t *c);
} loader_file;

static const loader_file files[] = {
    {"shard", table_case, golden_loader_table},
    {"iterable", table_case, golden_loader_table},
    {"dispatch", table_case, golden_loader_table},
    {"skip_first_batches", table_case, golden_loader_table},
    {"variable", variable_case, golden_loader_variable},
    {"split_between_processes", split_case, golden_loader_split},
    {"gather_for_metrics", metrics_case, golden_loader_table},
    {"accumulate", NULL, golden_loader_accumulate},
};

static void run_file(golden *g, const loader_file *f)
{
    char label[64], text[256] = "", why[160];
    unsigned wrong = 0, cases = 0, done = 0;
    snprintf(label, sizeof label, "loader/%s", f->name);
    if (!golden_wanted(g, label))
        return;
    json_t *all = golden_json(g, "%s.json", label);
    yk_job *job = golden_job(g, (yk_config){0});
    for (size_t i = 0; i < json_array_size(all) && job && yk_ok(job); i++) {
        json_t *c = json_array_get(all, i);
        bool ok = !f->law || f->law(f->name, c);
        cases++;
        if (!json_object_get(c, "ranks") || golden_loader_int(c, "ranks") == (int64_t)g->world) {
            const bool here = f->done(job, f->name, c);
            done++;
            ok = ok && here;
        }
        if (!ok && !wrong++)
            snprintf(text, sizeof text, "case %zu is the first that differs; ", i);
    }
    double sum[1] = {wrong};
    yk_all_reduce_sum(job, sum, 1);
    if (!golden_close(job, why, sizeof why))
        snprintf(text, sizeof text, "%.150s; ", why);
    const size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%u cases, %u of them by %u ranks", cases, done, g->world);
    golden_report(g, cases && !why[0] && sum[0] == 0.0 ? GOLDEN_PASS : GOLDEN_FAIL, label, sum[0], 0, text);
    json_decref(all);
}

void golden_loader(golden *g)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        run_file(g, &files[i]);
}
