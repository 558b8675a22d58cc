/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the golden cases of the folder loader/, for the check of one process (golden_loader.c) and for the check of several ranks
 * (loader_ranks.c).
 */
#include "tools/check/golden/loader_case.h"

int64_t golden_loader_int(json_t *c, const char *key)
{
    return json_integer_value(json_object_get(c, key));
}

bool golden_loader_on(json_t *c, const char *key)
{
    return json_is_true(json_object_get(c, key));
}

int64_t golden_loader_global(json_t *c)
{
    return golden_loader_int(c, "batch") * (golden_loader_on(c, "split") ? 1 : golden_loader_int(c, "ranks"));
}

int64_t golden_loader_kept(json_t *c)
{
    const int64_t n = golden_loader_int(c, "n"), global = golden_loader_global(c);
    return golden_loader_on(c, "drop_last") ? n / global * global : n;
}

bool golden_loader_rows_are(json_t *want, const int64_t *row, int64_t n)
{
    bool same = json_is_array(want) && (int64_t)json_array_size(want) == n;
    for (int64_t i = 0; same && i < n; i++)
        same = json_integer_value(json_array_get(want, (size_t)i)) == row[i];
    return same;
}

bool golden_loader_gathered_ok(json_t *want, int64_t first, int64_t n, const int64_t *row, int64_t got)
{
    bool same = got == n - first && (!json_is_array(want) || (int64_t)json_array_size(want) >= got);
    for (int64_t i = 0; same && i < got; i++)
        same = row[i] == first + i && (!json_is_array(want) || json_integer_value(json_array_get(want, (size_t)i)) == row[i]);
    return same;
}

int64_t golden_loader_batch_rows(json_t *sizes, int64_t number, int64_t *row)
{
    int64_t first = 0;
    for (int64_t i = 0; i < number; i++)
        first += json_integer_value(json_array_get(sizes, (size_t)i));
    const int64_t n = json_integer_value(json_array_get(sizes, (size_t)number));
    for (int64_t k = 0; k < n; k++)
        row[k] = first + k;
    return n;
}

int64_t golden_loader_part(int64_t n, int64_t first, int64_t count, int64_t repeats, int64_t *row)
{
    for (int64_t k = 0; k < count + repeats; k++)
        row[k] = k < count ? first + k : n - 1;
    return count + repeats;
}
