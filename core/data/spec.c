/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a data spec, "KIND:PATH,key=value", from one copy of the text, cut in place. dataset.c and the kinds ask for keys while a set is
 * opened, in the step thread. Each error names kind, path, key and the expected value.
 */
#include "core/data/spec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/nearest.h"
#include "core/base/number.h"
#include "core/read/row_layouts.h"

static yk_status spec_split(yk__spec *spec, yk_error *err)
{
    char *p = strchr(spec->text, ':');
    if (!p || p == spec->text || !p[1] || p[1] == ',')
        return yk__fail(err, YK_E_ARG, "data '%.100s': expected KIND:PATH[,key=value...], as in idx:DIR or csv:FILE",
                        spec->text);
    *p++ = 0;
    spec->kind = spec->text;
    spec->path = p;
    while ((p = strchr(p, ','))) {
        char *eq;
        *p++ = 0;
        eq = strchr(p, '=');
        if (!eq || eq == p || (strchr(p, ',') && strchr(p, ',') < eq))
            return yk__fail(err, YK_E_ARG, "data '%s:%.100s': '%.60s': expected key=value", spec->kind, spec->path, p);
        if (spec->count == YK__SPEC_KEYS)
            return yk__fail(err, YK_E_ARG, "data '%s:%.100s': expected at most %d keys, got more: remove some", spec->kind, spec->path,
                            YK__SPEC_KEYS);
        *eq = 0;
        if (yk__spec_get(spec, p))
            return yk__fail(err, YK_E_ARG, "data '%s:%.100s': key '%.60s': expected it once, got it twice: remove one", spec->kind,
                            spec->path, p);
        spec->key[spec->count] = p;
        spec->value[spec->count++] = eq + 1;
        p = eq + 1;
    }
    return YK_OK;
}

yk_status yk__spec_parse(const char *text, yk__spec *out, yk_error *err)
{
    yk__spec spec = {.text = yk__strdup(text)};
    yk_status st = spec.text ? spec_split(&spec, err) : yk__fail_mem(err, strlen(text), "a data spec");
    if (st)
        yk__free(spec.text);
    else
        *out = spec;
    return st;
}

void yk__spec_free(yk__spec *spec)
{
    yk__free(spec->text);
    memset(spec, 0, sizeof *spec);
}

const char *yk__spec_get(const yk__spec *spec, const char *key)
{
    for (int i = 0; i < spec->count; i++)
        if (!strcmp(spec->key[i], key))
            return spec->value[i];
    return NULL;
}

static yk_status word_unknown(const yk__spec *spec, const char *what, const char *word, const char *const *list,
                              int count, yk_error *err)
{
    const char *near = yk__nearest_word(word, list, (size_t)count);
    char all[300] = "";
    size_t n = 0;
    for (int i = 0; i < count && n < sizeof all - 40; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", list[i]);
    return yk__fail(err, YK_E_ARG, "data '%s:%.100s': unknown %s '%.60s'%s%s%s (there are: %s)", spec->kind, spec->path,
                    what, word, near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "", all);
}

/* True for the keys of a kind whose rows have a column of text. */
static bool takes_text(const char *const *keys, int count)
{
    for (int k = 0; k < count; k++)
        if (!strcmp(keys[k], "text"))
            return true;
    return false;
}

yk_status yk__spec_check(const yk__spec *spec, const char *const *keys, int count, yk_error *err)
{
    for (int i = 0; i < spec->count; i++) {
        int k = 0;
        while (k < count && strcmp(keys[k], spec->key[i]))
            k++;
        if (k == count && takes_text(keys, count) && yk__row_pair_advice(spec->key[i]))
            return yk__fail(err, YK_E_ARG, "data '%s:%.100s': unknown key '%.60s': %s", spec->kind, spec->path, spec->key[i],
                            yk__row_pair_advice(spec->key[i]));
        if (k == count)
            return word_unknown(spec, "key", spec->key[i], keys, count, err);
    }
    return YK_OK;
}

yk_status yk__spec_int(const yk__spec *spec, const char *key, int64_t preset, int64_t least, int64_t most, int64_t *out,
                       yk_error *err)
{
    const char *v = yk__spec_get(spec, key);
    char *end;
    long long x;
    *out = preset;
    if (!v)
        return YK_OK;
    errno = 0;
    x = strtoll(v, &end, 10);
    if (errno || end == v || *end || x < least || x > most)
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': %s=%.40s: expected an integer from %" PRId64 " to %" PRId64,
                        spec->kind, spec->path, key, v, least, most);
    *out = x;
    return YK_OK;
}

yk_status yk__spec_reals(const yk__spec *spec, const char *key, const double *preset, int count, double *out,
                         yk_error *err)
{
    const char *v = yk__spec_get(spec, key), *p = v;
    int n = 0;
    if (v) {
        do {
            char *end;
            out[n++] = yk__number_read(p, &end);
            if (end == p || (*end && *end != '+') || (*end && n == count) || !(out[n - 1] - out[n - 1] == 0))
                return yk__fail(err, YK_E_ARG, "data '%s:%.100s': %s=%.40s: expected %d numbers joined by '+'",
                                spec->kind, spec->path, key, v, count);
            p = *end ? end + 1 : NULL;
        } while (p);
        if (n != 1 && n != count)
            return yk__fail(err, YK_E_ARG, "data '%s:%.100s': %s=%.40s: expected 1 or %d numbers, found %d", spec->kind,
                            spec->path, key, v, count, n);
    }
    for (int i = 0; i < count; i++)
        out[i] = !v ? preset[i] : n == 1 ? out[0] : out[i];
    return YK_OK;
}

yk_status yk__spec_real(const yk__spec *spec, const char *key, double preset, double least, double most, double *out,
                        yk_error *err)
{
    yk_status st = yk__spec_reals(spec, key, &preset, 1, out, err);
    if (!st && (*out < least || *out > most))
        return yk__fail(err, YK_E_ARG, "data '%s:%.100s': %s=%g: expected %g to %g", spec->kind, spec->path, key, *out,
                        least, most);
    return st;
}

yk_status yk__spec_word(const yk__spec *spec, const char *key, const char *const *words, int count, int preset,
                        int *out, yk_error *err)
{
    const char *v = yk__spec_get(spec, key);
    *out = preset;
    if (!v)
        return YK_OK;
    for (int i = 0; i < count; i++)
        if (!strcmp(words[i], v)) {
            *out = i;
            return YK_OK;
        }
    return word_unknown(spec, key, v, words, count, err);
}
