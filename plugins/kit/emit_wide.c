/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps on a GPU whose work-items load and store 16 bytes at once (kit_target.four). A work-item has one vector of the outputs, issues all
 * its loads first, and never checks alignment.
 *
 * lower/chain.c asks kit_wide_of while a program is made, in any thread. It takes this form only for lines that are whole vectors at
 * aligned places; any other map gets the form of emit_kernel.c.
 */
#include <stdio.h>

#include "plugins/kit/emit.h"

#define LINE_BYTES 16u           /* bytes of a load */
#define VECTORS_MOST (1ll << 30) /* int counts the vectors */

/* A leaf's elements relative to the outputs'. */
typedef enum leaf_way {
    LEAF_DENSE, /* as the outputs */
    LEAF_LINE,  /* one line for all */
    LEAF_VIEW   /* each dimension has a stride; 0 of the innermost: an element for a whole line */
} leaf_way;

static uint32_t operand_dtype(const kit_chain *chain, uint32_t i)
{
    return chain->graph->value[i < chain->n_leaf ? chain->leaf[i] : chain->out[i - chain->n_leaf]].dtype;
}

static leaf_way way_of(const kit_space *s, uint32_t i)
{
    int64_t dense = 1;
    bool is_dense = true, is_line = s->stride[i][s->dims - 1] == 1;
    for (uint32_t d = s->dims; d-- > 0; dense *= s->dim[d]) {
        is_dense = is_dense && s->stride[i][d] == dense;
        is_line = is_line && (d + 1 == s->dims || !s->stride[i][d]);
    }
    return is_dense ? LEAF_DENSE : is_line ? LEAF_LINE : LEAF_VIEW;
}

/* True if vectors of `width` elements of operand i begin at multiples of their size, 16 bytes at most; at: the operand's own begin. */
static bool operand_is_lined(const kit_chain *chain, const kit_space *s, uint32_t i, uint32_t width, uint64_t at)
{
    const uint64_t element = yk_dtype_bytes(operand_dtype(chain, i)), whole = element * width;
    const uint64_t align = whole < LINE_BYTES ? whole : LINE_BYTES;
    if (!s->stride[i][s->dims - 1])
        return true;
    for (uint32_t d = 0; d + 1 < s->dims; d++)
        if ((uint64_t)s->stride[i][d] * element % align)
            return false;
    return at % align == 0;
}

/* Elements of a vector, or 0; scratch: leaf 0 lies in scratch memory. */
uint32_t kit_wide_of(const kit_chain *chain, const kit_space *s, bool scratch)
{
    const int64_t inner = s->dim[s->dims - 1];
    uint32_t width = inner % 8 ? 4 : 8;
    for (uint32_t i = 0; i < chain->n_leaf + chain->n_out; i++)
        if (yk_dtype_bytes(operand_dtype(chain, i)) == 4 && s->stride[i][s->dims - 1] && way_of(s, i) != LEAF_LINE)
            width = 4; /* neighbours' 16 bytes lie side by side, too */
    int64_t vectors = 1;
    for (uint32_t d = 0; d < s->dims; d++)
        vectors *= s->dim[d];
    if (chain->reduce || inner % width || vectors / width > VECTORS_MOST)
        return 0;
    for (uint32_t i = 0; i < chain->n_leaf + chain->n_out; i++) {
        const yk_value *v = &chain->graph->value[i < chain->n_leaf ? chain->leaf[i] : chain->out[i - chain->n_leaf]];
        if (!operand_is_lined(chain, s, i, width, scratch && !i ? 0 : v->offset))
            return 0;
    }
    return width;
}

/* ---- The text ---- */

