/* SPDX-License-Identifier: Apache-2.0 */
/* The output of `yoke plan`: a row for each candidate, the bound of each rank, the option line; or one JSON object. */
#ifndef YOKE_TOOLS_PLAN_TABLE_H
#define YOKE_TOOLS_PLAN_TABLE_H

#include "tools/plan/search.h"

void table_print(const search *s);
void table_print_json(const search *s);
/* "1.5 GiB", in buf. */
const char *table_bytes_text(double bytes, char *buf, size_t n);

#endif
