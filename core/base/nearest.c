/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nearest word to a mistyped one, for errors that ask "did you mean". Readers of options, specs and names call it, in any thread; NULL
 * if none is near. Edit distance by the usual table, of which one row is kept (Wagner and Fischer, "The string-to-string correction
 * problem", 1974).
 */
#include "core/base/nearest.h"

#include <string.h>

size_t yk__word_distance(const char *a, const char *b)
{
    size_t row[64], na = strnlen(a, 63), nb = strnlen(b, 63);
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t swap = corner + (a[i - 1] != b[j - 1]), least = row[j] + 1;
            corner = row[j];
            least = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
            row[j] = swap < least ? swap : least;
        }
    }
    return row[nb];
}

const char *yk__nearest_word(const char *s, const char *const *words, size_t n)
{
    const char *best = NULL;
    size_t best_d = strlen(s) / 3 + 2;
    for (size_t i = 0; i < n; i++) {
        size_t d = yk__word_distance(s, words[i]);
        if (d < best_d) {
            best_d = d;
            best = words[i];
        }
    }
    return best;
}
