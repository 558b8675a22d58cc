/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs: runs the kit's launches (plugins/kit/lower/lower.h), kernels and products, with their arguments. The host makes programs
 * through the table in cuda_plugin.c, in any thread; cuda_queue.c submits them. Numbers are set once, memory at submission.
 *
 * A program that is submitted again with the same memory is recorded, and from then on launched as one CUDA graph. That costs the host one
 * call instead of one for each kernel. Graphs are kept until the program is freed, as they may still run.
 */
#include "backends/cuda/cuda_internal.h"

#include <stdio.h>

#include "plugins/kit/drain.h"

#define GRAPHS 4        /* bindings that are remembered; a program with more of them is launched kernel by kernel */
#define GRAPH_LAUNCHES 2 /* with fewer, a graph saves nothing */

typedef struct recording {
    uint64_t *value; /* the arguments it was made for */
    CUgraphExec exec; /* NULL: they were seen once */
} recording;

struct yk_program {
    yk_device *dev;
    const yk_graph *graph;
    kit_program kit;
    CUfunction *function; /* by launch */
    const cuda_product **product; /* by launch; NULL: it is none */
    const cuda_dnn_plan **plan; /* the same, of an attention or a convolution */
    uint32_t *first;      /* by launch: its first argument in value[] and parameter[] */
    uint64_t *value;      /* the kernels' arguments, each at the beginning of its 8 bytes */
    void **parameter;     /* their addresses */
    size_t n_value;
    bool *used; /* by slot */
    CUdeviceptr meta;
    pthread_mutex_t lock; /* guards value and recordings: two queues may submit at once */
    cuda_marks *marks; /* NULL: times are not asked for */
    recording recorded[GRAPHS];
    uint32_t n_recorded;
};

/* ---- Binding ---- */

static CUdeviceptr arg_memory(const yk_program *p, const yk_submit *s, const cuda_scratch *scratch, const kit_arg *arg)
{
    if (arg->kind == KIT_ARG_SLOT)
        return s->slot[arg->slot]->memory;
    return arg->kind == KIT_ARG_META ? p->meta : scratch->memory;
}

static uint64_t arg_at(const yk_submit *s, const kit_arg *arg)
{
    return arg->kind == KIT_ARG_SLOT ? s->slot_offset[arg->slot] : 0;
}

static yk_status slot_check(const yk_program *p, const yk_submit *s, uint32_t i)
{
    const yk_buffer *b = s->slot[i];
    if (!b) {
        cuda_host->fail(CUDA_WHO, "slot %u is used by the program and not bound", i);
        return YK_E_ARG;
    }
    if (b->dev->context != p->dev->context) {
        cuda_host->fail(CUDA_WHO, "slot %u lies on another device", i);
        return YK_E_ARG;
    }
    if (s->slot_offset[i] <= b->bytes && p->graph->slot[i].bytes <= b->bytes - s->slot_offset[i])
        return YK_OK;
    cuda_host->fail(CUDA_WHO, "slot %u needs %llu bytes from %llu on; its buffer has %llu", i, (unsigned long long)p->graph->slot[i].bytes,
                    (unsigned long long)s->slot_offset[i], (unsigned long long)b->bytes);
    return YK_E_ARG;
}

static yk_status alignment_check(const yk_program *p, const yk_submit *s)
{
    uint64_t element;
    for (size_t l = 0; l < p->kit.n_launch; l++)
        for (uint32_t i = 0; i < p->kit.launch[l].n_arg; i++) {
            const kit_arg *arg = &p->kit.arg[p->kit.launch[l].arg + i];
            if (!kit_arg_is_memory(arg) || kit_arg_element(arg, arg_at(s, arg), &element))
                continue;
            cuda_host->fail(CUDA_WHO, "node %u: an operand at byte %llu is not aligned to %u", p->kit.launch[l].node,
                            (unsigned long long)(arg_at(s, arg) + arg->value.offset), arg->element);
            return YK_E_ARG;
        }
    return YK_OK;
}

yk_status cuda_program_check(const yk_program *p, const yk_submit *s)
{
    yk_status st = YK_OK;
    if (s->n_slot != p->graph->n_slot) {
        cuda_host->fail(CUDA_WHO, "%u slots are bound, the program has %u", s->n_slot, p->graph->n_slot);
        return YK_E_ARG;
    }
    for (uint32_t i = 0; i < s->n_slot && !st; i++)
        if (p->used[i])
            st = slot_check(p, s, i);
    if (!st)
        st = alignment_check(p, s);
    return st;
}

