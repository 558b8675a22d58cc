/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin "cjit": the kit's lowering on a device whose compiler is the system's C compiler. It shows what a backend over
 * plugins/kit/lower/lower.h has to supply and no more: it compiles units, has memory, and calls launches one after the other; memory,
 * copies and queues are those of the plugin far.
 */
#include <dlfcn.h>
#include <stdlib.h>

#define yk_plugin_query far_query
#include "plugins/template/far.c"
#undef yk_plugin_query

#include "plugins/kit/kit_source.h"
#include "plugins/kit/lower/lower.h"
#include "tests/support/compiled.h"

#define UNITS 1024
#define MOST_ARGS 64

/* Calls a kernel for every group: memory and offsets in elements, numbers by kind, in the kernel's order. */
typedef void call_fn(void *const *memory, const int64_t *offset, const int64_t *i64, const int32_t *i32, const float *f32,
                     const uint64_t *groups);

/* Compiled libraries by the hash of their source; never unloaded. Under the lock. */
static struct {
    uint64_t key;
    call_fn *call;
} built[UNITS];
static uint32_t n_built;
static pthread_mutex_t built_lock = PTHREAD_MUTEX_INITIALIZER;

static kit_target target = {.plugin = "cjit", .cpu_shape = true, .units = 2, .max_local = 256u << 10};

/* far's program begins the same, so that its queue's functions can be used. */
typedef struct cjit_program {
    yk_program base;
    kit_program kit;
    call_fn **call; /* by launch */
} cjit_program;

/* ---- Compiling ---- */

static void wrapper_write(FILE *f, const kit_program *k, const kit_launch *l)
{
    uint32_t memory = 0, i64 = 0, i32 = 0, f32 = 0;
    fprintf(f, "\nvoid cjit_call(void *const *memory, const int64_t *offset, const int64_t *i64, const int32_t *i32, const float *f32,\n"
               "               const uint64_t *groups)\n{\n"
               "    for (k_host_gid[2] = 0; k_host_gid[2] < (long)groups[2]; k_host_gid[2]++)\n"
               "        for (k_host_gid[1] = 0; k_host_gid[1] < (long)groups[1]; k_host_gid[1]++)\n"
               "            for (k_host_gid[0] = 0; k_host_gid[0] < (long)groups[0]; k_host_gid[0]++)\n                %s(", l->kernel);
    for (uint32_t i = 0; i < l->n_arg; i++) {
        const kit_arg *arg = &k->arg[l->arg + i];
        fprintf(f, i ? ", " : "");
        if (kit_arg_is_memory(arg))
            fprintf(f, "memory[%u], offset[%u]", memory, memory), memory++;
        else if (arg->kind == KIT_ARG_I64)
            fprintf(f, "i64[%u]", i64++);
        else if (arg->kind == KIT_ARG_I32)
            fprintf(f, "i32[%u]", i32++);
        else
            fprintf(f, "f32[%u]", f32++);
    }
    fprintf(f, ");\n}\n");
}

/* The kernel's text with the wrapper behind it; allocated, NULL when memory is gone. */
static char *source_make(const kit_program *k, const kit_launch *l)
{
    const kit_unit *u = &k->unit[l->unit];
    const char *part[KIT_PARTS];
    char *text = NULL, *own = u->file ? NULL : strndup(k->text.data + u->begin, u->end - u->begin);
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f || !kit_unit_parts(&target, u->file, own, part)) {
        free(own);
        return NULL;
    }
    for (int i = 0; i < KIT_PARTS; i++)
        fputs(part[i], f);
    wrapper_write(f, k, l);
    fclose(f);
    free(own);
    return text;
}

static call_fn *library_open(const char *path)
{
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol = so ? dlsym(so, "cjit_call") : NULL;
    call_fn *call = NULL;
    memcpy(&call, &symbol, sizeof call);
    return call;
}

static call_fn *source_compile(const char *source, const char *macros)
{
    char folder[] = "/tmp/yoke-cjit-XXXXXX", options[2 * KIT_MACROS + 200], command[2 * KIT_MACROS + 400], path[80], kept[COMPILED_PATH];
    call_fn *call = NULL;
    FILE *f;
    snprintf(options, sizeof options, "%s -std=gnu11 -O0 -w -Wno-psabi -fPIC -shared %s", getenv("CC") ? getenv("CC") : "cc", macros);
    const bool keeps = compiled_path(compiled_key(compiled_key(COMPILED_SEED, options), source), kept);
    if (keeps && (call = library_open(kept)) != NULL)
        return call;
    if (!mkdtemp(folder))
        return NULL;
    snprintf(path, sizeof path, "%s/unit.c", folder);
    if ((f = fopen(path, "w")) != NULL) {
        fputs(source, f);
        fclose(f);
        snprintf(command, sizeof command, "%s -o %s/unit.so %s -lm", options, folder, path);
        snprintf(path, sizeof path, "%s/unit.so", folder);
        if (system(command) == 0 && (!keeps || compiled_keep(path, kept)))
            call = library_open(path);
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command))
        host->log(1, "cjit", "%s is left behind", folder);
    return call;
}

