/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration structs of programs that were compiled with an older or newer yoke.h. Such a struct comes with its size. Missing members
 * are zero. A set member that this library does not know is an error (decision 0079).
 *
 * Public calls with a struct begin with yk__config_read or yk__config_take, in the caller's thread. yk_memory_get ends with
 * yk__config_give. The result is the caller's struct or *whole, never a new allocation.
 */
#include "core/job/config_size.h"

#include <string.h>

#define SIZE_MOST 65536u /* a larger size is a number of something else, and the bytes behind the struct are not there */

/* The first of the n bytes that is not 0; n if all are 0. */
static size_t first_set(const unsigned char *byte, size_t n)
{
    size_t i = 0;
    while (i < n && byte[i] == 0)
        i++;
    return i;
}

const void *yk__config_read(const char *call, const void *given, size_t size, void *whole, size_t own, yk_error *err)
{
    if (given && size == own)
        return given;
    memset(whole, 0, own);
    if (!given)
        return whole;
    /* sizeof the pointer in place of the struct is a slip that would drop all settings but the first */
    if (size <= sizeof(void *) || size > SIZE_MOST) {
        yk__fail(err, YK_E_ARG, "%s: expected the size of its struct as the last argument, %zu bytes in this library, got %zu: pass sizeof "
                                "the struct", call, own, size);
        return NULL;
    }
    memcpy(whole, given, size < own ? size : own);
    if (size <= own)
        return whole;
    const size_t at = own + first_set((const unsigned char *)given + own, size - own);
    if (at == size)
        return whole;
    yk__fail(err, YK_E_ARG, "%s: expected zeros behind the %zu bytes that this library knows of its struct, got a member set at byte %zu "
                            "of %zu: leave it out, or use a newer library", call, own, at, size);
    return NULL;
}

const void *yk__config_take(yk_job *job, const char *call, const void *given, size_t size, void *whole, size_t own)
{
    yk_error err = YK_ERROR_INIT;
    const void *read = yk__config_read(call, given, size, whole, own, &err);
    if (!read && job)
        yk__job_fail(job, &err);
    return read;
}

void yk__config_give(void *to, size_t size, const void *whole, size_t own)
{
    memcpy(to, whole, size < own ? size : own);
}
