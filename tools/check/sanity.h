/* SPDX-License-Identifier: Apache-2.0 */
/* All checks of `yoke test`. */
#ifndef YOKE_TOOLS_CHECK_SANITY_H
#define YOKE_TOOLS_CHECK_SANITY_H

#include "tools/check/sanity_report.h"

void sanity_run(sanity *s);

#endif
