/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statements and declarations of a kernel in OpenCL C, read and translated to SPIR-V in one pass. unit.c asks for the body of each
 * function; one thread per translation. Blocks are nested as SPIR-V wants it: each choice and loop names where it ends.
 */
#include "plugins/kit/spirv/compile.h"

#define UNROLL_MOST 128u /* elements of an attention's head, which are registers */

static bool word_accept(spv_compile *c, spv_word word)
{
    const spv_token *t = spv_next(c);
    const bool is = t->kind == SPV_NAME && t->symbol->word == word;
    c->at += is;
    return is;
}

static spv_symbol *name_expect(spv_compile *c)
{
    const spv_token *t = spv_next(c);
    if (t->kind != SPV_NAME) {
        spv_fail(c, "%.*s, where a name is expected", (int)t->length, t->text);
        return NULL;
    }
    c->at++;
    return t->symbol;
}

/* ---- Skipping ---- */

/* Skips an opening token, its partner and all tokens between. */
static void pair_skip(spv_compile *c, uint32_t open, uint32_t close)
{
    uint32_t depth = 0;
    do {
        const spv_token *t = spv_next(c);
        if (t->kind == SPV_END) {
            spv_fail(c, "a %c has no partner", (char)open);
            return;
        }
        depth += spv_token_is(t, open) ? 1u : 0u;
        depth -= spv_token_is(t, close) ? 1u : 0u;
        c->at++;
    } while (depth);
}

/* Skips to the token itself, past parenthesised text. */
static void skip_to(spv_compile *c, uint32_t punct)
{
    while (spv_next(c)->kind != SPV_END && !spv_token_is(spv_next(c), punct))
        if (spv_token_is(spv_next(c), '('))
            pair_skip(c, '(', ')');
        else if (spv_token_is(spv_next(c), '{'))
            pair_skip(c, '{', '}');
        else
            c->at++;
}

static void statement_skip(spv_compile *c)
{
    if (spv_token_is(spv_next(c), '{')) {
        pair_skip(c, '{', '}');
    } else if (word_accept(c, SPV_IF)) {
        pair_skip(c, '(', ')');
        statement_skip(c);
        if (word_accept(c, SPV_ELSE))
            statement_skip(c);
    } else if (word_accept(c, SPV_FOR) || word_accept(c, SPV_WHILE)) {
        pair_skip(c, '(', ')');
        statement_skip(c);
    } else {
        skip_to(c, ';');
        spv_expect(c, ';');
    }
}

/* ---- Names ---- */

void spv_bind(spv_compile *c, spv_symbol *name, spv_item item)
{
    spv_item *bound = spv_take(c, sizeof *bound);
    if (!bound || !name)
        return;
    if (c->n_undo == SPV_SCOPE_NAMES) {
        spv_fail(c, "more than %d names at once", SPV_SCOPE_NAMES);
        return;
    }
    *bound = item;
    c->undo[c->n_undo++] = (spv_undo){name, name->bound};
    name->bound = bound;
}

void spv_scope_end(spv_compile *c, uint32_t mark)
{
    while (c->n_undo > mark) {
        c->n_undo--;
        c->undo[c->n_undo].symbol->bound = c->undo[c->n_undo].bound;
    }
}

/* ---- Declarations ---- */

static uint32_t length_read(spv_compile *c)
{
    const spv_item n = spv_rvalue(c);
    spv_expect(c, ']');
    if (!n.constant || n.number < 1 || n.number > 1 << 20)
        spv_fail(c, "the length of an array is a constant above 0");
    return c->failed ? 1 : (uint32_t)n.number;
}

/* "= {0}", however deep: every element is 0. */
static void array_clear(spv_compile *c, const spv_array *a)
{
    spv_item at = {.form = SPV_ELEMENT, .type = a->type, .array = a};
    const spv_item zero = a->type == SPV_F32 ? spv_value(SPV_F32, spv_constant_id(c, SPV_F32, 0)) : spv_number(a->type, 0);
    uint32_t n = 1;
    pair_skip(c, '{', '}');
    for (uint32_t i = 0; i < a->n_dim; i++)
        n *= a->dim[i];
    for (uint32_t i = 0; i < n; i++) {
        at.id = spv_constant_id(c, SPV_I32, i);
        spv_store(c, &at, zero);
    }
}

