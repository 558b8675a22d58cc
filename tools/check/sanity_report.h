/* SPDX-License-Identifier: Apache-2.0 */
/* Counts and prints the checks of `yoke test`. */
#ifndef YOKE_TOOLS_CHECK_SANITY_REPORT_H
#define YOKE_TOOLS_CHECK_SANITY_REPORT_H

#include <yoke/yoke.h>

typedef struct sanity {
    const char *devices;
    bool speak; /* rank 0 */
    uint32_t world;
    unsigned passed, failed, unsupported;
} sanity;

/* Counts a check, and prints it on rank 0. */
void sanity_report(sanity *s, bool ok, const char *name, const char *text);

#endif
