/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed shares: rows by parts that the user gave ("equal", "3:1:2"), instead of parts by measured speed ("speed").
 *
 * With n rows, rank r is due n part[r] / (sum of all parts). Each rank gets the whole rows of that. The remaining rows go one each to the
 * ranks with the largest remainders (Hamilton's method). The lower rank goes first at equal remainders. The same words fix the parts of
 * slices (yk_config.shard_parts), which core/coll/slices.h cuts. Pure; any thread.
 */
#ifndef YOKE_CORE_BALANCE_FIXED_H
#define YOKE_CORE_BALANCE_FIXED_H

#include "core/group/group.h"

#define YK__PART_MOST 1000000u /* n part[r] of INT32_MAX rows fits 64 bits */

typedef struct yk__fixed {
    bool is_given; /* the user chose; "speed" too */
    bool is_fixed; /* by part[], not by speed */
    bool is_even;  /* all parts are equal */
    uint32_t ranks;
    uint32_t *part; /* by rank */
    char *text;     /* "equal", "speed" or the parts, 3:1:2 */
} yk__fixed;

/* text: "equal", "speed", or a part for each rank, "3:1:2", of 1 to YK__PART_MOST; NULL for speed without a choice. source: the
 * setting's name, of: the parted things ("rows", "slices"), for messages. YK_E_ARG: the text is none of these, or names
 * another number of ranks; nothing is to be freed then. */
yk_status yk__fixed_read(const char *text, const char *source, const char *of, uint32_t ranks, yk__fixed *fixed,
                         yk_error *err);
void yk__fixed_free(yk__fixed *fixed);
/* Only for fixed shares, of n rows, at most INT32_MAX: adds each rank's rows to total[r]; */
void yk__fixed_count(const yk__fixed *fixed, uint64_t n, uint64_t *total);
/* the rows of one rank, and the rows of the ranks before it. */
void yk__fixed_part(const yk__fixed *fixed, uint64_t n, uint32_t rank, uint64_t *first, uint64_t *count);

#endif
