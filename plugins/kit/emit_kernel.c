/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole kernels around the statements of an elementwise chain (emit.c): maps, which write each element, and reductions, which sum over
 * axes.
 *
 * lower/chain.c calls it while a plugin makes a program, in any thread. The text has no sizes. They are numbers in `meta`, which the
 * launch reads, so chains that differ in shape alone share a compiled kernel.
 */
#include <stdio.h>

#include "plugins/kit/emit.h"

static const char *leaf_type(const kit_chain *chain, uint32_t i)
{
    return kit_type(chain->graph->value[chain->leaf[i]].dtype);
}

static const char *out_type(const kit_chain *chain, uint32_t i)
{
    return kit_type(chain->graph->value[chain->out[i]].dtype);
}

static void emit_head(kit_text *text, const char *name, const kit_chain *chain, bool parts)
{
    kit_text_add(text, "KERNEL void %s(", name);
    for (uint32_t i = 0; i < chain->n_leaf; i++)
        kit_text_add(text, "IN(t_%s, i%u), ", leaf_type(chain, i), i);
    for (uint32_t i = 0; i < chain->n_out; i++)
        kit_text_add(text, "OUT(t_%s, o%u), ", parts ? "f32" : out_type(chain, i), i);
    kit_text_add(text, "IN(long, meta))\n{\n");
    for (uint32_t i = 0; i < chain->n_leaf; i++)
        kit_text_add(text, "ATC(t_%s, i%u);\n", leaf_type(chain, i), i);
    for (uint32_t i = 0; i < chain->n_out; i++)
        kit_text_add(text, "AT(t_%s, o%u);\n", parts ? "f32" : out_type(chain, i), i);
    kit_text_add(text, "ATC(long, meta);\n");
}

/* True if leaf i is one element over all terms of an output. */
static bool leaf_is_still(const kit_chain *chain, const kit_space *s, uint32_t i)
{
    bool still = chain->reduce != 0;
    for (uint32_t d = 0; d < s->dims; d++)
        still = still && !(s->reduced[d] && s->stride[i][d]);
    return still && !s->stride[i][s->dims - 1];
}

enum { LOAD_STILL = 1, LOAD_MOVING = 2, LOAD_ALL = 3 };

/* x<i> = leaf i at `offset` (an expression) from q<i>, or its one element for all lanes; which: only still leaves, or only others */
static void emit_loads(kit_text *text, const kit_chain *chain, const kit_space *s, const char *offset, int which)
{
    for (uint32_t i = 0; i < chain->n_leaf; i++) {
        if (!(which & (leaf_is_still(chain, s, i) ? LOAD_STILL : LOAD_MOVING)))
            continue;
        uint32_t dtype = chain->graph->value[chain->leaf[i]].dtype;
        const char *v = kit_is_float(dtype) ? "V" : "VI";
        if (s->stride[i][s->dims - 1])
            kit_text_add(text, "%s x%u = LD_%s(i%u + q%u + %s, n);\n", v, i, kit_type(dtype), i, i, offset);
        else if (kit_is_float(dtype))
            kit_text_add(text, "V x%u = V_SPLAT(GET_%s(i%u[q%u]));\n", i, kit_type(dtype), i, i);
        else
            kit_text_add(text, dtype == YK_BOOL ? "VI x%u = VI_SPLAT(i%u[q%u] ? -1 : 0);\n" : "VI x%u = VI_SPLAT(i%u[q%u]);\n",
                         i, i, i);
    }
}

/* Declares q<i>, the leaves' offsets of line r, and peels `dims` outer dimensions off r; meta from `at` on. */
static void emit_lines(kit_text *text, const kit_chain *chain, uint32_t dims, uint32_t at)
{
    for (uint32_t i = 0; i < chain->n_leaf; i++)
        kit_text_add(text, "long q%u = 0;\n", i);
    uint32_t step = chain->n_leaf + 1;
    for (uint32_t d = 0; d < dims; d++) {
        kit_text_add(text, "{ long q = r / meta[%u], m = r - q * meta[%u]; r = q; (void)m;\n", at + d * step, at + d * step);
        for (uint32_t i = 0; i < chain->n_leaf; i++)
            kit_text_add(text, "q%u += m * meta[%u];\n", i, at + d * step + 1 + i);
        kit_text_add(text, "}\n");
    }
}

