/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A check of `yoke test`: collective work outside the training (gathers, broadcasts, samplers, triggers), on any number of ranks. sanity.c
 * calls it in the main thread of all ranks. After `accelerate test` (test_script.py) and its neighbours (test_ops.py,
 * test_distributed_data_loop.py, test_metrics.py).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/check/sanity_ranks.h"

enum { MOST_RANKS = 1024, MOST_ROWS = 32 * MOST_RANKS };

/* ---- Operations ---------------------------------------------------------------------------------------------------- */

static bool reductions_right(yk_job *job)
{
    const double world = yk_world_size(job), rank = yk_rank(job);
    double sum = rank + 1, mean = rank + 1, most = rank + 1;
    yk_all_reduce_sum(job, &sum, 1);
    yk_all_reduce_mean(job, &mean, 1);
    yk_all_reduce_max(job, &most, 1);
    return sum == world * (world + 1) / 2 && mean == (world + 1) / 2 && most == world;
}

/* Rank r gives r P + 1 .. r P + P; all have 1 .. P². Then r + 1 bytes each. */
static bool gathers_right(yk_job *job)
{
    const uint32_t world = yk_world_size(job), rank = yk_rank(job);
    int32_t *all = calloc((size_t)(world + 1) * world, sizeof *all), *own = all ? all + (size_t)world * world : NULL;
    bool same = all != NULL;
    const size_t *size;
    for (uint32_t i = 0; all && i < world; i++)
        own[i] = (int32_t)(rank * world + i + 1);
    if (all)
        yk_gather(job, own, world * sizeof *own, all);
    for (uint32_t i = 0; all && i < world * world; i++)
        same = same && all[i] == (int32_t)i + 1;
    const char *object = yk_gather_object(job, all, all ? rank + 1 : 0, &size);
    for (uint32_t r = 0; object && r < world; r++)
        same = same && size[r] == r + 1;
    free(all);
    return same && object;
}

static bool broadcasts_right(yk_job *job)
{
    int32_t data[4] = {(int32_t)yk_rank(job), 1, 2, 3};
    const uint32_t root = yk_world_size(job) - 1;
    size_t bytes = yk_rank(job) == root ? 3 : 0;
    yk_broadcast(job, data, sizeof data, root);
    const char *text = yk_broadcast_object(job, "abc", &bytes, root);
    return data[0] == (int32_t)root && text && bytes == 3 && !memcmp(text, "abc", 3);
}

/* Rank 0 has one row more; the other ranks get a zero after theirs. */
static bool padding_right(yk_job *job)
{
    const float data[3] = {1, 2, 3};
    int64_t dim = yk_is_main(job) ? 3 : 2;
    const float *padded = yk_pad_across_ranks(job, YK_F32, 1, &dim, data, NULL);
    return padded && dim == 3 && padded[1] == 2 && padded[2] == (yk_is_main(job) ? 3.0f : 0.0f);
}

/* Runs that follow one another, the first n % P of them longer by one; padded to the longest. */
static bool splits_right(yk_job *job)
{
    const uint64_t world = yk_world_size(job), length[3] = {2 * world, 2 * world - 1, 17};
    bool same = true;
    for (int i = 0; i < 3; i++) {
        uint64_t first, count;
        const uint64_t repeats = yk_split_between_ranks(job, length[i], &first, &count), most = (length[i] + world - 1) / world;
        double all = (double)count;
        yk_all_reduce_sum(job, &all, 1);
        same = same && all == (double)length[i] && count + repeats == most;
        same = same && count == length[i] / world + (yk_rank(job) < length[i] % world);
    }
    return same;
}

static bool triggers_right(yk_job *job)
{
    const bool before = yk_check_trigger(job);
    if (yk_is_main(job))
        yk_set_trigger(job);
    const bool raised = yk_check_trigger(job);
    return !before && raised && !yk_check_trigger(job);
}

/* ---- Loaders ------------------------------------------------------------------------------------------------------- */

/* One epoch's rows as gathers for metrics leave them, in row[]; how many. */
static int64_t epoch_gather(yk_job *job, yk_sampler *s, int64_t *row)
{
    yk_sample b;
    int64_t n = 0, rows;
    while (yk_sampler_next(s, &b)) {
        const int64_t *all = yk_gather_for_metrics(job, b.row, sizeof *all, &rows);
        for (int64_t i = 0; all && i < rows && n < MOST_ROWS; i++)
            row[n++] = all[i];
        if (b.last)
            yk_end(job);
    }
    return n;
}

static bool rows_are_once(const int64_t *row, int64_t n, int64_t want, bool in_order)
{
    static bool seen[MOST_ROWS];
    bool same = n == want;
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < n && same; i++) {
        same = row[i] >= 0 && row[i] < want && !seen[row[i]] && (!in_order || row[i] == i);
        seen[same ? row[i] : 0] = true;
    }
    return same;
}