static void array_declare(spv_compile *c, const spv_declared *d, spv_symbol *name)
{
    uint32_t dim[SPV_DIMS] = {0}, n = 0;
    while (spv_accept(c, '[') && n < SPV_DIMS)
        dim[n++] = length_read(c);
    const spv_array *a = spv_array_new(c, d->space, d->type, n, dim);
    if (!a)
        return;
    spv_bind(c, name, (spv_item){.form = SPV_POINTER, .type = d->type, .space = d->space, .array = a});
    if (spv_accept(c, '='))
        array_clear(c, a);
}

static void pointer_declare(spv_compile *c, const spv_declared *d, spv_symbol *name)
{
    const spv_item p = {.form = SPV_POINTER_VARIABLE, .type = d->type, .space = SPV_GLOBAL, .id = spv_variable_new(c, SPV_U64)};
    if (d->space != SPV_GLOBAL)
        spv_fail(c, "%.*s: variables point into global memory only", (int)name->length, name->text);
    if (spv_accept(c, '='))
        spv_store(c, &p, spv_rvalue(c));
    spv_bind(c, name, p);
}

static void scalar_declare(spv_compile *c, const spv_declared *d, spv_symbol *name)
{
    const uint32_t type = d->type < SPV_I32 ? SPV_I32 : d->type;
    if (!spv_accept(c, '=')) {
        spv_bind(c, name, (spv_item){.form = SPV_VARIABLE, .type = (uint8_t)type, .id = spv_variable_new(c, type)});
        return;
    }
    const spv_item value = spv_convert(c, spv_convert(c, spv_rvalue(c), d->type), type);
    if (d->constant) {
        spv_bind(c, name, value);
        return;
    }
    const spv_item v = {.form = SPV_VARIABLE, .type = (uint8_t)type, .id = spv_variable_new(c, type)};
    spv_store(c, &v, value);
    spv_bind(c, name, v);
}

static void declaration_read(spv_compile *c)
{
    spv_declared d = spv_type_read(c);
    do {
        d.pointer |= spv_accept(c, '*');
        spv_symbol *name = name_expect(c);
        if (!name)
            return;
        if (spv_token_is(spv_next(c), '['))
            array_declare(c, &d, name);
        else if (d.pointer)
            pointer_declare(c, &d, name);
        else
            scalar_declare(c, &d, name);
        d.pointer = false;
    } while (spv_accept(c, ','));
    spv_expect(c, ';');
}

/* True if a function changes the parameter of that name. */
static bool parameter_changes(const spv_compile *c, const spv_function *f, const spv_symbol *name)
{
    uint32_t depth = 0;
    for (size_t i = f->body; i + 1 < c->token.n; i++) { /* the last one ends the text */
        const spv_token *t = &c->token.at[i], *next = t + 1;
        depth += spv_token_is(t, '{') ? 1u : 0u;
        depth -= spv_token_is(t, '}') ? 1u : 0u;
        if (!depth)
            return false;
        if (t->kind != SPV_NAME || t->symbol != name || !next->length)
            continue;
        const char last = next->text[next->length - 1];
        const bool compares = next->punct == SPV_P2('=', '=') || next->punct == SPV_P2('!', '=') || next->punct == SPV_P2('<', '=') ||
                              next->punct == SPV_P2('>', '=');
        if (next->kind == SPV_PUNCT && ((last == '=' && !compares) || next->punct == SPV_P2('+', '+') || next->punct == SPV_P2('-', '-')))
            return true;
    }
    return false;
}

void spv_bind_parameter(spv_compile *c, const spv_function *f, uint32_t i, spv_item value)
{
    const spv_declared *d = &f->parameter[i];
    const bool changes = parameter_changes(c, f, f->name[i]);
    spv_item to = {.form = SPV_VARIABLE, .type = d->type, .space = d->space};
    if (d->pointer && value.form != SPV_POINTER)
        spv_fail(c, "%.*s is given a number for a pointer", (int)f->name[i]->length, f->name[i]->text);
    if (changes && (!d->pointer || value.space == SPV_GLOBAL)) {
        to.form = d->pointer ? SPV_POINTER_VARIABLE : SPV_VARIABLE;
        to.id = spv_variable_new(c, d->pointer ? SPV_U64 : d->type);
        spv_store(c, &to, value);
        value = to;
    }
    spv_bind(c, f->name[i], value);
}