/* meta: total, inner, block, then per outer dimension (innermost first) length and the leaves' strides */
void kit_emit_map(kit_text *text, const char *name, const kit_chain *chain, const kit_space *s)
{
    char local[16];
    emit_head(text, name, chain, false);
    kit_text_add(text, "const long inner = meta[1];\nlong i = GID(0) * meta[2], end = MIN(i + meta[2], meta[0]);\n"
                 "while (i < end) {\nlong r = i / inner, c = i - r * inner, stop = MIN(inner, c + end - i);\n"
                 "const long base = i - c;\ni += stop - c;\n");
    emit_lines(text, chain, s->dims - 1, 3);
    kit_text_add(text, "for (c += LANE * VW; c < stop; c += TEAM * VW) {\nconst long n = stop - c;\n(void)n;\n");
    emit_loads(text, chain, s, "c", LOAD_ALL);
    kit_emit_nodes(text, chain);
    for (uint32_t i = 0; i < chain->n_out; i++) {
        if (!kit_local_name(chain, chain->value[i], local))
            text->bad = true;
        kit_text_add(text, "ST_%s(o%u + base + c, %s, n);\n", out_type(chain, i), i, local);
    }
    kit_text_add(text, "}\n}\n}\n");
}

uint32_t kit_meta_map(const kit_chain *chain, const kit_space *s, int64_t block, int64_t *meta, int64_t *groups)
{
    uint32_t n = 3;
    int64_t total = 1;
    for (uint32_t d = 0; d < s->dims; d++)
        total *= s->dim[d];
    for (uint32_t d = s->dims - 1; d-- > 0;) {
        meta[n++] = s->dim[d];
        for (uint32_t i = 0; i < chain->n_leaf; i++)
            meta[n++] = s->stride[i][d];
    }
    meta[0] = total;
    meta[1] = s->dim[s->dims - 1];
    meta[2] = block;
    *groups = (total + block - 1) / block;
    return n;
}

/* ---- Reductions ---- */

static bool sums_int(const kit_chain *chain, uint32_t i)
{
    return !kit_is_float(chain->graph->value[chain->value[i]].dtype);
}

static const char *reduce_start(const kit_chain *chain, uint32_t i)
{
    if (sums_int(chain, i))
        return chain->reduce == YK_OP_SUM ? "VI_SPLAT(0)" : "VI_SPLAT(0x80000000)";
    return chain->reduce == YK_OP_SUM ? "V_SPLAT(0.0f)" : "V_SPLAT(-K_INF)";
}

static void emit_accumulators(kit_text *text, const kit_chain *chain, char letter)
{
    for (uint32_t i = 0; i < chain->n_out; i++)
        if (chain->reduce == YK_OP_SUM && !sums_int(chain, i))
            kit_text_add(text, "K_SUM(%c%u);\n", letter, i);
        else
            kit_text_add(text, "%s %c%u = %s;\n", sums_int(chain, i) ? "VI" : "V", letter, i, reduce_start(chain, i));
}

static void emit_combine(kit_text *text, const kit_chain *chain, uint32_t i, const char *acc, const char *value)
{
    if (chain->reduce == YK_OP_SUM && !sums_int(chain, i))
        kit_text_add(text, "K_ADD(%s%u, %s);\n", acc, i, value);
    else if (chain->reduce == YK_OP_SUM)
        kit_text_add(text, "%s%u += %s;\n", acc, i, value);
    else
        kit_text_add(text, "%s%u = %s(%s%u, %s);\n", acc, i, sums_int(chain, i) ? "VI_MAX" : "V_MAX", acc, i, value);
}

/* Opens loops over the reduced dimensions except `skip` (the innermost), outermost first, which add to q<i>. Returns their number. In
 * parts, the first loop runs over the work-item's share of a part (emit_part). */
static uint32_t emit_loops(kit_text *text, const kit_chain *chain, const kit_space *s, bool skip, bool parts, uint32_t at)
{
    uint32_t loops = 0, step = chain->n_leaf + 1;
    for (uint32_t d = 0; d < s->dims - (skip ? 1 : 0); d++) {
        if (!s->reduced[d])
            continue;
        uint32_t m = at + loops * step;
        const bool first = parts && !loops;
        if (first)
            kit_text_add(text, "UNROLL8\nfor (long d0 = from; d0 < upto; d0 += K_ROWS");
        else
            kit_text_add(text, "for (long d%u = 0; d%u < meta[%u]; d%u++", loops, loops, m, loops);
        for (uint32_t i = 0; i < chain->n_leaf; i++)
            kit_text_add(text, ", q%u += %smeta[%u]", i, first ? "K_ROWS * " : "", m + 1 + i);
        kit_text_add(text, ") {\n");
        loops++;
    }
    return loops;
}

