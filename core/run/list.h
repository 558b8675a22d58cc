/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program as a flat list of instructions. yk__list_make compiles it from a plan; the loop in exec.c executes one instruction after the
 * other and knows no kind of action (docs/decisions/0069). Thread-safe: a list does not change.
 */
#ifndef YOKE_CORE_RUN_LIST_H
#define YOKE_CORE_RUN_LIST_H

#include "core/run/actions.h"

typedef enum yk__inst_kind {
    YK__INST_BIND,  /* looks the buffers of a segment up: some may have come only now */
    YK__INST_RUN,   /* submits a segment to the device */
    YK__INST_START, /* starts an action of the ranks behind the commands submitted so far */
    YK__INST_WAIT   /* waits for an action */
} yk__inst_kind;

typedef struct yk__inst {
    yk__inst_kind kind;
    uint32_t at;               /* BIND, RUN: the segment; START, WAIT: the action */
    const yk__action_row *row; /* START, WAIT: the action's kind */
} yk__inst;

typedef struct yk__list {
    yk__inst *inst;
    size_t n, cap;
} yk__list;

/* For each segment: waits for the actions that it needs, binds, runs, and starts the actions behind it. At the end: waits for the actions
 * that the program's successor needs. first: a row that stands before the table of kinds; NULL for none. */
yk_status yk__list_make(const yk__plan *plan, const yk__action_row *first, yk__list *list, yk_error *err);
/* A line per instruction, for people; the caller's to free. NULL if memory is short. */
char *yk__list_text(const yk__plan *plan, const yk__list *list);
void yk__list_free(yk__list *list);

#endif
