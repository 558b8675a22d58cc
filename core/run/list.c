/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles a plan to a flat list of instructions: bind and run a segment, start and wait for an action between ranks. Also writes a list as
 * text, for a plan's dump (core/plan/dump.c).
 *
 * prog.c makes a list when it makes a program, and frees it; the loop in exec.c executes it. A list does not change, so any thread may read
 * it.
 */
#include "core/run/list.h"

#include <stdio.h>

#include "core/base/mem.h"

typedef struct listing {
    const yk__plan *plan;
    const yk__action_row *first; /* the caller's own rows of kinds of actions, before the engine's */
    yk__list *list;
    uint32_t sum; /* number of the all-reduce action in progress; YK_NONE: none */
} listing;

static yk_status list_add(listing *state, yk__inst_kind kind, uint32_t at, yk_error *err)
{
    yk__list *list = state->list;
    if (yk__grow(&list->inst, &list->cap, list->n + 1, sizeof *list->inst))
        return yk__fail_mem(err, (list->n + 1) * sizeof *list->inst, "a program's instructions");
    list->inst[list->n++] = (yk__inst){.kind = kind, .at = at};
    return YK_OK;
}

/* Adds START or WAIT, unless the action's kind has nothing to do then. */
static yk_status list_add_action(listing *state, yk__inst_kind kind, uint32_t at, yk_error *err)
{
    const yk__action_row *row = yk__action_row_of(state->plan->action[at].kind, state->first);
    if (!(kind == YK__INST_START ? row->start : row->wait))
        return YK_OK;
    if (list_add(state, kind, at, err))
        return err->status;
    state->list->inst[state->list->n - 1].row = row;
    return YK_OK;
}

/* add_wait adds the wait for an action. An all-reduce, a vector's sum, gets one wait alone: before the first reader of its result, or
 * before a bucket is summed. One is in progress at a time. */
static yk_status add_wait(listing *state, uint32_t at, yk_error *err)
{
    if (state->plan->action[at].kind == YK__ACTION_ALL_REDUCE) {
        if (state->sum != at)
            return YK_OK;
        state->sum = YK_NONE;
    }
    return list_add_action(state, YK__INST_WAIT, at, err);
}

/* add_pulled adds the wait for each pull before the first segment that reads its bucket. */
static yk_status add_pulled(listing *state, uint32_t segment, yk_error *err)
{
    const yk__plan *plan = state->plan;
    for (uint32_t i = 0; plan->n_pull && i < plan->n_action; i++)
        if (plan->action[i].kind == YK__ACTION_PULL && plan->pull[plan->action[i].target].begin == segment &&
            list_add_action(state, YK__INST_WAIT, i, err))
            return err->status;
    return YK_OK;
}

/* add_waits adds waits before a reader, except for pulls (add_pulled). It also starts an action there if no segment and no
 * earlier program starts it (start_after is YK_NONE). */
static yk_status add_waits(listing *state, uint32_t first, uint32_t n, yk_error *err)
{
    for (uint32_t i = first; i < first + n; i++) {
        const uint32_t at = state->plan->before[i];
        if ((state->plan->action[at].start_after == YK_NONE && list_add_action(state, YK__INST_START, at, err)) ||
            (state->plan->action[at].kind != YK__ACTION_PULL && add_wait(state, at, err)))
            return err->status;
    }
    return YK_OK;
}

/* Before a bucket is summed no sum of a vector may be in progress. Its later requests would come between the bucket's, at other places on
 * other ranks. */
static yk_status add_start(listing *state, uint32_t at, yk_error *err)
{
    const yk__action_kind kind = state->plan->action[at].kind;
    if (kind == YK__ACTION_SUM_BUCKET && state->sum != YK_NONE && add_wait(state, state->sum, err))
        return err->status;
    if (kind == YK__ACTION_ALL_REDUCE)
        state->sum = at;
    return list_add_action(state, YK__INST_START, at, err);
}

static yk_status add_segment(listing *state, uint32_t i, yk_error *err)
{
    const yk__segment *s = &state->plan->segment[i];
    if (add_waits(state, s->first_before, s->n_before, err) || add_pulled(state, i, err) || list_add(state, YK__INST_BIND, i, err) ||
        (s->graph.n_node && list_add(state, YK__INST_RUN, i, err)))
        return err->status;
    for (uint32_t k = 0; k < s->n_after; k++)
        if (add_start(state, s->first_after + k, err))
            return err->status;
    return YK_OK;
}

yk_status yk__list_make(const yk__plan *plan, const yk__action_row *first, yk__list *list, yk_error *err)
{
    listing state = {plan, first, list, YK_NONE};
    for (uint32_t i = 0; i < plan->n_segment; i++)
        if (add_segment(&state, i, err))
            return err->status;
    return add_waits(&state, plan->first_at_end, plan->n_action - plan->first_at_end, err);
}

void yk__list_free(yk__list *list)
{
    yk__free(list->inst);
    *list = (yk__list){0};
}

/* ---- Text ---- */

#define LINE 120

static void inst_text(const yk__plan *plan, const yk__inst *inst, char line[LINE])
{
    static const char *const verbs[] = {"bind", "run", "start", "wait"};
    const yk__action *a = inst->kind < YK__INST_START ? NULL : &plan->action[inst->at];
    if (a)
        snprintf(line, LINE, "%-5s %s %u, %llu elements\n", verbs[inst->kind], inst->row->name, a->target,
                 (unsigned long long)a->count);
    else
        snprintf(line, LINE, "%-5s segment %u, %u nodes\n", verbs[inst->kind], inst->at, plan->segment[inst->at].graph.n_node);
}

char *yk__list_text(const yk__plan *plan, const yk__list *list)
{
    const size_t capacity = list->n * LINE + 1;
    char *text = yk__calloc(1, capacity), line[LINE];
    size_t used = 0;
    for (size_t i = 0; text && i < list->n; i++) {
        inst_text(plan, &list->inst[i], line);
        used += (size_t)snprintf(text + used, capacity - used, "%s", line);
    }
    return text;
}
