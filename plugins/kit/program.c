/* SPDX-License-Identifier: Apache-2.0 */
/* A program's tables, from empty to freed; lower/ fills them. */
#include "plugins/kit/program.h"

void kit_program_init(kit_program *program, const yk_host *host)
{
    *program = (kit_program){.host = host};
    kit_text_init(&program->text, host);
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
