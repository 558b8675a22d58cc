# SPDX-License-Identifier: Apache-2.0
# Whole tables and real weights, through the yoke program. The trainings to full accuracy run by `make check-long`, what needs a card by
# `make check-gpu`.
GOLDEN_TESTS = tests/golden/cpu.sh tests/golden/cuda.sh tests/golden/opencl.sh tests/golden/ranks.sh tests/golden/models.sh
dist_check_SCRIPTS += $(GOLDEN_TESTS)
TESTS += $(GOLDEN_TESTS)
EXTRA_DIST += tests/golden/lib.sh tests/golden/long.sh
check_PROGRAMS += tests/golden/expected
tests_golden_expected_SOURCES = tests/golden/expected.c tools/check/golden/golden.c tools/cli.c tools/unknown_option.c
tests_golden_expected_LDADD = libyokecore.la $(CORE_LIBS)

check-long: all
	$(AM_TESTS_ENVIRONMENT) $(SHELL) $(top_srcdir)/tests/golden/long.sh
.PHONY: check-long

check-gpu: all backends/cuda/fatbin-units$(EXEEXT)
	$(AM_TESTS_ENVIRONMENT) YOKE_GPU=1 $(SHELL) $(top_srcdir)/tests/golden/cuda.sh
	$(top_srcdir)/scripts/gpu-report --build '$(abs_builddir)' --out '$(abs_builddir)/gpu-report.json'
.PHONY: check-gpu
