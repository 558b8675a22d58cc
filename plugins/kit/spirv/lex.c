/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts texts of kernels into tokens. Names become symbols, numbers in a table, so that each is looked up once; comments and joined lines
 * are blanks. macro.c and unit.c call it, at the start of a translation; any thread, one per translation.
 */
#include "plugins/kit/spirv/compile.h"

static bool is_letter(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_';
}

static bool is_digit(char ch)
{
    return ch >= '0' && ch <= '9';
}

spv_symbol *spv_symbol_of(spv_compile *c, const char *text, uint32_t length)
{
    spv_symbol **list = &c->symbols[kit_hash(KIT_HASH_SEED, text, length) % SPV_SYMBOL_LISTS];
    for (spv_symbol *s = *list; s; s = s->next)
        if (s->length == length && !memcmp(s->text, text, length))
            return s;
    spv_symbol *symbol = spv_take(c, sizeof *symbol);
    if (symbol) {
        *symbol = (spv_symbol){.next = *list, .text = text, .length = length, .type = SPV_TYPES};
        *list = symbol;
    }
    return symbol;
}

void spv_symbols_begin(spv_compile *c)
{
    static const struct {
        const char *text;
        uint8_t word, type;
    } known[] = {
        {"if", SPV_IF, SPV_TYPES}, {"else", SPV_ELSE, SPV_TYPES}, {"for", SPV_FOR, SPV_TYPES}, {"while", SPV_WHILE, SPV_TYPES},
        {"do", SPV_DO, SPV_TYPES}, {"return", SPV_RETURN, SPV_TYPES}, {"continue", SPV_CONTINUE, SPV_TYPES},
        {"const", SPV_CONST, SPV_TYPES}, {"typedef", SPV_TYPEDEF, SPV_TYPES}, {"spv_kernel", SPV_KERNEL, SPV_TYPES},
        {"spv_inline", SPV_INLINE, SPV_TYPES}, {"spv_global", SPV_IN_GLOBAL, SPV_TYPES}, {"spv_local", SPV_IN_LOCAL, SPV_TYPES},
        {"spv_group", SPV_GROUP, SPV_TYPES}, {"spv_lane", SPV_LANE, SPV_TYPES}, {"spv_lanes", SPV_LANES, SPV_TYPES},
        {"spv_barrier", SPV_BARRIER, SPV_TYPES}, {"spv_as_float", SPV_AS_FLOAT, SPV_TYPES}, {"spv_as_int", SPV_AS_INT, SPV_TYPES},
        {"spv_as_uint", SPV_AS_UINT, SPV_TYPES}, {"spv_mulhi", SPV_MULHI, SPV_TYPES}, {"spv_sqrt", SPV_SQRT, SPV_TYPES},
        {"spv_fma", SPV_FMA, SPV_TYPES}, {"spv_of_lane", SPV_OF_LANE, SPV_TYPES},
        {"spv_coop_team", SPV_COOP_TEAM, SPV_TYPES}, {"spv_coop_clear", SPV_COOP_CLEAR, SPV_TYPES},
        {"spv_coop_load", SPV_COOP_LOAD, SPV_TYPES}, {"spv_coop_add", SPV_COOP_ADD, SPV_TYPES},
        {"spv_coop_store", SPV_COOP_STORE, SPV_TYPES}, {"spv_left_f16", 0, SPV_LEFT_F16}, {"spv_right_f16", 0, SPV_RIGHT_F16},
        {"spv_sum_f16", 0, SPV_SUM_F16}, {"spv_left_bf16", 0, SPV_LEFT_BF16}, {"spv_right_bf16", 0, SPV_RIGHT_BF16},
        {"spv_sum_bf16", 0, SPV_SUM_BF16},
        {"void", 0, SPV_VOID}, {"uchar", 0, SPV_U8}, {"ushort", 0, SPV_U16}, {"int", 0, SPV_I32},
        {"uint", 0, SPV_U32}, {"long", 0, SPV_I64}, {"ulong", 0, SPV_U64}, {"float", 0, SPV_F32},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        spv_symbol *symbol = spv_symbol_of(c, known[i].text, (uint32_t)strlen(known[i].text));
        if (!symbol)
            return;
        symbol->word = known[i].word;
        symbol->type = known[i].type;
    }
}

