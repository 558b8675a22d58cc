/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the products with operands of 8 bits, in a job of fp8: those of linear layers, forward and both gradients. autocast.c asks for
 * the list in the step thread, and inserts the casts. Activations and weights are e4m3, gradients of a layer's output e5m2. A layer is a
 * parameter that forward multiplies with a value. It stays in 16 bits
 *
 *   - if it is no matrix whose lengths are multiples of 16: no hardware multiplies it in 8 bits,
 *   - if it is the first: its other factor depends on no parameter,
 *   - if it is the last of the trace, as the head over a vocabulary is.
 *
 * These facts are in the trace, and none of them depends on the batch: every rank selects the same products.
 */
#include "core/plan/eight.h"

#include "core/base/mem.h"

#define MULTIPLE 16

typedef struct layer {
    bool is_found, is_out;
} layer;

typedef struct choice {
    const yk__graph *g;
    const yk__work *work;
    layer *list;       /* by parameter */
    uint32_t last;
    uint8_t *depends;  /* by root: it depends on a parameter */
    uint8_t *is_back;  /* by root: backward writes it */
} choice;

/* The parameter that v is a part of; YK_NONE if none. */
static uint32_t param_of(const choice *state, yk__vid v)
{
    const yk_value *x = &state->g->value[yk__root(state->g, v)];
    const yk_slot *s = x->slot == YK_NONE ? NULL : &state->g->slot[x->slot];
    return s && s->kind == YK_SLOT_PARAM && s->key < state->work->request->n_param ? s->key : YK_NONE;
}

/* Index of the operand that is a parameter; 2 if neither or both are. */
static uint32_t weight_operand(const choice *state, const yk_node *n)
{
    const yk__vid *in = yk__ins(state->g, n);
    const bool a = param_of(state, in[0]) != YK_NONE, b = param_of(state, in[1]) != YK_NONE;
    return a == b ? 2 : b;
}

static void note_layer(choice *state, const yk_node *n)
{
    const yk__vid *in = yk__ins(state->g, n);
    const uint32_t at = weight_operand(state, n);
    if (at == 2)
        return;
    const yk_value *w = &state->g->value[in[at]];
    layer *l = &state->list[param_of(state, in[at])];
    l->is_found = true;
    l->is_out |= w->dims != 2 || w->dim[0] % MULTIPLE || w->dim[1] % MULTIPLE || !state->depends[yk__root(state->g, in[1 - at])];
    state->last = (uint32_t)(l - state->list);
}

static void find_layers(choice *state)
{
    const yk__graph *g = state->g;
    for (yk__vid v = 0; v < g->n_value; v++)
        state->depends[v] = g->value[v].base == v && param_of(state, v) != YK_NONE;
    for (size_t k = 0; k < g->n_node; k++) {
        const yk_node *n = &g->node[k];
        const bool is_back = !state->work->info[k].origin;
        bool depends = false;
        if (n->op == YK_OP_DOT && !is_back)
            note_layer(state, n);
        for (uint32_t i = 0; i < n->n_in; i++)
            depends |= state->depends[yk__root(g, yk__ins(g, n)[i])];
        for (uint32_t i = 0; i < n->n_out; i++) {
            state->depends[yk__root(g, yk__outs(g, n)[i])] |= depends;
            state->is_back[yk__root(g, yk__outs(g, n)[i])] |= is_back;
        }
    }
    if (state->last != YK_NONE)
        state->list[state->last].is_out = true;
}

/* The parameter whose gradient v contributes to; YK_NONE if none. */
static uint32_t gradient_of(const choice *state, yk__vid v)
{
    const yk__work *work = state->work;
    for (uint32_t i = 0; i < work->n_grad; i++)
        if (work->grad[i] != YK_NONE && yk__root(state->g, work->grad[i]) == yk__root(state->g, v))
            return work->grad_param[i];
    return YK_NONE;
}

static void choose_formats(const choice *state, const yk_node *n, yk__eight *to)
{
    const yk__vid *in = yk__ins(state->g, n);
    const uint32_t at = weight_operand(state, n);
    const uint32_t param = at < 2 ? param_of(state, in[at]) : gradient_of(state, yk__outs(state->g, n)[0]);
    if (param == YK_NONE || !state->list[param].is_found || state->list[param].is_out)
        return;
    if (at == 2 && state->is_back[yk__root(state->g, in[0])] == state->is_back[yk__root(state->g, in[1])])
        return; /* not an activation with a gradient */
    for (uint32_t i = 0; i < 2; i++)
        to->format[i] = state->is_back[yk__root(state->g, in[i])] ? YK__EIGHT_E5M2 : YK__EIGHT_E4M3;
}

yk_status yk__eight_choose(const yk__work *work, yk__eight *of, yk_error *err)
{
    const yk__graph *g = &work->g;
    choice state = {.g = g, .work = work, .last = YK_NONE};
    state.list = yk__calloc(work->request->n_param + 1ull, sizeof *state.list);
    state.depends = yk__calloc(g->n_value + 1, 2);
    if (!state.list || !state.depends) {
        yk__fail_mem(err, g->n_value, "a plan");
    } else {
        state.is_back = state.depends + g->n_value;
        find_layers(&state);
        for (size_t k = 0; k < g->n_node; k++)
            if (g->node[k].op == YK_OP_DOT)
                choose_formats(&state, &g->node[k], &of[k]);
    }
    yk__free(state.depends);
    yk__free(state.list);
    return err->status;
}
