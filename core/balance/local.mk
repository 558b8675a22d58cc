# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/balance/balance.c core/balance/balance.h core/balance/line.c core/balance/line.h \
	core/balance/owners.c core/balance/policy.c core/balance/policy_inner.h core/balance/policy_settle.c \
	core/balance/policy_shares.c core/balance/policy_steady.c core/balance/policy_trial.c core/balance/seat.c
if WITH_CHECK
UNIT_TESTS += tests/unit/balance/balance.test tests/unit/balance/policy.test tests/unit/balance/sets.test
tests_unit_balance_balance_test_SOURCES = tests/unit/balance/balance.c
tests_unit_balance_policy_test_SOURCES = tests/unit/balance/policy.c tests/unit/balance/world.c \
	tests/unit/balance/world.h
tests_unit_balance_sets_test_SOURCES = tests/unit/balance/sets.c tests/unit/balance/world.c tests/unit/balance/world.h
endif