/* Under the lock; the submission was checked. */
static void values_bind(yk_program *p, const yk_submit *s, const cuda_scratch *scratch)
{
    size_t at = 0;
    for (size_t l = 0; l < p->kit.n_launch; l++)
        for (uint32_t i = 0; i < p->kit.launch[l].n_arg; i++) {
            const kit_arg *arg = &p->kit.arg[p->kit.launch[l].arg + i];
            if (kit_arg_is_memory(arg)) {
                p->value[at++] = arg_memory(p, s, scratch, arg);
                kit_arg_element(arg, arg_at(s, arg), &p->value[at]);
            }
            at++;
        }
}

/* A queue's programs share its scratch memory, which grows to the greediest program's bytes. */
static yk_status scratch_reserve(const yk_program *p, CUstream stream, cuda_scratch *scratch)
{
    if (p->kit.scratch_bytes <= scratch->bytes)
        return YK_OK;
    const CUresult rc = cuda.stream_synchronize(stream);
    if (rc)
        return cuda_error(rc, "waiting for the scratch memory");
    if (scratch->memory)
        cuda.memory_free(scratch->memory);
    *scratch = (cuda_scratch){0};
    const yk_status s = cuda_memory_alloc(p->dev, p->kit.scratch_bytes, &scratch->memory);
    if (!s)
        scratch->bytes = p->kit.scratch_bytes;
    return s;
}

/* ---- Running ---- */

static yk_status kernel_run(yk_program *p, size_t i, CUstream stream)
{
    const kit_launch *l = &p->kit.launch[i];
    char what[100];
    const CUresult rc = cuda.launch(p->function[i], (unsigned)l->groups[0], (unsigned)l->groups[1], (unsigned)l->groups[2], l->local, 1, 1,
                                    0, stream, p->parameter + p->first[i], NULL);
    if (!rc)
        return YK_OK;
    snprintf(what, sizeof what, "node %u, kernel %s", l->node, l->kernel);
    return cuda_error(rc, what);
}

/* A product, an attention or a convolution: its arguments are memory, each a beginning and a number of elements. */
static yk_status library_run(yk_program *p, size_t i, CUstream stream)
{
    const kit_launch *l = &p->kit.launch[i];
    const uint64_t *value = p->value + p->first[i];
    CUdeviceptr at[CUDA_LIBRARY_ARGS] = {0};
    for (uint32_t k = 0; k < l->n_arg; k++)
        at[k] = value[2 * k] + value[2 * k + 1] * p->kit.arg[l->arg + k].element;
    return p->product[i] ? cuda_product_run(p->dev, p->product[i], at, l->node, stream)
                         : cuda_dnn_run(p->dev, p->plan[i], at, l->node, stream);
}

static yk_status mark_set(yk_program *p, size_t i, CUstream stream)
{
    const CUresult rc = cuda_marks_set(p->marks, i, stream);
    return rc ? cuda_error(rc, "an event behind a launch") : YK_OK;
}

static yk_status launches_run(yk_program *p, CUstream stream)
{
    yk_status s = YK_OK;
    for (size_t i = 0; i < p->kit.n_launch && !s; i++) {
        s = p->function[i] ? kernel_run(p, i, stream) : library_run(p, i, stream);
        if (p->marks && !s)
            s = mark_set(p, i + 1, stream);
    }
    return s;
}

/* As launches_run, and what each took goes to the device's profile. */
static yk_status launches_profile(yk_program *p, CUstream stream)
{
    yk_status s = mark_set(p, 0, stream);
    if (!s)
        s = launches_run(p, stream);
    const CUresult rc = s ? CUDA_SUCCESS : cuda_marks_add(p->dev, p->marks, p->graph, &p->kit, stream);
    return rc ? cuda_error(rc, "reading how long a program took") : s;
}

/* A graph costs memory that its launches do not: a program that has just run goes on without graphs, unless the device is lost. */
static yk_status graph_refused(yk_program *p, CUresult why)
{
    const char *name = NULL;
    if (cuda.event_query(p->dev->origin))
        return cuda_error(why, "making a graph of a program");
    if (cuda.error_name(why, &name) || !name)
        name = "an error of CUDA without a name";
    if (atomic_exchange(&p->dev->graphs, false))
        cuda_host->log(1, CUDA_WHO, "no graph of a program can be made, %s (%d): programs are launched kernel by kernel from here on", name,
                       (int)why);
    return YK_OK;
}

