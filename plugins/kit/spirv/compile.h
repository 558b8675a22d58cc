/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the translator: one pass over the tokens of a kernel that writes instructions as it reads. lex.c makes tokens of texts, and
 * macro.c expands them. spirv_memory.c and spirv_module.c keep words, types and constants; spirv_value.c computes. spirv_read.c takes
 * tokens and reads types. matrix.c writes operations on cooperative matrices. expr.c reads expressions, stmt.c statements, unit.c functions
 * and the kernel. Each calls only the ones named before it. But a function is expanded at its call, by reading its tokens again, so expr.c
 * comes back to unit.c by `call`.
 */
#ifndef YOKE_PLUGINS_KIT_SPIRV_COMPILE_H
#define YOKE_PLUGINS_KIT_SPIRV_COMPILE_H

#include <stdarg.h>

#include "plugins/kit/spirv/opcodes.h"
#include "plugins/kit/spirv/spirv.h"
#include "plugins/kit/value.h"

/* In the order of the usual arithmetic conversions; only memory has U8 and U16; left, right and sum matrices of a format follow each
 * other. */
typedef enum spv_type {
    SPV_VOID, SPV_BOOL, SPV_U8, SPV_U16, SPV_I32, SPV_U32, SPV_I64, SPV_U64, SPV_F32, SPV_LEFT_F16, SPV_RIGHT_F16, SPV_SUM_F16,
    SPV_LEFT_BF16, SPV_RIGHT_BF16, SPV_SUM_BF16, SPV_TYPES
} spv_type;
typedef enum spv_space { SPV_PRIVATE, SPV_LOCAL, SPV_GLOBAL, SPV_SPACES } spv_space;

typedef enum spv_word {
    SPV_NO_WORD, SPV_IF, SPV_ELSE, SPV_FOR, SPV_WHILE, SPV_DO, SPV_RETURN, SPV_CONTINUE, SPV_CONST, SPV_TYPEDEF, SPV_KERNEL, SPV_INLINE,
    SPV_IN_GLOBAL, SPV_IN_LOCAL,
    SPV_GROUP, SPV_LANE, SPV_LANES, SPV_BARRIER, SPV_AS_FLOAT, SPV_AS_INT, SPV_AS_UINT, SPV_MULHI, SPV_SQRT, SPV_FMA,
    SPV_OF_LANE, SPV_COOP_TEAM, SPV_COOP_CLEAR, SPV_COOP_LOAD, SPV_COOP_ADD, SPV_COOP_STORE /* functions */
} spv_word;

typedef struct spv_symbol spv_symbol;

typedef enum spv_kind { SPV_END, SPV_NAME, SPV_NUMBER, SPV_PUNCT, SPV_OTHER } spv_kind;

typedef struct spv_token {
    uint8_t kind; /* spv_kind */
    bool starts_line, after_blank;
    uint32_t length, punct; /* punct: its characters, the first one lowest */
    const char *text;
    spv_symbol *symbol; /* set for a name token */
} spv_token;

#define SPV_P2(a, b) ((uint32_t)(a) | (uint32_t)(b) << 8)

typedef struct spv_tokens {
    spv_token *at;
    size_t n, cap;
} spv_tokens;

typedef struct spv_macro {
    bool takes_arguments, expanding;
    uint32_t n_parameter;
    const spv_token *parameter; /* names */
    const spv_token *body;
    size_t n_body;
} spv_macro;

typedef struct spv_words {
    uint32_t *at;
    size_t n, cap;
} spv_words;

#define SPV_DIMS 3
typedef struct spv_array {
    uint32_t variable, n_dim, dim[SPV_DIMS];
    uint8_t type, space; /* in local memory words have 32 bits, for any type */
} spv_array;

typedef enum spv_form {
    SPV_NOTHING,
    SPV_VALUE,           /* id, or a constant of whole type */
    SPV_VARIABLE,        /* id of the variable */
    SPV_ELEMENT,         /* element of memory: the pointer's target */
    SPV_POINTER,         /* id: the address in global memory; elsewhere index `id` of `array`, or the variable `id` itself */
    SPV_POINTER_VARIABLE /* id of a variable with an address in global memory */
} spv_form;

typedef struct spv_item {
    uint8_t form, type, space, depth; /* depth: dimensions of the array that were indexed */
    bool constant;
    uint32_t id;
    const spv_array *array;
    int64_t number; /* value of a constant, extended by its type */
} spv_item;

