# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/group/group.c core/group/group.h
if WITH_CHECK
UNIT_TESTS += tests/unit/balance/balance.test tests/unit/balance/policy.test tests/unit/launch/origin.test
tests_unit_launch_origin_test_SOURCES = tests/unit/launch/origin.c
tests_unit_balance_policy_test_SOURCES = tests/unit/balance/policy.c
tests_unit_balance_balance_test_SOURCES = tests/unit/balance/balance.c
endif
