/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash of the step's graph that is equal on ranks that do the same, whatever their rows. Where it is not, the ranks go through
 * their operations together until two differ, and name the lines of both.
 */
#include "core/job/agree_graph.h"

#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"

#define CHUNK 64 /* operations that are compared in one exchange */

/* Of each parameter's leaf: its name and shape; 0 elsewhere. */
static void hash_leaves(const yk_job *job, uint64_t *leaf)
{
    for (size_t i = 0; i < job->n_param; i++) {
        const yk__job_param *p = &job->param[i];
        if (p->leaf_gen != job->gen)
            continue;
        const uint64_t h = yk__hash_bytes(YK_HASH_SEED, p->name, strlen(p->name));
        leaf[p->leaf] = yk__hash_bytes(h, p->dim, p->dims * sizeof *p->dim) | 2;
    }
}

/* Whether every rank has the node whatever its rows: not what moves, adds up, scales or chooses rows, as padding is taken out on
 * one rank and not on another, and a sum over one row or a product with 1 is left out. */
static bool is_common(uint32_t op)
{
    switch (op) {
    case YK_OP_ABS: case YK_OP_EXP: case YK_OP_LOG: case YK_OP_SQRT: case YK_OP_RSQRT: case YK_OP_TANH: case YK_OP_ERF:
    case YK_OP_SOFTMAX: case YK_OP_CONV2D: case YK_OP_MAX_POOL: case YK_OP_AVG_POOL: case YK_OP_LAYER_NORM: case YK_OP_CROSS_ENTROPY:
    case YK_OP_RELU: case YK_OP_GELU: case YK_OP_GELU_TANH: case YK_OP_SILU: case YK_OP_SIGMOID: case YK_OP_ATTENTION:
        return true;
    default:
        return false;
    }
}

/* 0: a node that ranks may differ in. */
static uint64_t hash_node(const yk__graph *g, const uint64_t *leaf, const yk_node *node)
{
    uint64_t h = YK_HASH_SEED ^ node->op, params = 0;
    for (uint32_t i = 0; i < node->n_in; i++)
        params += leaf[yk__trace_root(g, g->index[node->in + i])] & ~1ull;
    if (node->op == YK_OP_COPY || (!params && !is_common(node->op)))
        return 0;
    for (uint32_t i = 0; i < node->n_attr && node->op != YK_OP_ATTENTION && node->op != YK_OP_SUM; i++)
        h = yk__hash_u64(h, (uint64_t)g->attr[node->attr + i]); /* none holds a number of rows */
    return yk__hash_u64(h, params);
}

static bool is_used(const yk__graph *g, const uint64_t *leaf, const yk_node *node)
{
    for (uint32_t i = 0; i < node->n_out; i++)
        if (leaf[yk__trace_root(g, g->index[node->out + i])] & 1)
            return true;
    return false;
}

/* Of each value: what hash_leaves says, and in bit 0 whether the loss depends on it; NULL after a failure. *hash: of all that are. */
static const uint64_t *mark_used(yk_job *job, uint64_t *hash)
{
    yk__step *step = &job->step;
    yk__step_lists *lists = &step->lists;
    const yk__graph *g = &step->trace;
    if (yk__grow(&lists->leaf, &lists->cap_leaf, g->n_value, sizeof *lists->leaf)) {
        yk__job_failf(job, YK_E_MEM, "out of memory while comparing the ranks' graphs");
        return NULL;
    }
    uint64_t *leaf = memset(lists->leaf, 0, g->n_value * sizeof *leaf);
    hash_leaves(job, leaf);
    *hash = 0;
    if (step->loss != YK_NONE)
        leaf[yk__trace_root(g, step->loss)] |= 1;
    for (size_t k = g->n_node; k-- > 0;) {
        const yk_node *node = &g->node[k];
        const bool used = is_used(g, leaf, node);
        for (uint32_t i = 0; i < node->n_in && used; i++)
            leaf[yk__trace_root(g, g->index[node->in + i])] |= 1;
        *hash += used ? hash_node(g, leaf, node) : 0;
    }
    return leaf;
}

bool yk__agree_graph_hash(yk_job *job, uint64_t *hash)
{
    return mark_used(job, hash) != NULL;
}

/* ---- Where two graphs part ---- */

typedef struct graph_chunk {
    uint32_t n;
    uint32_t node[CHUNK]; /* in the trace */
    uint64_t hash[CHUNK];
} graph_chunk;

/* The next operations that all ranks have, from node *at on. */
static void chunk_fill(const yk__graph *g, const uint64_t *leaf, size_t *at, graph_chunk *chunk)
{
    memset(chunk, 0, sizeof *chunk);
    for (; *at < g->n_node && chunk->n < CHUNK; ++*at) {
        const uint64_t h = is_used(g, leaf, &g->node[*at]) ? hash_node(g, leaf, &g->node[*at]) : 0;
        if (!h)
            continue;
        chunk->node[chunk->n] = (uint32_t)*at;
        chunk->hash[chunk->n++] = h;
    }
}

