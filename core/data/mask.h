/* SPDX-License-Identifier: Apache-2.0 */
/* Masked tokens for a masked language model: which of a row are hidden, and what stands in their place. Immutable; any thread. */
#ifndef YOKE_CORE_DATA_MASK_H
#define YOKE_CORE_DATA_MASK_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/text/tokenizer.h"

typedef struct yk__mask yk__mask;

/* probability: of a token that may be chosen, above 0 and below 1. The tokenizer must have a mask token; it is not kept. */
yk_status yk__mask_new(const yk__tokenizer *tokenizer, double probability, yk__mask **out, yk_error *err);
void yk__mask_free(yk__mask *mask); /* takes NULL */

/* The first n tokens of a row (those that are no padding): labels[k] becomes what ids[k] was where it is chosen, else -100, and ids[k]
 * what the model sees. Follows from the arguments alone. */
void yk__mask_row(const yk__mask *mask, uint64_t seed, uint64_t epoch, int64_t row, int64_t n, int32_t *ids, int32_t *labels);

#endif
