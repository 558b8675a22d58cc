# SPDX-License-Identifier: Apache-2.0
# Manual pages of the commands are printed by the commands themselves, from their option tables.
COMMAND_MANS = docs/yoke.1 docs/yoke-info.1 docs/yoke-env.1 docs/yoke-config.1 docs/yoke-train.1 docs/yoke-eval.1 docs/yoke-predict.1 \
	docs/yoke-launch.1 docs/yoke-trace.1 docs/yoke-bench.1 docs/yoke-estimate-memory.1 docs/yoke-plan.1 docs/yoke-test.1 \
	docs/yoke-plugin-list.1 docs/yoke-inspect.1 docs/yoke-tokenize.1
# (not where they are built for another machine, whose programs do not run here)
man_MANS =
if !CROSS_COMPILING
man_MANS += $(COMMAND_MANS) docs/yoke-cts.1
endif
CLEANFILES += $(COMMAND_MANS)
$(COMMAND_MANS): yoke$(EXEEXT)
	@$(MKDIR_P) docs
	$(AM_V_GEN)name=`basename $@ .1`; command=`echo $$name | sed 's/^yoke-*//;s/-list$$//'`; \
		./yoke$(EXEEXT) $$command --man > $@.tmp && mv $@.tmp $@
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
# One page for each function: how many there are is the header's business, so that a hook installs them.
FUNCTION_PAGES = docs/man3/stamp
docs/man3/stamp: include/yoke/yoke.h include/yoke/builder.h scripts/api scripts/csource.py
	@rm -rf docs/man3 && $(MKDIR_P) docs/man3
	$(AM_V_GEN)$(PYTHON3) $(top_srcdir)/scripts/api pages docs/man3 && touch $@
else
FUNCTION_PAGES =
endif
all-local: $(FUNCTION_PAGES)
install-data-hook:
	@$(MKDIR_P) '$(DESTDIR)$(docdir)/docs/decisions' && \
		$(INSTALL_DATA) $(srcdir)/docs/decisions/*.md '$(DESTDIR)$(docdir)/docs/decisions'
	@if test -d docs/man3; then $(MKDIR_P) '$(DESTDIR)$(mandir)/man3' && \
		$(INSTALL_DATA) docs/man3/*.3 '$(DESTDIR)$(mandir)/man3'; fi
uninstall-hook:
	@rm -rf '$(DESTDIR)$(docdir)/docs/decisions'
	@if test -d docs/man3; then (cd docs/man3 && ls *.3) | (cd '$(DESTDIR)$(mandir)/man3' && xargs rm -f); fi

# A reader of the installed copy has the pages where README names them, and the examples.
dist_doc_DATA = README.md CHANGELOG.md CONTRIBUTING.md LICENSE
pagesdir = $(docdir)/docs
dist_pages_DATA = \
	docs/architecture.md \
	docs/bindings.md \
	docs/cpu-speed-conv.md \
	docs/cpu-speed.md \
	docs/cuda.md \
	docs/data.md \
	docs/devices.md \
	docs/flow-batch.md \
	docs/flow-gradient.md \
	docs/flow-step.md \
	docs/from-accelerate.md \
	docs/from-deepspeed.md \
	docs/from-huggingface.md \
	docs/glossary.md \
	docs/launching.md \
	docs/opencl.md \
	docs/pjrt.md \
	docs/plan.md \
	docs/plugin-guide.md \
	docs/promises.md \
	docs/serving.md \
	docs/sharding.md \
	docs/transport-guide.md \
	docs/vulkan.md \
	docs/your-device.md
# Files that README and the pages link to, in their folders.
nobase_doc_DATA = docs/yoke-plugin.7 include/yoke/yoke.h bench/notes/cpu-speed-conv.md bench/notes/cpu-speed.md bench/results/cuda.md \
	bench/results/performance-avx512.md bench/results/performance-zen3.md bench/results/performance-zen4.md bench/results/performance.md \
	tests/cts/vulkan.xfail
examplesdir = $(docdir)/examples
examples_DATA = examples/finetune.c examples/mlp.c examples/own_layer.c examples/own_loop.c examples/resume.c examples/serve.c \
	examples/stream.c \
	examples/two_devices.c

# Completion, from the tables of options. (Not where the programs do not run.)
if !CROSS_COMPILING
completiondir = $(datadir)/bash-completion/completions
completion_DATA = docs/completion/yoke
CLEANFILES += docs/completion/yoke
docs/completion/yoke: yoke$(EXEEXT) scripts/completion
	@$(MKDIR_P) docs/completion
	$(AM_V_GEN)$(top_srcdir)/scripts/completion ./yoke$(EXEEXT) > $@.tmp && mv $@.tmp $@
endif
EXTRA_DIST += scripts/completion scripts/devices
