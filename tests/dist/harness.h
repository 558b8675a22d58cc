/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that launch themselves as the ranks of a job: PROGRAM CASE runs one case as a rank. */
#ifndef YOKE_TESTS_DIST_HARNESS_H
#define YOKE_TESTS_DIST_HARNESS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/device/device.h"
#include "core/group/group.h"

static inline double harness_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static inline void harness_places(yk__placement *place, uint32_t n)
{
    memset(place, 0, n * sizeof *place);
    for (uint32_t r = 0; r < n; r++) {
        strcpy(place[r].plugin, "opencl");
        snprintf(place[r].cores, sizeof place[r].cores, "%u", r);
    }
}

/* Runs this program as n ranks. */
static inline yk_status harness_launch(uint32_t n, const char *what, const char *extra, int *code, yk_error *err)
{
    yk__placement place[16];
    char self[] = "/proc/self/exe", name[64], more[64];
    char *argv[] = {self, name, more, NULL};
    snprintf(name, sizeof name, "%s", what);
    snprintf(more, sizeof more, "%s", extra ? extra : "");
    harness_places(place, n);
    return yk__launch(place, n, argv, NULL, code, err);
}

#endif
