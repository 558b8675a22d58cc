/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The preprocessor of a translation to SPIR-V: conditions, macros with and without arguments, pasting. unit.c expands each text's tokens
 * with it before it reads them; any thread, one per translation.
 *
 * The dialect needs no stringification, no variadic macros and no files, so they are missing here. An #include is in the host's branch,
 * which is not taken.
 */
#include "plugins/kit/spirv/compile.h"

#define NESTED 32
#define ARGUMENTS 32

/* A source of tokens: a text, or a macro's expansion. */
typedef struct source {
    struct source *outer;
    const spv_token *at, *end;
    spv_macro *macro; /* is free again when its tokens are used up */
} source;

typedef struct conditions {
    bool takes[NESTED], taken[NESTED]; /* this branch; any branch so far */
    uint32_t depth;
} conditions;

static bool token_is(const spv_token *t, uint32_t punct)
{
    return t && t->kind == SPV_PUNCT && t->punct == punct;
}

static bool token_named(const spv_token *t, const char *name)
{
    return t->kind == SPV_NAME && t->length == strlen(name) && !memcmp(t->text, name, t->length);
}

/* ---- Definitions ---- */

static void macro_define(spv_compile *c, const spv_token *t, const spv_token *end)
{
    spv_macro *macro = spv_take(c, sizeof *macro);
    const spv_token *name = t++;
    spv_tokens parameter = {0};
    if (!macro || name >= end || name->kind != SPV_NAME)
        return;
    if (t < end && token_is(t, '(') && !t->after_blank) {
        macro->takes_arguments = true;
        for (t++; t < end && !token_is(t, ')'); t++)
            if (t->kind == SPV_NAME)
                spv_tokens_add(c, &parameter, t);
        t++;
    }
    macro->parameter = parameter.at;
    macro->n_parameter = (uint32_t)parameter.n;
    macro->body = t;
    macro->n_body = t < end ? (size_t)(end - t) : 0;
    name->symbol->macro = macro;
}

void spv_macros_define(spv_compile *c, const char *macros)
{
    char *text = spv_take(c, strlen(macros) + 1);
    spv_tokens list = {0};
    if (!text)
        return;
    for (size_t i = 0; macros[i]; i++) /* "-DNAME=VALUE" as lines "NAME VALUE" */
        text[i] = macros[i] == '=' ? ' ' : macros[i];
    for (char *p = strstr(text, "-D"); p; p = strstr(p, "-D"))
        p[0] = '\n', p[1] = ' ';
    spv_lex(c, text, &list);
    for (size_t i = 0, end; i < list.n; i = end) {
        for (end = i + 1; end < list.n && !list.at[end].starts_line;)
            end++;
        macro_define(c, list.at + i, list.at + end);
    }
}

/* ---- Expansion ---- */

static const spv_token *source_peek(source **from)
{
    while (*from && (*from)->at == (*from)->end) {
        if ((*from)->macro)
            (*from)->macro->expanding = false;
        if (!(*from)->outer)
            return NULL;
        *from = (*from)->outer;
    }
    return *from ? (*from)->at : NULL;
}

static void source_push(spv_compile *c, source **from, const spv_tokens *list, spv_macro *macro)
{
    source *s = spv_take(c, sizeof *s);
    if (!s)
        return;
    *s = (source){.outer = *from, .at = list->at, .end = list->at + list->n, .macro = macro};
    if (macro)
        macro->expanding = true;
    *from = s;
}

static void tokens_expand(spv_compile *c, const spv_token *at, size_t n, spv_tokens *out);

/* From the parenthesis on; the arguments as they stand. */
static uint32_t arguments_read(spv_compile *c, source **from, spv_tokens *argument)
{
    uint32_t n = 0, depth = 0;
    memset(argument, 0, ARGUMENTS * sizeof *argument);
    for (const spv_token *t; (t = source_peek(from)) != NULL;) {
        (*from)->at++;
        if (token_is(t, ')') && depth == 1)
            return n + 1;
        depth += token_is(t, '(') ? 1u : 0u;
        depth -= token_is(t, ')') ? 1u : 0u;
        if (depth == 1 && token_is(t, '(') && !n && !argument[0].n)
            continue;
        if (depth == 1 && token_is(t, ','))
            n++;
        else if (n < ARGUMENTS)
            spv_tokens_add(c, &argument[n], t);
        if (n >= ARGUMENTS)
            break;
    }
    spv_fail(c, "a macro's arguments have no end, or there are more than %d", ARGUMENTS);
    return 0;
}

