# SPDX-License-Identifier: Apache-2.0
# The kit: a convenience library for plugins, and the kernel sources as C strings.
noinst_LTLIBRARIES += libkit.la
libkit_la_SOURCES = plugins/kit/cache.c plugins/kit/cache.h plugins/kit/clock.h plugins/kit/coop.c plugins/kit/coop.h \
	plugins/kit/cores.c plugins/kit/cores.h \
	plugins/kit/devices.c plugins/kit/devices.h plugins/kit/drain.c plugins/kit/drain.h plugins/kit/emit.c plugins/kit/emit.h \
	plugins/kit/emit_kernel.c plugins/kit/emit_wide.c plugins/kit/hlo/function.c plugins/kit/hlo/function.h \
	plugins/kit/hlo/primitives.c plugins/kit/hlo/tensor.c plugins/kit/hlo/tensor.h \
	plugins/kit/lower/attn.c plugins/kit/lower/behind.c plugins/kit/lower/chain.c plugins/kit/lower/conv.c plugins/kit/lower/conv_gpu.c \
	plugins/kit/lower/conv_gpu.h plugins/kit/lower/conv_library.c plugins/kit/lower/conv_library.h plugins/kit/lower/conv_plan.c \
	plugins/kit/lower/conv_plan.h plugins/kit/lower/data.c plugins/kit/lower/dot.c plugins/kit/lower/eight.c \
	plugins/kit/lower/internal.h plugins/kit/lower/launch.c plugins/kit/lower/lines.c plugins/kit/lower/lower.c \
	plugins/kit/lower/lower.h plugins/kit/lower/nn.c plugins/kit/lower/norms.c plugins/kit/lower/parts.c \
	plugins/kit/lower/steps.c plugins/kit/lower/steps.h \
	plugins/kit/options.c plugins/kit/options.h plugins/kit/plugin.h \
	plugins/kit/probe.c plugins/kit/probe.h plugins/kit/profile.c plugins/kit/profile.h \
	plugins/kit/program.c plugins/kit/program.h plugins/kit/queue.c plugins/kit/queue.h \
	plugins/kit/source.c plugins/kit/source.h plugins/kit/spirv/compile.h plugins/kit/spirv/expr.c plugins/kit/spirv/lex.c \
	plugins/kit/spirv/macro.c plugins/kit/spirv/matrix.c plugins/kit/spirv/memory.c plugins/kit/spirv/module.c plugins/kit/spirv/opcodes.h \
	plugins/kit/spirv/read.c plugins/kit/spirv/spirv.h plugins/kit/spirv/stmt.c plugins/kit/spirv/unit.c plugins/kit/spirv/value.c \
	plugins/kit/survey.c plugins/kit/survey.h plugins/kit/text.c plugins/kit/text.h plugins/kit/units.c plugins/kit/units.h \
	plugins/kit/value.h
libkit_la_CFLAGS = $(AM_CFLAGS) $(CONVERSION)

KIT_KERNELS = plugins/kit/kernels/dialect.kc plugins/kit/kernels/math.kc plugins/kit/kernels/data.kc plugins/kit/kernels/gemm.kc \
	plugins/kit/kernels/gemm_coop.kc \
	plugins/kit/kernels/gemm_dot.kc plugins/kit/kernels/gemm_gpu.kc plugins/kit/kernels/gemm_lanes.kc plugins/kit/kernels/conv.kc \
	plugins/kit/kernels/conv_gpu.kc plugins/kit/kernels/wino.kc plugins/kit/kernels/nn.kc plugins/kit/kernels/norms.kc \
	plugins/kit/kernels/attn.kc \
	plugins/kit/kernels/attn_gpu.kc plugins/kit/kernels/pool.kc plugins/kit/kernels/step.kc plugins/kit/kernels/mma.kc \
	plugins/kit/kernels/eight.kc plugins/kit/kernels/lines.kc plugins/kit/kernels/parts.kc plugins/kit/kernels/round8.kc \
	plugins/kit/kernels/attn_mma.kc plugins/kit/kernels/conv_mma.kc plugins/kit/kernels/gemm_mma.kc \
	plugins/kit/kernels/widen.kc plugins/kit/kernels/xent.kc
KIT_TEXTS = $(KIT_KERNELS:.kc=.kch)
$(libkit_la_OBJECTS): $(KIT_TEXTS)
CLEANFILES += $(KIT_TEXTS)
SUFFIXES = .kc .kch
.kc.kch:
	$(AM_V_GEN)$(MKDIR_P) $(@D) && { n=`basename $@ .kch`; echo "/* made from $$n.kc */"; \
	echo "static const char kit_src_$$n[] ="; \
	$(SED) -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$$/\\n"/' $<; echo ";"; } > $@.tmp && mv $@.tmp $@
