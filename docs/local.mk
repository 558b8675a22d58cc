# SPDX-License-Identifier: Apache-2.0
# Manual pages of the commands are printed by the commands themselves, from their option tables.
COMMAND_MANS = docs/yoke.1 docs/yoke-info.1 docs/yoke-train.1 docs/yoke-eval.1 docs/yoke-predict.1 docs/yoke-launch.1 docs/yoke-trace.1 \
	docs/yoke-bench.1 docs/yoke-estimate-memory.1 docs/yoke-test.1 docs/yoke-plugin.1 docs/yoke-config.1 \
	docs/yoke-inspect.1 docs/yoke-tokenize.1
# (not where they are built for another machine, whose programs do not run here)
man_MANS =
if !CROSS_COMPILING
man_MANS += $(COMMAND_MANS) docs/yoke-cts.1
endif
CLEANFILES += $(COMMAND_MANS)
$(COMMAND_MANS): yoke$(EXEEXT)
	@$(MKDIR_P) docs
	$(AM_V_GEN)name=`basename $@ .1`; command=`echo $$name | sed 's/^yoke-*//'`; \
		./yoke$(EXEEXT) $$command --man > $@.tmp && mv $@.tmp $@
EXTRA_DIST += docs/architecture.md docs/cpu-speed-conv.md docs/cpu-speed.md docs/cuda.md docs/data.md docs/from-accelerate.md \
	docs/from-deepspeed.md \
	docs/from-huggingface.md docs/opencl.md docs/promises.md docs/vulkan.md
# a folder is distributed whole: a new page needs no line here
EXTRA_DIST += docs/decisions
dist_man_MANS += docs/yoke-plugin.7
CLEANFILES += docs/yoke-cts.1
docs/yoke-cts.1: yoke-cts$(EXEEXT)
	@$(MKDIR_P) docs
	$(AM_V_GEN)./yoke-cts$(EXEEXT) --man > $@.tmp && mv $@.tmp $@
# The reference of the user's functions, from the header itself.
if WITH_PYTHON3
man_MANS += docs/yoke.h.3
CLEANFILES += docs/yoke.h.3
docs/yoke.h.3: include/yoke/yoke.h include/yoke/builder.h scripts/api scripts/csource.py
	@$(MKDIR_P) docs
	$(AM_V_GEN)$(PYTHON3) $(top_srcdir)/scripts/api man > $@.tmp && mv $@.tmp $@
endif
EXTRA_DIST += docs/glossary.md docs/launching.md
