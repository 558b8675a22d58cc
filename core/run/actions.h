/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of actions: work of the ranks together, between a program's segments (plan.h). A kind is a row of the table in actions.c; the
 * loop in exec.c calls its columns and asks nothing. The step thread.
 */
#ifndef YOKE_CORE_RUN_ACTIONS_H
#define YOKE_CORE_RUN_ACTIONS_H

#include "core/plan/plan.h"

struct yk__exec;
struct yk__prog;

typedef struct yk__action_row {
    yk__action_kind kind;
    const char *name;
    /* Starts it behind the commands that were submitted so far. NULL: something else has started it. */
    yk_status (*start)(struct yk__exec *exec, struct yk__prog *p, const yk__action *a, yk_error *err);
    /* Its result is there, or lies before the next command in the device's queue. NULL: the program waits for nothing. */
    yk_status (*wait)(struct yk__exec *exec, struct yk__prog *p, const yk__action *a, yk_error *err);
} yk__action_row;

/* The row of a kind: `first` if it is of that kind, else the table's. first: NULL for none. */
const yk__action_row *yk__action_row_of(yk__action_kind kind, const yk__action_row *first);

#endif