static size_t comment_length(const char *p)
{
    const char *end;
    if (p[0] != '/' || (p[1] != '*' && p[1] != '/'))
        return 0;
    if (p[1] == '/')
        return strcspn(p, "\n");
    end = strstr(p + 2, "*/");
    return end ? (size_t)(end - p) + 2 : strlen(p);
}

/* Skips blanks; marks the token if there were any, or an end of line. */
static const char *blanks_skip(const char *p, spv_token *token)
{
    for (size_t n;;) {
        if (*p == '\\' && p[1] == '\n')
            n = 2;
        else if (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')
            n = 1;
        else if (!(n = comment_length(p)))
            return p;
        if (*p == '\n')
            token->starts_line = true;
        token->after_blank = true;
        p += n;
    }
}

static uint32_t punct_length(const char *p)
{
    static const char *const longer[] = {"<<=", ">>=", "##", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=",
                                         "/=", "%=", "&=", "|=", "^=", "++", "--", "->"};
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
        if (!strncmp(p, longer[i], strlen(longer[i])))
            return (uint32_t)strlen(longer[i]);
    return 1;
}

/* A number's letters and points, and the signs of its exponent, which hexadecimal ones have not. */
static uint32_t number_length(const char *p)
{
    const bool hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
    uint32_t n = 0;
    while (is_letter(p[n]) || is_digit(p[n]) || p[n] == '.' ||
           ((p[n] == '+' || p[n] == '-') && !hex && n && (p[n - 1] == 'e' || p[n - 1] == 'E')))
        n++;
    return n;
}

static uint32_t string_length(const char *p)
{
    uint32_t n = 1;
    while (p[n] && p[n] != '"' && p[n] != '\n')
        n++;
    return n + (p[n] == '"');
}

static uint32_t name_length(const char *p)
{
    uint32_t n = 0;
    while (is_letter(p[n]) || is_digit(p[n]))
        n++;
    return n;
}

static void token_read(spv_compile *c, const char *p, spv_token *token)
{
    token->text = p;
    if (is_letter(*p)) {
        token->kind = SPV_NAME;
        token->length = name_length(p);
        token->symbol = spv_symbol_of(c, p, token->length);
    } else if (is_digit(*p) || (*p == '.' && is_digit(p[1]))) {
        token->kind = SPV_NUMBER;
        token->length = number_length(p);
    } else if (*p == '"' || *p == '\'') {
        token->kind = SPV_OTHER;
        token->length = string_length(p);
    } else {
        token->kind = SPV_PUNCT;
        token->length = punct_length(p);
        for (uint32_t i = 0; i < token->length; i++)
            token->punct |= (uint32_t)(unsigned char)p[i] << 8 * i;
    }
}

void spv_lex(spv_compile *c, const char *text, spv_tokens *out)
{
    spv_token token = {.starts_line = true};
    for (const char *p = blanks_skip(text, &token); *p && !c->failed; p = blanks_skip(p, &token)) {
        token_read(c, p, &token);
        spv_tokens_add(c, out, &token);
        p += token.length;
        token = (spv_token){0};
    }
}

spv_token spv_token_pasted(spv_compile *c, const spv_token *a, const spv_token *b)
{
    spv_token token = {0};
    char *text = spv_take(c, (size_t)a->length + b->length + 1);
    if (!text)
        return *a;
    memcpy(text, a->text, a->length);
    memcpy(text + a->length, b->text, b->length);
    token_read(c, text, &token);
    if (token.length != a->length + b->length)
        spv_fail(c, "%s is not one token", text);
    return token;
}
