/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": the word of a list that is nearest to s by edit distance; NULL if none is near (distance above
 * 1 + length/3). Thread-safe. */
#ifndef YOKE_CORE_BASE_NEAREST_H
#define YOKE_CORE_BASE_NEAREST_H

#include <stddef.h>

/* Levenshtein distance, with strings cut at 63 bytes. */
size_t yk__word_distance(const char *a, const char *b);
const char *yk__nearest_word(const char *s, const char *const *words, size_t n);

#endif
