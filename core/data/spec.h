/* SPDX-License-Identifier: Apache-2.0 */
/* "KIND:PATH[,key=value...]": the word that names a data set. A path cannot hold a comma. */
#ifndef YOKE_CORE_DATA_SPEC_H
#define YOKE_CORE_DATA_SPEC_H

#include <stdint.h>

#include "core/base/error.h"

#define YK__SPEC_KEYS 24

typedef struct yk__spec {
    char *text; /* the copy that the other members point into */
    const char *kind, *path;
    int count;
    const char *key[YK__SPEC_KEYS], *value[YK__SPEC_KEYS];
} yk__spec;

yk_status yk__spec_parse(const char *text, yk__spec *out, yk_error *err);
void yk__spec_free(yk__spec *spec);

/* Refuses a key that is not in the list, naming the nearest one. */
yk_status yk__spec_check(const yk__spec *spec, const char *const *keys, int count, yk_error *err);

const char *yk__spec_get(const yk__spec *spec, const char *key); /* NULL if absent */
yk_status yk__spec_int(const yk__spec *spec, const char *key, int64_t preset, int64_t least, int64_t most, int64_t *out,
                       yk_error *err);
yk_status yk__spec_real(const yk__spec *spec, const char *key, double preset, double least, double most, double *out,
                        yk_error *err);
/* Numbers joined by '+': exactly one, or `count` of them. */
yk_status yk__spec_reals(const yk__spec *spec, const char *key, const double *preset, int count, double *out,
                         yk_error *err);
/* *out: index of the value in a list of words. */
yk_status yk__spec_word(const yk__spec *spec, const char *key, const char *const *words, int count, int preset,
                        int *out, yk_error *err);

#endif
