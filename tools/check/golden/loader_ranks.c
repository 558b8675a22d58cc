/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the cases of the golden folder loader/, tables of Accelerate's loaders, on the ranks of this run. A sampler gives each rank its row
 * numbers, which are compared with the table; yk_gather_for_metrics joins them, and the joined rows are compared too. golden_loader.c calls
 * it in the main thread of every rank; all ranks make the same collective calls, also after a difference.
 */
#include "tools/check/golden/loader_ranks.h"

#include <string.h>

#include "tools/check/golden/loader_case.h"

typedef struct epoch {
    json_t *want; /* this rank's batches; NULL: not compared */
    size_t have;
    bool same;
    int64_t gathered[GOLDEN_LOADER_ROWS], n;
} epoch;

/* Takes a batch of this rank, and gathers its row numbers like results computed from the rows. */
static void batch_take(yk_job *job, epoch *e, const yk_sample *b, bool empty_is_none)
{
    int64_t rows = 0;
    if (e->want && (b->rows || !empty_is_none))
        e->same = golden_loader_rows_are(json_array_get(e->want, e->have++), b->row, b->rows) && e->same;
    const int64_t *all = yk_gather_for_metrics(job, b->row, sizeof *all, &rows);
    e->same = e->same && rows == b->unique_rows && e->n + rows <= GOLDEN_LOADER_ROWS;
    for (int64_t i = 0; e->same && i < rows; i++)
        e->gathered[e->n++] = all[i];
}

static yk_sampler_config case_config(const char *file, json_t *c, bool stream)
{
    const bool even = !json_object_get(c, "even") || golden_loader_on(c, "even");
    return (yk_sampler_config){.rows = stream ? 0 : (uint64_t)golden_loader_int(c, "n"),
                               .batch = (uint32_t)golden_loader_int(c, "batch"),
                               .split_batches = golden_loader_on(c, "split"),
                               .uneven_batches = !even,
                               .drop_last = golden_loader_on(c, "drop_last"),
                               .dispatch = !strcmp(file, "dispatch")};
}

bool golden_loader_table(yk_job *job, const char *file, json_t *c)
{
    const char *kind = json_string_value(json_object_get(c, "kind"));
    const int64_t n = golden_loader_int(c, "n"), global = golden_loader_global(c), skip = golden_loader_int(c, "skip");
    const bool stream = !n || !strcmp(file, "iterable") || (kind && !strcmp(kind, "iterable"));
    const yk_sampler_config config = case_config(file, c, stream);
    json_t *batches = json_object_get(c, "batches"), *gathered = json_object_get(c, "gathered");
    epoch e = {.want = batches ? json_array_get(batches, yk_rank(job)) : NULL, .same = true};
    int64_t first = skip * global < golden_loader_kept(c) ? skip * global : golden_loader_kept(c);
    yk_sample b;
    if (json_object_get(c, "error") && global % golden_loader_int(c, "ranks"))
        return true; /* this case would fail the job; tests/unit/job/sampler.c tries it instead */
    yk_sampler *s = yk_sampler_new(job, &config);
    if (stream && first + global > n)
        yk_sampler_end(s, (uint64_t)n);
    yk_sampler_seek(s, 0, (uint64_t)((first + global - 1) / global));
    for (int64_t read = first + global; yk_sampler_next(s, &b); read += global) {
        batch_take(job, &e, &b, config.uneven_batches);
        if (stream && read <= n && read + global > n) /* a program that reads one batch ahead now knows that the stream has ended */
            yk_sampler_end(s, (uint64_t)n);
    }
    return e.same && (!e.want || e.have == json_array_size(e.want)) &&
           golden_loader_gathered_ok(gathered, first, golden_loader_kept(c), e.gathered, e.n);
}

bool golden_loader_variable(yk_job *job, const char *file, json_t *c)
{
    json_t *sizes = json_object_get(c, "sizes"), *want = json_array_get(json_object_get(c, "batches"), yk_rank(job));
    const yk_sampler_config config = {.rows = json_array_size(sizes), .uneven_batches = !golden_loader_on(c, "even")};
    yk_sampler *s = yk_sampler_new(job, &config);
    yk_sample b;
    bool same = true;
    size_t have = 0;
    (void)file;
    while (yk_sampler_next(s, &b))
        if (b.rows) {
            int64_t row[GOLDEN_LOADER_ROWS];
            const int64_t n = golden_loader_batch_rows(sizes, b.row[0], row);
            same = golden_loader_rows_are(json_array_get(want, have++), row, n) && same;
        }
    return same && have == json_array_size(want);
}

bool golden_loader_split(yk_job *job, const char *file, json_t *c)
{
    const int64_t n = golden_loader_int(c, "n");
    uint64_t first, count;
    int64_t row[GOLDEN_LOADER_ROWS];
    const uint64_t repeats = yk_split_between_ranks(job, (uint64_t)n, &first, &count);
    const int64_t got = golden_loader_part(n, (int64_t)first, (int64_t)count, golden_loader_on(c, "padding") ? (int64_t)repeats : 0, row);
    (void)file;
    return golden_loader_rows_are(json_array_get(json_object_get(c, "parts"), yk_rank(job)), row, got);
}

/* Trains a model of one parameter for one epoch: checks that the optimizer steps exactly at the batches that the table names. */
static bool epoch_syncs(yk_job *job, yk_sampler *s, yk_opt *opt, yk_t w, json_t *sync)
{
    yk_sample b;
    size_t i = 0;
    bool same = true;
    for (; yk_sampler_next(s, &b); i++) {
        const float x = (float)(b.row[0] + 1);
        const int64_t one = 1;
        yk_backward(yk_mean(yk_mul(yk_input(job, YK_F32, 1, &one, &x), w), 1u, false));
        const bool want = json_integer_value(json_array_get(sync, i)) != 0, said = yk_sync_gradients(job);
        yk_step(opt);
        same = same && said == want && yk_stepped(opt) == want;
    }
    return same && i == json_array_size(sync);
}

bool golden_loader_accumulate(yk_job *job, const char *file, json_t *c)
{
    const yk_config config = {.quiet = true,
                              .devices = yk_device_name(job, 0)[0] && yk_world_size(job) == 1 ? yk_device_name(job, 0) : NULL,
                              .accumulate = (uint32_t)golden_loader_int(c, "accumulation"),
                              .accumulate_over_epochs = !golden_loader_on(c, "sync_with_dataloader")};
    yk_job *own = yk_open(&config);
    const yk_t w = yk_param(own, "w", 0, NULL, (yk_init){0});
    yk_opt *opt = yk_sgd(own, &(yk_sgd_config){.lr = 0.01});
    yk_sampler *s = yk_sampler_new(own, &(yk_sampler_config){.rows = (uint64_t)golden_loader_int(c, "batches") * yk_world_size(job),
                                                             .batch = 1});
    json_t *sync = json_object_get(c, "sync");
    bool same = yk_ok(own);
    (void)file;
    for (size_t e = 0; e < json_array_size(sync); e++)
        same = epoch_syncs(own, s, opt, w, json_array_get(sync, e)) && same;
    return yk_close(own) == 0 && same;
}
