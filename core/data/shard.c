/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of an epoch for each rank. The epoch's order is cut into rounds of one global batch, and each rank takes a run of neighbours
 * from a round. The loader, data.c, samplers, host_coll.c (for one list) and the golden cases ask, in any thread. It is pure arithmetic on
 * places, so a round needs no earlier ones.
 *
 * Only the last round, which may have too few rows, needs a rule (shard.h has the four). The laws are those of BatchSamplerShard,
 * IterableDatasetShard and DataLoaderDispatcher of Accelerate 1.14 (src/accelerate/data_loader.py).
 */
#include "core/data/shard.h"

#include "core/base/round.h"

static int64_t div_up(int64_t a, int64_t b)
{
    return (int64_t)yk__div_up((uint64_t)a, (uint64_t)b);
}

static int64_t smaller_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t yk__shard_rounds(const yk__shard *s)
{
    const int64_t rows = s->rows - s->origin;
    return s->tail == YK__TAIL_DROP ? rows / s->global_batch : div_up(rows, s->global_batch);
}

/* Rows of a last round that holds `unique` new ones. With YK__TAIL_SPREAD it is filled up to a multiple of the ranks;
 * DataLoaderDispatcher has at most `ranks` rows of the first batch for that. */
static int64_t tail_rows(const yk__shard *s, int64_t unique)
{
    const int64_t ranks = s->ranks;
    if (s->tail == YK__TAIL_FILL)
        return s->global_batch;
    if (s->tail == YK__TAIL_SPREAD && unique % ranks)
        return smaller_of(unique + smaller_of(ranks, smaller_of(s->rows, s->global_batch)), div_up(unique, ranks) * ranks);
    return unique;
}

yk__shard_round yk__shard_at(const yk__shard *s, int64_t i)
{
    yk__shard_round round = {.place = s->origin};
    if (i < 0 || i >= yk__shard_rounds(s))
        return round;
    round.place += i * s->global_batch;
    round.unique = smaller_of(s->rows - round.place, s->global_batch);
    round.full = round.unique == s->global_batch;
    round.rows = round.full ? s->global_batch : tail_rows(s, round.unique);
    return round;
}

void yk__shard_part(const yk__shard *s, const yk__shard_round *round, uint32_t rank, int64_t *first, int64_t *count)
{
    int64_t begin = *first, end = *first + *count;
    if (!round->full && s->tail == YK__TAIL_SPREAD) {
        begin = rank * div_up(round->unique, s->ranks);
        end = begin + div_up(round->unique, s->ranks);
    }
    *first = smaller_of(begin, round->rows);
    *count = smaller_of(end, round->rows) - *first;
}

yk__shard_tail yk__shard_even(uint32_t ranks)
{
    return ranks > 1 ? YK__TAIL_FILL : YK__TAIL_SHORT;
}

int64_t yk__shard_row(const yk__shard *s, int64_t place)
{
    return place < s->rows ? place : (place - s->rows) % s->rows;
}

void yk__shard_split(int64_t n, uint32_t parts, uint32_t r, int64_t *first, int64_t *count)
{
    const int64_t each = n / parts, more = n % parts;
    *first = r * each + smaller_of(r, more);
    *count = each + (r < more);
}
