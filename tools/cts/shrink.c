/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shrinks a failing random graph for as long as it still fails, so that the report is short. nets.c calls cts_shrink, in the group's
 * child process. A trial wants another value, turns a node's result into an input or an operand, or replaces a composite by its body. Each
 * trial runs on the device and by the reference, so RUNS and the suite's timeout bound the trials.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "tools/cts/cts.h"

#define RUNS 600  /* trials of one graph */
#define SHRUNK 3 /* graphs of one process */

typedef struct shrinker {
    const cts *c;
    cts_check best; /* fails; owned */
    uint32_t runs;
    double until; /* yk__clock_seconds */
    char *said;     /* the suite's message about `best`; NULL before one */
} shrinker;

static uint32_t root_at(const yk__graph *g, uint32_t index)
{
    return g->value[g->index[index]].base;
}

static bool node_writes(const yk__graph *g, const yk_node *n, yk__vid root)
{
    for (uint32_t i = 0; i < n->n_out; i++)
        if (root_at(g, n->out + i) == root)
            return true;
    return false;
}

static bool value_made(const yk__graph *g, yk__vid v)
{
    for (size_t i = 0; i < g->n_node; i++)
        if (node_writes(g, &g->node[i], v))
            return g->value[v].base == v;
    return false;
}

static size_t graph_size(const yk__graph *g)
{
    return g->n_node + g->n_body;
}

/* ---- Leaving out --------------------------------------------------------------------------------------------------------- */

static void mark_operands(const yk__graph *g, const yk_node *n, bool *needed)
{
    for (uint32_t i = 0; i < n->n_in; i++)
        needed[root_at(g, n->in + i)] = true;
}

/* Drops nodes that no wanted value needs, and keeps the order of the other nodes. */
static void nodes_prune(cts_check *k, bool *needed)
{
    yk__graph *g = &k->g;
    size_t kept = g->n_node;
    for (uint32_t i = 0; i < k->n_want; i++)
        needed[g->value[k->want[i]].base] = true;
    for (size_t i = g->n_node; i-- > 0;) {
        bool live = false;
        for (uint32_t j = 0; j < g->node[i].n_out; j++)
            live = live || needed[root_at(g, g->node[i].out + j)];
        if (!live)
            continue;
        mark_operands(g, &g->node[i], needed);
        g->node[--kept] = g->node[i];
    }
    g->n_node -= kept;
    memmove(g->node, g->node + kept, g->n_node * sizeof *g->node);
}

static bool bodies_prune(yk__graph *g)
{
    yk_node *body = yk__malloc((g->n_body + 1) * sizeof *body);
    size_t n = 0;
    if (!body)
        return false;
    for (size_t i = 0; i < g->n_node; i++) {
        yk_node *p = &g->node[i];
        if (p->n_body)
            memcpy(body + n, g->body + p->body, p->n_body * sizeof *body);
        p->body = p->n_body ? (uint32_t)n : 0;
        n += p->n_body;
    }
    yk__free(g->body);
    g->body = body;
    g->cap_body = g->n_body + 1;
    g->n_body = n;
    return true;
}

static void node_mark(const yk__graph *g, const yk_node *n, uint32_t *number)
{
    for (uint32_t i = 0; i < n->n_in; i++)
        number[g->index[n->in + i]] = number[root_at(g, n->in + i)] = 1;
    for (uint32_t i = 0; i < n->n_out; i++)
        number[g->index[n->out + i]] = number[root_at(g, n->out + i)] = 1;
}

static void node_renumber(yk__graph *g, const yk_node *n, const uint32_t *number)
{
    for (uint32_t i = 0; i < n->n_in; i++)
        g->index[n->in + i] = number[g->index[n->in + i]];
    for (uint32_t i = 0; i < n->n_out; i++)
        g->index[n->out + i] = number[g->index[n->out + i]];
}