/* Closes them; each line of a loop ended where its start was plus length * stride, so q<i> goes back. That over a part is run once. */
static void emit_loops_end(kit_text *text, const kit_chain *chain, uint32_t loops, bool parts, uint32_t at)
{
    uint32_t step = chain->n_leaf + 1;
    while (loops-- > 0) {
        uint32_t m = at + loops * step;
        kit_text_add(text, "}\n");
        for (uint32_t i = 0; i < chain->n_leaf && (!parts || loops); i++)
            kit_text_add(text, "q%u -= meta[%u] * meta[%u];\n", i, m, m + 1 + i);
    }
}

static uint32_t kept_dims(const kit_space *s, bool but_inner)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d + (but_inner ? 1 : 0) < s->dims; d++)
        n += !s->reduced[d];
    return n;
}

static void emit_values(kit_text *text, const kit_chain *chain, const char *acc, bool tail)
{
    char local[16], value[80];
    for (uint32_t i = 0; i < chain->n_out; i++) {
        if (!kit_local_name(chain, chain->value[i], local))
            text->bad = true;
        snprintf(value, sizeof value, "%s", local);
        if (tail)
            snprintf(value, sizeof value, "%s(%s, n, %s)", sums_int(chain, i) ? "K_TAILI" : "K_TAIL", local,
                     reduce_start(chain, i));
        emit_combine(text, chain, i, acc, value);
    }
}

/* Output `at` of each a<i>; parts: in f32. */
static void emit_team_result(kit_text *text, const kit_chain *chain, const char *at, bool parts)
{
    for (uint32_t i = 0; i < chain->n_out; i++) {
        bool whole = sums_int(chain, i);
        kit_text_add(text, "%s t%u = TEAM_%s%s(a%u);\nif (LANE == 0)\n", whole ? "int" : "float", i,
                     chain->reduce == YK_OP_SUM ? "SUM" : "MAX", whole ? "I" : "", i);
        if (whole)
            kit_text_add(text, "o%u[%s] = (t_%s)t%u;\n", i, at, out_type(chain, i), i);
        else
            kit_text_add(text, "o%u[%s] = PUT_%s(t%u);\n", i, at, parts ? "f32" : out_type(chain, i), i);
    }
}

/* The innermost dimension is summed: a team per output. */
static void emit_reduce_inner(kit_text *text, const kit_chain *chain, const kit_space *s)
{
    uint32_t kept = kept_dims(s, true), loops_at = 3 + kept * (chain->n_leaf + 1);
    char acc[16];
    kit_text_add(text, "for (long o = GID(0) * meta[2]; o < MIN(meta[0], (GID(0) + 1) * meta[2]); o++) {\nlong r = o;\n(void)r;\n");
    emit_lines(text, chain, kept, 3);
    emit_accumulators(text, chain, 'a');
    uint32_t loops = emit_loops(text, chain, s, true, false, loops_at);
    emit_accumulators(text, chain, 's');
    kit_text_add(text, "for (long c = LANE * VW; c < meta[1]; c += TEAM * VW) {\nconst long n = meta[1] - c;\n(void)n;\n");
    emit_loads(text, chain, s, "c", LOAD_ALL);
    kit_emit_nodes(text, chain);
    emit_values(text, chain, "s", true);
    kit_text_add(text, "}\n");
    for (uint32_t i = 0; i < chain->n_out; i++) {
        snprintf(acc, sizeof acc, "s%u", i);
        emit_combine(text, chain, i, "a", acc);
    }
    emit_loops_end(text, chain, loops, false, loops_at);
    emit_team_result(text, chain, "o", false);
    kit_text_add(text, "}\n");
}

/* Offsets of the leaves of line `y` of the terms, and c, where its vector e begins: dimensions are divided off y, innermost first. */
static void emit_team_place(kit_text *text, const kit_chain *chain, uint32_t loops, uint32_t at)
{
    uint32_t step = chain->n_leaf + 1;
    kit_text_add(text, loops ? "int y = e / across;\nconst int c = (e - y * across) * VW;\n" : "const int c = e * VW;\n");
    for (uint32_t i = 0; i < chain->n_leaf; i++)
        kit_text_add(text, "q%u = w%u;\n", i, i);
    for (uint32_t d = loops; d-- > 0;) {
        if (d)
            kit_text_add(text, "{ const int z = y / h%u, m = y - z * h%u; y = z;\n", d, d);
        else
            kit_text_add(text, "{ const int m = y;\n");
        for (uint32_t i = 0; i < chain->n_leaf; i++)
            kit_text_add(text, "q%u += m * meta[%u];\n", i, at + d * step + 1 + i);
        kit_text_add(text, "}\n");
    }
}

