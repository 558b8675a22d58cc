/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads environment variables that describe the start of a process, as texts and whole numbers, and lists the missing ones. The files of
 * control/start and core/job/team call it before a job is joined, and cmd_launch.c before ranks start.
 *
 * An empty variable counts as unset, as shells and schedulers set empty ones. A text that is no number gives false, and the caller's error
 * names the variable.
 */
#include "config.h"

#include "core/control/start/variables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/option.h"

const char *yk__variable_text(const char *name)
{
    const char *s = getenv(name);
    return s && *s && !yk__option_is_service_link(name, s) ? s : NULL;
}

bool yk__variable_number(const char *name, unsigned long long *value)
{
    const char *s = yk__variable_text(name);
    char *end;
    if (!s || *s < '0' || *s > '9')
        return false;
    errno = 0;
    *value = strtoull(s, &end, 10);
    return !errno && !*end;
}

void yk__missing_add(yk__missing *missing, const char *name)
{
    const size_t used = strlen(missing->names);
    if (!yk__variable_text(name))
        snprintf(missing->names + used, sizeof missing->names - used, "%s%s", used ? ", " : "", name);
}