/* Drops values that no node names, and numbers the other values anew in their order. number: as many zeros as there are values. */
static void values_prune(cts_check *k, uint32_t *number)
{
    yk__graph *g = &k->g;
    uint32_t n = 0;
    for (size_t i = 0; i < g->n_node; i++)
        node_mark(g, &g->node[i], number);
    for (size_t i = 0; i < g->n_body; i++)
        node_mark(g, &g->body[i], number);
    for (uint32_t v = 0; v < g->n_value; v++)
        if (number[v])
            number[v] = n++;
        else
            number[v] = YK_NONE;
    for (size_t i = 0; i < g->n_node; i++)
        node_renumber(g, &g->node[i], number);
    for (size_t i = 0; i < g->n_body; i++)
        node_renumber(g, &g->body[i], number);
    for (uint32_t v = 0; v < g->n_value; v++)
        if (number[v] != YK_NONE) {
            g->value[number[v]] = g->value[v];
            g->value[number[v]].base = number[g->value[v].base];
        }
    for (uint32_t i = 0; i < k->n_want; i++)
        k->want[i] = number[k->want[i]];
    g->n_value = n;
}

static bool graph_prune(cts_check *k)
{
    bool *needed = yk__calloc(k->g.n_value, sizeof *needed);
    uint32_t *number = yk__calloc(k->g.n_value, sizeof *number);
    bool ok = needed && number;
    if (ok)
        nodes_prune(k, needed);
    ok = ok && bodies_prune(&k->g);
    if (ok)
        values_prune(k, number);
    yk__free(number);
    yk__free(needed);
    return ok;
}

/* Used slots get consecutive numbers. A slot's data follow from its number, so they change. */
static bool slots_prune(yk__graph *g)
{
    uint32_t *number = yk__calloc(g->n_slot, sizeof *number), n = 1;
    if (!number)
        return false;
    for (size_t v = 0; v < g->n_value; v++)
        if (g->value[v].slot != YK_NONE)
            number[g->value[v].slot] = 1;
    for (uint32_t i = 1; i < g->n_slot; i++)
        if (number[i]) {
            g->slot[n] = g->slot[i];
            number[i] = n++;
        }
    for (size_t v = 0; v < g->n_value; v++)
        if (g->value[v].slot != YK_NONE)
            g->value[v].slot = number[g->value[v].slot];
    g->n_slot = n;
    yk__free(number);
    return true;
}

/* ---- Edits -------------------------------------------------------------------------------------------------------------- */

/* Turns each view of r into a view of w. */
static void views_move(yk__graph *g, yk__vid r, yk__vid w, uint64_t before)
{
    for (size_t u = 0; u < g->n_value; u++) {
        yk_value *v = &g->value[u];
        if (u == r || v->base != r)
            continue;
        v->base = w;
        v->slot = g->value[w].slot;
        v->offset += g->value[w].offset - before;
        v->flags = g->value[w].flags;
    }
}

static void writers_drop(yk__graph *g, yk__vid r)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_node; i++)
        if (!node_writes(g, &g->node[i], r))
            g->node[n++] = g->node[i];
    g->n_node = n;
}

/* r becomes an input. */
static bool edit_leaf(cts_check *k, yk__vid r)
{
    static const cts_dist dist[YK_DTYPE_COUNT] = {[YK_I32] = CTS_INDEX, [YK_U8] = CTS_BYTES, [YK_BOOL] = CTS_MASK};
    yk__graph *g = &k->g;
    const yk_value old = g->value[r];
    const yk__vid leaf = cts_leaf(g, (yk_dtype)old.dtype, dist[old.dtype], old.dtype == YK_I32 ? 2 : 0, old.dims, old.dim);
    if (leaf == YK_NONE)
        return false;
    writers_drop(g, r);
    g->value[r] = g->value[leaf];
    g->value[r].base = r;
    views_move(g, r, r, old.offset);
    return true;
}