/*
 * The same on a GPU: a team per output and part. The terms are one row of vectors, line by line. So the whole team has work on short lines,
 * and several loads are in flight.
 */
static void emit_reduce_team(kit_text *text, const kit_chain *chain, const kit_space *s, bool parts)
{
    uint32_t step = chain->n_leaf + 1, kept = kept_dims(s, true), at = 3 + kept * step, loops = 0;
    for (uint32_t d = 0; d + 1 < s->dims; d++)
        loops += s->reduced[d];
    kit_text_add(text, "const long o = GID(0);\nlong r = o;\n(void)r;\n");
    emit_lines(text, chain, kept, 3);
    for (uint32_t i = 0; i < chain->n_leaf; i++)
        kit_text_add(text, "const long w%u = q%u;\n", i, i);
    kit_text_add(text, "const int inner = (int)meta[1], across = (inner + VW - 1) / VW;\n");
    for (uint32_t d = 0; d < loops; d++)
        kit_text_add(text, "const int h%u = (int)meta[%u];\n", d, at + d * step);
    kit_text_add(text, "const long vectors = (long)across");
    for (uint32_t d = 0; d < loops; d++)
        kit_text_add(text, " * h%u", d);
    kit_text_add(text, ", parts = meta[%u];\n"
                 "const int upto = (int)(vectors * (GID(1) + 1) / parts);\n", at + loops * step);
    emit_loads(text, chain, s, "0", LOAD_STILL);
    emit_accumulators(text, chain, 'a');
    kit_text_add(text, "UNROLL8\nfor (int e = (int)(vectors * GID(1) / parts) + LANE; e < upto; e += TEAM) {\n");
    emit_team_place(text, chain, loops, at);
    kit_text_add(text, "const int n = inner - c;\n(void)n;\n");
    emit_loads(text, chain, s, "c", LOAD_MOVING);
    kit_emit_nodes(text, chain);
    emit_values(text, chain, "a", true);
    kit_text_add(text, "}\n");
    emit_team_result(text, chain, parts ? "o * parts + GID(1)" : "o", parts);
}

/* Which lines of the outermost reduced dimension are this work-item's, K_ROWS apart, and the leaves' offsets of the first one. */
static void emit_part(kit_text *text, const kit_chain *chain, const kit_space *s, uint32_t at)
{
    uint32_t step = chain->n_leaf + 1, reduced = 0;
    for (uint32_t d = 0; d < s->dims; d++)
        reduced += s->reduced[d];
    kit_text_add(text, "const long each = meta[%u], from = GID(1) * each + LID / K_ACROSS, upto = MIN(meta[%u], (GID(1) + 1) * each);\n",
                 at + reduced * step, at);
    for (uint32_t i = 0; i < chain->n_leaf; i++)
        kit_text_add(text, "q%u += from * meta[%u];\n", i, at + 1 + i);
}

/* The innermost dimension stays: a group per `block` neighbours of it, c0 .. c1; r: index of its line among all kept lines. */
static void emit_columns(kit_text *text, const kit_chain *chain, const kit_space *s)
{
    kit_text_add(text, "const long parts = (meta[1] + meta[2] - 1) / meta[2], line = GID(0) / parts;\n"
                 "const long c0 = (GID(0) - line * parts) * meta[2], c1 = MIN(meta[1], c0 + meta[2]);\n"
                 "long r = line;\n(void)r;\n");
    emit_lines(text, chain, kept_dims(s, true), 3);
}

