/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed shares: rows by parts that the user gave ("equal", "3:1:2"), instead of parts by measured speed ("speed").
 *
 * With n rows, rank r is due n part[r] / (sum of all parts). Each rank gets the whole rows of that. The remaining rows go one each to the
 * ranks with the largest remainders (Hamilton's method). The lower rank goes first at equal remainders. Pure; any thread.
 */
#ifndef YOKE_CORE_BALANCE_FIXED_H
#define YOKE_CORE_BALANCE_FIXED_H

#include "core/group/group.h"

#define YK__FIXED_TEXT (8 * YK__RANKS) /* characters that the text of any shares fits */
#define YK__PART_MOST 1000000u /* n part[r] of INT32_MAX rows and YK__RANKS ranks fits 64 bits */

typedef struct yk__fixed {
    bool is_given; /* the user chose; "speed" too */
    bool is_fixed; /* by part[], not by speed */
    bool is_even;  /* all parts are equal */
    uint32_t ranks;
    uint32_t part[YK__RANKS];
} yk__fixed;

/* text: "equal", "speed", or a part for each rank, "3:1:2", of 1 to YK__PART_MOST; NULL for speed without a choice. source: the
 * setting's name, for messages. YK_E_ARG: the text is none of these, or names another number of ranks. */
yk_status yk__fixed_read(const char *text, const char *source, uint32_t ranks, yk__fixed *fixed, yk_error *err);
/* rows[r], for each rank, of n rows, at most INT32_MAX. Only for fixed shares. */
void yk__fixed_rows(const yk__fixed *fixed, uint64_t n, uint64_t *rows);
/* "equal", "speed" or the parts, whole in YK__FIXED_TEXT characters, else cut; buf. */
const char *yk__fixed_text(const yk__fixed *fixed, char *buf, size_t size);

#endif