static uint32_t parameter_find(const spv_macro *m, const spv_token *t)
{
    for (uint32_t i = 0; i < m->n_parameter; i++)
        if (t->kind == SPV_NAME && m->parameter[i].symbol == t->symbol)
            return i;
    return YK_NONE;
}

static void tokens_append(spv_compile *c, spv_tokens *out, const spv_tokens *from)
{
    for (size_t i = 0; i < from->n; i++)
        spv_tokens_add(c, out, &from->at[i]);
}

/* A macro's body with its arguments inserted: operands of ## as they are, other arguments expanded. */
static spv_tokens body_make(spv_compile *c, const spv_macro *m, const spv_tokens *argument, uint32_t n_argument)
{
    spv_tokens out = {0};
    for (size_t i = 0; i < m->n_body && !c->failed; i++) {
        const spv_token *t = &m->body[i];
        const uint32_t p = parameter_find(m, t);
        const bool pastes = (i + 1 < m->n_body && token_is(t + 1, SPV_P2('#', '#'))) || (i && token_is(t - 1, SPV_P2('#', '#')));
        if (token_is(t, SPV_P2('#', '#')))
            continue;
        const size_t before = out.n;
        if (p == YK_NONE)
            spv_tokens_add(c, &out, t);
        else if (p < n_argument && pastes)
            tokens_append(c, &out, &argument[p]);
        else if (p < n_argument)
            tokens_expand(c, argument[p].at, argument[p].n, &out);
        if (i && token_is(t - 1, SPV_P2('#', '#')) && before && out.n > before) {
            out.at[before - 1] = spv_token_pasted(c, &out.at[before - 1], &out.at[before]);
            memmove(out.at + before, out.at + before + 1, (out.n - before - 1) * sizeof *out.at);
            out.n--;
        }
    }
    return out;
}

/* Takes the next token, and expands it if it is a macro. */
static void token_expand(spv_compile *c, source **from, spv_tokens *out)
{
    const spv_token *t = source_peek(from);
    spv_macro *m = t->kind == SPV_NAME ? t->symbol->macro : NULL;
    spv_tokens argument[ARGUMENTS], body;
    uint32_t n = 0;
    (*from)->at++;
    if (m && !m->expanding && m->takes_arguments) {
        const spv_token *next = source_peek(from);
        if (!token_is(next, '('))
            m = NULL;
        else
            n = arguments_read(c, from, argument);
    }
    if (!m || m->expanding) {
        spv_tokens_add(c, out, t);
        return;
    }
    body = body_make(c, m, argument, n);
    source_push(c, from, &body, m);
}

static void tokens_expand(spv_compile *c, const spv_token *at, size_t n, spv_tokens *out)
{
    source base = {.at = at, .end = at + n}, *from = &base;
    while (!c->failed && source_peek(&from))
        token_expand(c, &from, out);
}

/* ---- Conditions ---- */

static bool condition_or(spv_compile *c, const spv_token **t, const spv_token *end);

/* The value of a number, or of a name that stands for one; 0 for any other name. */
static bool condition_number(spv_compile *c, const spv_token *t)
{
    const spv_macro *macro = t->kind == SPV_NAME ? t->symbol->macro : NULL;
    if (t->kind == SPV_NAME && !macro)
        return false;
    if (macro && macro->n_body == 1)
        t = macro->body;
    if (t->kind != SPV_NUMBER)
        spv_fail(c, "a condition of the preprocessor is a number or defined(NAME), with ! && ||; not %.*s", (int)t->length, t->text);
    return t->text[0] != '0';
}

