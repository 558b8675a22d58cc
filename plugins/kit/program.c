/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: every node of a graph is lowered in turn (lower/), and what that gives is kept as one block of tables. */
#include "plugins/kit/program.h"

#include "plugins/kit/lower/lower.h"

yk_status kit_program_make(const kit_target *target, const yk_graph *g, kit_program *p)
{
    *p = (kit_program){.host = target->host};
    kit_lowering ctx = {.target = target, .g = g, .program = p};
    kit_text_init(&p->text, target->host);
    for (uint32_t i = 0; i < g->n_node && ctx.failed == YK_OK; i++)
        kit_lower_node(&ctx, i);
    if (ctx.failed != YK_OK)
        kit_program_free(p);
    return ctx.failed;
}

void kit_program_free(kit_program *p)
{
    void *const table[] = {p->unit, p->launch, p->arg, p->meta};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i])
            p->host->free(table[i]);
    if (p->host)
        kit_text_free(&p->text);
    *p = (kit_program){0};
}
