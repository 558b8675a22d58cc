/* SPDX-License-Identifier: Apache-2.0 */
/* Predictions: a line for each row of evaluation data, in the data's order for any number of ranks. */
#ifndef YOKE_TOOLS_EVAL_PREDICT_H
#define YOKE_TOOLS_EVAL_PREDICT_H

#include <yoke/yoke.h>

#include <stdbool.h>

/* Fails the job if the data are a language model's, which have no classes; true if the job is good. */
bool predict_check(yk_job *job, const yk_data *data);

/* Every rank calls it; rank 0 writes to the file `path`, or to standard output if it is NULL. `option` precedes the path in errors. A
 * regular file, or a link's, keeps its content until all rows are written (PATH.yoke-tmp, then a rename), and a failed job leaves it as it
 * was. A line is the row (yk_data_line), the label and its score, between tabs; or with `json`
 * {"row": 2, "label": "cat", "score": 0.9, "scores": [0.9, 0.1]}. Scores are a softmax's. Labels are the data's class names, or numbers
 * without names. A regression's line is the row and the number, or {"row": 2, "number": 0.9}. */
void predict_write(yk_job *job, yk_model *m, yk_data *data, const char *path, const char *option, bool json);

#endif
