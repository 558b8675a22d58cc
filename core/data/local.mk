# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/data/cifar.c core/data/cifar.h core/data/csv.c core/data/csv.h core/data/idx.c \
	core/data/idx.h core/data/jsonl.c core/data/jsonl.h core/data/rows.c core/data/rows.h core/data/strmap.c \
	core/data/strmap.h core/data/text.c core/data/text.h core/data/tokens.c core/data/tokens.h core/data/utf8.c \
	core/data/utf8.h core/data/order.c core/data/order.h core/data/tokenizer.c core/data/tokenizer.h \
	core/data/tokenizer_impl.h core/data/tokenizer_load.c core/data/wordpiece.c core/data/bpe.c \
	core/data/dataset.h core/data/dataset.c core/data/dataset_impl.h core/data/dataset_images.c \
	core/data/dataset_text.c core/data/loader.c core/data/loader.h core/data/spec.c core/data/spec.h

EXTRA_DIST += docs/data.md
dist_check_SCRIPTS += tests/unit/data_commands.sh
TESTS += tests/unit/data_commands.sh

if WITH_CHECK
DATA_TESTS = tests/unit/data_idx.test tests/unit/data_csv.test tests/unit/data_tokenizer.test \
	tests/unit/data_loader.test tests/fuzz/readers.test
check_PROGRAMS += $(DATA_TESTS)
TESTS += $(DATA_TESTS)
tests_unit_data_idx_test_SOURCES = tests/unit/data_idx.c tests/unit/suite.h
tests_unit_data_idx_test_LDADD = $(TEST_LIBS)
tests_unit_data_idx_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_data_csv_test_SOURCES = tests/unit/data_csv.c tests/unit/suite.h tests/unit/sha256.h
tests_unit_data_csv_test_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
tests_unit_data_csv_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_data_tokenizer_test_SOURCES = tests/unit/data_tokenizer.c tests/unit/suite.h tests/unit/sha256.h
tests_unit_data_tokenizer_test_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
tests_unit_data_tokenizer_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_data_loader_test_SOURCES = tests/unit/data_loader.c tests/unit/suite.h
tests_unit_data_loader_test_LDADD = $(TEST_LIBS)
tests_unit_data_loader_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_fuzz_readers_test_SOURCES = tests/fuzz/readers.c tests/fuzz/mutate.h
tests_fuzz_readers_test_LDADD = libyokecore.la $(JANSSON_LIBS)
tests_fuzz_readers_test_CFLAGS = $(AM_CFLAGS)
endif
