/* SPDX-License-Identifier: Apache-2.0 */
/* Results do not take the place of inputs. */
#ifndef YOKE_TOOLS_TRAIN_INPUTS_H
#define YOKE_TOOLS_TRAIN_INPUTS_H

#include "tools/cli.h"

/* Sets *bad after a message if --output or --log names a file that the command reads: of data, model, tokenizer or checkpoint.
 * In a folder, only files with names of such inputs count. */
void inputs_keep(const yk__cli *cli, bool *bad);
/* False after a message if a second word of the command line names that file: --deepspeed and its like, which leave no option. words: as
 * typed, a NULL ends them. */
bool inputs_keep_words(const yk__cli *cli, char *const *words);

#endif
