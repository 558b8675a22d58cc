/* SPDX-License-Identifier: Apache-2.0 */
/* `yoke bench mixed`: two devices alone and together, in turn, as processes of their own. */
#ifndef YOKE_TOOLS_BENCH_MIXED_H
#define YOKE_TOOLS_BENCH_MIXED_H

#include "tools/cli.h"

/* args: the whole command line with the program's path first. Returns the exit code. */
int bench_mixed(const yk__cli *cli, char *const *args);

#endif