/* w, an operand of a node that makes r, takes the place of r. */
static bool edit_operand(cts_check *k, yk__vid r, yk__vid w)
{
    yk__graph *g = &k->g;
    const yk_value *a = &g->value[r], *b = &g->value[w];
    if (w == r || b->base != w || a->dtype != b->dtype || !yk__value_same_shape(a, b))
        return false;
    writers_drop(g, r);
    for (size_t i = 0; i < g->n_index; i++)
        if (g->index[i] == r)
            g->index[i] = w;
    views_move(g, r, w, g->value[r].offset);
    for (uint32_t i = 0; i < k->n_want; i++)
        k->want[i] = k->want[i] == r ? w : k->want[i];
    return true;
}

/* The body's nodes stand in the place of node `at`. */
static bool edit_body(cts_check *k, size_t at)
{
    yk__graph *g = &k->g;
    const yk_node n = g->node[at];
    if (!n.n_body || yk__grow(&g->node, &g->cap_node, g->n_node + n.n_body, sizeof *g->node))
        return false;
    memmove(g->node + at + n.n_body, g->node + at + 1, (g->n_node - at - 1) * sizeof n);
    memcpy(g->node + at, g->body + n.body, n.n_body * sizeof n);
    g->n_node += n.n_body - 1;
    return true;
}

/* ---- Trials ------------------------------------------------------------------------------------------------------------- */

static bool trial_begin(const shrinker *s, cts_check *k)
{
    yk_error err = YK_ERROR_INIT;
    *k = s->best;
    memset(&k->g, 0, sizeof k->g);
    return !yk__graph_copy(&s->best.g, &k->g, &err);
}

/* A valid trial follows the graph's rules, and nodes make its wanted values. */
static bool trial_valid(cts_check *k)
{
    yk_error err = YK_ERROR_INIT;
    yk_graph sealed;
    for (uint32_t i = 0; i < k->n_want; i++)
        if (!value_made(&k->g, k->want[i]))
            return false;
    return graph_prune(k) && !yk__graph_seal(&k->g, &sealed, &err) && !yk__graph_check(&sealed, &err);
}

