# SPDX-License-Identifier: Apache-2.0
# Ranks that die, stop or misbehave.
check_PROGRAMS += tests/fault/own_signal
tests_fault_own_signal_SOURCES = tests/fault/own_signal.c
tests_fault_own_signal_LDADD = libyoke.la
check_LTLIBRARIES += tests/fault/broken_disk.la tests/fault/hung_io.la
tests_fault_broken_disk_la_SOURCES = tests/fault/broken_disk.c
tests_fault_broken_disk_la_LIBADD = -ldl
tests_fault_broken_disk_la_LDFLAGS = $(TEST_MODULE)
tests_fault_hung_io_la_SOURCES = tests/fault/hung_io.c
tests_fault_hung_io_la_LIBADD = -ldl
tests_fault_hung_io_la_LDFLAGS = $(TEST_MODULE)
dist_check_SCRIPTS += tests/fault/broken_disk.sh tests/fault/hung.sh tests/fault/instants.sh tests/fault/kill.sh tests/fault/nodes.sh \
	tests/fault/own_signal.sh tests/fault/restart.sh tests/fault/select.sh
TESTS += tests/fault/broken_disk.sh tests/fault/hung.sh tests/fault/instants.sh tests/fault/kill.sh tests/fault/nodes.sh \
	tests/fault/own_signal.sh tests/fault/restart.sh tests/fault/select.sh
EXTRA_DIST += tests/fault/instants.py tests/fault/twice.py
if WITH_CHECK
UNIT_TESTS += tests/fault/ranks.test
TSAN_TESTS += tests/fault/ranks.test
endif
