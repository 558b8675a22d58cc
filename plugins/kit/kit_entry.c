/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the entry of a kernel in C: a function that takes arguments by kind and calls the kernel for each group (kit_entry.h). A device
 * whose compiler makes shared objects can then call each kernel in one form.
 *
 * units.c asks for it while a program is made, in any thread. One launch gives the kinds of arguments, which are the same in each launch
 * of that kernel.
 */
#include "plugins/kit/kit_entry.h"

static void argument_write(kit_text *text, uint32_t i, const kit_arg *arg)
{
    if (kit_arg_is_memory(arg))
        kit_text_add(text, "%sa[%u].memory, a[%u].number.i64", i ? ", " : "", i, i);
    else
        kit_text_add(text, "%sa[%u].number.%s", i ? ", " : "", i,
                     arg->kind == KIT_ARG_I64   ? "i64"
                     : arg->kind == KIT_ARG_I32 ? "i32"
                                                : "f32");
}

void kit_entry_write(kit_text *text, const kit_program *program, const kit_launch *launch)
{
    kit_text_add(text, "\ntypedef struct k_argument {\n    void *memory;\n    union {\n        int64_t i64;\n        int32_t i32;\n"
                       "        float f32;\n    } number;\n    uint32_t kind, element;\n} k_argument;\n"
                       "__attribute__((visibility(\"default\"))) void " KIT_ENTRY "(const k_argument *a, const uint64_t *groups)\n{\n");
    for (int d = 2; d >= 0; d--)
        kit_text_add(text, "    for (k_host_gid[%d] = 0; k_host_gid[%d] < (long)groups[%d]; k_host_gid[%d]++)\n", d, d, d, d);
    kit_text_add(text, "        %s(", launch->kernel);
    for (uint32_t i = 0; i < launch->n_arg; i++)
        argument_write(text, i, &program->arg[launch->arg + i]);
    kit_text_add(text, ");\n}\n");
}
