/* SPDX-License-Identifier: Apache-2.0 */
/* Reading fixed shares, and a batch's rows by them; see fixed.h. */
#include "core/balance/fixed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/word.h"

static yk_status fixed_refuse(const char *text, const char *source, uint32_t ranks, yk_error *err)
{
    return yk__fail(err, YK_E_ARG, "%s is \"%.80s\": expected equal, speed, or a number for each of the %u ranks, its part of the rows, as "
                    "3:1:2", source, text, ranks);
}

/* Reads the part that begins at *text, and moves *text behind it; false if it is no number of that range. */
static bool read_part(const char **text, uint64_t *part)
{
    const char *at = *text;
    for (*part = 0; *at >= '0' && *at <= '9' && *part <= YK__PART_MOST; at++)
        *part = *part * 10 + (uint64_t)(*at - '0');
    if (at == *text || *part > YK__PART_MOST || (*at && *at != ':'))
        return false;
    *text = at;
    return true;
}

static yk_status read_parts(const char *text, const char *source, uint32_t ranks, yk__fixed *fixed, yk_error *err)
{
    const char *at = text;
    uint32_t n = 0;
    for (;; at++) {
        uint64_t part;
        if (!read_part(&at, &part))
            return fixed_refuse(text, source, ranks, err);
        if (!part)
            return yk__fail(err, YK_E_ARG, "%s is \"%.80s\": rank %u would have no rows: expected parts from 1 to %u; leave its device out "
                            "instead", source, text, n, YK__PART_MOST);
        if (n < ranks)
            fixed->part[n] = (uint32_t)part;
        n++;
        if (!*at)
            break;
    }
    return n == ranks ? YK_OK : yk__fail(err, YK_E_ARG, "%s is \"%.80s\", %u part%s, for %u rank%s: expected one for each, as 3:1:2, or "
                                         "equal", source, text, n, n == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s");
}

yk_status yk__fixed_read(const char *text, const char *source, uint32_t ranks, yk__fixed *fixed, yk_error *err)
{
    *fixed = (yk__fixed){.is_given = text != NULL, .ranks = ranks, .is_even = true};
    fixed->is_fixed = fixed->is_given && yk__word_find("speed", text, strlen(text));
    for (uint32_t r = 0; r < ranks; r++)
        fixed->part[r] = 1;
    if (!fixed->is_fixed || !yk__word_find("equal", text, strlen(text)))
        return YK_OK;
    if (read_parts(text, source, ranks, fixed, err))
        return err->status;
    for (uint32_t r = 1; r < ranks; r++)
        fixed->is_even = fixed->is_even && fixed->part[r] == fixed->part[0];
    return YK_OK;
}

typedef struct remainder {
    uint64_t left;
    uint32_t rank;
} remainder;

/* The largest remainder first; equal ones by the lower rank. */
static int compare_remainders(const void *a, const void *b)
{
    const remainder *x = a, *y = b;
    if (x->left != y->left)
        return x->left < y->left ? 1 : -1;
    return x->rank < y->rank ? -1 : 1;
}

void yk__fixed_rows(const yk__fixed *fixed, uint64_t n, uint64_t *rows)
{
    remainder rest[YK__RANKS];
    uint64_t all = 0, left = n;
    for (uint32_t r = 0; r < fixed->ranks; r++)
        all += fixed->part[r];
    for (uint32_t r = 0; r < fixed->ranks; r++) {
        rows[r] = n * fixed->part[r] / all;
        rest[r] = (remainder){n * fixed->part[r] % all, r};
        left -= rows[r];
    }
    qsort(rest, fixed->ranks, sizeof *rest, compare_remainders);
    for (uint64_t i = 0; i < left; i++)
        rows[rest[i].rank]++;
}

const char *yk__fixed_text(const yk__fixed *fixed, char *buf, size_t size)
{
    size_t used = 0;
    if (!fixed->is_fixed || fixed->is_even) {
        snprintf(buf, size, "%s", fixed->is_fixed ? "equal" : "speed");
        return buf;
    }
    for (uint32_t r = 0; r < fixed->ranks && used + 16 < size; r++)
        used += (size_t)snprintf(buf + used, size - used, "%s%u", r ? ":" : "", fixed->part[r]);
    return buf;
}