/* ---- Choices and loops ---- */

static void statement_read(spv_compile *c);

static void if_known(spv_compile *c, bool holds)
{
    if (holds)
        statement_read(c);
    else
        statement_skip(c);
    if (!word_accept(c, SPV_ELSE))
        return;
    if (holds)
        statement_skip(c);
    else
        statement_read(c);
}

static void if_read(spv_compile *c)
{
    spv_item known;
    spv_expect(c, '(');
    const uint32_t condition = spv_condition(c, &known);
    spv_expect(c, ')');
    if (known.constant) {
        if_known(c, known.number != 0);
        return;
    }
    const uint32_t yes = spv_id(c), no = spv_id(c), merge = spv_id(c);
    SPV_CODE(c, OpSelectionMerge, merge, 0);
    SPV_CODE(c, OpBranchConditional, condition, yes, no);
    c->open = false;
    spv_label(c, yes);
    statement_read(c);
    if (c->open)
        spv_branch(c, merge);
    spv_label(c, no);
    if (word_accept(c, SPV_ELSE))
        statement_read(c);
    if (c->open)
        spv_branch(c, merge);
    spv_label(c, merge);
}

/* A loop under construction: its header; the caller writes the body after it. */
typedef struct loop {
    uint32_t header, next, merge, outer_next;
} loop;

static loop loop_begin(spv_compile *c)
{
    const loop l = {spv_id(c), spv_id(c), spv_id(c), c->continue_label};
    const uint32_t body = spv_id(c);
    spv_label(c, l.header);
    SPV_CODE(c, OpLoopMerge, l.merge, l.next, 0);
    spv_branch(c, body);
    spv_label(c, body);
    c->continue_label = l.next;
    return l;
}

static void loop_condition(spv_compile *c, const loop *l)
{
    spv_item known;
    const uint32_t body = spv_id(c);
    SPV_CODE(c, OpBranchConditional, spv_condition(c, &known), body, l->merge);
    c->open = false;
    spv_label(c, body);
}

/* condition: index of its first token, which is read again for drivers that end loops: the result is the same either way. */
static void loop_end(spv_compile *c, const loop *l, size_t condition)
{
    const size_t at = c->at;
    spv_item known;
    spv_branch(c, l->header);
    spv_label(c, l->merge);
    c->continue_label = l->outer_next;
    if (!c->source->checks_loops || c->failed)
        return;
    c->at = condition;
    spv_loop_left(c, spv_condition(c, &known));
    c->at = at;
}

static void while_read(spv_compile *c)
{
    const loop l = loop_begin(c);
    spv_expect(c, '(');
    const size_t condition = c->at;
    loop_condition(c, &l);
    spv_expect(c, ')');
    statement_read(c);
    spv_label(c, l.next);
    loop_end(c, &l, condition);
}

/* for (int i = 0; i < n; i++) with a small constant n: each iteration is written out, with i a constant. */
typedef struct counted {
    spv_symbol *name;
    int64_t end;
} counted;

static bool loop_is_counted(spv_compile *c, counted *k)
{
    const size_t from = c->at;
    const spv_token *t = &c->token.at[from];
    bool is = from + 12 < c->token.n && t[0].kind == SPV_NAME && t[0].symbol->type == SPV_I32 && t[1].kind == SPV_NAME &&
              spv_token_is(t + 2, '=') && t[3].length == 1 && t[3].text[0] == '0' && spv_token_is(t + 4, ';');
    is = is && t[5].kind == SPV_NAME && t[5].symbol == t[1].symbol && spv_token_is(t + 6, '<') && t[7].kind == SPV_NUMBER &&
         spv_token_is(t + 8, ';') && t[9].kind == SPV_NAME && t[9].symbol == t[1].symbol && spv_token_is(t + 10, SPV_P2('+', '+')) &&
         spv_token_is(t + 11, ')');
    if (!is)
        return false;
    c->at = from + 7;
    k->name = t[1].symbol;
    k->end = spv_rvalue(c).number;
    c->at = from;
    return k->end <= UNROLL_MOST;
}

