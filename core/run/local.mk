# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/run/run.h core/run/inner.h core/run/engine.c core/run/store.c core/run/prog.c \
	core/run/cache.c core/run/exec.c core/run/reduce.c core/run/low.c core/run/optim.c core/run/update.c core/run/state.c \
	core/run/roles.c core/run/hash.c

if WITH_CHECK
check_PROGRAMS += tests/unit/run_train.test tests/unit/device_wait.test tests/unit/cgroup.test tests/dist/engine.test tests/dist/roles.test
TESTS += tests/unit/run_train.test tests/unit/device_wait.test tests/unit/cgroup.test tests/dist/engine.test tests/dist/roles.test
tests_unit_cgroup_test_SOURCES = tests/unit/cgroup.c tests/unit/refplugin.c tests/unit/refplugin.h
tests_unit_cgroup_test_LDADD = $(TEST_LIBS)
tests_unit_cgroup_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_device_wait_test_SOURCES = tests/unit/device_wait.c tests/unit/refplugin.c tests/unit/refplugin.h
tests_unit_device_wait_test_LDADD = $(TEST_LIBS)
tests_unit_device_wait_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_dist_engine_test_SOURCES = tests/dist/engine.c tests/dist/net.c tests/dist/net.h tests/unit/refplugin.c tests/unit/refplugin.h
tests_dist_engine_test_LDADD = $(TEST_LIBS)
tests_dist_engine_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_dist_roles_test_SOURCES = tests/dist/roles.c tests/dist/net.c tests/dist/net.h tests/unit/refplugin.c tests/unit/refplugin.h
tests_dist_roles_test_LDADD = $(TEST_LIBS)
tests_dist_roles_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_run_train_test_SOURCES = tests/unit/run_train.c tests/unit/refplugin.c tests/unit/refplugin.h
tests_unit_run_train_test_LDADD = $(TEST_LIBS)
tests_unit_run_train_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
endif