static bool epoch_right(yk_job *job, yk_sampler_config c, int64_t rows)
{
    int64_t *row = calloc(MOST_ROWS, sizeof *row);
    yk_sampler *s = yk_sampler_new(job, &c);
    if (!c.rows)
        yk_sampler_end(s, (uint64_t)rows);
    const bool same = row && rows_are_once(row, epoch_gather(job, s, row), rows, !c.shuffle);
    free(row);
    return same;
}

/* Sharded, cut, handed out by rank 0's rule, shuffled, by speed, as a stream; lengths that come out even and that do not. */
static bool loaders_right(yk_job *job)
{
    const uint32_t world = yk_world_size(job);
    const int64_t length[] = {32 * (int64_t)world, 99, 512, 30, 3};
    bool same = true;
    for (size_t i = 0; i < sizeof length / sizeof length[0]; i++)
        for (int kind = 0; kind < 24; kind++) {
            const bool split = kind & 1, stream = kind / 2 % 3 == 1;
            const yk_sampler_config c = {.rows = stream ? 0 : (uint64_t)length[i],
                                         .batch = split ? 8 * world : 4,
                                         .split_batches = split,
                                         .uneven_batches = kind / 6 == 1,
                                         .dispatch = kind / 6 == 2,
                                         .by_speed = kind / 6 == 3,
                                         .shuffle = kind / 2 % 3 == 2};
            same = epoch_right(job, c, length[i]) && same;
        }
    return same;
}

/* Three epochs repeat after seek(0); another seed gives other orders, and so does another epoch. */
static bool orders_right(yk_job *job)
{
    enum { ROWS = 48 };
    int64_t *row = calloc(MOST_ROWS * 2 + ROWS * 4, sizeof *row), *first = row ? row + 2 * MOST_ROWS : NULL;
    const yk_sampler_config c = {.rows = ROWS, .batch = 5, .shuffle = true, .seed = 11};
    const yk_sampler_config other = {.rows = ROWS, .shuffle = true, .seed = 12};
    yk_sampler *s = yk_sampler_new(job, &c);
    bool same = row != NULL;
    for (int e = 0; e < 6 && same; e++) {
        if (e == 3)
            yk_sampler_seek(s, 0, 0);
        same = epoch_gather(job, s, row) == ROWS && (e < 3 || !memcmp(row, first + (e - 3) * ROWS, ROWS * sizeof *row));
        if (e < 3)
            memcpy(first + e * ROWS, row, ROWS * sizeof *row);
    }
    if (same) {
        epoch_gather(job, yk_sampler_new(job, &other), row);
        same = memcmp(row, first, ROWS * sizeof *row) && memcmp(first + ROWS, first, ROWS * sizeof *row);
    }
    free(row);
    return same;
}

/* After skipping the first two batches the rest follows. */
static bool skipping_right(yk_job *job)
{
    int64_t *row = calloc(MOST_ROWS, sizeof *row);
    const int64_t world = yk_world_size(job), rows = 7 * world + 1, skipped = 4 * world;
    yk_sampler *s = yk_sampler_new(job, &(yk_sampler_config){.rows = (uint64_t)rows, .batch = 2});
    yk_sampler_seek(s, 0, 2);
    const int64_t n = row ? epoch_gather(job, s, row) : 0;
    bool same = n == rows - skipped;
    for (int64_t i = 0; i < n; i++)
        same = same && row[i] == skipped + i;
    free(row);
    return same;
}

/* ---- All ----------------------------------------------------------------------------------------------------------- */

void sanity_ranks(sanity *s, yk_job *job)
{
    static const struct {
        const char *name;
        bool (*right)(yk_job *job);
    } check[] = {
        {"sums, means and maxima over the ranks", reductions_right},
        {"gathers in the order of ranks, of unlike sizes too", gathers_right},
        {"broadcasts from the last rank", broadcasts_right},
        {"padding to the longest rank", padding_right},
        {"items split between the ranks", splits_right},
        {"a trigger of one rank is seen by all, once", triggers_right},
        {"loaders give every row once: sharded, split, dispatched, shuffled, streams", loaders_right},
        {"the order of rows follows from seed and epoch", orders_right},
        {"skipped batches leave the rest", skipping_right},
    };
    for (size_t i = 0; i < sizeof check / sizeof check[0]; i++) {
        double wrong = !check[i].right(job);
        yk_all_reduce_sum(job, &wrong, 1);
        sanity_report(s, yk_ok(job) && wrong == 0.0, check[i].name, yk_error_text(job));
    }
}
