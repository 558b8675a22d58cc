/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of a kit_device (kit_device.h): a lowered graph, the code of its launches, and the launches one after another.
 *
 * kit_device.c puts these functions into the plugin's table. The host makes programs in any thread; kit_device_program_run is called in a
 * queue's thread. A node without kernel or library runs on the host, on copies (kit_fallback.c).
 */
#include "plugins/kit/kit_clock.h"
#include "plugins/kit/kit_device_internal.h"
#include "plugins/kit/kit_fallback.h"
#include "plugins/kit/lower/lower.h"
#include "plugins/kit/value.h"

struct yk_program {
    yk_device *dev;
    const yk_graph *graph;
    kit_program kit;
    void **code;            /* of each launch; NULL for a launch elsewhere */
    kit_fallback **host;    /* of each launch that the host computes */
    void *meta;             /* on the device; NULL without */
    uint32_t most_args;     /* of a launch */
};

/* ---- Where nodes are computed ---- */

static uint32_t node_place(yk_device *dev, const yk_graph *g, uint32_t node)
{
    if (kit_device_own->has && kit_device_own->has(dev->own, g, node))
        return KIT_PLACE_LIBRARY;
    if (kit_device_own->build)
        return KIT_PLACE_KERNELS;
    return yk_op_is_primitive(g->node[node].op) ? KIT_PLACE_HOST : KIT_PLACE_NONE;
}

uint32_t kit_device_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    const uint32_t library = !yk_op_is_primitive(g->node[node].op) && kit_device_own->has && kit_device_own->has(dev->own, g, node);
    return (library ? YK_CLAIM_RUN : 0) | (kit_device_own->build ? kit_claims(&dev->target, g, node) : 0);
}

yk_status kit_device_scratch(yk_device *dev, const yk_graph *g, uint64_t *bytes)
{
    return kit_scratch_bytes(&dev->target, g, bytes);
}

/* ---- Compiling ---- */

static yk_status text_build(yk_device *dev, const char *macros, const char *const part[KIT_PARTS], void **code, kit_image *image)
{
    kit_text text;
    kit_text_init(&text, kit_device_lent);
    for (int i = 0; i < KIT_PARTS; i++)
        kit_text_put(&text, part[i], strlen(part[i]));
    const yk_status s = text.bad ? YK_E_MEM : kit_device_own->build(dev->own, text.data, macros, code, image);
    kit_text_free(&text);
    return s;
}

static void *image_load(yk_device *dev, const void *image, size_t bytes)
{
    return kit_device_own->load(dev->own, image, bytes);
}

static void code_release(void *code)
{
    if (kit_device_own->release)
        kit_device_own->release(code);
}

static const kit_compiler compiler = {.load = image_load, .build = text_build, .release = code_release};

static uint64_t device_identity(const yk_device *dev)
{
    const char *const text[] = {kit_device_own->name, kit_device_own->version ? kit_device_own->version : "", dev->caps.name,
                                dev->caps.isa};
    uint64_t key = KIT_HASH_SEED;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        key = kit_hash(key, text[i], strlen(text[i]) + 1);
    return key;
}

void kit_device_programs_begin(yk_device *dev)
{
    dev->target.dev = dev;
    dev->target.place = node_place;
    dev->units = (kit_units){.dev = dev,
                             .target = &dev->target,
                             .compiler = &compiler,
                             .cache = {.host = kit_device_lent, .plugin = kit_device_own->name, .prefix = kit_device_own->name},
                             .cached = kit_device_own->load != NULL,
                             .identity = device_identity(dev)};
    kit_units_init(&dev->units);
}

void kit_device_programs_end(yk_device *dev)
{
    kit_units_release(&dev->units, true);
}