static void emit_parameters(kit_text *text, const char *name, const kit_chain *chain)
{
    kit_text_add(text, "KERNEL void %s(", name);
    for (uint32_t i = 0; i < chain->n_leaf; i++)
        kit_text_add(text, "IN(t_%s, i%u), ", kit_type(operand_dtype(chain, i)), i);
    for (uint32_t i = 0; i < chain->n_out; i++)
        kit_text_add(text, "OUT(t_%s, o%u), ", kit_type(operand_dtype(chain, chain->n_leaf + i)), i);
    kit_text_add(text, "IN(long, meta), int vectors, int across)\n{\n");
    for (uint32_t i = 0; i < chain->n_leaf; i++)
        kit_text_add(text, "ATC(t_%s, i%u);\n", kit_type(operand_dtype(chain, i)), i);
    for (uint32_t i = 0; i < chain->n_out; i++)
        kit_text_add(text, "AT(t_%s, o%u);\n", kit_type(operand_dtype(chain, chain->n_leaf + i)), i);
    kit_text_add(text, "ATC(long, meta);\n");
}

/* Declares c, the place in the line, and q<i>, the begin of a view's line; meta: kit_meta_map's. */
static void emit_places(kit_text *text, const kit_chain *chain, const kit_space *s)
{
    const uint32_t step = chain->n_leaf + 1;
    kit_text_add(text, "uint r = (uint)w / (uint)across;\nconst long c = (w - (int)r * across) * VW;\n(void)c;\n");
    for (uint32_t i = 0; i < chain->n_leaf; i++)
        if (way_of(s, i) == LEAF_VIEW)
            kit_text_add(text, "long q%u = 0;\n", i);
    for (uint32_t d = 0; d + 1 < s->dims; d++) {
        if (d + 2 < s->dims)
            kit_text_add(text, "{ const uint h = (uint)meta[%u], q = r / h, m = r - q * h; r = q; (void)m;\n", 3 + d * step);
        else
            kit_text_add(text, "{ const uint m = r; (void)m;\n");
        for (uint32_t i = 0; i < chain->n_leaf; i++)
            if (way_of(s, i) == LEAF_VIEW)
                kit_text_add(text, "q%u += m * meta[%u];\n", i, 4 + d * step + i);
        kit_text_add(text, "}\n");
    }
}

static void emit_leaf(kit_text *text, const kit_chain *chain, const kit_space *s, uint32_t i)
{
    const uint32_t dtype = operand_dtype(chain, i);
    const char *v = kit_is_float(dtype) ? "V" : "VI", *type = kit_type(dtype);
    const leaf_way way = way_of(s, i);
    if (way == LEAF_DENSE)
        kit_text_add(text, "const %s x%u = LD_%s(i%u + at, n);\n", v, i, type, i);
    else if (way == LEAF_LINE)
        kit_text_add(text, "const %s x%u = LD_%s(i%u + c, n);\n", v, i, type, i);
    else if (s->stride[i][s->dims - 1])
        kit_text_add(text, "const %s x%u = LD_%s(i%u + q%u + c, n);\n", v, i, type, i, i);
    else if (kit_is_float(dtype))
        kit_text_add(text, "const V x%u = V_SPLAT(GET_%s(i%u[q%u]));\n", i, type, i, i);
    else
        kit_text_add(text, "const VI x%u = VI_SPLAT(i%u[q%u]%s);\n", i, i, i, dtype == YK_BOOL ? " ? -1 : 0" : "");
}

void kit_emit_wide(kit_text *text, const char *name, const kit_chain *chain, const kit_space *s, uint32_t width)
{
    bool dense = true;
    char local[16];
    emit_parameters(text, name, chain);
    kit_text_add(text, "const int w = (int)(GID(0) * LSIZE) + LID;\nif (w >= vectors)\nreturn;\n"
                 "const long n = VW, at = (long)w * %u;\n", width);
    for (uint32_t i = 0; i < chain->n_leaf; i++)
        dense = dense && way_of(s, i) == LEAF_DENSE;
    if (!dense)
        emit_places(text, chain, s);
    for (uint32_t i = 0; i < chain->n_leaf; i++)
        emit_leaf(text, chain, s, i);
    kit_emit_nodes(text, chain);
    for (uint32_t i = 0; i < chain->n_out; i++) {
        if (!kit_local_name(chain, chain->value[i], local))
            text->bad = true;
        kit_text_add(text, "ST_%s(o%u + at, %s, n);\n", kit_type(operand_dtype(chain, chain->n_leaf + i)), i, local);
    }
    kit_text_add(text, "}\n");
}
