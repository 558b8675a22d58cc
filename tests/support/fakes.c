/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the fakes; see fakes.h. */
#include "tests/support/fakes.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/plugin_host.h"

#define LIBRARIES 8
#define PATH_BYTES 600

bool fake_cuda_runs(void)
{
    unsetenv("CUDA_VISIBLE_DEVICES"); /* it names real cards */
#ifdef __x86_64__
    return true;
#else
    printf("1..0 # SKIP the fake driver runs kernels on x86-64 only\n");
    return false;
#endif
}

const char *fake_path(const char *name)
{
    static char path[LIBRARIES][PATH_BYTES];
    const char *build = getenv("YOKE_BUILD");
    char wanted[PATH_BYTES];
    int i = 0;
    snprintf(wanted, sizeof wanted, "%s/tests/fakes/.libs/%s.so", build ? build : ".", name);
    while (i < LIBRARIES - 1 && *path[i] && strcmp(path[i], wanted))
        i++;
    memcpy(path[i], wanted, sizeof wanted);
    return path[i];
}

void *fake_library(const char *name, const char *option)
{
    const char *path = fake_path(name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "# %s\n", dlerror());
        abort();
    }
    if (option)
        plugin_host_option(option, path);
    return library;
}

void fake_symbol(void *library, const char *symbol, void *to)
{
    void *found = dlsym(library, symbol);
    if (!found) {
        fprintf(stderr, "# %s: not there\n", symbol);
        abort();
    }
    memcpy(to, &found, sizeof found);
}
