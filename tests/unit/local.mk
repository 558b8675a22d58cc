# SPDX-License-Identifier: Apache-2.0
# small graphs for the tests of plugins
KIT = tests/support/kit.c tests/support/kit.h tests/support/f16.h
TSAN_TESTS = tests/unit/data/loader.test tests/unit/run/train.test tests/unit/job/api.test
TSAN_TESTS += tests/unit/cpu/queue.test tests/unit/cpu/gemm.test
CLANG_TESTS = tests/unit/base/base.test tests/unit/graph/eval.test tests/unit/grad/rules.test \
	tests/unit/plan/passes.test
CLANG_TESTS += tests/unit/run/train.test tests/unit/job/api.test tests/unit/kit/cpu_shape.test \
	tests/unit/kit/gpu_shape.test
CLANG_TESTS += tests/unit/cpu/ops.test tests/unit/cpu/chain.test tests/unit/cpu/gemm.test tests/unit/cpu/nets.test
CLANG_TESTS += tests/unit/cpu/rows.test tests/unit/cpu/queue.test
dist_check_SCRIPTS += tests/style.sh tests/count.sh tests/api.sh
TESTS += tests/style.sh tests/count.sh tests/api.sh
EXTRA_DIST += scripts/style scripts/api scripts/count scripts/csource.py scripts/packages.sh quickstart autogen.sh tests/lsan.supp
if WITH_CHECK
UNIT_TESTS += tests/unit/base/base.test
tests_unit_base_base_test_SOURCES = tests/unit/base/base.c
endif
