/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of a micro batch on one rank, counted in its planned graph: the quantities that the cost model (cost.h) multiplies with a
 * device's times. `yoke estimate-memory --json` and `yoke bench step --json` print them, so a plan and a probe count alike.
 */
#ifndef YOKE_TOOLS_PLAN_WORK_COUNT_H
#define YOKE_TOOLS_PLAN_WORK_COUNT_H

#include "core/job/job.h"

/* X(name, unit): the counts, in the order of the JSON object. */
#define WORK_TABLE(X)                                                                                                  \
    X(products, "operations of matrix products, 2 per multiply-add")                                                   \
    X(convolutions, "operations of convolutions")                                                                      \
    X(attention, "operations of attention, of seen keys alone")                                                        \
    X(moved, "bytes that nodes read and write")                                                                        \
    X(special, "elements of exponentials, roots, quotients and the like")                                              \
    X(nodes, "nodes")

typedef struct work {
#define X(name, unit) double name;
    WORK_TABLE(X)
#undef X
    double trained; /* elements of all trained parameters */
    double sliced;  /* bytes of this rank that are in slices over the ranks */
    double pulled;  /* elements of parameters that a micro batch pulls by messages; 0 if they are sent once a step */
} work;

enum { WORK_FIELDS = sizeof(work) / sizeof(double) };
extern const char *const work_names[WORK_FIELDS]; /* keys of the JSON object */

/* Counts the largest training plan of the job; all 0 without one. */
work work_count(const yk_job *job);
/* Adds one graph's nodes. */
void work_add(work *w, const yk_graph *g);
/* "{"products": 1, ..}" on standard output. */
void work_print(const double *fields);

#endif