static bool condition_one(spv_compile *c, const spv_token **t, const spv_token *end)
{
    bool is = false;
    if (*t >= end) {
        spv_fail(c, "a condition of the preprocessor has no end");
        return false;
    }
    const spv_token *first = (*t)++;
    if (token_is(first, '!'))
        return !condition_one(c, t, end);
    if (token_is(first, '(')) {
        is = condition_or(c, t, end);
        *t += *t < end;
        return is;
    }
    if (token_named(first, "defined")) { /* defined(NAME) */
        is = *t + 1 < end && (*t)[1].kind == SPV_NAME && (*t)[1].symbol->macro;
        *t += 3;
    } else if (first->kind == SPV_NAME && first->symbol->macro && first->symbol->macro->takes_arguments) {
        while (*t < end && !token_is((*t)++, ')')) /* __has_builtin(NAME): no */
            ;
    } else {
        is = condition_number(c, first);
    }
    return is;
}

static bool condition_and(spv_compile *c, const spv_token **t, const spv_token *end)
{
    bool is = condition_one(c, t, end);
    while (*t < end && token_is(*t, SPV_P2('&', '&'))) {
        (*t)++;
        is &= condition_one(c, t, end);
    }
    return is;
}

static bool condition_or(spv_compile *c, const spv_token **t, const spv_token *end)
{
    bool is = condition_and(c, t, end);
    while (*t < end && token_is(*t, SPV_P2('|', '|'))) {
        (*t)++;
        is |= condition_and(c, t, end);
    }
    return is;
}

/* The whole condition. */
static bool condition_read(spv_compile *c, const spv_token *t, const spv_token *end)
{
    const bool is = condition_or(c, &t, end);
    if (t < end)
        spv_fail(c, "a condition of the preprocessor is a number or defined(NAME), with ! && ||; not %.*s", (int)t->length, t->text);
    return is;
}

static bool conditions_take(const conditions *k)
{
    return !k->depth || k->takes[k->depth - 1];
}

static void conditions_push(spv_compile *c, conditions *k, bool is)
{
    const bool outer = conditions_take(k);
    if (k->depth == NESTED) {
        spv_fail(c, "conditions of the preprocessor are nested too deeply");
        return;
    }
    k->takes[k->depth] = outer && is;
    k->taken[k->depth++] = !outer || is;
}

static void conditions_else(conditions *k, bool is)
{
    k->takes[k->depth - 1] = !k->taken[k->depth - 1] && is;
    k->taken[k->depth - 1] |= is;
}

/* Executes directive `t`, whose words end at `end`. */
static void directive_do(spv_compile *c, conditions *k, const spv_token *t, const spv_token *end)
{
    const spv_token *rest = t + 1;
    const bool named = rest < end && rest->kind == SPV_NAME, is = named && rest->symbol->macro;
    if (token_named(t, "ifdef"))
        conditions_push(c, k, is);
    else if (token_named(t, "ifndef"))
        conditions_push(c, k, !is);
    else if (token_named(t, "if"))
        conditions_push(c, k, conditions_take(k) && condition_read(c, rest, end));
    else if (!k->depth && (token_named(t, "elif") || token_named(t, "else") || token_named(t, "endif")))
        spv_fail(c, "#%.*s without #if", (int)t->length, t->text);
    else if (token_named(t, "elif"))
        conditions_else(k, !k->taken[k->depth - 1] && condition_read(c, rest, end));
    else if (token_named(t, "else"))
        conditions_else(k, true);
    else if (token_named(t, "endif"))
        k->depth--;
    else if (!conditions_take(k))
        return;
    else if (token_named(t, "define"))
        macro_define(c, rest, end);
    else if (token_named(t, "undef") && named)
        rest->symbol->macro = NULL;
    else
        spv_fail(c, "#%.*s is not of the dialect", (int)t->length, t->text);
}

void spv_macros_expand(spv_compile *c, const spv_tokens *in, spv_tokens *out)
{
    source base = {.at = in->at, .end = in->at + in->n}, *from = &base;
    conditions k = {.depth = 0};
    for (const spv_token *t; !c->failed && (t = source_peek(&from)) != NULL;) {
        if (from == &base && t->starts_line && token_is(t, '#')) {
            const spv_token *end = ++t;
            while (end < base.end && !end->starts_line)
                end++;
            base.at = end;
            if (t < end)
                directive_do(c, &k, t, end);
        } else if (!conditions_take(&k)) {
            from->at++;
        } else {
            token_expand(c, &from, out);
        }
    }
}
