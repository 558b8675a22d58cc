/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The growing lists of token ids that tokenizers write into; the caller owns a list and frees it by yk__ids_free; one thread per list.
 * Token types (0: first text of a pair, 1: second) have a capacity of their own, as a single text needs none.
 */
#include "core/text/ids.h"

#include <string.h>

#include "core/base/mem.h"

int yk__ids_push(yk__ids *ids, int32_t id)
{
    if (ids->count == ids->id_cap && yk__grow(&ids->id, &ids->id_cap, ids->count + 1, sizeof *ids->id))
        return -1;
    ids->id[ids->count++] = id;
    return 0;
}

void yk__ids_free(yk__ids *ids)
{
    yk__free(ids->id);
    yk__free(ids->type);
    memset(ids, 0, sizeof *ids);
}
