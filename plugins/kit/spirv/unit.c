/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates one kernel of a unit, a text of functions, to a SPIR-V shader. The Vulkan plugin (pipeline.c) calls kit_spirv_make while a
 * program is made, in any thread, and frees the words by kit_spirv_free.
 *
 * The unit's functions are found first, then the kernel's tokens are read. SPIR-V calls are not used: a function is read again at each
 * call. One that returns before its end stands in a loop that is left by returning and never repeats.
 */
#include "plugins/kit/spirv/compile.h"

#define CALLS_DEEP 32u

/* ---- Functions ---- */

static void parameters_read(spv_compile *c, spv_function *f)
{
    spv_expect(c, '(');
    while (!c->failed && !spv_accept(c, ')')) {
        if (f->n_parameter == SPV_PARAMETERS) {
            spv_fail(c, "a function has more than %d parameters", SPV_PARAMETERS);
            return;
        }
        f->parameter[f->n_parameter] = spv_type_read(c);
        f->name[f->n_parameter] = spv_next(c)->symbol;
        if (!f->name[f->n_parameter++])
            spv_fail(c, "a parameter has no name");
        c->at++;
        spv_accept(c, ',');
    }
}

/* Skips the body; true if a return precedes its last statement. */
static bool body_skip(spv_compile *c)
{
    uint32_t depth = 0, returns = 0;
    bool last = false;
    do {
        const spv_token *t = spv_next(c);
        if (t->kind == SPV_END) {
            spv_fail(c, "a function has no end");
            return false;
        }
        depth += spv_token_is(t, '{') ? 1u : 0u;
        if (spv_token_is(t, '}')) {
            depth--;
            last &= !depth;
        }
        if (spv_token_word(t, SPV_RETURN)) {
            returns++;
            last = depth == 1 && (spv_token_is(t - 1, ';') || spv_token_is(t - 1, '}') || spv_token_is(t - 1, '{'));
        }
        c->at++;
    } while (depth);
    return returns > 1 || (returns && !last);
}

static void function_read(spv_compile *c, bool kernel)
{
    spv_function *f = spv_take(c, sizeof *f);
    if (!f)
        return;
    f->kernel = kernel;
    f->result = spv_type_read(c);
    spv_symbol *name = spv_next(c)->symbol;
    if (!name) {
        spv_fail(c, "a function has no name");
        return;
    }
    c->at++;
    parameters_read(c, f);
    f->body = c->at;
    f->leaves_early = body_skip(c) && !kernel;
    name->function = f;
}

static void typedef_read(spv_compile *c)
{
    const spv_declared d = spv_type_read(c);
    spv_symbol *name = spv_next(c)->symbol;
    if (!name || d.pointer) {
        spv_fail(c, "a typedef names a plain type");
        return;
    }
    name->type = d.type;
    c->at++;
    spv_expect(c, ';');
}

void spv_unit_read(spv_compile *c)
{
    while (spv_next(c)->kind != SPV_END) {
        const spv_token *t = spv_next(c);
        c->at++;
        if (spv_token_word(t, SPV_INLINE) || spv_token_word(t, SPV_KERNEL))
            function_read(c, spv_token_word(t, SPV_KERNEL));
        else if (spv_token_word(t, SPV_TYPEDEF))
            typedef_read(c);
        else
            spv_fail(c, "%.*s outside a function", (int)t->length, t->text);
    }
}

/* ---- Calls ---- */

static spv_item argument_read(spv_compile *c, const spv_declared *d)
{
    const spv_item v = spv_rvalue(c);
    return d->pointer ? v : spv_convert(c, v, d->type);
}

static void arguments_read(spv_compile *c, const spv_function *f, spv_item *value)
{
    spv_expect(c, '(');
    for (uint32_t i = 0; i < f->n_parameter && !c->failed; i++) {
        if (i)
            spv_expect(c, ',');
        value[i] = argument_read(c, &f->parameter[i]);
    }
    spv_expect(c, ')');
}

/* Writes the body inside a loop, which each return leaves. */
static void body_write_leaving(spv_compile *c, const spv_function *f)
{
    const uint32_t header = spv_id(c), next = spv_id(c), body = spv_id(c);
    c->leave_label = spv_id(c);
    if (f->result.type != SPV_VOID)
        c->result_variable = spv_variable_new(c, f->result.type);
    spv_label(c, header);
    SPV_CODE(c, OpLoopMerge, c->leave_label, next, 0);
    spv_branch(c, body);
    spv_label(c, body);
    spv_block(c);
    if (c->open)
        spv_branch(c, c->leave_label);
    spv_label(c, next);
    spv_branch(c, header);
    spv_label(c, c->leave_label);
    if (f->result.type != SPV_VOID)
        c->result = spv_load(c, (spv_item){.form = SPV_VARIABLE, .type = f->result.type, .id = c->result_variable});
}

