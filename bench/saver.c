/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times the checkpoint of a training of GPT-2 (124 million parameters, AdamW), from the end of a step on: usage: saver FOLDER TIMES
 * Prints one JSON object a save: seconds, bytes. FOLDER/checkpoint is made and replaced; whoever calls it removes it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yoke/yoke.h>

#include "core/base/clock.h"

enum { ROWS = 1, WIDTH = 16 };

/* The parameters of `yoke train --model gpt2`, by the shapes of its embedding and of a row of its blocks; the step costs little. */
