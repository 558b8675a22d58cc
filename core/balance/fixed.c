/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed parts, of rows by `--shares 3:1:2` and of slices by --shard-parts: reads the text, and counts each rank's rows of a batch (fixed.h
 * has the rounding).
 *
 * core/job/team calls it, in the thread of the user's program: share_fixed.c when a job opens, share_rows.c for each batch. Pure: each rank
 * counts all ranks' rows alike, without messages.
 */
#include "core/balance/fixed.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/word.h"

static yk_status fixed_refuse(const char *text, const char *source, const char *of, uint32_t ranks, yk_error *err)
{
    return yk__fail(err, YK_E_ARG, "%s is \"%.80s\": expected equal, speed, or a number for each of the %u ranks, its part of the %s, as "
                    "3:1:2", source, text, ranks, of);
}

/* Reads the part that begins at *text, and moves *text behind it; false if it is no number up to YK__PART_MOST. */
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

static yk_status read_parts(const char *text, const char *source, const char *of, uint32_t ranks, yk__fixed *fixed, yk_error *err)
{
    const char *at = text;
    uint32_t n = 0;
    for (;; at++) {
        uint64_t part;
        if (!read_part(&at, &part))
            return fixed_refuse(text, source, of, ranks, err);
        if (!part)
            return yk__fail(err, YK_E_ARG, "%s is \"%.80s\": rank %u would have no %s: expected parts from 1 to %u; leave its device out "
                            "instead", source, text, n, of, YK__PART_MOST);
        if (n < ranks)
            fixed->part[n] = (uint32_t)part;
        n++;
        if (!*at)
            break;
    }
    return n == ranks ? YK_OK : yk__fail(err, YK_E_ARG, "%s is \"%.80s\", %u part%s, for %u rank%s: expected one for each, as 3:1:2, or "
                                         "equal", source, text, n, n == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s");
}

/* Parts and their text, in one block. Each part has at most 7 digits. */
static yk_status fixed_new(yk__fixed *fixed, uint32_t ranks, yk_error *err)
{
    const size_t of_rank = sizeof *fixed->part + sizeof "1000000:";
    *fixed = (yk__fixed){.ranks = ranks, .is_even = true, .part = yk__calloc(ranks, of_rank)};
    if (!fixed->part)
        return yk__fail_mem(err, ranks * of_rank, "the shares");
    fixed->text = (char *)(fixed->part + ranks);
    for (uint32_t r = 0; r < ranks; r++)
        fixed->part[r] = 1;
    return YK_OK;
}

static void write_text(yk__fixed *fixed)
{
    char *at = fixed->text;
    if (!fixed->is_fixed || fixed->is_even) {
        memcpy(at, fixed->is_fixed ? "equal" : "speed", sizeof "equal");
        return;
    }
    for (uint32_t r = 0; r < fixed->ranks; r++)
        at += sprintf(at, "%s%u", r ? ":" : "", fixed->part[r]);
}

yk_status yk__fixed_read(const char *text, const char *source, const char *of, uint32_t ranks, yk__fixed *fixed, yk_error *err)
{
    if (fixed_new(fixed, ranks, err))
        return err->status;
    fixed->is_given = text != NULL;
    fixed->is_fixed = fixed->is_given && yk__word_find("speed", text, strlen(text));
    if (fixed->is_fixed && yk__word_find("equal", text, strlen(text)) && read_parts(text, source, of, ranks, fixed, err)) {
        yk__fixed_free(fixed);
        return err->status;
    }
    for (uint32_t r = 1; r < ranks; r++)
        fixed->is_even = fixed->is_even && fixed->part[r] == fixed->part[0];
    write_text(fixed);
    return YK_OK;
}

void yk__fixed_free(yk__fixed *fixed)
{
    yk__free(fixed->part);
    *fixed = (yk__fixed){0};
}

/* ---- Rows ---- */

/* The ranks that get one of the rows left over: each with a remainder above `above`, and the first `ties` ranks at it. */
typedef struct leftover {
    uint64_t all; /* sum of the parts */
    uint64_t above, ties;
} leftover;

static uint64_t ranks_above(const yk__fixed *fixed, uint64_t n, uint64_t all, uint64_t remainder)
{
    uint64_t ranks = 0;
    for (uint32_t r = 0; r < fixed->ranks; r++)
        ranks += n * fixed->part[r] % all > remainder;
    return ranks;
}

/* Bisection for the least remainder that has no more ranks above it than rows are left over. */
static leftover rows_left(const yk__fixed *fixed, uint64_t n)
{
    leftover left = {0, 0, n};
    uint64_t low = 0, high;
    for (uint32_t r = 0; r < fixed->ranks; r++)
        left.all += fixed->part[r];
    for (uint32_t r = 0; r < fixed->ranks; r++)
        left.ties -= n * fixed->part[r] / left.all;
    for (high = left.all; low < high;) {
        const uint64_t middle = low + (high - low) / 2;
        if (ranks_above(fixed, n, left.all, middle) <= left.ties)
            high = middle;
        else
            low = middle + 1;
    }
    left.above = low;
    left.ties -= ranks_above(fixed, n, left.all, low);
    return left;
}

/* The rows of a rank; calls for the ranks in order. */
static uint64_t rows_of(const yk__fixed *fixed, uint64_t n, uint32_t rank, leftover *left)
{
    const uint64_t remainder = n * fixed->part[rank] % left->all, whole = n * fixed->part[rank] / left->all;
    if (remainder != left->above || !left->ties)
        return whole + (remainder > left->above);
    left->ties--;
    return whole + 1;
}

void yk__fixed_count(const yk__fixed *fixed, uint64_t n, uint64_t *total)
{
    leftover left = rows_left(fixed, n);
    for (uint32_t r = 0; r < fixed->ranks; r++)
        total[r] += rows_of(fixed, n, r, &left);
}

void yk__fixed_part(const yk__fixed *fixed, uint64_t n, uint32_t rank, uint64_t *first, uint64_t *count)
{
    leftover left = rows_left(fixed, n);
    *first = 0;
    for (uint32_t r = 0; r < rank; r++)
        *first += rows_of(fixed, n, r, &left);
    *count = rows_of(fixed, n, rank, &left);
}
