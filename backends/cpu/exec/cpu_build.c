/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program under construction: the planners of nodes (cpu_ops.c lists them) add steps and memory for their arguments, and request
 * workspace, in bytes. A workspace is as large as the largest request. After a failure steps are dropped, and cpu_build_end frees the
 * program. cpu_ops.c begins and ends it, in any thread; cpu_program.c runs the result. cpu_host, the host's table, is defined here.
 */
#include <string.h>

#include "backends/cpu/exec/cpu_program.h"
#include "backends/cpu/exec/exec_internal.h"
#include "backends/cpu/exec/steal.h"
#include "plugins/kit/plugin.h"
#include "plugins/kit/value.h"

#define CHUNK (64 << 10)

const yk_host *cpu_host;

void *cpu_args(cpu_build *build, size_t bytes)
{
    cpu_prog *prog = build->prog;
    bytes = kit_round_bytes(bytes, 64);
    arg_chunk *chunk = prog->chunks;
    if (!chunk || chunk->size - chunk->used < bytes) {
        size_t size = bytes + 64 > CHUNK ? bytes + 64 : CHUNK;
        chunk = cpu_host->alloc(size, 64);
        if (!chunk) {
            build->status = YK_E_MEM;
            cpu_host->fail("cpu", "no memory for a program (%zu bytes)", size);
            return NULL;
        }
        *chunk = (arg_chunk){prog->chunks, 64, size};
        prog->chunks = chunk;
    }
    void *at = (char *)chunk + chunk->used;
    chunk->used += bytes;
    return memset(at, 0, bytes);
}

static bool steps_grow(cpu_build *build)
{
    cpu_prog *prog = build->prog;
    uint32_t cap = prog->cap ? 2 * prog->cap : 64;
    prog_step *step;
    if (prog->n_step < prog->cap)
        return true;
    step = cpu_host->alloc(cap * sizeof *step, 64);
    if (!step) {
        build->status = YK_E_MEM;
        cpu_host->fail("cpu", "no memory for a program of %u steps", (unsigned)cap);
        return false;
    }
    if (prog->n_step)
        memcpy(step, prog->steps, prog->n_step * sizeof *step);
    cpu_host->free(prog->steps);
    prog->steps = step;
    prog->cap = cap;
    return true;
}

void cpu_emit_pieces(cpu_build *build, cpu_fn fn, const void *args, double work, int64_t pieces)
{
    cpu_prog *prog = build->prog;
    if (build->status != YK_OK || !steps_grow(build))
        return;
    if (build->workers == 1 || work < CPU_SHARE_LEAST_NS)
        pieces = 1;
    pieces = pieces > CPU_PIECES_MOST ? CPU_PIECES_MOST : pieces;
    prog->steps[prog->n_step++] =
        (prog_step){fn, args, build->node ? cpu_profile_entry_of(build, build->node, ++build->step) : NULL, work, (int)pieces};
    prog->serial = prog->serial && pieces == 1;
    prog->work += work;
}

void cpu_emit(cpu_build *build, cpu_fn fn, const void *args, double work)
{
    cpu_emit_pieces(build, fn, args, work, build->workers);
}

void cpu_need_shared_ws(cpu_build *build, size_t bytes)
{
    bytes = kit_round_bytes(bytes, 64);
    build->prog->shared_ws = build->prog->shared_ws > bytes ? build->prog->shared_ws : bytes;
}

void cpu_need_thread_ws(cpu_build *build, size_t bytes)
{
    bytes = kit_round_bytes(bytes, 64);
    build->prog->thread_ws = build->prog->thread_ws > bytes ? build->prog->thread_ws : bytes;
}

yk_status cpu_refuse(cpu_build *build, const yk_node *node, const char *why)
{
    if (build->status == YK_OK) {
        build->status = YK_E_UNSUPPORTED;
        KIT_FAIL_NODE(cpu_host, "cpu", node->stream, "node %u (%s): %s", (unsigned)node->stream, kit_op_name(node->op), why);
    }
    return build->status;
}

/* ---- Beginning and end ---- */

yk_status cpu_build_begin(cpu_build *build, const yk_graph *graph, const cpu_isa *isa, int workers)
{
    cpu_prog *prog = cpu_host->alloc(sizeof *prog, 64);
    if (!prog)
        return YK_E_MEM;
    *prog = (cpu_prog){.serial = true, .n_slot = graph->n_slot, .uses = cpu_host->alloc(graph->n_slot + 1, 64),
                       .slot = graph->slot};
    if (!prog->uses) {
        cpu_host->free(prog);
        return YK_E_MEM;
    }
    memset(prog->uses, 0, graph->n_slot + 1);
    *build = (cpu_build){.graph = graph, .isa = isa, .workers = workers, .prog = prog};
    return YK_OK;
}

static void slot_note(cpu_prog *prog, const yk_value *v)
{
    if (v->slot < prog->n_slot)
        prog->uses[v->slot] = 1;
}

static void slots_note(cpu_build *build, const yk_node *node)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        slot_note(build->prog, cpu_in(build, node, i));
    for (uint32_t i = 0; i < node->n_out; i++)
        slot_note(build->prog, cpu_out(build, node, i));
}

uint32_t cpu_build_node(cpu_build *build, const yk_node *node, void (*plan)(cpu_build *build, const yk_node *node))
{
    build->node = node;
    build->algorithm = NULL;
    build->step = build->joined = 0;
    plan(build, node);
    for (uint32_t i = 0; i <= build->joined; i++)
        slots_note(build, node + i);
    return 1 + build->joined;
}

yk_status cpu_build_end(cpu_build *build, cpu_prog **out)
{
    if (build->status != YK_OK)
        cpu_prog_free(build->prog);
    else
        *out = build->prog;
    return build->status;
}
