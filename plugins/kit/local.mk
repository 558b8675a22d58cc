# SPDX-License-Identifier: Apache-2.0
# The kit: a convenience library for plugins, and the kernel sources as C strings.
noinst_LTLIBRARIES += libkit.la
libkit_la_SOURCES = plugins/kit/kit_cache.c plugins/kit/kit_cache.h plugins/kit/kit_clock.h plugins/kit/kit_coop.c \
	plugins/kit/kit_coop.h plugins/kit/kit_cores.c plugins/kit/kit_cores.h plugins/kit/kit_device.c plugins/kit/kit_device.h \
	plugins/kit/kit_device_internal.h plugins/kit/kit_device_program.c plugins/kit/kit_entry.c plugins/kit/kit_entry.h \
	plugins/kit/kit_fallback.c plugins/kit/kit_fallback.h plugins/kit/devices.c plugins/kit/devices.h \
	plugins/kit/drain.c plugins/kit/drain.h plugins/kit/emit.c plugins/kit/emit.h plugins/kit/emit_kernel.c plugins/kit/emit_wide.c \
	plugins/kit/hlo/collective.c plugins/kit/hlo/collective.h plugins/kit/hlo/function.c plugins/kit/hlo/function.h \
	plugins/kit/hlo/hlo_primitives.c plugins/kit/hlo/tensor.c \
	plugins/kit/hlo/tensor.h plugins/kit/lower/attn.c plugins/kit/lower/behind.c plugins/kit/lower/chain.c \
	plugins/kit/lower/lower_conv.c plugins/kit/lower/conv_gpu.c plugins/kit/lower/conv_gpu.h plugins/kit/lower/conv_library.c \
	plugins/kit/lower/conv_library.h plugins/kit/lower/conv_plan.c plugins/kit/lower/conv_plan.h plugins/kit/lower/lower_data.c \
	plugins/kit/lower/lower_dot.c plugins/kit/lower/lower_eight.c plugins/kit/lower/lower_internal.h \
	plugins/kit/lower/lower_launch.c plugins/kit/lower/lines.c plugins/kit/lower/lower.c plugins/kit/lower/lower.h \
	plugins/kit/lower/nn.c plugins/kit/lower/norms.c plugins/kit/lower/parts.c plugins/kit/lower/steps.c plugins/kit/lower/steps.h \
	plugins/kit/kit_island.c plugins/kit/kit_island.h \
	plugins/kit/kit_options.c plugins/kit/kit_options.h plugins/kit/plugin.h plugins/kit/kit_probe.c plugins/kit/kit_probe.h \
	plugins/kit/kit_profile.c plugins/kit/kit_profile.h plugins/kit/kit_program.c plugins/kit/kit_program.h plugins/kit/kit_queue.c \
	plugins/kit/kit_queue.h plugins/kit/kit_source.c plugins/kit/kit_source.h plugins/kit/spirv/compile.h plugins/kit/spirv/expr.c \
	plugins/kit/spirv/lex.c plugins/kit/spirv/macro.c plugins/kit/spirv/matrix.c plugins/kit/spirv/spirv_memory.c \
	plugins/kit/spirv/spirv_module.c plugins/kit/spirv/opcodes.h plugins/kit/spirv/spirv_read.c plugins/kit/spirv/spirv.h \
	plugins/kit/spirv/stmt.c plugins/kit/spirv/unit.c plugins/kit/spirv/spirv_value.c plugins/kit/kit_survey.c \
	plugins/kit/kit_survey.h plugins/kit/kit_text.c plugins/kit/kit_text.h plugins/kit/units.c plugins/kit/units.h \
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
