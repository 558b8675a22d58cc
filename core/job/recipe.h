/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recipe of each value of a step: its call, operands in order, and settings. A recipe's sign is a hash of these and of its operands'
 * signs. So two ranks whose values have one sign made them by the same program.
 *
 * For values with rows a recipe leaves out the number of rows: the length of the rows' axis. Axes are counted from the last, as rows
 * without padding have one axis less. Call numbers are not part of a sign.
 *
 * A table that cannot grow sets `lost`, and the comparison of signs then fails. Thread rule: that of the job.
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
    const char *name; /* name of the call: "yk_relu" */
    uint64_t sign;
    uint32_t call;    /* its number in the step (callsite.h) */
    uint32_t operand, n_operand, setting, n_setting;
} yk__recipe;

typedef struct yk__recipes {
    yk__recipe now;   /* recipe of the current call */
    yk__recipe *made;
    uint64_t *operand; /* signs; 0 for an operand that was not given */
    yk__recipe_setting *setting;
    uint64_t *assigned; /* signs of assigned values, in the order of calls */
    size_t n_made, n_operand, n_setting, n_assigned, cap_made, cap_operand, cap_setting, cap_assigned;
    size_t n_compared; /* entries of `assigned` that were compared */
    uint64_t late;     /* hash of values that earlier steps assigned after their comparison; 0 if none */
    bool lost;         /* memory ran out */
} yk__recipes;

void yk__recipe_begin(yk__recipes *r, uint32_t call, const char *name);
void yk__recipe_operand(yk__recipes *r, uint64_t sign);
void yk__recipe_setting_add(yk__recipes *r, const char *name, double value);
uint64_t yk__recipe_end(yk__recipes *r); /* sign of a result of the current call, which may have several */
void yk__recipe_assigned(yk__recipes *r, uint64_t sign);
const yk__recipe *yk__recipe_find(const yk__recipes *r, uint64_t sign); /* NULL for a parameter or an unknown sign */
uint64_t yk__recipes_sign(const yk__recipes *r, uint64_t loss); /* sign of the step's work: its loss (0 if none) and its assigned values */
uint64_t yk__recipes_late(const yk__recipes *r); /* hash of values assigned since the comparison; 0 if none */
void yk__recipes_compared(yk__recipes *r); /* the ranks have compared everything so far */
void yk__recipes_clear(yk__recipes *r); /* called at the end of a step */
void yk__recipes_free(yk__recipes *r);

#endif