typedef struct spv_declared { /* a declared type */
    uint8_t type, space;
    bool pointer, constant;
} spv_declared;

#define SPV_PARAMETERS 128 /* a product with all that fusion hangs on it has 24 operands and 3 results, each with its strides */
typedef struct spv_function {
    uint32_t n_parameter;
    spv_declared result, parameter[SPV_PARAMETERS];
    spv_symbol *name[SPV_PARAMETERS];
    size_t body; /* token of its brace */
    bool leaves_early, kernel;
} spv_function;

struct spv_symbol {
    spv_symbol *next;
    const char *text;
    uint32_t length;
    uint8_t word; /* spv_word */
    uint8_t type; /* set for a type's name; SPV_TYPES for other words */
    spv_macro *macro;
    const spv_function *function;
    const spv_item *bound; /* the name's meaning in this scope */
};

typedef struct spv_undo {
    spv_symbol *symbol;
    const spv_item *bound;
} spv_undo;

typedef struct spv_constant {
    uint32_t type, id;
    uint64_t bits;
} spv_constant;

#define SPV_SYMBOL_LISTS 512
#define SPV_SCOPE_NAMES 2048
#define SPV_CONSTANTS 1024
#define SPV_WHY 240

typedef struct spv_compile spv_compile;
struct spv_compile {
    const kit_target *target;
    const kit_spirv_source *source;
    struct spv_chunk *chunks; /* all that lives as long as the call */
    char why[SPV_WHY];
    yk_status failed; /* the first failure; reading ends with it */
    spv_symbol *symbols[SPV_SYMBOL_LISTS];
    spv_tokens token;
    size_t at; /* the next token */
    /* the module */
    spv_words decorations, globals, variables, code, interface;
    uint32_t n_id, type_id[SPV_TYPES], pointer_id[SPV_SPACES][SPV_TYPES], void_function, import;
    spv_constant constant[SPV_CONSTANTS];
    uint32_t n_constant, local_bytes;
    uint32_t group_id[3], lane_id, stopped_id, launch_id, stopped_variable;
    bool uses_subgroups, uses_matrices;
    uint32_t half_id[2], team_variable; /* types f16 and bf16, the number of the subgroup; 0: not used */
    bool open;        /* the block that is written has no end yet */
    uint32_t effects; /* grows with each instruction that may not run where the text does not run it */
    /* the function that is expanded */
    const spv_function *function;
    spv_item result;
    uint32_t result_variable, leave_label, continue_label;
    spv_undo undo[SPV_SCOPE_NAMES];
    uint32_t n_undo, depth;
    spv_item (*call)(spv_compile *c, const spv_function *f); /* unit.c's: writes the call of a function, after its name */
};

/* ---- spirv_memory.c ---- */
void *spv_take(spv_compile *c, size_t bytes); /* zeroed; NULL after a failure */
void spv_release(spv_compile *c);
void spv_fail(spv_compile *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void spv_tokens_add(spv_compile *c, spv_tokens *list, const spv_token *token);
void spv_words_add(spv_compile *c, spv_words *words, const uint32_t *from, size_t n);

/* ---- lex.c, macro.c ---- */
spv_symbol *spv_symbol_of(spv_compile *c, const char *text, uint32_t length);
void spv_symbols_begin(spv_compile *c); /* keywords and types */
void spv_lex(spv_compile *c, const char *text, spv_tokens *out);
spv_token spv_token_pasted(spv_compile *c, const spv_token *a, const spv_token *b);
void spv_macros_define(spv_compile *c, const char *macros); /* "-DNAME=VALUE .." */
void spv_macros_expand(spv_compile *c, const spv_tokens *in, spv_tokens *out);

/* ---- spirv_module.c ---- */
void spv_op(spv_compile *c, spv_words *words, uint32_t op, const uint32_t *operand, size_t n);
#define SPV_OP(c, words, op, ...)                                                                                                 \
    spv_op(c, words, op, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))