static void loop_unroll(spv_compile *c, const counted *k)
{
    const size_t body = c->at + 12;
    const uint32_t mark = c->n_undo;
    for (int64_t i = 0; i < k->end && !c->failed; i++) {
        c->at = body;
        spv_bind(c, k->name, spv_number(SPV_I32, i));
        statement_read(c);
        spv_scope_end(c, mark);
    }
}

static void for_read(spv_compile *c)
{
    const uint32_t mark = c->n_undo;
    counted k;
    spv_expect(c, '(');
    if (loop_is_counted(c, &k)) {
        loop_unroll(c, &k);
        return;
    }
    if (spv_starts_type(spv_next(c))) {
        declaration_read(c);
    } else if (!spv_accept(c, ';')) {
        spv_expression(c);
        spv_expect(c, ';');
    }
    const loop l = loop_begin(c);
    const size_t condition = c->at;
    if (spv_token_is(spv_next(c), ';'))
        spv_fail(c, "a loop without a condition");
    loop_condition(c, &l);
    spv_expect(c, ';');
    const size_t step = c->at;
    skip_to(c, ')');
    spv_expect(c, ')');
    statement_read(c);
    const size_t end = c->at;
    spv_label(c, l.next);
    c->at = step;
    if (!spv_token_is(spv_next(c), ')'))
        spv_expression(c);
    c->at = end;
    loop_end(c, &l, condition);
    spv_scope_end(c, mark);
}

/* do { .. } while (0), which macros are made of */
static void do_read(spv_compile *c)
{
    spv_block(c);
    if (!word_accept(c, SPV_WHILE))
        spv_fail(c, "a do without a while");
    spv_expect(c, '(');
    const spv_item again = spv_rvalue(c);
    if (!again.constant || again.number)
        spv_fail(c, "a do is for macros only: while (0)");
    spv_expect(c, ')');
    spv_expect(c, ';');
}

/* ---- Leaving ---- */

static void continue_write(spv_compile *c)
{
    spv_expect(c, ';');
    if (!c->continue_label)
        spv_fail(c, "continue outside a loop");
    else
        spv_branch(c, c->continue_label);
}

static void return_write(spv_compile *c)
{
    spv_item v = {.form = SPV_NOTHING};
    if (!spv_token_is(spv_next(c), ';'))
        v = spv_convert(c, spv_load(c, spv_expression(c)), c->function->result.type);
    spv_expect(c, ';');
    if (c->function->kernel) {
        spv_kernel_return(c);
        return;
    }
    if (!c->function->leaves_early) {
        c->result = v;
        return;
    }
    if (c->continue_label)
        spv_fail(c, "return from within a loop of a function");
    if (v.form == SPV_VALUE)
        SPV_CODE(c, OpStore, c->result_variable, spv_value_id(c, &v));
    spv_branch(c, c->leave_label);
}

static void statement_read(spv_compile *c)
{
    if (c->failed)
        return;
    if (spv_token_is(spv_next(c), '{'))
        spv_block(c);
    else if (word_accept(c, SPV_IF))
        if_read(c);
    else if (word_accept(c, SPV_FOR))
        for_read(c);
    else if (word_accept(c, SPV_WHILE))
        while_read(c);
    else if (word_accept(c, SPV_DO))
        do_read(c);
    else if (word_accept(c, SPV_CONTINUE))
        continue_write(c);
    else if (word_accept(c, SPV_RETURN))
        return_write(c);
    else if (spv_starts_type(spv_next(c)))
        declaration_read(c);
    else if (!spv_accept(c, ';')) {
        spv_expression(c);
        spv_expect(c, ';');
    }
}

void spv_block(spv_compile *c)
{
    const uint32_t mark = c->n_undo;
    spv_expect(c, '{');
    while (!c->failed && !spv_token_is(spv_next(c), '}'))
        statement_read(c);
    spv_expect(c, '}');
    spv_scope_end(c, mark);
}
