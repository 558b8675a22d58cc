/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of the PJRT plugin: translates a graph to the vendor's text (StableHLO), compiles it, and runs it. The host makes programs
 * through the table in pjrt_plugin.c; runs are in the queue's thread. pjrt_list.c frees the kept executables.
 *
 * A graph becomes one executable. Graphs with the same text share it: the text has neither slots nor offsets, so the many equal pieces of a
 * network compile once. Compiled programs are kept in the host's cache folder under the text and the vendor's version.
 */
#include <inttypes.h>
#include <stdio.h>

#include "backends/pjrt/pjrt.h"
#include "plugins/kit/hlo/function.h"
#include "plugins/kit/kit_cache.h"
#include "plugins/kit/plugin.h"

#define LARGEST_KEPT (64u << 20) /* bytes of a file in the cache folder */

struct pj_code {
    pj_code *next;
    char *text;
    size_t length;
    pjrt_loaded *loaded;
};

struct yk_program {
    yk_device *dev;
    const yk_graph *graph;
    hlo_lowered ends;    /* its text is gone */
    pjrt_loaded *loaded; /* lives with the device */
};

/* ---- Compiled texts ---------------------------------------------------------------------------------------------------- */

static kit_cache cache_of(void)
{
    return (kit_cache){.host = pj_host, .plugin = PJ_NAME, .prefix = "pjrt", .most = pj_cache_most()};
}

static uint64_t code_key(const pj_client *c, const pj_replicas *replicas, const kit_text *text)
{
    uint64_t h = kit_hash(KIT_HASH_SEED, text->data, text->length);
    h = kit_hash(h, c->platform, strlen(c->platform) + 1);
    h = kit_hash(h, c->version, strlen(c->version) + 1);
    h = kit_hash(h, c->kind, strlen(c->kind) + 1);
    h = kit_hash(h, replicas->id, replicas->n * sizeof *replicas->id);
    return kit_hash(h, &c->stamp, sizeof c->stamp);
}

typedef struct keeping {
    uint64_t key;
} keeping;

static void code_keep(void *arg, const void *bytes, size_t n)
{
    const kit_cache cache = cache_of();
    if (n <= LARGEST_KEPT)
        kit_cache_write(&cache, ((keeping *)arg)->key, bytes, n);
}

/* From the cache folder, or compiled and kept there. */
static bool code_compile(const pj_client *c, const pj_replicas *replicas, kit_text *text, pjrt_loaded **loaded, char why[PJ_WHY])
{
    const kit_cache cache = cache_of();
    keeping k = {code_key(c, replicas, text)};
    size_t n = 0;
    void *bytes = cache.most ? kit_cache_read(&cache, k.key, &n) : NULL;
    if (bytes) {
        const bool good = pj_restore(c, bytes, n, loaded);
        pj_host->free(bytes);
        if (good)
            return true;
        kit_cache_drop(&cache, k.key);
    }
    cpu_set_t was;
    const bool bound = pj_cores_bind(&was), good = pj_compile(c, replicas, text->data, text->length, loaded, why);
    pj_cores_restore(bound, &was);
    if (good && cache.most)
        pj_serialize(c, *loaded, code_keep, &k);
    return good;
}

/* Moves the code of a text to the front of the list. */
static pj_code *code_find(pj_code **list, const kit_text *text)
{
    pj_code **at = list;
    while (*at && ((*at)->length != text->length || memcmp((*at)->text, text->data, text->length)))
        at = &(*at)->next;
    pj_code *c = *at;
    if (c) {
        *at = c->next;
        c->next = *list;
        *list = c;
    }
    return c;
}

pjrt_loaded *pj_code_need(const pj_client *c, const pj_replicas *replicas, pj_code **list, kit_text *text, char why[PJ_WHY])
{
    pj_code *code = code_find(list, text);
    if (code)
        return code->loaded;
    code = kit_zeroed(pj_host, PJ_NAME, sizeof *code, "a compiled program");
    if (!code || !code_compile(c, replicas, text, &code->loaded, why)) {
        kit_release(pj_host, code);
        return NULL;
    }
    code->text = text->data; /* it is the code's from here on */
    code->length = text->length;
    kit_text_init(text, pj_host);
    code->next = *list;
    *list = code;
    return code->loaded;
}

void pj_codes_free(const pj_client *c, pj_code **list, uint32_t kept)
{
    for (; *list && kept; kept--)
        list = &(*list)->next;
    while (*list) {
        pj_code *code = *list;
        *list = code->next;
        pj_loaded_free(c, code->loaded);
        pj_host->free(code->text);
        pj_host->free(code);
    }
}

/* ---- The table's functions ------------------------------------------------------------------------------------------------ */

static yk_status program_compile(yk_program *p)
{
    yk_device *dev = p->dev;
    kit_text *text = &p->ends.function.text;
    char why[PJ_WHY] = "no memory";
    pthread_mutex_lock(&dev->lock);
    p->loaded = pj_code_need(&dev->client, &(pj_replicas){1, {dev->client.id}}, &dev->codes, text, why);
    pthread_mutex_unlock(&dev->lock);
    if (p->loaded)
        return YK_OK;
    pj_host->fail(PJ_NAME, "%s does not compile a program of %zu bytes: %s", dev->client.platform, text->length, why);
    pj_host->log(4, PJ_NAME, "%.900s", text->data);
    return YK_E_UNSUPPORTED;
}

