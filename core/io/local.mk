# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/io/checkpoint.c core/io/checkpoint.h core/io/file.c core/io/file.h \
	core/io/folder.c core/io/folder.h core/io/json.c core/io/json.h core/io/labels.c core/io/labels.h \
	core/io/safetensors.c core/io/safetensors.h core/io/safetensors_write.c core/io/tracker.c core/io/tracker.h

if WITH_CHECK
UNIT_TESTS += tests/unit/io/gzip.test tests/unit/io/json.test tests/unit/io/safetensors.test
tests_unit_io_gzip_test_SOURCES = tests/unit/io/gzip.c tests/support/suite.h tests/support/sha256.h
tests_unit_io_json_test_SOURCES = tests/unit/io/json.c tests/support/suite.h
tests_unit_io_json_test_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
tests_unit_io_safetensors_test_SOURCES = tests/unit/io/safetensors.c tests/support/suite.h
tests_unit_io_safetensors_test_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
endif
