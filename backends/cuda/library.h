/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's libraries, which are opened when they are first needed and not closed again, unless they lack a function: their threads and exit
 * handlers do not survive that. */
#ifndef YOKE_BACKENDS_CUDA_LIBRARY_H
#define YOKE_BACKENDS_CUDA_LIBRARY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* A function's name, and where its pointer goes in the library's table. A list ends with {NULL, 0}. */
typedef struct cuda_symbol {
    const char *name;
    size_t at;
} cuda_symbol;

/* The library that the option `key` names, or else the first of `names` (NULL ends them) that there is; its functions are in *table then.
 * NULL: there is none, for the reason dlerror() gives, or with *missing it lacks that function. */
void *cuda_library_open(const char *key, const char *const *names, const cuda_symbol *symbol, void *table, const char **missing);

/* A library is looked for once, until it is forgotten, as options may name another then. Any thread. */
typedef struct cuda_once {
    pthread_mutex_t lock;
    bool asked, found;
} cuda_once;
#define CUDA_ONCE {.lock = PTHREAD_MUTEX_INITIALIZER}

bool cuda_once_found(cuda_once *once, bool (*open)(void)); /* open is called under the lock */
void cuda_once_forget(cuda_once *once);

#endif
