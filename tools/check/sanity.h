/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `yoke test`: see sanity.c. */
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

#endif
