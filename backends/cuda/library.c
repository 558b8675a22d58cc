/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens one of NVIDIA's libraries by the names it may have, fills its functions into a table, and remembers the answer.
 *
 * driver.c, compile.c, cublaslt.c, cudnn.c and nccl.c call it, each for its library at the first need, in any thread. The lock of
 * cuda_once, or of the file itself (driver.c, compile.c), makes a second thread wait for the first one's dlopen. plugin_fini forgets the
 * answers, not the libraries.
 */
#include "backends/cuda/library.h"

#include <dlfcn.h>
#include <string.h>

#include "backends/cuda/cuda_host.h"

/* The name of the first function that is not there, or NULL. */
static const char *symbols_find(void *library, const cuda_symbol *symbol, void *table)
{
    for (; symbol->name; symbol++) {
        void *address = dlsym(library, symbol->name);
        if (!address)
            return symbol->name;
        memcpy((char *)table + symbol->at, &address, sizeof address);
    }
    return NULL;
}

void *cuda_library_open(const char *key, const char *const *names, const cuda_symbol *symbol, void *table, const char **missing)
{
    const char *path = cuda_option(key);
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (; !path && !library && *names; names++)
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    *missing = library ? symbols_find(library, symbol, table) : NULL;
    if (*missing) {
        dlclose(library);
        library = NULL;
    }
    return library;
}

bool cuda_once_found(cuda_once *once, bool (*open)(void))
{
    pthread_mutex_lock(&once->lock);
    if (!once->asked)
        once->found = open();
    once->asked = true;
    const bool found = once->found;
    pthread_mutex_unlock(&once->lock);
    return found;
}

void cuda_once_forget(cuda_once *once)
{
    pthread_mutex_lock(&once->lock);
    once->asked = once->found = false;
    pthread_mutex_unlock(&once->lock);
}