/* Records the launches with their present arguments as a graph. *exec stays NULL if the driver makes none. */
static yk_status graph_record(yk_program *p, CUstream capture, CUgraphExec *exec)
{
    CUgraph graph = NULL;
    CUresult rc = cuda.capture_begin(capture, (CUstreamCaptureMode)CU_STREAM_CAPTURE_MODE_RELAXED);
    if (rc)
        return cuda_error(rc, "recording a program");
    yk_status s = launches_run(p, capture);
    rc = cuda.capture_end(capture, &graph);
    if (!s && rc)
        s = cuda_error(rc, "recording a program");
    if (!s && (rc = cuda.graph_instantiate(exec, graph, 0)) != CUDA_SUCCESS)
        s = graph_refused(p, rc);
    if (graph)
        cuda.graph_free(graph);
    return s;
}

/* The recording of these arguments, made empty if it is new; NULL if there is no place for it. */
static recording *recording_find(yk_program *p, bool *seen)
{
    const size_t bytes = p->n_value * sizeof *p->value;
    *seen = true;
    for (uint32_t i = 0; i < p->n_recorded; i++)
        if (!memcmp(p->recorded[i].value, p->value, bytes))
            return &p->recorded[i];
    *seen = false;
    if (p->n_recorded == GRAPHS || !(p->recorded[p->n_recorded].value = cuda_alloc(bytes)))
        return NULL;
    memcpy(p->recorded[p->n_recorded].value, p->value, bytes);
    return &p->recorded[p->n_recorded++];
}

/* Under the lock, bound. */
static yk_status bound_run(yk_program *p, CUstream stream, CUstream capture)
{
    bool seen = false;
    if (p->marks)
        return launches_profile(p, stream);
    recording *r = p->dev->graphs && p->kit.n_launch >= GRAPH_LAUNCHES ? recording_find(p, &seen) : NULL;
    if (!r || !seen)
        return launches_run(p, stream);
    const yk_status s = r->exec ? YK_OK : graph_record(p, capture, &r->exec);
    if (s)
        return s;
    if (!r->exec)
        return launches_run(p, stream);
    const CUresult rc = cuda.graph_launch(r->exec, stream);
    return rc ? cuda_error(rc, "launching the graph of a program") : YK_OK;
}

yk_status cuda_program_run(yk_program *p, const yk_submit *s, CUstream stream, CUstream capture, cuda_scratch *scratch)
{
    yk_status st = scratch_reserve(p, stream, scratch);
    if (st)
        return st;
    pthread_mutex_lock(&p->lock);
    values_bind(p, s, scratch);
    st = bound_run(p, stream, capture);
    pthread_mutex_unlock(&p->lock);
    return st;
}

/* ---- Making ---- */

static yk_status launch_check(const yk_device *dev, const kit_launch *l)
{
    for (int d = 0; d < 3; d++)
        if (l->groups[d] > dev->grid[d]) {
            cuda_host->fail(CUDA_WHO, "node %u, kernel %s: %llu blocks in dimension %d; this device starts %u at most", l->node, l->kernel,
                            (unsigned long long)l->groups[d], d, dev->grid[d]);
            return YK_E_UNSUPPORTED;
        }
    return YK_OK;
}

/* Numbers are set; the places of all arguments are known. */
static void launch_args(yk_program *p, const kit_launch *l, size_t *at)
{
    for (uint32_t i = 0; i < l->n_arg; i++) {
        const kit_arg *arg = &p->kit.arg[l->arg + i];
        if (kit_arg_is_memory(arg)) {
            if (arg->kind == KIT_ARG_SLOT)
                p->used[arg->slot] = true;
            *at += 2;
        } else {
            p->value[(*at)++] = kit_arg_bits(arg);
        }
    }
}

static yk_status kernel_find(yk_program *p, size_t i, void *code)
{
    const kit_launch *l = &p->kit.launch[i];
    const CUresult rc = cuda.module_function(&p->function[i], code, l->kernel);
    return rc ? cuda_error(rc, l->kernel) : launch_check(p->dev, l);
}