/* The compiled kernel of a launch; one that is there already is found. */
static call_fn *launch_compile(const kit_program *k, const kit_launch *l)
{
    char macros[2 * KIT_MACROS];
    char *source = source_make(k, l);
    uint64_t key = KIT_HASH_SEED;
    call_fn *call = NULL;
    if (!source || !kit_unit_macros(&target, k->unit[l->unit].file ? k->unit[l->unit].macros : "", macros, sizeof macros)) {
        free(source);
        return NULL;
    }
    key = kit_hash(kit_hash(key, macros, strlen(macros)), source, strlen(source));
    pthread_mutex_lock(&built_lock);
    for (uint32_t i = 0; i < n_built && !call; i++)
        call = built[i].key == key ? built[i].call : NULL;
    if (!call && n_built < UNITS && (call = source_compile(source, macros)) != NULL) {
        built[n_built].key = key;
        built[n_built++].call = call;
    }
    pthread_mutex_unlock(&built_lock);
    free(source);
    return call;
}

static void cjit_free(yk_program *base)
{
    cjit_program *p = (cjit_program *)base;
    kit_program_free(&p->kit);
    host->free(p->call);
    host->free(p);
}

static yk_status cjit_new(yk_device *dev, const yk_graph *g, yk_program **out)
{
    cjit_program *p = kit_zeroed(host, WHO, sizeof *p, "a program");
    yk_status s = YK_OK;
    (void)dev;
    target.host = host;
    if (!p)
        return YK_E_MEM;
    p->base.graph = g;
    s = kit_program_make(&target, g, &p->kit);
    if (!s && !(p->call = kit_zeroed(host, WHO, (p->kit.n_launch + 1) * sizeof *p->call, "launches")))
        s = YK_E_MEM;
    for (size_t i = 0; i < p->kit.n_launch && !s; i++)
        if (!(p->call[i] = launch_compile(&p->kit, &p->kit.launch[i]))) {
            host->fail("cjit", "kernel %s of node %u does not compile", p->kit.launch[i].kernel, p->kit.launch[i].node);
            s = YK_E_INTERNAL;
        }
    if (s)
        cjit_free(&p->base);
    else
        *out = &p->base;
    return s;
}

static uint32_t cjit_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    (void)dev;
    target.host = host;
    return kit_claims(&target, g, node);
}

/* ---- Running ---- */

static void launch_run(const cjit_program *p, const yk_submit *s, const kit_launch *l, call_fn *call, char *scratch)
{
    void *memory[MOST_ARGS];
    int64_t offset[MOST_ARGS], i64[MOST_ARGS];
    int32_t i32[MOST_ARGS];
    float f32[MOST_ARGS];
    uint32_t m = 0, n64 = 0, n32 = 0, nf = 0;
    for (uint32_t i = 0; i < l->n_arg; i++) {
        const kit_arg *arg = &p->kit.arg[l->arg + i];
        uint64_t element = 0;
        if (kit_arg_is_memory(arg)) {
            kit_arg_element(arg, 0, &element);
            memory[m] = arg->kind == KIT_ARG_META ? (void *)p->kit.meta
                        : arg->kind == KIT_ARG_SCRATCH ? scratch
                        : s->slot[arg->slot] ? s->slot[arg->slot]->far + s->slot_offset[arg->slot] : NULL;
            offset[m++] = (int64_t)element;
        } else if (arg->kind == KIT_ARG_I64)
            i64[n64++] = arg->value.i64;
        else if (arg->kind == KIT_ARG_I32)
            i32[n32++] = arg->value.i32;
        else
            f32[nf++] = arg->value.f32;
    }
    call(memory, offset, i64, i32, f32, l->groups);
}

/* Kernels say which group they are in one variable each, so one program runs at a time. */
static yk_status cjit_run(yk_device *dev, const yk_submit *s, char why[KIT_WHY])
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    const cjit_program *p = (const cjit_program *)s->program;
    char *scratch = host->alloc(p->kit.scratch_bytes + 64, 4096);
    (void)dev;
    if (!scratch) {
        snprintf(why, KIT_WHY, "no memory for the scratch of a program");
        return YK_E_MEM;
    }
    pthread_mutex_lock(&one);
    for (size_t i = 0; i < p->kit.n_launch; i++)
        launch_run(p, s, &p->kit.launch[i], p->call[i], scratch);
    pthread_mutex_unlock(&one);
    host->free(scratch);
    return YK_OK;
}

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi);

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi)
{
    static yk_plugin own;
    own = table;
    own.name = "cjit";
    own.claims = cjit_claims;
    own.program_new = cjit_new;
    own.program_free = cjit_free;
    queue_ops.run = cjit_run;
    return abi == YK_ABI ? &own : NULL;
}
