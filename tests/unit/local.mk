# SPDX-License-Identifier: Apache-2.0
# small graphs for the tests of plugins
KIT = tests/unit/kit.c tests/unit/kit.h
TSAN_TESTS = tests/unit/data_loader.test tests/unit/run_train.test tests/unit/job_api.test
TSAN_TESTS += tests/unit/cpu_queue.test tests/unit/cpu_gemm.test
dist_check_SCRIPTS += tests/unit/style.sh
TESTS += tests/unit/style.sh
EXTRA_DIST += scripts/style scripts/packages.sh quickstart autogen.sh tests/lsan.supp
if WITH_CHECK
check_PROGRAMS += tests/unit/base.test
TESTS += tests/unit/base.test
tests_unit_base_test_SOURCES = tests/unit/base.c
tests_unit_base_test_LDADD = $(TEST_LIBS)
tests_unit_base_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
endif