static void emit_reduce_outer(kit_text *text, const kit_chain *chain, const kit_space *s)
{
    uint32_t loops_at = 3 + kept_dims(s, true) * (chain->n_leaf + 1);
    emit_columns(text, chain, s);
    kit_text_add(text, "for (long c = c0 + LANE * VW; c < c1; c += TEAM * VW) {\nconst long n = c1 - c;\n(void)n;\n");
    emit_accumulators(text, chain, 'a');
    uint32_t loops = emit_loops(text, chain, s, false, false, loops_at);
    emit_loads(text, chain, s, "c", LOAD_ALL);
    kit_emit_nodes(text, chain);
    emit_values(text, chain, "a", false);
    emit_loops_end(text, chain, loops, false, loops_at);
    for (uint32_t i = 0; i < chain->n_out; i++)
        kit_text_add(text, "ST_%s(o%u + line * meta[1] + c, a%u, n);\n", out_type(chain, i), i, i);
    kit_text_add(text, "}\n");
}

/* In parts: a group's work-items are K_ROWS rows of K_ACROSS; each row takes every K_ROWS-th line of the part. */
static void emit_reduce_part(kit_text *text, const kit_chain *chain, const kit_space *s, bool lined)
{
    uint32_t loops_at = 3 + kept_dims(s, true) * (chain->n_leaf + 1);
    emit_columns(text, chain, s);
    emit_part(text, chain, s, loops_at);
    kit_text_add(text, "const long c = c0 + LID %% K_ACROSS * VW, n = %s;\n(void)n;\n", lined ? "VW" : "c1 - c");
    emit_accumulators(text, chain, 'a');
    kit_text_add(text, "if (c < c1) {\n");
    uint32_t loops = emit_loops(text, chain, s, false, true, loops_at);
    emit_loads(text, chain, s, "c", LOAD_ALL);
    kit_emit_nodes(text, chain);
    emit_values(text, chain, "a", false);
    emit_loops_end(text, chain, loops, true, loops_at);
    kit_text_add(text, "}\n");
    for (uint32_t i = 0; i < chain->n_out; i++)
        kit_text_add(text, "a%u = k_over_rows(k_rows, a%u, %d);\n", i, i, chain->reduce != YK_OP_SUM);
    kit_text_add(text, "if (LID < K_ACROSS && c < c1) {\n");
    for (uint32_t i = 0; i < chain->n_out; i++)
        kit_text_add(text, "ST_f32(o%u + (GID(1) * meta[0] + line) * meta[1] + c, a%u, n);\n", i, i);
    kit_text_add(text, "}\n");
}

void kit_emit_reduce(kit_text *text, const char *name, const kit_chain *chain, const kit_space *s)
{
    emit_head(text, name, chain, false);
    if (s->reduced[s->dims - 1]) {
        kit_text_add(text, "TEAM_SHARED\n");
        emit_reduce_inner(text, chain, s);
    } else {
        emit_reduce_outer(text, chain, s);
    }
    kit_text_add(text, "}\n");
}

void kit_emit_parts(kit_text *text, const char *name, const kit_chain *chain, const kit_space *s, bool lined)
{
    emit_head(text, name, chain, true);
    kit_text_add(text, "LOCAL float k_rows[K_ROWS * K_ACROSS * VW];\n");
    emit_reduce_part(text, chain, s, lined);
    kit_text_add(text, "}\n");
}

void kit_emit_team(kit_text *text, const char *name, const kit_chain *chain, const kit_space *s, bool parts)
{
    emit_head(text, name, chain, parts);
    kit_text_add(text, "TEAM_SHARED\n");
    emit_reduce_team(text, chain, s, parts);
    kit_text_add(text, "}\n");
}

/* meta: outputs (but the innermost kept line), inner, block, kept dimensions innermost first, reduced ones outermost
 * first, each with length and the leaves' strides */
uint32_t kit_meta_reduce(const kit_chain *chain, const kit_space *s, int64_t block, int64_t *meta, int64_t *groups)
{
    uint32_t n = 3, last = s->dims - 1;
    bool inner = s->reduced[last];
    int64_t lines = 1;
    for (uint32_t d = last; d-- > 0;) {
        if (s->reduced[d])
            continue;
        lines *= s->dim[d];
        meta[n++] = s->dim[d];
        for (uint32_t i = 0; i < chain->n_leaf; i++)
            meta[n++] = s->stride[i][d];
    }
    for (uint32_t d = 0; d < last; d++) {
        if (!s->reduced[d])
            continue;
        meta[n++] = s->dim[d];
        for (uint32_t i = 0; i < chain->n_leaf; i++)
            meta[n++] = s->stride[i][d];
    }
    meta[0] = lines;
    meta[1] = s->dim[last];
    meta[2] = block;
    *groups = inner ? (lines + block - 1) / block : lines * ((s->dim[last] + block - 1) / block);
    return n;
}
