# SPDX-License-Identifier: Apache-2.0
# Whole tables and real weights, through the yoke program. The trainings to full accuracy run by `make check-long`.
GOLDEN_TESTS = tests/golden/cpu.sh tests/golden/opencl.sh tests/golden/ranks.sh tests/golden/models.sh
dist_check_SCRIPTS += $(GOLDEN_TESTS)
TESTS += $(GOLDEN_TESTS)
EXTRA_DIST += tests/golden/lib.sh tests/golden/long.sh
check_PROGRAMS += tests/golden/expected
tests_golden_expected_SOURCES = tests/golden/expected.c tools/check/golden/golden.c tools/cli.c
tests_golden_expected_LDADD = libyokecore.la $(CORE_LIBS)

check-long: all
	$(AM_TESTS_ENVIRONMENT) $(SHELL) $(top_srcdir)/tests/golden/long.sh
.PHONY: check-long
