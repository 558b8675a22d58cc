/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes a kernel's tokens in order, and reads the types of declarations. expr.c, stmt.c and unit.c read with it; a token other than the
 * expected one fails the translation, with both in the reason. One thread per translation.
 */
#include "plugins/kit/spirv/compile.h"

static const spv_token token_end = {.kind = SPV_END, .text = "its end", .length = 7};

const spv_token *spv_next(spv_compile *c)
{
    return c->failed || c->at >= c->token.n ? &token_end : &c->token.at[c->at];
}

bool spv_accept(spv_compile *c, uint32_t punct)
{
    const bool is = spv_token_is(spv_next(c), punct);
    c->at += is;
    return is;
}

void spv_expect(spv_compile *c, uint32_t punct)
{
    const spv_token *t = spv_next(c);
    if (!spv_accept(c, punct))
        spv_fail(c, "%.*s, where %c is expected", (int)t->length, t->text, (char)punct);
}

bool spv_starts_type(const spv_token *t)
{
    if (t->kind != SPV_NAME)
        return false;
    const uint8_t word = t->symbol->word;
    return t->symbol->type != SPV_TYPES || word == SPV_CONST || word == SPV_IN_GLOBAL || word == SPV_IN_LOCAL;
}

spv_declared spv_type_read(spv_compile *c)
{
    spv_declared d = {.type = SPV_TYPES, .space = SPV_PRIVATE};
    for (const spv_token *t = spv_next(c); spv_starts_type(t); t = spv_next(c)) {
        d.constant |= t->symbol->word == SPV_CONST;
        if (t->symbol->word == SPV_IN_GLOBAL || t->symbol->word == SPV_IN_LOCAL)
            d.space = t->symbol->word == SPV_IN_GLOBAL ? SPV_GLOBAL : SPV_LOCAL;
        if (t->symbol->type != SPV_TYPES)
            d.type = t->symbol->type;
        c->at++;
    }
    if (d.type == SPV_TYPES)
        spv_fail(c, "%.*s, where a type is expected", (int)spv_next(c)->length, spv_next(c)->text);
    d.pointer = spv_accept(c, '*');
    return d;
}
