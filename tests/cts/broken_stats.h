/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of batch statistics, and of constants that are too small to matter beside random numbers; part of broken.c. */
#if defined BREAK_STATS_ONE || defined BREAK_STATS_MEAN
static uint32_t bad_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    return g->node[node].op == YK_OP_BN_STATS ? YK_CLAIM_RUN : node_claims(dev, g, node);
}

/* STATS_ONE: the sum of squares of one element is 0/0. STATS_MEAN: sums of f32 that leave the shift out. */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    yk_status st = queue_run(q, s, point);
    const yk_graph *g = s->program->graph;
    for (uint32_t i = 0; i < g->n_node && !st; i++) {
        const yk_node *n = &g->node[i];
        const yk_value *y = &g->value[g->index[n->out]], *x = n->op == YK_OP_BN_STATS ? &g->value[g->index[n->in]] : NULL;
        if (!x || x->dtype != YK_F32)
            continue;
        float *out = (float *)(void *)(s->slot[y->slot]->memory + s->slot_offset[y->slot] + y->offset);
        const float *in = (const float *)(void *)(s->slot[x->slot]->memory + s->slot_offset[x->slot] + x->offset);
        for (int64_t c = 0; c < x->dim[1]; c++) {
            float sum = 0, squares = 0;
            for (int64_t k = 0; k < x->dim[0] * x->dim[2]; k++) {
                const float v = in[(k / x->dim[2] * x->dim[1] + c) * x->dim[2] + k % x->dim[2]];
                sum += v, squares += v * v;
            }
#ifdef BREAK_STATS_ONE
            if (x->dim[0] * x->dim[2] == 1)
                out[x->dim[1] + c] = (sum - sum) / 0.0f;
#else
            out[x->dim[1] + c] = squares - sum * sum / (float)(x->dim[0] * x->dim[2]);
#endif
        }
    }
    return st;
}
#endif

#if defined BREAK_NORM_EPS || defined BREAK_ADAM_EPS
/* NORM_EPS doubles the constants of a graph up to 1e-4. ADAM_EPS doubles the eps among an optimizer's numbers. */
static void eps_change(const yk_graph *g, const yk_submit *s, double by)
{
#ifdef BREAK_NORM_EPS
    (void)s;
    for (uint32_t i = 0; i < g->n_attr; i++) { /* of fills, as other attributes are whole numbers, or larger */
        const double x = yk_attr_f64(g->attr[i]);
        if (x > 1e-7 && x < 1e-4)
            *(int64_t *)(uintptr_t)&g->attr[i] = yk_attr_of_f64(x * by);
    }
#else
    for (uint32_t i = 0; i < g->n_value; i++) {
        const yk_value *h = &g->value[i];
        if (h->base == i && h->dims == 1 && h->dim[0] == YK_HYPER_COUNT && h->dtype == YK_F32 && g->slot[h->slot].kind == YK_SLOT_INPUT)
            ((float *)(void *)(s->slot[h->slot]->memory + s->slot_offset[h->slot] + h->offset))[YK_HYPER_EPS] *= (float)by;
    }
#endif
}

static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    eps_change(s->program->graph, s, 2);
    const yk_status st = queue_run(q, s, point);
    eps_change(s->program->graph, s, 0.5);
    return st;
}
#endif
