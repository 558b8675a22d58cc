/* SPDX-License-Identifier: Apache-2.0 */
/* Results do not take the place of inputs. */
#ifndef YOKE_TOOLS_TRAIN_INPUTS_H
#define YOKE_TOOLS_TRAIN_INPUTS_H

#include "tools/cli.h"

/* Sets *bad after a message if --output, --log or the predictions of --do-predict would replace a file that the command reads: of data,
 * model, tokenizer, checkpoint or settings. In a folder, only files with names of such inputs count; of tokens, every file but a log. */
void inputs_keep(const yk__cli *cli, bool *bad);

#endif
