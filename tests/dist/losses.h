/* SPDX-License-Identifier: Apache-2.0 */
/* Losses over six rows and a small net, for tests of several ranks: some can be split over the ranks, some cannot. */
#ifndef YOKE_TESTS_DIST_LOSSES_H
#define YOKE_TESTS_DIST_LOSSES_H

#include <yoke/yoke.h>

#define ROWS 6
#define IN 3
#define MID 4
#define WEIGHTS (MID * IN + MID + MID * MID) /* w, b, q */

typedef struct step {
    yk_job *job;
    int64_t n, first;   /* this rank's rows; the number of the first */
    yk_t w, b, q;       /* [4, 3], [4], [4, 4] */
    yk_t x, y, weight;  /* [n, 3], i32 [n], [n] */
    yk_t h;             /* tanh(x W' + b), [n, 4] */
} step;

float x_of(int row, int k);
float weight_of(int row);
int label_of(int row);
float start_of(int i); /* first value of weight i */

typedef struct loss_case {
    const char *name;
    yk_t (*loss)(const step *s);
    double (*exact)(const double *v); /* the same in double, of the weights; NULL: not written */
    bool counted;                     /* one term counts items */
} loss_case;

typedef struct refusal {
    const char *name;
    yk_t (*loss)(const step *s);
    const char *said[2];
    bool placed; /* the error names a line of losses.c */
    int split;   /* of the test's list */
} refusal;

extern const loss_case cases[];
extern const refusal refusals[];
extern const size_t n_cases, n_refusals;

#endif