static spv_item call_write(spv_compile *c, const spv_function *f)
{
    spv_item value[SPV_PARAMETERS];
    arguments_read(c, f, value);
    if (c->failed || c->depth == CALLS_DEEP) {
        spv_fail(c, "a function calls itself");
        return spv_number(SPV_I32, 0);
    }
    const uint32_t mark = c->n_undo, leave = c->leave_label, variable = c->result_variable, next = c->continue_label;
    const spv_function *outer = c->function;
    const size_t at = c->at;
    const spv_item outer_result = c->result;
    for (uint32_t i = 0; i < f->n_parameter; i++)
        spv_bind_parameter(c, f, i, value[i]);
    c->depth++;
    c->function = f;
    c->at = f->body;
    c->continue_label = 0;
    c->result = (spv_item){.form = SPV_NOTHING};
    if (f->leaves_early)
        body_write_leaving(c, f);
    else
        spv_block(c);
    const spv_item result = c->result;
    if (!c->failed)
        c->at = at;
    spv_scope_end(c, mark);
    c->depth--;
    c->function = outer;
    c->leave_label = leave, c->result_variable = variable, c->continue_label = next;
    c->result = outer_result;
    return result;
}

/* ---- The kernel ---- */

/* Word i of the arguments, as the parameter's type. */
static spv_item parameter_load(spv_compile *c, uint32_t arguments, const spv_declared *d, uint32_t i)
{
    const spv_item at = {.form = SPV_POINTER, .type = d->pointer ? (uint8_t)SPV_U64 : d->type, .space = SPV_GLOBAL, .id = arguments};
    const uint32_t words = 8 / spv_type_bytes(at.type);
    spv_item v = spv_load(c, spv_element(c, at, spv_number(SPV_I32, (int64_t)i * words)));
    if (d->pointer) {
        v.form = SPV_POINTER;
        v.type = d->type;
        v.space = SPV_GLOBAL;
    }
    return v;
}

static const spv_function *kernel_find(spv_compile *c)
{
    const char *name = c->source->kernel;
    const spv_symbol *s = spv_symbol_of(c, name, (uint32_t)strlen(name));
    if (!s || !s->function || !s->function->kernel) {
        spv_fail(c, "there is no such kernel");
        return NULL;
    }
    return s->function;
}

void spv_kernel_write(spv_compile *c)
{
    const spv_function *f = kernel_find(c);
    if (!f)
        return;
    const uint32_t arguments = c->result_variable; /* spirv_module.c left their address there */
    for (uint32_t i = 0; i < f->n_parameter; i++)
        spv_bind_parameter(c, f, i, parameter_load(c, arguments, &f->parameter[i], i));
    c->function = f;
    c->at = f->body;
    spv_block(c);
}

/* ---- The whole ---- */

static void text_read(spv_compile *c)
{
    spv_tokens list = {0};
    spv_symbols_begin(c);
    spv_macros_define(c, "-DKIT_SPIRV=1");
    spv_macros_define(c, c->source->macros);
    for (int i = 0; i < KIT_PARTS; i++)
        spv_lex(c, c->source->part[i], &list);
    spv_macros_expand(c, &list, &c->token);
    c->uses_matrices = spv_matrix_wanted(c);
}

/* The words outlive the translation. */
static yk_status shader_keep(spv_compile *c, const spv_words *words, kit_spirv *shader)
{
    const yk_host *host = c->target->host;
    *shader = (kit_spirv){.n_word = words->n, .local_bytes = c->local_bytes, .matrices = c->uses_matrices, .host = host};
    shader->word = host->alloc(words->n * sizeof *words->at, 64);
    if (!shader->word) {
        host->fail(c->target->plugin, "out of memory: a shader of %zu words", words->n);
        return YK_E_MEM;
    }
    memcpy(shader->word, words->at, words->n * sizeof *words->at);
    return YK_OK;
}

yk_status kit_spirv_make(const kit_target *target, const kit_spirv_source *source, kit_spirv *shader)
{
    const yk_host *host = target->host;
    spv_words words = {0};
    memset(shader, 0, sizeof *shader);
    spv_compile *c = host->alloc(sizeof *c, 64);
    if (!c) {
        host->fail(target->plugin, "out of memory: %zu bytes to translate a kernel", sizeof *c);
        return YK_E_MEM;
    }
    memset(c, 0, sizeof *c);
    c->target = target;
    c->source = source;
    c->call = call_write;
    text_read(c);
    spv_unit_read(c);
    spv_module_begin(c);
    spv_kernel_write(c);
    spv_module_end(c, &words);
    yk_status s = c->failed;
    if (s)
        host->fail(target->plugin, "kernel %s as SPIR-V: %s", source->kernel, c->why);
    else
        s = shader_keep(c, &words, shader);
    spv_release(c);
    host->free(c);
    return s;
}

void kit_spirv_free(kit_spirv *shader)
{
    if (shader->word)
        shader->host->free(shader->word);
    memset(shader, 0, sizeof *shader);
}
