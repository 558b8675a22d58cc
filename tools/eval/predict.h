/* SPDX-License-Identifier: Apache-2.0 */
/* Predictions: a line for each row of evaluation data, in the data's order for any number of ranks. */
#ifndef YOKE_TOOLS_EVAL_PREDICT_H
#define YOKE_TOOLS_EVAL_PREDICT_H

#include <yoke/yoke.h>

#include <stdbool.h>
#include <stdio.h>

/* Every rank calls it; rank 0 writes to f. A line is the row (yk_data_line), the label and its score, between tabs; or with `json`
 * {"row": 2, "label": "cat", "score": 0.9, "scores": [0.9, 0.1]}. Scores are a softmax's. Labels are the data's class names, or numbers
 * without names. A regression's line is the row and the number, or {"row": 2, "number": 0.9}. Data of language models fail the job. */
void predict_rows(yk_job *job, yk_model *m, yk_data *data, FILE *f, bool json);

#endif
