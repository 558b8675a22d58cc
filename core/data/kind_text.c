/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind text:FILE: running text for a language model, tokenised when it is opened; the ids stay in memory, 4 bytes each. dataset.c calls
 * its functions through a table (kind.h): opening in the step thread, rows in the loader's.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/data/windows.h"
#include "core/io/text.h"

#define LARGE ((size_t)256 << 20) /* bytes of text; a larger one gets a message, as its ids take much memory */

struct running_text {
    yk__windows windows;
    yk__ids ids;
};

static yk_status ids_copy(const yk__windows *windows, int64_t first, int64_t count, int32_t *ids, yk_error *err)
{
    const struct running_text *state = (const void *)windows;
    (void)err;
    memcpy(ids, state->ids.id + first, (size_t)count * sizeof *ids);
    return YK_OK;
}

/* First byte of the part that evaluates: after `split` of the characters. */
static size_t split_at(const yk__tokenizer *tokenizer, const char *text, size_t bytes, double split)
{
    size_t chars = 0, want, at = 0;
    if (!strcmp(yk__tokenizer_kind(tokenizer), "bytes"))
        return (size_t)((double)bytes * split);
    for (size_t i = 0; i < bytes; i++)
        chars += (text[i] & 0xc0) != 0x80;
    want = (size_t)((double)chars * split);
    for (chars = 0; at < bytes; at++) {
        chars += (text[at] & 0xc0) != 0x80;
        if (chars > want)
            break;
    }
    return at;
}

static yk_status encode_text(yk__dataset *set, const char *text, size_t bytes, yk__ids *ids, yk_error *err)
{
    yk__encoder *encoder;
    yk_status st = yk__encoder_new(set->tokenizer, &encoder, err);
    if (st)
        return st;
    st = yk__encoder_encode(encoder, text, bytes, NULL, 0, 0, 0, ids, err);
    set->vocab = yk__encoder_vocab(encoder);
    yk__encoder_free(encoder);
    if (!st && set->mask && ids->count && ids->type[0])
        st = yk__fail(err, YK_E_FORMAT, "the tokenizer's post_processor has type_id 1 for a single text, and running text has segment 0: "
                      "write 0 there");
    yk__free(ids->type); /* they take as much memory as the ids */
    ids->type = NULL;
    return st == YK_E_FORMAT ? yk__fail_in(err, "%s", set->path) : st;
}

/* Encodes this set's part of the text. */
static yk_status encode_part(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, const char *text,
                             size_t bytes, yk_error *err)
{
    struct running_text *state = set->state;
    double split = 0;
    yk_status st = yk__kind_tokenizer(set, spec, options, text, bytes, err);
    if (!st)
        st = yk__kind_mask(set, options, err);
    if (!st)
        st = yk__windows_split(set, spec, options, &split, err);
    if (st)
        return st;
    const size_t at = split_at(set->tokenizer, text, bytes, split);
    st = encode_text(set, set->eval ? text + at : text, set->eval ? bytes - at : at, &state->ids, err);
    state->windows.length = (int64_t)state->ids.count;
    return st;
}

static yk_status open_text(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err)
{
    const char *name = yk__spec_get(spec, "tokenizer") ? yk__spec_get(spec, "tokenizer") : options->tokenizer;
    struct running_text *state = yk__calloc(1, sizeof *state);
    char *text;
    size_t bytes;
    if (!state)
        return yk__fail_mem(err, sizeof *state, "running text");
    set->state = state;
    state->windows.read = ids_copy;
    yk_status st = yk__text_open(spec->path, name && !strcmp(name, "bytes"), &text, &bytes, err);
    if (st)
        return st;
    if (bytes > LARGE && !options->silent)
        yk__log(YK_LOG_WARN, "data",
                "%s: %zu MB of text are tokenised and stay in memory, 4 bytes an id ('yoke tokenize --output FILE' does it once, "
                "and tokens:FILE stays on disk)",
                spec->path, bytes >> 20);
    st = encode_part(set, spec, options, text, bytes, err);
    yk__free(text);
    if (!st)
        st = yk__windows_cut(set, spec, options, err);
    return st;
}

static void close_text(void *opened)
{
    struct running_text *state = opened;
    yk__ids_free(&state->ids);
    yk__free(state);
}

static const char *const keys[] = {"tokenizer", "seq-len", "stride", "split", "lowercase", NULL};
const yk__dataset_kind yk__kind_text = {.eval_split = true, .name = "text",
                                        .keys = keys,
                                        .open = open_text,
                                        .close = close_text,
                                        .width = yk__windows_width,
                                        .fill = yk__windows_fill,
                                        .where = yk__windows_where,
                                        .hash = yk__windows_hash,
                                        .masks = true};
