# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/run/api.c core/run/cache.c core/run/compute.c core/run/engine.h core/run/exchange.c \
	core/run/exchange.h core/run/exec.c core/run/exec.h core/run/fill.c core/run/hash.c core/run/layout.c \
	core/run/micro.c core/run/optim.c core/run/optim.h core/run/params.c core/run/params.h core/run/prog.c core/run/queue.c \
	core/run/queue.h core/run/reduce.c core/run/roles.c core/run/run.h core/run/state.c core/run/update.c \
	core/run/update.h core/run/values.c

if WITH_CHECK
UNIT_TESTS += tests/dist/engine.test tests/dist/roles.test tests/unit/base/cgroup.test \
	tests/unit/device/wait.test tests/unit/run/train.test
tests_unit_base_cgroup_test_SOURCES = tests/unit/base/cgroup.c tests/support/refplugin.c tests/support/refplugin.h
tests_unit_device_wait_test_SOURCES = tests/unit/device/wait.c tests/support/refplugin.c tests/support/refplugin.h
tests_dist_engine_test_SOURCES = tests/dist/engine.c tests/dist/net.c tests/dist/net.h tests/support/refplugin.c \
	tests/support/refplugin.h
tests_dist_roles_test_SOURCES = tests/dist/roles.c tests/dist/net.c tests/dist/net.h tests/support/refplugin.c \
	tests/support/refplugin.h
tests_unit_run_train_test_SOURCES = tests/unit/run/train.c tests/support/refplugin.c tests/support/refplugin.h
endif
