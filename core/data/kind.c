/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that the kinds of data sets share: fields of a batch, the tokenizer and masks. Also the hash that shows if ranks read the same
 * rows. The files kind_*.c, images.c and windows.c call it while a set is opened or hashed, in the step thread.
 */
#include "core/data/kind.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/round.h"

void yk__kind_field(yk__dataset *set, const char *name, uint32_t dtype, int rank, const int64_t *shape)
{
    yk__field *f = &set->field[set->n_fields++];
    f->name = name;
    f->dtype = dtype;
    f->rank = rank;
    for (int i = 0; i < rank; i++)
        f->shape[i] = shape[i];
}

yk_status yk__kind_tokenizer(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, const char *text,
                             size_t bytes, yk_error *err)
{
    static const char *const yes_no[] = {"no", "yes"};
    const char *name = yk__spec_get(spec, "tokenizer");
    int lowercase = -1;
    yk_status st = yk__spec_word(spec, "lowercase", yes_no, 2, -1, &lowercase, err);
    if (st)
        return st;
    name = name ? name : options->tokenizer;
    if (!name)
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': needs a tokenizer (tokenizer=DIR, char or bytes), as it is text: models of "
                        "images read idx:DIR or cifar10:DIR", spec->kind, spec->path);
    if (lowercase == 1 && (!strcmp(name, "bytes") || !strcmp(name, "char")))
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': lowercase=yes has no effect with tokenizer=%s", spec->kind, spec->path, name);
    if (!strcmp(name, "bytes")) {
        st = yk__tokenizer_bytes(&set->tokenizer, err);
    } else if (strcmp(name, "char")) {
        st = yk__tokenizer_open(name, lowercase, &set->tokenizer, err);
        set->tokenizer_dir = st ? NULL : yk__strdup(name);
        if (!st && !set->tokenizer_dir)
            st = yk__fail_mem(err, strlen(name), "a path");
    } else if (options->like && options->like->tokenizer &&
               !strcmp(yk__tokenizer_kind(options->like->tokenizer), "char")) {
        set->tokenizer = yk__tokenizer_share(options->like->tokenizer);
    } else {
        st = yk__tokenizer_chars(spec->path, text, bytes, &set->tokenizer, err);
    }
    if (!st)
        set->vocab = yk__tokenizer_vocab(set->tokenizer);
    return st;
}

yk_status yk__kind_hash(yk__kind_read read, const void *user, uint64_t bytes, uint64_t *hash, yk_error *err)
{
    enum { PART = 65536, PARTS = YK__DATASET_HASHED / PART };
    const uint64_t parts = bytes <= YK__DATASET_HASHED ? yk__div_up(bytes, PART) : PARTS;
    /* parts begin at whole multiples of 8 */
    const uint64_t stride = bytes <= YK__DATASET_HASHED ? PART : (bytes - PART) / (PARTS - 1) / 8 * 8;
    uint8_t *part = yk__malloc(PART);
    yk_status st = part ? YK_OK : yk__fail_mem(err, PART, "hashing a data set");
    *hash = yk__hash_u64(*hash, bytes);
    for (uint64_t i = 0; i < parts && !st; i++) {
        const uint64_t at = stride * i;
        const size_t n = bytes - at < PART ? (size_t)(bytes - at) : PART;
        st = read(user, at, part, n, err);
        *hash = st ? 0 : yk__hash_bytes(*hash, part, n);
    }
    yk__free(part);
    return st;
}

yk_status yk__kind_mask(yk__dataset *set, const yk__dataset_options *options, yk_error *err)
{
    yk_status st = options->mask != 0 ? yk__mask_new(set->tokenizer, options->mask, &set->mask, err) : YK_OK;
    return st == YK_E_ARG ? yk__fail_in(err, "data '%s:%.100s'", set->kind->name, set->path) : st;
}
