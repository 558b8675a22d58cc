/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a lowered graph (units, launches, arguments): their beginning and end, and a launch as text for profiles.
 *
 * lower/ fills the tables while a plugin makes a program, and the plugin frees them with it. One thread per program; units are sets of
 * kernels that are compiled together.
 */
#include "plugins/kit/kit_program.h"

#include <stdio.h>

#include "plugins/kit/value.h"

void kit_program_init(kit_program *program, const yk_host *host)
{
    *program = (kit_program){.host = host};
    kit_text_init(&program->text, host);
}

void kit_program_free(kit_program *program)
{
    void *const table[] = {program->unit, program->launch, program->arg, program->meta, program->product, program->attention,
                           program->convolution};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i])
            program->host->free(table[i]);
    if (program->host)
        kit_text_free(&program->text);
    *program = (kit_program){0};
}

void kit_launch_text(const yk_graph *graph, const kit_launch *launch, char text[KIT_LAUNCH_TEXT])
{
    const yk_node *n = &graph->node[launch->node];
    int at = snprintf(text, KIT_LAUNCH_TEXT, "%s %s", kit_op_name(n->op), launch->kernel);
    for (uint32_t i = 0; i < n->n_in + n->n_out && at > 0 && at < KIT_LAUNCH_TEXT; i++) {
        const yk_value *v = &graph->value[graph->index[i < n->n_in ? n->in + i : n->out + i - n->n_in]];
        at += snprintf(text + at, KIT_LAUNCH_TEXT - (size_t)at, i == n->n_in ? " -> [" : " [");
        for (uint32_t d = 0; d < v->dims && at < KIT_LAUNCH_TEXT; d++)
            at += snprintf(text + at, KIT_LAUNCH_TEXT - (size_t)at, d ? ",%lld" : "%lld", (long long)v->dim[d]);
        if (at < KIT_LAUNCH_TEXT)
            at += snprintf(text + at, KIT_LAUNCH_TEXT - (size_t)at, "]");
    }
}
