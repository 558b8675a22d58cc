/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels' sources by file name, as texts in this library, and the macros of a unit, a set of kernels that are compiled together. The
 * dialect and the elementary functions precede each text.
 *
 * units.c and the Vulkan plugin put a unit's text together while a program is made; lower/ asks for the macros of a kernel. fatbin_units.c
 * writes texts for the build. No state; any thread.
 */
#include "plugins/kit/kit_source.h"

#include <stdio.h>

#include "plugins/kit/kernels/attn.kch"
#include "plugins/kit/kernels/attn_gpu.kch"
#include "plugins/kit/kernels/attn_mma.kch"
#include "plugins/kit/kernels/conv.kch"
#include "plugins/kit/kernels/conv_gpu.kch"
#include "plugins/kit/kernels/conv_mma.kch"
#include "plugins/kit/kernels/data.kch"
#include "plugins/kit/kernels/dialect.kch"
#include "plugins/kit/kernels/eight.kch"
#include "plugins/kit/kernels/gemm.kch"
#include "plugins/kit/kernels/gemm_coop.kch"
#include "plugins/kit/kernels/gemm_dot.kch"
#include "plugins/kit/kernels/gemm_gpu.kch"
#include "plugins/kit/kernels/gemm_lanes.kch"
#include "plugins/kit/kernels/gemm_mma.kch"
#include "plugins/kit/kernels/lines.kch"
#include "plugins/kit/kernels/math.kch"
#include "plugins/kit/kernels/mma.kch"
#include "plugins/kit/kernels/nn.kch"
#include "plugins/kit/kernels/norms.kch"
#include "plugins/kit/kernels/parts.kch"
#include "plugins/kit/kernels/pool.kch"
#include "plugins/kit/kernels/round8.kch"
#include "plugins/kit/kernels/step.kch"
#include "plugins/kit/kernels/widen.kch"
#include "plugins/kit/kernels/wino.kch"
#include "plugins/kit/kernels/xent.kch"

static const struct {
    const char *name, *before, *between, *text; /* before, between: texts that a file builds on, or "" */
} files[] = {
    {"attn", "", kit_src_gemm, kit_src_attn},
    {"attn_gpu", "", "", kit_src_attn_gpu},
    {"attn_mma", kit_src_mma, kit_src_attn_gpu, kit_src_attn_mma},
    {"conv", "", "", kit_src_conv},
    {"conv_gpu", "", "", kit_src_conv_gpu},
    {"conv_mma", kit_src_mma, kit_src_conv_gpu, kit_src_conv_mma},
    {"data", "", "", kit_src_data},
    {"eight", "", "", kit_src_eight},
    {"gemm", "", "", kit_src_gemm},
    {"lines", "", "", kit_src_lines},
    {"nn", "", "", kit_src_nn},
    {"norms", "", "", kit_src_norms},
    {"parts", "", "", kit_src_parts},
    {"pool", "", "", kit_src_pool},
    {"round8", "", "", kit_src_round8},
    {"step", "", "", kit_src_step},
    {"widen", "", "", kit_src_widen},
    {"wino", "", "", kit_src_wino},
    {"xent", kit_src_mma, "", kit_src_xent},
};

static void parts_fill(const char *before, const char *between, const char *text, const char *part[KIT_PARTS])
{
    part[0] = kit_src_dialect;
    part[1] = kit_src_math;
    part[2] = before;
    part[3] = between;
    part[4] = text;
}

bool kit_unit_parts(const kit_target *target, const char *file, const char *generated, const char *part[KIT_PARTS])
{
    if (!file) {
        parts_fill("", target->cpu_shape ? kit_src_gemm : target->mma ? kit_src_mma : "", generated, part);
        return true;
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strcmp(files[i].name, file)) {
            parts_fill(files[i].before, files[i].between, files[i].text, part);
            return true;
        }
    target->host->fail(target->plugin, "no kernels named %s", file);
    return false;
}

bool kit_unit_macros(const kit_target *target, const char *macros, char *text, size_t size)
{
    const int n = snprintf(text, size, "%s %s", target->cpu_shape ? "-DK_CPU_SHAPE" : "", macros);
    if (n >= 0 && (size_t)n < size)
        return true;
    target->host->fail(target->plugin, "the macros of a unit are too long: %s", macros);
    return false;
}

const char *kit_row_macros(const kit_target *target)
{
    return target->four ? " -DK_FOUR" : "";
}

const char *kit_generated_macros(const kit_target *target)
{
    return target->mma == 16 ? "-DMMA_TERMS=16" : target->mma ? "-DMMA_TERMS=8" : "";
}

const char *kit_dot_source(const kit_target *target, bool lanes, bool mma)
{
    return target->cpu_shape ? kit_src_gemm_dot
           : lanes           ? kit_src_gemm_lanes
           : !mma            ? kit_src_gemm_gpu
           : target->mma     ? kit_src_gemm_mma
                             : kit_src_gemm_coop;
}
