# SPDX-License-Identifier: Apache-2.0
yokeinclude_HEADERS += include/yoke/transport.h
libyokecore_la_SOURCES += transport/local/local.h transport/local/layout.h transport/local/layout.c \
	transport/local/job.c transport/local/live.c transport/local/stuck.c transport/local/local.c transport/local/message.c \
	transport/local/word.c transport/local/block.c
if WITH_CHECK
check_PROGRAMS += tests/unit/local_garbage.test
TESTS += tests/unit/local_garbage.test
tests_unit_local_garbage_test_SOURCES = tests/unit/local_garbage.c
tests_unit_local_garbage_test_LDADD = $(TEST_LIBS)
tests_unit_local_garbage_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
endif
