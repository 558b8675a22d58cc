# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/group/group.h core/group/inner.h core/group/group.c core/group/collect.c core/group/call.c \
	core/group/feed.c core/group/balance.h core/group/balance.c core/group/policy_inner.h core/group/policy.c \
	core/group/policy_settle.c core/group/policy_shares.c core/group/policy_trial.c core/group/choose.c core/group/launch.c \
	core/group/origin.c core/group/spawn.c core/group/guard.c core/group/launcher.h
if WITH_CHECK
check_PROGRAMS += tests/unit/group_balance.test tests/unit/group_policy.test tests/unit/group_origin.test
TESTS += tests/unit/group_balance.test tests/unit/group_policy.test tests/unit/group_origin.test
tests_unit_group_origin_test_SOURCES = tests/unit/group_origin.c
tests_unit_group_origin_test_LDADD = $(TEST_LIBS)
tests_unit_group_origin_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_group_policy_test_SOURCES = tests/unit/group_policy.c
tests_unit_group_policy_test_LDADD = $(TEST_LIBS)
tests_unit_group_policy_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_group_balance_test_SOURCES = tests/unit/group_balance.c
tests_unit_group_balance_test_LDADD = $(TEST_LIBS)
tests_unit_group_balance_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
endif