/* The code of each launch, for a device that finds kernels by name: that of its unit. */
static yk_status units_code(yk_program *p)
{
    void **of = kit_zeroed(kit_device_lent, kit_device_own->name, p->kit.n_unit * sizeof *of, "compiled kernels");
    yk_status s = of ? kit_units_get(&p->dev->units, &p->kit, of) : YK_E_MEM;
    for (size_t i = 0; i < p->kit.n_launch && !s; i++)
        p->code[i] = p->kit.launch[i].unit == YK_NONE ? NULL : of[p->kit.launch[i].unit];
    kit_release(kit_device_lent, of);
    return s;
}

/* Numbers that kernels read from memory go to the device once. */
static yk_status meta_upload(yk_program *p)
{
    const uint64_t bytes = p->kit.n_meta * sizeof *p->kit.meta;
    if (!bytes)
        return YK_OK;
    if (!(p->meta = kit_device_memory_take(p->dev, bytes)))
        return kit_no_memory(kit_device_lent, kit_device_own->name, bytes, "a program's table");
    pthread_mutex_lock(&p->dev->lock);
    yk_status s = kit_device_own->put(p->dev->stream, p->meta, 0, p->kit.meta, bytes);
    if (!s && kit_device_own->wait)
        s = kit_device_own->wait(p->dev->stream);
    pthread_mutex_unlock(&p->dev->lock);
    return s;
}

static yk_status program_fill(yk_program *p)
{
    const size_t n = p->kit.n_launch;
    const char *who = kit_device_own->name;
    p->code = kit_zeroed(kit_device_lent, who, n * sizeof *p->code, "launches");
    p->host = kit_zeroed(kit_device_lent, who, n * sizeof *p->host, "launches");
    yk_status s = p->code && p->host ? YK_OK : YK_E_MEM;
    if (!s && kit_device_own->build)
        s = kit_device_own->entries ? kit_units_entries(&p->dev->units, &p->kit, p->code) : units_code(p);
    for (size_t i = 0; i < n && !s; i++) {
        const kit_launch *l = &p->kit.launch[i];
        p->most_args = l->n_arg > p->most_args ? l->n_arg : p->most_args;
        if (l->place == KIT_PLACE_HOST)
            s = kit_fallback_new(kit_device_lent, who, p->graph, l->node, &p->host[i]);
    }
    if (!s)
        s = meta_upload(p);
    return s;
}

yk_status kit_device_program_new(yk_device *dev, const yk_graph *g, yk_program **out)
{
    yk_program *p = kit_zeroed(kit_device_lent, kit_device_own->name, sizeof *p, "a program");
    if (!p)
        return YK_E_MEM;
    p->dev = dev;
    p->graph = g;
    yk_status s = kit_program_make(&dev->target, g, &p->kit);
    if (!s)
        s = program_fill(p);
    if (s)
        kit_device_program_free(p);
    else
        *out = p;
    return s;
}

void kit_device_program_free(yk_program *p)
{
    if (p->dev->left_behind)
        return;
    for (size_t i = 0; p->host && i < p->kit.n_launch; i++)
        kit_fallback_free(p->host[i]);
    kit_device_memory_give(p->dev, p->meta, p->kit.n_meta * sizeof *p->kit.meta);
    kit_release(kit_device_lent, p->host);
    kit_release(kit_device_lent, p->code);
    kit_program_free(&p->kit);
    kit_device_lent->free(p);
}

const yk_graph *kit_device_program_graph(const yk_program *p)
{
    return p->graph;
}

/* ---- Running ---- */

static yk_status scratch_reserve(yk_device *dev, kit_device_queue *q, uint64_t bytes)
{
    if (bytes <= q->scratch_bytes)
        return YK_OK;
    kit_device_memory_give(dev, q->scratch, q->scratch_bytes); /* the queue's last run is done */
    q->scratch_bytes = 0;
    if (!(q->scratch = kit_device_memory_take(dev, bytes))) {
        kit_device_say("no memory for the %llu bytes that kernels need beside the values", (unsigned long long)bytes);
        return YK_E_MEM;
    }
    q->scratch_bytes = bytes;
    return YK_OK;
}

