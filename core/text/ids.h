/* SPDX-License-Identifier: Apache-2.0 */
/* A growing list of token ids; empty when zeroed. */
#ifndef YOKE_CORE_TEXT_IDS_H
#define YOKE_CORE_TEXT_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct yk__ids {
    int32_t *id, *type; /* type: 0, or 1 in the second text of a pair */
    size_t count, id_cap, type_cap;
    bool cut; /* the texts had more ids than the length that was asked for */
} yk__ids;
void yk__ids_free(yk__ids *ids);
/* Appends; -1 if memory ran out. */
int yk__ids_push(yk__ids *ids, int32_t id);

#endif
