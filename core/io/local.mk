# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/io/file.c core/io/file.h core/io/json.c core/io/json.h core/io/labels.c core/io/labels.h \
	core/io/safetensors.c \
	core/io/safetensors.h core/io/safetensors_write.c core/io/checkpoint.c core/io/checkpoint.h \
	core/io/folder.c core/io/folder.h core/io/tracker.c core/io/tracker.h

if WITH_CHECK
check_PROGRAMS += tests/unit/data_gzip.test tests/unit/data_json.test tests/unit/data_safetensors.test
TESTS += tests/unit/data_gzip.test tests/unit/data_json.test tests/unit/data_safetensors.test
tests_unit_data_gzip_test_SOURCES = tests/unit/data_gzip.c tests/unit/suite.h tests/unit/sha256.h
tests_unit_data_gzip_test_LDADD = $(TEST_LIBS)
tests_unit_data_gzip_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_data_json_test_SOURCES = tests/unit/data_json.c tests/unit/suite.h
tests_unit_data_json_test_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
tests_unit_data_json_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_data_safetensors_test_SOURCES = tests/unit/data_safetensors.c tests/unit/suite.h
tests_unit_data_safetensors_test_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
tests_unit_data_safetensors_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
endif
