/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `yoke test`: see sanity.c and sanity_ranks.c. */
#ifndef YOKE_TOOLS_CHECK_SANITY_H
#define YOKE_TOOLS_CHECK_SANITY_H

#ifndef YK_NO_HERE
#define YK_NO_HERE
#endif
#include <yoke/yoke.h>

typedef struct sanity {
    const char *devices;
    bool speak; /* rank 0 */
    uint32_t world;
    unsigned passed, failed;
} sanity;

void sanity_run(sanity *s);
/* Counts a check, and prints it on rank 0. */
void sanity_report(sanity *s, bool ok, const char *name, const char *text);
/* What ranks do together beside the training; a check holds where it does on every rank. */
void sanity_ranks(sanity *s, yk_job *job);

#endif
