/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: every node of a graph is lowered in turn (lower/), and what that gives is kept as one block of tables. */
#include "plugins/kit/program.h"

#include "plugins/kit/lower/lower.h"

yk_status kit_program_make(const kit_target *target, const yk_graph *graph, kit_program *program)
{
    *program = (kit_program){.host = target->host};
    kit_lowering ctx = {.target = target, .graph = graph, .program = program};
    kit_text_init(&program->text, target->host);
    for (uint32_t i = 0; i < graph->n_node && ctx.failed == YK_OK; i++)
        kit_lower_node(&ctx, i);
    if (ctx.failed != YK_OK)
        kit_program_free(program);
    return ctx.failed;
}

void kit_program_free(kit_program *program)
{
    void *const table[] = {program->unit, program->launch, program->arg, program->meta};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i])
            program->host->free(table[i]);
    if (program->host)
        kit_text_free(&program->text);
    *program = (kit_program){0};
}