/* The first entry in which two chunks differ; the number of entries of the shorter where one goes on; CHUNK: none. */
static uint32_t chunk_differs(const graph_chunk *a, const graph_chunk *b)
{
    for (uint32_t i = 0; i < a->n && i < b->n; i++)
        if (a->hash[i] != b->hash[i])
            return i;
    return a->n == b->n ? CHUNK : a->n < b->n ? a->n : b->n;
}

/* "tanh at a.c:9" */
static void node_text(const yk_job *job, const graph_chunk *own, uint32_t entry, char *buf, size_t n)
{
    if (entry >= own->n) {
        snprintf(buf, n, "no more operations");
        return;
    }
    const yk_node *node = &job->step.trace.node[own->node[entry]];
    const yk__call_site *at = yk__call_sites_find(&job->sites, node->stream);
    if (at)
        snprintf(buf, n, "%s at %.100s:%d", yk__op_info_of(node->op)->name, at->file, at->line);
    else
        snprintf(buf, n, "%s (operation %u of the step)", yk__op_info_of(node->op)->name, node->stream);
}

/* " of w1 [64, 2]": the parameters that the operation takes; "": none. */
static void operands_text(const yk_job *job, const graph_chunk *own, uint32_t entry, char *buf, size_t n)
{
    const yk__graph *g = &job->step.trace;
    const yk_node *node = entry < own->n ? &g->node[own->node[entry]] : NULL;
    size_t used = 0;
    for (uint32_t i = 0; node && i < node->n_in; i++)
        for (size_t k = 0; k < job->n_param && used < n; k++) {
            const yk__job_param *p = &job->param[k];
            if (p->leaf_gen != job->gen || p->leaf != yk__trace_root(g, g->index[node->in + i]))
                continue;
            used += (size_t)snprintf(buf + used, n - used, "%s %.60s [", used ? "," : " of", p->name);
            for (uint32_t d = 0; d < p->dims && used < n; d++)
                used += (size_t)snprintf(buf + used, n - used, d ? ", %lld" : "%lld", (long long)p->dim[d]);
            used += used < n ? (size_t)snprintf(buf + used, n - used, "]") : 0;
        }
}

typedef struct graph_place {
    char at[160], operands[160];
} graph_place;

/* Where both have the same operation on the same line, what it takes tells them apart. */
static void places_compare(const graph_place *odd, const graph_place *like, char *buf, size_t n)
{
    if (strcmp(odd->at, like->at))
        snprintf(buf, n, ": %s, where that has %s", odd->at, like->at);
    else if (strcmp(odd->operands, like->operands))
        snprintf(buf, n, ": %s%s, where that has it%s", odd->at, odd->operands, *like->operands ? like->operands : " of no parameter");
    else
        snprintf(buf, n, ": %s%s with other sizes or settings", odd->at, odd->operands);
}

/* All ranks come here at the same entry; each says what it has there. */
static yk_status tell_places(yk_job *job, const graph_chunk *own, uint32_t entry, uint32_t odd, uint32_t like, char *buf, size_t n,
                             yk_error *err)
{
    graph_place place = {.at = ""}, *all = yk__calloc(job->team.world, sizeof *all);
    if (!all)
        return yk__fail_mem(err, job->team.world * sizeof *all, "the places of ranks");
    node_text(job, own, entry, place.at, sizeof place.at);
    operands_text(job, own, entry, place.operands, sizeof place.operands);
    if (!yk__group_all_gather(job->team.group, &place, sizeof place, all, err))
        places_compare(&all[odd], &all[like], buf, n);
    yk__free(all);
    return err->status;
}

yk_status yk__agree_graph_place(yk_job *job, uint32_t odd, uint32_t like, char *buf, size_t n, yk_error *err)
{
    uint64_t hash;
    const uint64_t *leaf = mark_used(job, &hash);
    graph_chunk own, *all = yk__calloc(job->team.world, sizeof *all);
    uint32_t entry = CHUNK;
    size_t at = 0;
    *buf = 0;
    if (!leaf || !all)
        yk__fail_mem(err, job->team.world * sizeof *all, "the ranks' graphs");
    while (!err->status && entry == CHUNK) {
        chunk_fill(&job->step.trace, leaf, &at, &own);
        if (yk__group_all_gather(job->team.group, &own, sizeof own, all, err) || (!all[odd].n && !all[like].n))
            break;
        entry = chunk_differs(&all[odd], &all[like]);
    }
    if (!err->status && entry < CHUNK)
        tell_places(job, &own, entry, odd, like, buf, n, err);
    yk__free(all);
    return err->status;
}