static yk_status launches_make(yk_program *p, void *const *of)
{
    size_t at = 0;
    yk_status s = YK_OK;
    for (size_t i = 0; i < p->kit.n_launch && !s; i++) {
        const kit_launch *l = &p->kit.launch[i];
        if (l->product != YK_NONE)
            p->product[i] = cuda_product_of(p->dev, &p->kit.product[l->product]);
        else if (l->attention != YK_NONE)
            p->plan[i] = cuda_attention_of(p->dev, &p->kit.attention[l->attention]);
        else if (l->convolution != YK_NONE)
            p->plan[i] = cuda_convolution_of(p->dev, &p->kit.convolution[l->convolution]);
        else
            s = kernel_find(p, i, of[l->unit]);
        p->first[i] = (uint32_t)at;
        launch_args(p, l, &at);
    }
    for (size_t i = 0; i < p->n_value; i++)
        p->parameter[i] = &p->value[i];
    return s;
}

/* The context is current. The copy is over before its source may go. */
static yk_status meta_copy(yk_program *p)
{
    const size_t bytes = p->kit.n_meta * sizeof *p->kit.meta;
    yk_status s = cuda_memory_alloc(p->dev, bytes, &p->meta);
    if (s || !bytes)
        return s;
    CUresult rc = cuda.copy_to_device(p->meta, p->kit.meta, bytes, NULL);
    if (!rc)
        rc = cuda.stream_synchronize(NULL);
    return rc ? cuda_error(rc, "copying the sizes of a program") : YK_OK;
}

static yk_status program_fill(yk_program *p)
{
    const kit_program *kit = &p->kit;
    for (size_t i = 0; i < kit->n_arg; i++)
        p->n_value += kit_arg_is_memory(&kit->arg[i]) ? 2 : 1;
    void **of = cuda_alloc(kit->n_unit * sizeof *of);
    p->function = cuda_alloc(kit->n_launch * sizeof *p->function);
    p->product = cuda_alloc(kit->n_launch * sizeof *p->product);
    p->plan = cuda_alloc(kit->n_launch * sizeof *p->plan);
    p->first = cuda_alloc(kit->n_launch * sizeof *p->first);
    p->value = cuda_alloc(p->n_value * sizeof *p->value);
    p->parameter = cuda_alloc(p->n_value * sizeof *p->parameter);
    p->used = cuda_alloc(p->graph->n_slot * sizeof *p->used);
    yk_status s = of && p->function && p->product && p->plan && p->first && p->value && p->parameter && p->used ? YK_OK : YK_E_MEM;
    if (!s && cuda_enter(p->dev, &s)) {
        s = kit_units_get(&p->dev->units, kit, of);
        if (!s)
            s = launches_make(p, of);
        if (!s)
            s = meta_copy(p);
        if (!s && p->dev->profiles && !(p->marks = cuda_marks_new(kit->n_launch + 1)))
            s = YK_E_MEM;
        cuda_leave();
    }
    cuda_free(of);
    return s;
}

yk_status cuda_program_new(yk_device *dev, const yk_graph *graph, yk_program **out)
{
    yk_program *p = cuda_alloc(sizeof *p);
    if (!p)
        return YK_E_MEM;
    p->dev = dev;
    p->graph = graph;
    pthread_mutex_init(&p->lock, NULL);
    yk_status s = kit_program_make(&dev->target, graph, &p->kit);
    if (!s)
        s = program_fill(p);
    if (s)
        cuda_program_free(p);
    else
        *out = p;
    return s;
}

static void memory_release(yk_program *p)
{
    yk_status s;
    if ((!p->meta && !p->n_recorded && !p->marks) || !cuda_enter(p->dev, &s))
        return;
    cuda_marks_free(p->marks);
    for (uint32_t i = 0; i < p->n_recorded; i++)
        if (p->recorded[i].exec)
            cuda.exec_free(p->recorded[i].exec);
    if (p->meta)
        cuda.memory_free(p->meta);
    cuda_leave();
}

/* A device that was left behind may still run the program. */
void cuda_program_free(yk_program *p)
{
    if (!p)
        return;
    if (atomic_load(&p->dev->left_behind)) {
        kit_leave(p);
        return;
    }
    memory_release(p);
    for (uint32_t i = 0; i < p->n_recorded; i++)
        cuda_free(p->recorded[i].value);
    kit_program_free(&p->kit);
    cuda_free(p->function);
    cuda_free(p->product);
    cuda_free(p->plan);
    cuda_free(p->first);
    cuda_free(p->value);
    cuda_free(p->parameter);
    cuda_free(p->used);
    pthread_mutex_destroy(&p->lock);
    cuda_free(p);
}

yk_status cuda_graph_scratch(yk_device *dev, const yk_graph *graph, uint64_t *bytes)
{
    return kit_scratch_bytes(&dev->target, graph, bytes);
}
