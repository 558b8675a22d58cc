/* SPDX-License-Identifier: Apache-2.0 */
/* Collective work outside the training; a check passes if it does on every rank. */
#ifndef YOKE_TOOLS_CHECK_SANITY_RANKS_H
#define YOKE_TOOLS_CHECK_SANITY_RANKS_H

#include "tools/check/sanity_report.h"

void sanity_ranks(sanity *s, yk_job *job);

#endif
