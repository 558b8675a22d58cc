# SPDX-License-Identifier: Apache-2.0
# Manual pages of the commands are printed by the commands themselves, from their option tables.
COMMAND_MANS = docs/yoke.1 docs/yoke-info.1 docs/yoke-train.1 docs/yoke-eval.1 docs/yoke-predict.1 \
	docs/yoke-launch.1 docs/yoke-bench.1 \
	docs/yoke-estimate-memory.1 docs/yoke-test.1 docs/yoke-plugin.1 docs/yoke-inspect.1 docs/yoke-tokenize.1
man_MANS = $(COMMAND_MANS)
CLEANFILES += $(COMMAND_MANS)
$(COMMAND_MANS): yoke$(EXEEXT)
	@$(MKDIR_P) docs
	$(AM_V_GEN)name=`basename $@ .1`; command=`echo $$name | sed 's/^yoke-*//'`; \
		./yoke$(EXEEXT) $$command --man > $@.tmp && mv $@.tmp $@
EXTRA_DIST += docs/architecture.md docs/cpu-speed.md docs/cpu-speed-conv.md docs/data.md docs/from-huggingface.md \
	docs/performance.md docs/performance-avx512.md \
	docs/performance-zen4.md \
	docs/decisions/0001-bodies-are-made-on-demand.md \
	docs/decisions/0002-batch-norm-over-all-ranks.md docs/decisions/0003-counts-are-known-before-the-step.md \
	docs/decisions/0004-parameters-without-a-gradient-rest.md \
	docs/decisions/0005-gradients-that-are-not-finite-end-the-job.md \
	docs/decisions/0006-how-equal-ranks-and-one-process-are.md \
	docs/decisions/0007-processors-share-one-copy-of-the-parameters.md \
	docs/decisions/0008-padding-is-taken-out-by-look-ups.md \
	docs/decisions/0009-bias-gradients-are-sums-of-their-own.md \
	docs/decisions/0016-what-ranks-must-have-in-common.md \
	docs/decisions/0017-the-lowering-is-the-kits.md \
	docs/decisions/0019-requests-on-communicators.md \
	docs/decisions/0010-members-owners-and-excluded-ranks.md \
	docs/decisions/0011-with-or-without-a-rank-is-measured.md \
	docs/decisions/0014-what-a-training-owns-in-its-folder.md

EXTRA_DIST += docs/decisions/0015-losses-over-several-ranks.md
EXTRA_DIST += docs/decisions/0013-a-rank-that-does-nothing-is-lost.md
man_MANS += docs/yoke-cts.1
dist_man_MANS += docs/yoke-plugin.7
CLEANFILES += docs/yoke-cts.1
docs/yoke-cts.1: yoke-cts$(EXEEXT)
	@$(MKDIR_P) docs
	$(AM_V_GEN)./yoke-cts$(EXEEXT) --man > $@.tmp && mv $@.tmp $@
