/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `yoke test`, all of them. */
#ifndef YOKE_TOOLS_CHECK_SANITY_H
#define YOKE_TOOLS_CHECK_SANITY_H

#include "tools/check/sanity_report.h"

void sanity_run(sanity *s);

#endif
