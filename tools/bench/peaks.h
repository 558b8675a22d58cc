/* SPDX-License-Identifier: Apache-2.0 */
/* `yoke bench peaks`: the peak rates of this machine's cores and memory, on one thread and on all. */
#ifndef YOKE_TOOLS_BENCH_PEAKS_H
#define YOKE_TOOLS_BENCH_PEAKS_H

#include "tools/cli.h"

/* Returns the exit code. */
int bench_peaks(const yk__cli *cli);

#endif
