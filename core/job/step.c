/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the step under way: trace, inputs, call sites, recipes and counts. It is allocated once and emptied at each step's end.
 *
 * open.c (core/job/session) makes and frees it, flush.c (core/job/loop) empties it, and window.c (core/job/loop) asks if it is open, in the
 * step thread. Capacities stay, so a step like the last one allocates nothing.
 */
#include "core/job/step.h"

#include <string.h>

#include "core/base/mem.h"

void yk__step_init(yk__step *s)
{
    memset(s, 0, sizeof *s);
    yk__graph_init(&s->trace);
    yk__step_clear(s);
}

bool yk__step_open(const yk__step *s)
{
    return s->trace.n_value > 0 || s->n_input > 0 || s->rows_set;
}

static void inputs_clear(yk__step *s)
{
    s->n_input = s->n_vector = 0;
    s->n_scalar = s->n_dropout = 0;
    s->key_input = s->rows_input = YK_NONE;
    s->n_packing = 0;
    s->rows_set = s->rows_default = s->empty = s->from_loader = s->window_end = s->window_open = false;
    s->local_rows = s->global_rows = s->padding = 0;
    s->sampled.used = false;
}

static void loss_clear(yk__step *s)
{
    s->loss = s->seed = YK_NONE;
    s->loss_sent = s->any_empty = s->recomputing = s->is_full = false;
    s->n_counted = s->norm_call = 0;
    s->norm_values = 0.0;
    s->n_assign = s->assign_sent = s->n_recompute = s->n_full = 0;
}

/* Clears the entries of the trace's values; later entries were never set. */
static void sharding_clear(yk__step *s)
{
    const size_t n = s->cap_sharding < s->trace.n_value ? s->cap_sharding : s->trace.n_value;
    if (n)
        memset(s->sharding, 0, n * sizeof *s->sharding);
    s->n_reason = s->n_row_mean = 0;
    s->n_expanded = 0;
    s->share_leaf = YK_NONE;
    s->counted_ranks = s->assigns_exchanged = false;
}

void yk__step_clear(yk__step *s)
{
    sharding_clear(s);
    yk__graph_clear(&s->trace);
    inputs_clear(s);
    loss_clear(s);
    yk__recipes_clear(&s->recipes);
    s->n_call = 0;
}

static void lists_free(yk__step_lists *l)
{
    yk__free(l->value);
    yk__free(l->host);
    yk__free(l->input);
    yk__free(l->input_bytes);
    yk__free(l->need);
    yk__free(l->label);
}

void yk__step_free(yk__step *s)
{
    for (size_t i = 0; i < s->cap_input; i++)
        yk__free(s->input[i].data);
    yk__free(s->input);
    yk__free(s->scalar_input);
    yk__free(s->scalar_slot);
    yk__free(s->row_number);
    yk__free(s->packing);
    yk__free(s->assign);
    yk__free(s->recompute);
    yk__free(s->full);
    yk__free(s->sharding);
    yk__recipes_free(&s->recipes);
    yk__free(s->reason);
    yk__free(s->row_mean);
    lists_free(&s->lists);
    yk__graph_free(&s->trace);
}
