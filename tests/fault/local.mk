# SPDX-License-Identifier: Apache-2.0
dist_check_SCRIPTS += tests/fault/kill.sh tests/fault/select.sh
TESTS += tests/fault/kill.sh tests/fault/select.sh
if WITH_CHECK
TSAN_TESTS += tests/fault/ranks.test
UNIT_TESTS += tests/fault/ranks.test
tests_fault_ranks_test_SOURCES = tests/fault/ranks.c
endif
