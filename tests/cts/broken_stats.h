/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of batch statistics; part of broken.c. */
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
