/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Masked tokens for a masked language model, by the rule of transformers' DataCollatorForLanguageModeling (Devlin et al. 2018, section
 * 3.1). kind.c makes it when a data set opens; dataset.c calls it for each row, in the thread that fills a batch.
 *
 * Each token that is neither special nor padding is chosen by chance. 80 % of the chosen ones become the mask token, 10 % any token, and 10
 * % stay. The chance is Philox's of (seed, epoch, row, place). So a row's batch, its rank, and the place of a resume make no difference.
 */
#include "core/data/mask.h"

#include "core/base/mem.h"
#include "core/base/philox.h"

enum { NOT_CHOSEN = -100 };

struct yk__mask {
    double probability;
    int32_t id, vocab; /* id of the mask token; ids are below vocab */
    uint8_t special[]; /* indexed by id */
};

yk_status yk__mask_new(const yk__tokenizer *tokenizer, double probability, yk__mask **out, yk_error *err)
{
    const int vocab = yk__tokenizer_vocab(tokenizer), id = yk__tokenizer_mask(tokenizer);
    yk__mask *mask;
    if (!(probability > 0 && probability < 1))
        return yk__fail(err, YK_E_ARG, "masking tokens with probability %g: expected more than 0 and less than 1", probability);
    if (id < 0 || id >= vocab)
        return yk__fail(err, YK_E_ARG, "masking tokens: the %s tokenizer has neither [MASK] nor <mask> nor a mask_token in its "
                        "vocabulary: give the folder of one that has", yk__tokenizer_kind(tokenizer));
    mask = yk__calloc(1, sizeof *mask + (size_t)vocab);
    if (!mask)
        return yk__fail_mem(err, (size_t)vocab, "the special tokens");
    *mask = (yk__mask){.probability = probability, .id = id, .vocab = vocab};
    yk__tokenizer_mark_special(tokenizer, mask->special);
    *out = mask;
    return YK_OK;
}

void yk__mask_free(yk__mask *mask)
{
    yk__free(mask);
}

/* 0 to below 1. */
static double uniform_of(uint32_t word)
{
    return (double)word * 0x1p-32;
}

static int32_t replacement_of(const yk__mask *mask, int32_t id, const uint32_t random[4])
{
    const double fate = uniform_of(random[1]);
    return fate < 0.8 ? mask->id : fate < 0.9 ? (int32_t)((uint64_t)random[2] * (uint32_t)mask->vocab >> 32) : id;
}

void yk__mask_row(const yk__mask *mask, uint64_t seed, uint64_t epoch, int64_t row, int64_t n, int32_t *ids, int32_t *labels)
{
    /* the key differs from other uses of the seed */
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32) ^ 0x6d61736bu ^ (uint32_t)(epoch >> 32)};
    for (int64_t k = 0; k < n; k++) {
        const uint32_t counter[4] = {(uint32_t)row, (uint32_t)((uint64_t)row >> 32), (uint32_t)k, (uint32_t)epoch};
        uint32_t random[4];
        labels[k] = NOT_CHOSEN;
        if (ids[k] < 0 || ids[k] >= mask->vocab || mask->special[ids[k]])
            continue;
        yk__philox(counter, key, random);
        if (uniform_of(random[0]) >= mask->probability)
            continue;
        labels[k] = ids[k];
        ids[k] = replacement_of(mask, ids[k], random);
    }
}
