/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds the calling thread, and threads that it starts later, to the cores of a placement's list, such as "0-3,6". device_open.c calls it
 * before it opens a device on the host's cores. A core that this process may not use is an error.
 */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "core/device/device_internal.h"

yk_status yk__bind_cores(const char *list, yk_error *err)
{
    int core[CPU_SETSIZE];
    uint32_t n = yk__cores_parse(list, core, CPU_SETSIZE);
    cpu_set_t set;
    CPU_ZERO(&set);
    if (!n)
        return yk__fail(err, YK_E_ARG, "\"%.64s\" is not a list of cores; expected for example \"0-3,6\"", list);
    for (uint32_t i = 0; i < n; i++) {
        if (core[i] >= CPU_SETSIZE)
            return yk__fail(err, YK_E_ARG, "core %d: cores above %d cannot be bound", core[i], CPU_SETSIZE - 1);
        CPU_SET(core[i], &set);
    }
    if (yk__topology_recorded())
        return YK_OK;
    if (sched_setaffinity(0, sizeof set, &set))
        return yk__fail(err, YK_E_ARG, "binding to cores %.64s: %s (are they usable by this process?)", list,
                        strerror(errno));
    return YK_OK;
}
