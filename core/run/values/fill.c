/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zeros, written by a program of the device: into fresh parameters and gradients, and into the optimizer's moments.
 *
 * param_layout.c calls yk__fill_zero when buckets are new, and state_buffers.c when moments are, in the step thread. It returns when the
 * device is done. Shared memory is left as it is: it begins with zeros, and other ranks may have written there.
 */
#include "core/run/exec.h"

static void fill_slot(yk__graph *g, yk_slot_kind kind, uint32_t key, uint64_t n)
{
    const int64_t zero = yk_attr_of_f64(0.0), dim = (int64_t)n;
    yk__vid v = yk__leaf(g, yk__slot_new(g, kind, n * sizeof(float), key), 0, YK_F32, 1, &dim);
    if (v != YK_NONE)
        yk__node_new(g, YK_OP_FILL, 0, 0, NULL, 1, &v, 1, &zero);
}

static void fill_bucket(const yk__params *p, const yk__queue *queue, yk__graph *g, uint32_t i, bool moments)
{
    const yk__bucket *b = &p->bucket[i];
    const yk__range held = yk__params_held(b);
    if (!moments && !b->home->in_block && held.from < held.to) /* fresh shared memory is zero, and other ranks may have written to it */
        fill_slot(g, YK_SLOT_PARAM, YK__KEY_BUCKET | i, held.to - held.from);
    if (!moments && b->trained && !p->scatters) /* sums in slices are zero when they are made */
        fill_slot(g, YK_SLOT_GRAD, i, b->layout.n);
    for (uint32_t k = 0; moments && b->trained && b->updates == queue && k < p->n_moment; k++)
        if (b->begin < b->end)
            fill_slot(g, YK_SLOT_STATE, YK__KEY_BUCKET | k << 24 | i, b->end - b->begin);
}

yk_status yk__fill_zero(yk__exec *exec, bool moments, yk_error *err)
{
    yk__prog *prog = NULL;
    yk__graph g;
    yk__graph_init(&g);
    for (uint32_t i = 0; i < exec->params->n_all_bucket; i++)
        fill_bucket(exec->params, exec->queue, &g, i, moments);
    if (!yk__prog_of_graph(exec, &g, (yk__prog_ends){0}, &prog, err) && !yk__prog_run(exec, prog, (yk__inputs){0}, err))
        yk__queue_finish(exec->queue, err);
    yk__prog_free(exec->queue->dev, prog);
    return err->status;
}
