/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Environment variables by the table in option.h: reads, checks and lists them. Numbers are read without the locale. All of core asks here,
 * mostly while a job opens, in any thread. A wrong value is an error of yk_open that names the variable and the expectation.
 */
#include "config.h"

#include "core/base/option.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/foreign_variables.h"
#include "core/base/nearest.h"

static const yk__option_row rows[] = {
#define X(id, name, kind, preset, least, most, words, layer, scope, help) \
    {name, YK__OPTION_##kind, preset, least, most, words, layer, YK__OPTION_##scope, help},
    YK_OPTION_TABLE(X)
#undef X
};

const yk__option_row *yk__option_row_of(yk__option option)
{
    return &rows[option];
}

const char *yk__environment_path(const char *name)
{
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

bool yk__option_is_service_link(const char *name, const char *value)
{
    static const char *const scheme[] = {"tcp://", "udp://", "sctp://"};
    for (size_t i = 0; i < sizeof scheme / sizeof *scheme; i++)
        if (!strncmp(value, scheme[i], strlen(scheme[i])))
            return !strcmp(name, rows[YK__OPTION_PORT].name);
    return false;
}

const char *yk__option_text(yk__option option)
{
    const char *value;
    if (rows[option].kind == YK__OPTION_PATH)
        return yk__environment_path(rows[option].name);
    value = getenv(rows[option].name);
    return value && *value && !yk__option_is_service_link(rows[option].name, value) ? value : NULL;
}

/* ---- Numbers ---- */

/* Reads decimal digits; returns their end, NULL if absent or too many. */
static const char *digits_read(const char *s, uint64_t *value)
{
    const char *begin = s;
    for (*value = 0; isdigit((unsigned char)*s); s++) {
        if (*value > (UINT64_MAX - 9) / 10)
            return NULL;
        *value = *value * 10 + (uint64_t)(*s - '0');
    }
    return s > begin ? s : NULL;
}

/* Reads "1.5G" up to a comma or the end; returns the end, NULL if malformed. */
static const char *size_read(const char *s, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    uint64_t whole;
    double part = 0.0, unit = 1.0;
    const char *letter;
    s = digits_read(s, &whole);
    if (s && *s == '.')
        for (double place = 0.1; isdigit((unsigned char)*++s); place /= 10)
            part += place * (*s - '0');
    letter = s && *s ? strchr(units, *s) : NULL;
    if (letter) {
        unit = (double)(1ull << 10 * (letter - units + 1));
        s++;
    }
    if (!s || (*s && *s != ',') || ((double)whole + part) * unit >= 9e18)
        return NULL;
    *bytes = letter ? whole * (uint64_t)unit + (uint64_t)(part * unit) : whole;
    return s;
}

static bool number_read(const yk__option_row *row, const char *s, uint64_t *value)
{
    s = row->kind == YK__OPTION_COUNT ? digits_read(s, value) : size_read(s, value);
    return s && !*s && *value >= row->least && *value <= row->most;
}

uint64_t yk__option_number(yk__option option)
{
    const char *s = yk__option_text(option);
    uint64_t value = 0;
    if (!s || !number_read(&rows[option], s, &value))
        number_read(&rows[option], rows[option].preset, &value);
    return value;
}

uint64_t yk__option_size_of(yk__option option, uint32_t rank)
{
    const char *s = yk__option_text(option);
    uint64_t value = 0;
    for (uint32_t r = 0; s && r <= rank; r++) {
        s = size_read(s, &value);
        if (!s || !*s)
            break;
        s++;
    }
    return value;
}

static bool sizes_right(const yk__option_row *row, const char *s)
{
    uint64_t value;
    do {
        s = size_read(s, &value);
        if (!s || value < row->least || value > row->most)
            return false;
    } while (*s++ == ',');
    return true;
}

/* ---- Words ---- */

/* Index of the word of n bytes in "error, warn"; -1 if absent. */
static int word_number(const char *words, const char *s, size_t n)
{
    for (int i = 0; *words; i++) {
        const size_t len = strcspn(words, ",");
        if (len == n && !strncmp(words, s, n))
            return i;
        words += len;
        words += strspn(words, ", ");
    }
    return -1;
}

uint32_t yk__option_words(yk__option option)
{
    const yk__option_row *row = &rows[option];
    const char *s = yk__option_text(option);
    uint32_t mask = 0;
    if (row->kind == YK__OPTION_WORD) {
        const int i = s ? word_number(row->words, s, strlen(s)) : -1;
        return (uint32_t)(i >= 0 ? i : word_number(row->words, row->preset, strlen(row->preset)));
    }
    while (s && *(s += strspn(s, ", "))) {
        const size_t n = strcspn(s, ", ");
        const int i = word_number(row->words, s, n);
        mask |= i >= 0 ? 1u << i : 0;
        s += n;
    }
    return mask;
}

static yk_status word_refuse(const yk__option_row *row, const char *all, const char *word, yk_error *err)
{
    const char *list[8], *near;
    char copy[128];
    uint32_t n = 0;
    snprintf(copy, sizeof copy, "%s", row->words);
    for (char *rest = copy, *one; n < 8 && (one = strtok_r(rest, ", ", &rest));)
        list[n++] = one;
    near = yk__nearest_word(word, list, n);
    return yk__fail(err, YK_E_ARG, "%s=%s: expected %s%s, not \"%s\"%s%s%s", row->name, all, n > 1 ? "one of " : "", row->words, word,
                    near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

static yk_status words_check(const yk__option_row *row, const char *value, yk_error *err)
{
    char word[64];
    const char *s = value;
    if (row->kind == YK__OPTION_WORD)
        return word_number(row->words, s, strlen(s)) < 0 ? word_refuse(row, value, value, err) : YK_OK;
    while (*(s += strspn(s, ", "))) {
        const size_t n = strcspn(s, ", ");
        snprintf(word, sizeof word, "%.*s", (int)(n < 63 ? n : 63), s);
        if (word_number(row->words, s, n) < 0)
            return word_refuse(row, value, word, err);
        s += n;
    }
    return YK_OK;
}

const char *yk__option_devices(void)
{
    const char *spec = yk__option_text(YK__OPTION_DEVICES);
    const bool cpu = yk__option_words(YK__OPTION_ACCELERATE_CPU) % 2 == 1; /* the words of its row stand in pairs: no, yes */
    return spec || !cpu ? spec : YK_HOST_PLUGIN;
}

/* ---- Checking ---- */

yk_status yk__option_check(yk__option option, yk_error *err)
{
    const yk__option_row *row = &rows[option];
    const char *s = yk__option_text(option);
    uint64_t value;
    if (!s || row->kind == YK__OPTION_TEXT || row->kind == YK__OPTION_PATH)
        return YK_OK;
    if (row->words)
        return words_check(row, s, err);
    if (row->kind == YK__OPTION_SIZES ? sizes_right(row, s) : number_read(row, s, &value))
        return YK_OK;
    if (row->kind == YK__OPTION_COUNT)
        return yk__fail(err, YK_E_ARG, "%s=%s: expected a whole number from %llu to %llu", row->name, s,
                        (unsigned long long)row->least, (unsigned long long)row->most);
    return yk__fail(err, YK_E_ARG, "%s=%s: expected bytes, at least %llu, as 500K, 16M or 1.5G%s", row->name, s,
                    (unsigned long long)row->least,
                    row->kind == YK__OPTION_SIZES ? ", or one such number for each rank with commas between" : "");
}

yk_status yk__options_check(yk_error *err)
{
    for (yk__option i = 0; i < YK__OPTION_N; i++)
        if (yk__option_check(i, err))
            return err->status;
    return yk__foreign_check(err);
}