yk_status pj_program_new(yk_device *dev, const yk_graph *g, yk_program **out)
{
    yk_program *p = kit_zeroed(pj_host, PJ_NAME, sizeof *p, "a program");
    if (!p)
        return YK_E_MEM;
    p->dev = dev;
    p->graph = g;
    yk_status s = hlo_lower(pj_host, PJ_NAME, g, !strcmp(dev->client.platform, "cpu"), &p->ends);
    if (!s && p->ends.n_out)
        s = program_compile(p);
    kit_text_free(&p->ends.function.text);
    if (s)
        pj_program_free(p);
    else
        *out = p;
    return s;
}

void pj_program_free(yk_program *p)
{
    if (atomic_load(&p->dev->left_behind))
        return;
    if (p->ends.in)
        hlo_lowered_free(pj_host, &p->ends);
    pj_host->free(p);
}

const yk_graph *pj_program_graph(const yk_program *p)
{
    return p->graph;
}

yk_status pj_program_memory(const yk_program *p, yk_program_memory *m)
{
    pjrt_compiled_memory_args a = {.size = 0};
    if (p->loaded && !pj_memory(&p->dev->client, p->loaded, &a))
        return YK_E_UNSUPPORTED;
    if (a.alias > a.argument || a.alias > a.result) {
        pj_host->log(2, PJ_NAME, "the vendor's account of a program's memory is ignored: it shares %lld bytes of %lld and %lld",
                     (long long)a.alias, (long long)a.argument, (long long)a.result);
        return YK_E_UNSUPPORTED;
    }
    const yk_program_memory own = {.argument = (uint64_t)a.argument, .result = (uint64_t)a.result, .alias = (uint64_t)a.alias,
                                   .temporary = (uint64_t)a.temporary, .code = (uint64_t)a.code};
    kit_memory_give(m, &own);
    return YK_OK;
}

/* ---- Runs ------------------------------------------------------------------------------------------------------------------ */

typedef struct run {
    const yk_program *program;
    const yk_submit *submit;
    pj_array **taken;
    pjrt_buffer **in, **out;
    int64_t *kept;
    size_t n_taken, n_kept;
} run;

static pj_range port_range(const yk_submit *s, const hlo_port *p)
{
    return (pj_range){s->slot_offset[p->slot] + p->offset, p->bytes, p->dtype, p->dims, p->dim};
}

static bool run_take(run *r, char why[KIT_WHY])
{
    const hlo_lowered *ends = &r->program->ends;
    for (uint32_t i = 0; i < ends->n_in; i++) {
        const pj_range range = port_range(r->submit, &ends->in[i]);
        r->taken[i] = pj_array_take(r->submit->slot[ends->in[i].slot], &range, why);
        if (!r->taken[i])
            return false;
        r->n_taken++;
        r->in[i] = pj_array_of(r->taken[i]);
    }
    return true;
}

/* An array that is two arguments is not donated. */
static void run_keep(run *r)
{
    const hlo_lowered *ends = &r->program->ends;
    for (uint32_t i = 0; i < ends->n_in; i++)
        for (uint32_t k = 0; k < ends->n_in && ends->in[i].result != YK_NONE; k++)
            if (k != i && r->in[k] == r->in[i]) {
                r->kept[r->n_kept++] = i;
                break;
            }
}

static bool run_put(const run *r, char why[KIT_WHY])
{
    const hlo_lowered *ends = &r->program->ends;
    bool good = true;
    for (uint32_t i = 0; i < ends->n_out; i++) {
        const pj_range range = port_range(r->submit, &ends->out[i]);
        good = pj_array_put(r->submit->slot[ends->out[i].slot], &range, r->out[i], why) && good;
    }
    return good;
}

static bool run_do(yk_device *dev, run *r, char why[KIT_WHY])
{
    const hlo_lowered *ends = &r->program->ends;
    bool good = run_take(r, why);
    if (good) {
        run_keep(r);
        const pj_run what = {.loaded = r->program->loaded, .in = r->in, .n_in = ends->n_in, .out = r->out, .kept = r->kept,
                             .n_kept = r->n_kept};
        good = pj_execute(&dev->client, &what, why);
    }
    for (size_t i = 0; i < r->n_taken; i++)
        pj_array_give(r->taken[i]);
    return good && run_put(r, why);
}

yk_status pj_program_run(yk_device *dev, const yk_submit *s, char why[KIT_WHY])
{
    const hlo_lowered *ends = &s->program->ends;
    const size_t n = ends->n_in + ends->n_out + 1u;
    char text[PJ_WHY] = "";
    run r = {.program = s->program, .submit = s};
    if (!s->program->loaded)
        return YK_OK;
    void **lists = pj_host->alloc(4 * n * sizeof *lists, 64);
    if (!lists)
        return YK_E_MEM;
    memset(lists, 0, 4 * n * sizeof *lists);
    r.taken = (pj_array **)lists, r.in = (pjrt_buffer **)(lists + n), r.out = (pjrt_buffer **)(lists + 2 * n);
    r.kept = (int64_t *)(lists + 3 * n);
    const bool good = run_do(dev, &r, text);
    pj_host->free(lists);
    if (!good)
        snprintf(why, KIT_WHY, "%s", text);
    return good ? YK_OK : YK_E_DEVICE_LOST;
}
