/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How each value of a step was made: by which call, of which operands in order, with which settings. A recipe's sign is a hash of all
 * that, and of the signs of its operands; so two ranks whose values have one sign made them by the same program.
 *
 * Where values lie over rows, a recipe leaves out what follows from the number of rows: of lengths that of the rows' axis, and axes are
 * counted from the last, as rows without padding have one axis less. Numbers of calls are no part of a sign.
 *
 * A table that cannot grow sets `lost`, and whoever compares signs fails then. Thread rule: that of the job.
 */
#ifndef YOKE_CORE_JOB_RECIPE_H
#define YOKE_CORE_JOB_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A setting of a call; the name is a literal. */
typedef struct yk__recipe_setting {
    const char *name;
    double value;
} yk__recipe_setting;

typedef struct yk__recipe {
    const char *name; /* of the call: "yk_relu" */
    uint64_t sign;
    uint32_t call;    /* its number in the step (callsite.h) */
    uint32_t operand, n_operand, setting, n_setting;
} yk__recipe;

typedef struct yk__recipes {
    yk__recipe now;   /* of the call under way */
    yk__recipe *made;
    uint64_t *operand; /* signs; 0: the call was given none */
    yk__recipe_setting *setting;
    uint64_t *assigned; /* signs of what states get, in the order of calls */
    size_t n_made, n_operand, n_setting, n_assigned, cap_made, cap_operand, cap_setting, cap_assigned;
    size_t n_compared; /* of assigned */
    uint64_t late;     /* of what steps before assigned after their comparison; 0: nothing */
    bool lost;         /* of memory */
} yk__recipes;

void yk__recipe_begin(yk__recipes *r, uint32_t call, const char *name);
void yk__recipe_operand(yk__recipes *r, uint64_t sign);
void yk__recipe_setting_add(yk__recipes *r, const char *name, double value);
uint64_t yk__recipe_end(yk__recipes *r); /* the sign of a result of the call under way, which may have several */
void yk__recipe_assigned(yk__recipes *r, uint64_t sign);
const yk__recipe *yk__recipe_find(const yk__recipes *r, uint64_t sign); /* NULL: a parameter, or nothing */
uint64_t yk__recipes_sign(const yk__recipes *r, uint64_t loss); /* of what the step does: of its loss, 0 if none, and what it assigns */
void yk__recipes_compared(yk__recipes *r); /* the ranks agree on all so far */
void yk__recipes_clear(yk__recipes *r); /* a step ends */
void yk__recipes_free(yk__recipes *r);

#endif
