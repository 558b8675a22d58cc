/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled kernels, for tests that compile at run time: kept in the folder YOKE_TEST_COMPILED, if set, for other processes and builds,
 * as none is instrumented. The key covers every input of the code.
 */
#ifndef YOKE_TESTS_SUPPORT_COMPILED_H
#define YOKE_TESTS_SUPPORT_COMPILED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COMPILED_PATH = 4096 };
#define COMPILED_SEED 14695981039346656037ull

/* FNV-1a (Fowler, Noll, Vo), the text's end with it. */
static inline uint64_t compiled_key(uint64_t key, const char *text)
{
    do
        key = (key ^ (unsigned char)*text) * 1099511628211ull;
    while (*text++);
    return key;
}

/* Path of the library with this key; false if none is kept. */
static inline bool compiled_path(uint64_t key, char path[COMPILED_PATH])
{
    const char *folder = getenv("YOKE_TEST_COMPILED");
    if (!folder || !*folder)
        return false;
    mkdir(folder, 0777); /* it may be there */
    return snprintf(path, COMPILED_PATH, "%s/%016llx.so", folder, (unsigned long long)key) < COMPILED_PATH;
}

/* A copy of the file, whole or not at all. */
static inline bool compiled_keep(const char *file, const char *path)
{
    char command[3 * COMPILED_PATH];
    const int me = (int)getpid();
    const int n = snprintf(command, sizeof command, "cp '%s' '%s.%d' && mv '%s.%d' '%s'", file, path, me, path, me, path);
    return n < (int)sizeof command && system(command) == 0;
}

#endif