#define SPV_CODE(c, op, ...) SPV_OP(c, spv_code(c), op, __VA_ARGS__)
spv_words *spv_code(spv_compile *c); /* target of instructions; opens an unreachable block if none is open */
uint32_t spv_id(spv_compile *c);
uint32_t spv_type_id(spv_compile *c, uint32_t type);
uint32_t spv_pointer_id(spv_compile *c, uint32_t space, uint32_t type); /* type: of the pointer's target */
uint32_t spv_constant_id(spv_compile *c, uint32_t type, uint64_t bits);
/* An input of the shader, of a pointer's type. */
uint32_t spv_builtin_new(spv_compile *c, uint32_t builtin, uint32_t pointer);
uint32_t spv_variable_new(spv_compile *c, uint32_t type);
const spv_array *spv_array_new(spv_compile *c, uint32_t space, uint32_t type, uint32_t n_dim, const uint32_t *dim);
void spv_label(spv_compile *c, uint32_t label); /* ends an open block by going there */
void spv_branch(spv_compile *c, uint32_t label);
/* Removes the code after `from`, for insertion after other code. */
spv_words spv_code_cut(spv_compile *c, size_t from);
void spv_loop_left(spv_compile *c, uint32_t condition);
void spv_kernel_return(spv_compile *c);
void spv_module_begin(spv_compile *c);
void spv_module_end(spv_compile *c, spv_words *out);

static inline uint32_t spv_type_bytes(uint32_t type)
{
    return type == SPV_U8 ? 1 : type == SPV_U16 ? 2 : type == SPV_I64 || type == SPV_U64 ? 8 : 4;
}

static inline bool spv_type_matrix(uint32_t type)
{
    return type >= SPV_LEFT_F16 && type <= SPV_SUM_BF16;
}

/* The use of a matrix, by SPIR-V's numbers. */
enum { SPV_USE_LEFT, SPV_USE_RIGHT, SPV_USE_SUM };
static inline uint32_t spv_matrix_use(uint32_t type)
{
    return (type - SPV_LEFT_F16) % 3;
}

/* ---- spirv_read.c ---- */
const spv_token *spv_next(spv_compile *c); /* the next token, which is not taken; an end at the end */
bool spv_accept(spv_compile *c, uint32_t punct);
void spv_expect(spv_compile *c, uint32_t punct);
bool spv_starts_type(const spv_token *token);
spv_declared spv_type_read(spv_compile *c);

static inline bool spv_token_is(const spv_token *token, uint32_t punct)
{
    return token->kind == SPV_PUNCT && token->punct == punct;
}

static inline bool spv_token_word(const spv_token *token, spv_word word)
{
    return token->kind == SPV_NAME && token->symbol->word == word;
}

/* ---- spirv_value.c ---- */
spv_item spv_number(uint32_t type, int64_t number);
spv_item spv_value(uint32_t type, uint32_t id);
uint32_t spv_value_id(spv_compile *c, const spv_item *v);
spv_item spv_load(spv_compile *c, spv_item item); /* a value or a pointer */
void spv_store(spv_compile *c, const spv_item *to, spv_item value);
spv_item spv_convert(spv_compile *c, spv_item value, uint32_t type);
spv_item spv_binary(spv_compile *c, uint32_t punct, spv_item a, spv_item b);
spv_item spv_negative(spv_compile *c, spv_item v);
spv_item spv_select(spv_compile *c, spv_item condition, spv_item a, spv_item b);
spv_item spv_element(spv_compile *c, spv_item pointer, spv_item index);
spv_item spv_target(spv_compile *c, spv_item pointer); /* *pointer */
/* A pointer to an element for an instruction; the element's type there. */
uint32_t spv_place(spv_compile *c, const spv_item *element, uint32_t *type);
uint32_t spv_common_type(const spv_item *a, const spv_item *b);

/* ---- matrix.c ---- */
#define SPV_MATRIX_ARGUMENTS 4
/* One of the dialect's functions of matrices; arguments are not loaded. */
spv_item spv_matrix_write(spv_compile *c, uint32_t word, const spv_item argument[SPV_MATRIX_ARGUMENTS], uint32_t n);
bool spv_matrix_wanted(const spv_compile *c); /* true if the text has any matrix */

/* ---- expr.c ---- */
spv_item spv_expression(spv_compile *c); /* with commas */
spv_item spv_assignment(spv_compile *c); /* without */
spv_item spv_rvalue(spv_compile *c);     /* an assignment, loaded */
uint32_t spv_condition(spv_compile *c, spv_item *item); /* an expression as a truth value; its id */

/* ---- stmt.c ---- */
void spv_block(spv_compile *c); /* reads braces and their contents */
void spv_bind(spv_compile *c, spv_symbol *name, spv_item item);
void spv_bind_parameter(spv_compile *c, const spv_function *f, uint32_t i, spv_item value);
void spv_scope_end(spv_compile *c, uint32_t mark);

/* ---- unit.c ---- */
void spv_unit_read(spv_compile *c); /* the functions of the text */
void spv_kernel_write(spv_compile *c);

#endif
