# SPDX-License-Identifier: Apache-2.0
# small graphs for the tests of plugins
KIT = tests/unit/kit.c tests/unit/kit.h tests/unit/f16.h
TSAN_TESTS = tests/unit/data_loader.test tests/unit/run_train.test tests/unit/job_api.test
TSAN_TESTS += tests/unit/cpu_queue.test tests/unit/cpu_gemm.test
CLANG_TESTS = tests/unit/base.test tests/unit/graph_eval.test tests/unit/grad_rules.test tests/unit/plan_passes.test
CLANG_TESTS += tests/unit/run_train.test tests/unit/job_api.test tests/unit/kit_cpu_shape.test tests/unit/kit_gpu_shape.test
CLANG_TESTS += tests/unit/cpu_ops.test tests/unit/cpu_chain.test tests/unit/cpu_gemm.test tests/unit/cpu_nets.test
CLANG_TESTS += tests/unit/cpu_rows.test tests/unit/cpu_queue.test
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
