# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += tests/dist/harness.h
check_LTLIBRARIES += tests/dist/yoke_slow.la
tests_dist_yoke_slow_la_SOURCES = tests/dist/slow.c
tests_dist_yoke_slow_la_LIBADD = -ldl
tests_dist_yoke_slow_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
dist_check_SCRIPTS += tests/dist/launch.sh tests/dist/machines.sh tests/dist/mixed.sh tests/dist/started.sh
TESTS += tests/dist/launch.sh tests/dist/machines.sh tests/dist/mixed.sh tests/dist/started.sh
if WITH_CHECK
TSAN_TESTS += tests/dist/coll.test tests/dist/collect.test tests/dist/message.test tests/dist/roles.test tests/dist/shm.test \
	tests/unit/control/garbage.test tests/unit/local/garbage.test
UNIT_TESTS += tests/dist/coll.test tests/dist/collect.test tests/dist/job_losses.test tests/dist/message.test tests/dist/shm.test
tests_dist_coll_test_SOURCES = tests/dist/coll.c tests/support/loopback.c tests/support/loopback.h
tests_dist_collect_test_SOURCES = tests/dist/collect.c
tests_dist_message_test_SOURCES = tests/dist/message.c tests/support/loopback.c tests/support/loopback.h
tests_dist_shm_test_SOURCES = tests/dist/shm.c
tests_dist_job_losses_test_SOURCES = tests/dist/job_losses.c tests/dist/losses.c tests/dist/losses.h
endif
