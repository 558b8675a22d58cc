/* SPDX-License-Identifier: Apache-2.0 */
/* tokens:FILE: running ids for a language model (core/read/tokens.h). */
#include "core/base/mem.h"
#include "core/data/windows.h"
#include "core/read/tokens.h"

struct running_tokens {
    yk__windows windows;
    yk__tokens tokens;
};

static yk_status ids_copy(const yk__windows *windows, int64_t first, int64_t count, int32_t *ids, yk_error *err)
{
    const struct running_tokens *state = (const void *)windows;
    (void)err;
    for (int64_t i = 0; i < count; i++)
        ids[i] = yk__tokens_at(&state->tokens, first + i);
    return YK_OK;
}

static yk_status open_file(struct running_tokens *state, const yk__spec *spec, yk_error *err)
{
    static const char *const dtypes[] = {"u16", "u32"};
    int k = -1;
    yk_status st = yk__spec_word(spec, "dtype", dtypes, 2, -1, &k, err);
    return st ? st : yk__tokens_open(spec->path, k < 0 ? 0 : 2 << k, &state->tokens, err);
}

static yk_status open_tokens(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err)
{
    struct running_tokens *state = yk__calloc(1, sizeof *state);
    double split = 0;
    int64_t vocab, train;
    if (!state)
        return yk__fail_mem(err, sizeof *state, "running ids");
    set->state = state;
    state->windows.read = ids_copy;
    yk_status st = yk__windows_split(set, spec, options, &split, err);
    if (!st)
        st = open_file(state, spec, err);
    if (!st)
        st = yk__spec_int(spec, "vocab", state->tokens.vocab, state->tokens.vocab, INT32_MAX, &vocab, err);
    if (st)
        return st;
    set->vocab = (int)vocab;
    train = (int64_t)((double)state->tokens.count * split);
    state->windows.from = set->eval ? train : 0;
    state->windows.length = set->eval ? state->tokens.count - train : train;
    return yk__windows_cut(set, spec, options, err);
}

static void close_tokens(void *opened)
{
    struct running_tokens *state = opened;
    yk__tokens_close(&state->tokens);
    yk__free(state);
}

static const char *const keys[] = {"dtype", "vocab", "seq-len", "stride", "split", NULL};
const yk__dataset_kind yk__kind_tokens = {.name = "tokens",
                                          .keys = keys,
                                          .open = open_tokens,
                                          .close = close_tokens,
                                          .width = yk__windows_width,
                                          .fill = yk__windows_fill,
                                          .where = yk__windows_where,
                                          .hash = yk__windows_hash};
