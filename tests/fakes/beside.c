/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver that is loaded lies beside this library. */
#define _GNU_SOURCE
#include "tests/fakes/beside.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fake_driver_symbol(const char *symbol, void *to)
{
    static const char own_place;
    char path[600];
    Dl_info own;
    if (!dladdr(&own_place, &own))
        abort();
    const char *slash = strrchr(own.dli_fname, '/');
    snprintf(path, sizeof path, "%.*s/fake_cuda.so", slash ? (int)(slash - own.dli_fname) : 1, slash ? own.dli_fname : ".");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *found = library ? dlsym(library, symbol) : NULL;
    if (!found)
        abort();
    memcpy(to, &found, sizeof found);
}

unsigned long long fake_number(const char *variable)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : 0;
}
