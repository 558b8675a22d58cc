# SPDX-License-Identifier: Apache-2.0
# Several ranks on one machine.
check_LTLIBRARIES += tests/dist/yoke_slow.la
tests_dist_yoke_slow_la_SOURCES = tests/dist/slow.c
tests_dist_yoke_slow_la_LIBADD = -ldl
tests_dist_yoke_slow_la_LDFLAGS = $(TEST_MODULE)
check_PROGRAMS += tests/dist/buckets tests/dist/excluded tests/dist/exits tests/dist/fifty tests/dist/repeat
tests_dist_buckets_SOURCES = tests/dist/buckets.c
tests_dist_buckets_LDADD = libyoke.la
tests_dist_excluded_SOURCES = tests/dist/excluded.c
tests_dist_excluded_LDADD = libyoke.la
tests_dist_exits_SOURCES = tests/dist/exits.c
tests_dist_exits_LDADD = libyoke.la
tests_dist_fifty_SOURCES = tests/dist/fifty.c
tests_dist_fifty_LDADD = libyoke.la
tests_dist_repeat_SOURCES = tests/dist/repeat.c
tests_dist_repeat_LDADD = libyoke.la
RANKS_SH = tests/dist/activations.sh tests/dist/cuda.sh tests/dist/islands.sh \
	tests/dist/faults.sh tests/dist/fp8.sh tests/dist/launch.sh tests/dist/launchers.sh \
	tests/dist/machines.sh tests/dist/mixed.sh tests/dist/network.sh tests/dist/offload.sh tests/dist/ofi.sh tests/dist/params.sh \
	tests/dist/memory_parts.sh tests/dist/parts.sh tests/dist/row_padding.sh tests/dist/rows_ahead.sh tests/dist/repeat.sh \
	tests/dist/disk.sh tests/dist/several_hosts.sh tests/dist/started.sh tests/dist/trace.sh tests/dist/vulkan.sh
dist_check_SCRIPTS += $(RANKS_SH)
TESTS += $(RANKS_SH)
noinst_HEADERS += tests/dist/coll_small.h tests/dist/losses.h tests/dist/net.h tests/dist/own_way.h
if WITH_CHECK
UNIT_TESTS += tests/dist/agree.test tests/dist/coll.test tests/dist/collect.test tests/dist/emergency.test tests/dist/engine.test \
	tests/dist/first_values.test tests/dist/forked_rank.test \
	tests/dist/function.test tests/dist/homes.test tests/dist/hosts.test tests/dist/island.test tests/dist/job_loop.test \
	tests/dist/job_losses.test tests/dist/job_ranks.test tests/dist/killed_save.test tests/dist/local_sgd.test \
	tests/dist/message.test tests/dist/host_updates.test tests/dist/operands.test tests/dist/precision.test tests/dist/program.test \
	tests/dist/pulled.test \
	tests/dist/roles.test tests/dist/shm.test \
	tests/dist/sliced.test tests/dist/topology.test tests/dist/train.test tests/dist/uneven.test tests/dist/unlike_calls.test \
	tests/dist/within_window.test \
	tests/dist/written.test
TSAN_TESTS += tests/dist/coll.test tests/dist/collect.test tests/dist/emergency.test tests/dist/hosts.test tests/dist/island.test \
	tests/dist/local_sgd.test tests/dist/message.test tests/dist/pulled.test tests/dist/roles.test tests/dist/shm.test \
	tests/dist/topology.test \
	tests/dist/train.test
tests_dist_coll_test_SOURCES = tests/dist/coll.c tests/dist/coll_small.c tests/support/loopback.c
tests_dist_engine_test_SOURCES = tests/dist/engine.c tests/dist/net.c tests/dist/own_way.c
tests_dist_island_test_SOURCES = tests/dist/island.c tests/dist/net.c
tests_dist_job_losses_test_SOURCES = tests/dist/job_losses.c tests/dist/losses.c
tests_dist_message_test_SOURCES = tests/dist/message.c tests/support/loopback.c
tests_dist_pulled_test_SOURCES = tests/dist/pulled.c tests/support/loopback.c
tests_dist_roles_test_SOURCES = tests/dist/roles.c tests/dist/net.c tests/support/loopback.c
tests_dist_train_test_SOURCES = tests/dist/train.c tests/support/loopback.c
endif
