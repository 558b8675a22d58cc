/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a text and a label are what csv: and jsonl: read. Other trainers' rows are known by their keys, so that an error says what they
 * are and what to do with them. */
#ifndef YOKE_CORE_READ_ROW_LAYOUTS_H
#define YOKE_CORE_READ_ROW_LAYOUTS_H

#include <stdbool.h>
#include <stddef.h>

/* The nature of a row of `keys` keys without the wanted one, and the remedy: the end of a message, from ": " on. `has` tells whether the
 * row has a key; name: the wanted one. */
const char *yk__row_layout_advice(bool (*has)(const void *row, const char *key), const void *row, size_t keys, const char *name);
/* The remedy for a key by which a data spec asks for the second text of a row; NULL for another key. */
const char *yk__row_pair_advice(const char *key);

#endif
