/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/option.h"

static atomic_int level = -1;
static atomic_int rank = -1;

int yk__log_level(void)
{
    int l = atomic_load(&level);
    if (l < 0) {
        l = (int)yk__option_words(YK__OPTION_LOG); /* its words stand in the order of the levels */
        atomic_store(&level, l);
    }
    return l;
}

void yk__log_set_level(int l)
{
    atomic_store(&level, l);
}

void yk__log_set_rank(int r)
{
    atomic_store(&rank, r);
}

void yk__log(int l, const char *who, const char *fmt, ...)
{
    char line[1200];
    int n, r = atomic_load(&rank);
    va_list ap;
    if (l > yk__log_level())
        return;
    n = r < 0 ? snprintf(line, sizeof line, "yoke: %s: ", who) : snprintf(line, sizeof line, "yoke[%d]: %s: ", r, who);
    if (n < 0 || (size_t)n >= sizeof line - 2)
        return;
    va_start(ap, fmt);
    vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    va_end(ap);
    n = (int)strlen(line);
    line[n] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n + 1) < 0)
        return; /* nobody is left to tell */
}
