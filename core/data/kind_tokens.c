/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind tokens:FILE, DIR, GLOB or A+B: running ids for a language model, read from disk as rows ask for them (core/read/shards.h).
 * dataset.c calls its functions through a table (kind.h): opening in the step thread, rows in the loader's.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "core/data/windows.h"
#include "core/read/shards.h"

struct running_tokens {
    yk__windows windows;
    yk__shards shards;
};

static yk_status ids_read(const yk__windows *windows, int64_t first, int64_t count, int32_t *ids, yk_error *err)
{
    const struct running_tokens *state = (const void *)windows;
    return yk__shards_get(&state->shards, first, count, ids, err);
}

/* vocab= fills in a size that the files lack, and may exceed theirs. */
static yk_status open_shards(yk__dataset *set, const yk__spec *spec, yk_error *err)
{
    static const char *const dtypes[] = {"u16", "u32"};
    struct running_tokens *state = set->state;
    int k = -1;
    int64_t vocab;
    yk_status st = yk__spec_word(spec, "dtype", dtypes, 2, -1, &k, err);
    if (!st)
        st = yk__spec_int(spec, "vocab", 0, 1, INT32_MAX, &vocab, err);
    if (!st)
        st = yk__shards_open(spec->path, k < 0 ? 0 : 2 << k, vocab, &state->shards, err);
    if (!st)
        st = yk__spec_int(spec, "vocab", state->shards.vocab, state->shards.vocab, INT32_MAX, &vocab, err);
    set->vocab = st ? 0 : (int)vocab;
    return st;
}

static yk_status open_tokens(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err)
{
    struct running_tokens *state = yk__calloc(1, sizeof *state);
    double split = 0;
    if (!state)
        return yk__fail_mem(err, sizeof *state, "running ids");
    set->state = state;
    state->windows.read = ids_read;
    yk_status st = yk__windows_split(set, spec, options, &split, err);
    if (!st)
        st = open_shards(set, spec, err);
    if (st)
        return st;
    const int64_t count = state->shards.start[state->shards.count], train = (int64_t)((double)count * split);
    state->windows.from = set->eval ? train : 0;
    state->windows.length = set->eval ? count - train : train;
    return yk__windows_cut(set, spec, options, err);
}

static void close_tokens(void *opened)
{
    struct running_tokens *state = opened;
    yk__shards_close(&state->shards);
    yk__free(state);
}

/* Writes the file that the row begins in, and its ids there. */
static void where_tokens(const yk__dataset *set, int64_t row, char *buf, size_t n)
{
    const struct running_tokens *state = set->state;
    const int64_t id = state->windows.from + row * state->windows.stride;
    const size_t k = yk__shards_find(&state->shards, id);
    const yk__tokens *shard = &state->shards.shard[k];
    const int64_t first = id - state->shards.start[k], last = first + state->windows.seq_len;
    const bool over = last >= shard->count && k + 1 < state->shards.count;
    snprintf(buf, n, "%.200s: ids %" PRId64 " to %" PRId64 "%s", yk__blob_path(shard->blob), first, over ? shard->count - 1 : last,
             over ? " and on in the next file" : "");
}

static const char *const keys[] = {"dtype", "vocab", "seq-len", "stride", "split", NULL};
const yk__dataset_kind yk__kind_tokens = {.eval_split = true, .name = "tokens",
                                          .keys = keys,
                                          .open = open_tokens,
                                          .close = close_tokens,
                                          .width = yk__windows_width,
                                          .fill = yk__windows_fill,
                                          .where = where_tokens,
                                          .hash = yk__windows_hash};
