/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiled units of a device, sets of kernels that are compiled together, by the hash of text, macros and device. A unit comes from the
 * device's table, else the cache folder, else the compiler.
 *
 * CUDA, OpenCL and kit_device_program.c call kit_units_get while a program is made, in any thread. A lock is held while a unit is
 * compiled, so that each is compiled once. Missing generated kernels of a program are compiled together.
 */
#include "plugins/kit/units.h"

#include "plugins/kit/kit_entry.h"
#include "plugins/kit/plugin.h"

#define MORE 32 /* entries added beyond the requested number */

/* ---- The table; under the lock ---- */

void kit_units_init(kit_units *units)
{
    pthread_mutex_init(&units->lock, NULL);
}

static void *code_find(const kit_units *units, uint64_t key)
{
    for (size_t i = 0; i < units->n; i++)
        if (units->code[i].key == key)
            return units->code[i].code;
    return NULL;
}

/* Before something is compiled, so that it can be kept. */
static yk_status table_reserve(kit_units *units, size_t more)
{
    if (units->n + more <= units->cap)
        return YK_OK;
    const yk_host *host = units->target->host;
    const size_t cap = 2 * units->cap + more + MORE;
    kit_code *code = kit_zeroed(host, units->target->plugin, cap * sizeof *code, "a table of compiled kernels");
    if (!code)
        return YK_E_MEM;
    if (units->n)
        memcpy(code, units->code, units->n * sizeof *code);
    kit_release(host, units->code);
    units->code = code;
    units->cap = cap;
    return YK_OK;
}

static void code_keep(kit_units *units, uint64_t key, void *code, bool owner)
{
    units->code[units->n++] = (kit_code){key, code, owner};
}

void kit_units_release(kit_units *units, bool release_code)
{
    for (size_t i = 0; i < units->n && release_code; i++)
        if (units->code[i].owner)
            units->compiler->release(units->code[i].code);
    kit_release(units->target->host, units->code);
    units->code = NULL;
    units->n = units->cap = 0;
    pthread_mutex_destroy(&units->lock);
}

/* ---- Making code ---- */

static void *cache_load(const kit_units *units, uint64_t key)
{
    size_t bytes = 0;
    void *image = units->cached ? kit_cache_read(&units->cache, key, &bytes) : NULL;
    if (!image)
        return NULL;
    void *code = units->compiler->load(units->dev, image, bytes);
    kit_release(units->target->host, image);
    if (!code)
        kit_cache_drop(&units->cache, key);
    return code;
}

static yk_status source_build(const kit_units *units, uint64_t key, const char *macros, const char *const part[KIT_PARTS], void **code)
{
    kit_image image = {.data = NULL};
    const yk_status s = units->compiler->build(units->dev, macros, part, code, &image);
    if (!s && image.data && units->cached)
        kit_cache_write(&units->cache, key, image.data, image.bytes);
    kit_release(units->target->host, image.data);
    return s;
}

static uint64_t source_key(const kit_units *units, const char *macros, const char *const part[KIT_PARTS])
{
    uint64_t key = kit_hash(units->identity, macros, strlen(macros) + 1);
    for (int i = 0; i < KIT_PARTS; i++)
        key = kit_hash(key, part[i], strlen(part[i]));
    return key;
}

/* Found, loaded or compiled. */
static yk_status parts_build(kit_units *units, const char *macros, const char *const part[KIT_PARTS], void **code)
{
    char options[2 * KIT_MACROS];
    if (!kit_unit_macros(units->target, macros, options, sizeof options))
        return YK_E_INTERNAL;
    const uint64_t key = source_key(units, options, part);
    if ((*code = code_find(units, key)) != NULL)
        return YK_OK;
    yk_status s = table_reserve(units, 1);
    if (s)
        return s;
    *code = cache_load(units, key);
    if (!*code)
        s = source_build(units, key, options, part, code);
    if (!s)
        code_keep(units, key, *code, true);
    return s;
}

/* file: of the kit, or NULL for the text of generated kernels. */
static yk_status unit_build(kit_units *units, const char *file, const char *macros, const char *text, void **code)
{
    const char *part[KIT_PARTS];
    return kit_unit_parts(units->target, file, text, part) ? parts_build(units, macros, part, code) : YK_E_INTERNAL;
}

/* The generated kernels with these macros that the device does not have yet, compiled as one. */
static yk_status generated_build(kit_units *units, const kit_program *program, const char *macros)
{
    kit_text text;
    void *code = NULL;
    kit_text_init(&text, units->target->host);
    for (size_t i = 0; i < program->n_unit; i++) {
        const kit_unit *u = &program->unit[i];
        if (!u->file && !strcmp(u->macros, macros) && !code_find(units, u->key))
            kit_text_put(&text, program->text.data + u->begin, u->end - u->begin);
    }
    yk_status s = text.bad ? YK_E_MEM : table_reserve(units, program->n_unit + 1);
    if (!s && text.data)
        s = unit_build(units, NULL, macros, text.data, &code);
    for (size_t i = 0; i < program->n_unit && !s && code; i++) {
        const kit_unit *u = &program->unit[i];
        if (!u->file && !strcmp(u->macros, macros) && !code_find(units, u->key))
            code_keep(units, u->key, code, false);
    }
    kit_text_free(&text);
    return s;
}

yk_status kit_units_get(kit_units *units, const kit_program *program, void **of)
{
    pthread_mutex_lock(&units->lock);
    yk_status s = YK_OK;
    for (size_t i = 0; i < program->n_unit && !s; i++)
        if (!program->unit[i].file && !code_find(units, program->unit[i].key))
            s = generated_build(units, program, program->unit[i].macros);
    for (size_t i = 0; i < program->n_unit && !s; i++) {
        const kit_unit *u = &program->unit[i];
        if (u->file)
            s = unit_build(units, u->file, u->macros, NULL, &of[i]);
        else
            of[i] = code_find(units, u->key);
    }
    pthread_mutex_unlock(&units->lock);
    return s;
}

static yk_status entry_build(kit_units *units, const kit_program *program, const kit_launch *launch, void **code)
{
    const kit_unit *u = &program->unit[launch->unit];
    const char *part[KIT_PARTS];
    kit_text text, own;
    kit_text_init(&text, units->target->host);
    kit_text_init(&own, units->target->host);
    if (!u->file)
        kit_text_put(&own, program->text.data + u->begin, u->end - u->begin);
    yk_status s = own.bad ? YK_E_MEM : kit_unit_parts(units->target, u->file, own.data, part) ? YK_OK : YK_E_INTERNAL;
    if (!s) {
        kit_text_put(&text, part[KIT_PARTS - 1], strlen(part[KIT_PARTS - 1]));
        kit_entry_write(&text, program, launch);
        part[KIT_PARTS - 1] = text.data;
        s = text.bad ? YK_E_MEM : parts_build(units, u->macros, part, code);
    }
    kit_text_free(&own);
    kit_text_free(&text);
    return s;
}

yk_status kit_units_entries(kit_units *units, const kit_program *program, void **of)
{
    yk_status s = YK_OK;
    pthread_mutex_lock(&units->lock);
    for (size_t i = 0; i < program->n_launch && !s; i++)
        if (program->launch[i].unit != YK_NONE)
            s = entry_build(units, program, &program->launch[i], &of[i]);
    pthread_mutex_unlock(&units->lock);
    return s;
}
