/* SPDX-License-Identifier: Apache-2.0 */
/* Masked tokens for a masked language model: the hidden tokens of a row, and their replacements. Immutable; any thread. */
#ifndef YOKE_CORE_DATA_MASK_H
#define YOKE_CORE_DATA_MASK_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/text/tokenizer.h"

typedef struct yk__mask yk__mask;

/* probability: for each token that may be chosen, above 0 and below 1. The tokenizer must have a mask token; it is not kept. */
yk_status yk__mask_new(const yk__tokenizer *tokenizer, double probability, yk__mask **out, yk_error *err);
void yk__mask_free(yk__mask *mask); /* takes NULL */

/* Masks the first n tokens of a row (its tokens without padding). For a chosen token labels[k] becomes the old ids[k], and ids[k] the
 * model's input; otherwise labels[k] is -100. The result depends on the arguments alone. */
void yk__mask_row(const yk__mask *mask, uint64_t seed, uint64_t epoch, int64_t row, int64_t n, int32_t *ids, int32_t *labels);

#endif
