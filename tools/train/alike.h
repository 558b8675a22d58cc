/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job of a command whose ranks may have been started by unlike command lines. Its options must agree, as ranks that evaluate, save or
 * end at different steps would wait for each other in different calls.
 */
#ifndef YOKE_TOOLS_TRAIN_ALIKE_H
#define YOKE_TOOLS_TRAIN_ALIKE_H

#include <yoke/yoke.h>

#include "tools/cli.h"

/* yk_open, and the comparison of all ranks' options: a difference fails the job by an error that names the option and two values. NULL as
 * of yk_open. Ranks may differ in options of their own, such as --devices and --log; a new option of a command is compared. */
yk_job *train_open(const yk__cli *cli, const yk_config *config);

#endif