/* The line of a failure among those of a test, without its 'F'; NULL: there is none. */
static char *failure_in(char *lines)
{
    for (char *line = lines; line && *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (*line == 'F')
            return line + 1;
    return NULL;
}

/* Runs the check without a report; true if the device is at fault, with the suite's lines in *said. */
static bool trial_fails(shrinker *s, cts_check *k, char **said)
{
    cts quiet = *s->c;
    size_t n = 0;
    bool ran;
    *said = NULL;
    s->runs++;
    quiet.out = open_memstream(said, &n);
    if (!quiet.out)
        return false;
    quiet.failed_now = false;
    ran = cts_check_run(&quiet, k);
    fclose(quiet.out);
    return ran && failure_in(*said);
}

/* Takes k, which is released if the failure is gone. */
static bool trial_end(shrinker *s, cts_check *k, bool edited)
{
    char *said = NULL;
    const bool time = s->runs < RUNS && yk__clock_seconds() < s->until;
    const bool fails = edited && time && trial_valid(k) && trial_fails(s, k, &said);
    if (!fails) {
        free(said);
        cts_check_free(k);
        return false;
    }
    free(s->said);
    s->said = said;
    cts_check_free(&s->best);
    s->best = *k;
    return true;
}

/* Makes the first wrong value the only wanted one. */
static bool try_want(shrinker *s)
{
    for (size_t i = 0; i < s->best.g.n_node; i++) {
        const yk__vid v = root_at(&s->best.g, s->best.g.node[i].out);
        const bool same = s->best.n_want == 1 && s->best.want[0] == v;
        cts_check k;
        if (same || !trial_begin(s, &k))
            return false;
        k.n_want = 1;
        k.want[0] = v;
        if (trial_end(s, &k, yk__value_is_dense(&k.g.value[v])))
            return true;
    }
    return false;
}

static bool try_fewer_wants(shrinker *s)
{
    for (uint32_t i = 0; s->best.n_want > 1 && i < s->best.n_want; i++) {
        cts_check k;
        if (!trial_begin(s, &k))
            return false;
        k.want[i] = k.want[--k.n_want];
        if (trial_end(s, &k, true))
            return true;
    }
    return false;
}

/* Node i's result as an input, or as one of its operands. */
static bool try_node(shrinker *s, size_t i)
{
    const yk__graph *g = &s->best.g;
    const yk_node n = g->node[i];
    const yk__vid r = root_at(g, n.out);
    cts_check k;
    if (trial_begin(s, &k) && trial_end(s, &k, edit_leaf(&k, r)))
        return true;
    for (uint32_t j = 0; j < n.n_in; j++)
        if (trial_begin(s, &k) && trial_end(s, &k, edit_operand(&k, r, root_at(&k.g, n.in + j))))
            return true;
    return n.n_body && trial_begin(s, &k) && trial_end(s, &k, edit_body(&k, i));
}

static bool try_nodes(shrinker *s)
{
    for (size_t i = s->best.g.n_node; i-- > 0;)
        if (try_node(s, i))
            return true;
    return false;
}

/* Gives values memory of their own and the graph one arena, then drops unused slots. */
static void try_plainer(shrinker *s)
{
    cts_check k;
    if (s->best.share && trial_begin(s, &k)) {
        k.share = false;
        trial_end(s, &k, true);
    }
    if (s->best.arenas && trial_begin(s, &k)) {
        k.arenas = false;
        trial_end(s, &k, true);
    }
    if (trial_begin(s, &k))
        trial_end(s, &k, slots_prune(&k.g));
}

/* ---- The whole ---------------------------------------------------------------------------------------------------------- */

static void command_print(const cts *c, const char *name, uint32_t number)
{
    fprintf(stderr, "yoke-cts: %s again: yoke-cts --plugin %s --device %u --group random --only '%s' --seed %llu --count %u%s\n", name,
            c->path, c->device, name, (unsigned long long)c->seed, number + 1, c->wide ? " --wide" : "");
}

static void best_print(shrinker *s, const char *name, size_t before)
{
    yk_error err = YK_ERROR_INIT;
    yk_graph g;
    char *text = yk__graph_seal(&s->best.g, &g, &err) ? NULL : yk__graph_text(&g);
    const char *failure = failure_in(s->said), *words = failure ? strchr(failure, '\t') : NULL;
    if (text) /* on one stream with the host's own lines */
        fprintf(stderr, "yoke-cts: %s of --seed %llu, shrunk from %zu to %zu nodes in %u runs%s%s:\n%s", name,
                (unsigned long long)s->c->seed, before, graph_size(&s->best.g), s->runs,
                s->best.share ? ", values share memory" : "", s->best.arenas ? ", two arenas" : "", text);
    if (words)
        fprintf(stderr, "yoke-cts: %s: %s", name, words + 1);
    yk__free(text);
}

void cts_shrink(cts *c, const cts_check *k, uint32_t number)
{
    shrinker s = {.c = c, .best = *k, .until = yk__clock_seconds() + (double)c->timeout_ns * 1e-9};
    yk_error err = YK_ERROR_INIT;
    char name[80];
    snprintf(name, sizeof name, "random/graph.%u%s", number, number % 2 ? ".shared" : "");
    command_print(c, name, number);
    if (c->shrunk++ >= SHRUNK)
        return;
    memset(&s.best.g, 0, sizeof s.best.g);
    if (yk__graph_copy(&k->g, &s.best.g, &err))
        return;
    for (bool smaller = true; smaller;)
        smaller = try_want(&s) || try_fewer_wants(&s) || try_nodes(&s);
    try_plainer(&s);
    best_print(&s, name, graph_size(&k->g));
    free(s.said);
    cts_check_free(&s.best);
}