static yk_status argument_fill(const yk_program *p, const kit_device_queue *q, const yk_submit *s, const kit_arg *arg, kit_argument *out)
{
    uint64_t element = 0, at = 0;
    *out = (kit_argument){.kind = arg->kind, .element = arg->element};
    if (!kit_arg_is_memory(arg)) {
        const uint64_t bits = kit_arg_bits(arg);
        memcpy(&out->number, &bits, sizeof bits);
        return YK_OK;
    }
    if (arg->kind == KIT_ARG_SLOT) {
        const yk_buffer *b = s->slot[arg->slot];
        out->memory = b ? b->memory : NULL;
        at = b ? s->slot_offset[arg->slot] : 0;
    } else
        out->memory = arg->kind == KIT_ARG_META ? p->meta : q->scratch;
    if (!kit_arg_element(arg, at, &element)) {
        kit_device_say("slot %u begins at byte %llu: expected a multiple of an element's %u bytes", arg->slot, (unsigned long long)at,
                       arg->element);
        return YK_E_ARG;
    }
    out->number.i64 = (int64_t)element;
    return YK_OK;
}

static yk_status launch_do(const yk_program *p, kit_device_queue *q, const yk_submit *s, size_t i, kit_argument *argument)
{
    const kit_launch *l = &p->kit.launch[i];
    yk_status status = YK_OK;
    for (uint32_t k = 0; k < l->n_arg && !status; k++) {
        status = argument_fill(p, q, s, &p->kit.arg[l->arg + k], &argument[k]);
        if (argument[k].memory && kit_device_own->address && l->place != KIT_PLACE_HOST)
            argument[k].memory = kit_device_own->address(p->dev->own, argument[k].memory);
    }
    if (status)
        return status;
    if (l->place == KIT_PLACE_LIBRARY)
        return kit_device_own->call(q->stream, p->graph, l->node, argument);
    if (l->place == KIT_PLACE_HOST)
        return kit_fallback_run(p->host[i], kit_device_own, q->stream, argument);
    return kit_device_own->launch(q->stream, p->code[i], l, argument);
}

/* Waits for the launch, to count its time under its kernel, "library" or "host". */
static yk_status launch_profile(const yk_program *p, const kit_device_queue *q, const kit_launch *l, uint64_t begin_ns)
{
    char name[KIT_LAUNCH_TEXT];
    const yk_status status = kit_device_own->wait ? kit_device_own->wait(q->stream) : YK_OK;
    const uint64_t ns = kit_now_ns() - begin_ns;
    kit_launch_text(p->graph, l, name);
    pthread_mutex_lock(&p->dev->lock);
    kit_profile_add(&p->dev->profile, name, ns);
    pthread_mutex_unlock(&p->dev->lock);
    return status;
}

/* Nothing more is launched once the host gave up the queue, which would be left behind at the 2nd second. */
static yk_status launch_next(const yk_program *p, kit_device_queue *q, const yk_submit *s, size_t i, kit_argument *argument)
{
    if (kit_queue_failed(kit_queue_current())) {
        kit_device_say("the queue was aborted");
        return YK_E_CANCELLED;
    }
    const uint64_t begin_ns = kit_now_ns();
    const yk_status status = launch_do(p, q, s, i, argument);
    return status || !p->dev->profiles ? status : launch_profile(p, q, &p->kit.launch[i], begin_ns);
}

yk_status kit_device_program_run(yk_device *dev, kit_device_queue *q, const yk_submit *s)
{
    const yk_program *p = s->program;
    yk_status status = scratch_reserve(dev, q, p->kit.scratch_bytes);
    kit_argument *argument = status ? NULL : kit_device_lent->alloc((p->most_args + 1) * sizeof *argument, 64);
    if (!status && !argument) {
        kit_device_say("no memory for the arguments of a launch");
        status = YK_E_MEM;
    }
    for (size_t i = 0; i < p->kit.n_launch && !status; i++) {
        status = launch_next(p, q, s, i, argument);
        if (status)
            kit_queue_blame(p->graph->node[p->kit.launch[i].node].stream);
    }
    kit_release(kit_device_lent, argument);
    return status;
}
