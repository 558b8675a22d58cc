# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/data/dataset.c core/data/dataset.h core/data/dataset_images.c \
	core/data/internal.h core/data/dataset_text.c core/data/loader.c core/data/loader.h core/data/order.c \
	core/data/order.h core/data/spec.c core/data/spec.h

EXTRA_DIST += docs/data.md
dist_check_SCRIPTS += tests/unit/data/commands.sh
TESTS += tests/unit/data/commands.sh

if WITH_CHECK
UNIT_TESTS += tests/fuzz/readers.test tests/unit/data/csv.test tests/unit/data/idx.test \
	tests/unit/data/loader.test tests/unit/data/tokenizer.test
tests_unit_data_idx_test_SOURCES = tests/unit/data/idx.c tests/support/suite.h
tests_unit_data_csv_test_SOURCES = tests/unit/data/csv.c tests/support/suite.h tests/support/sha256.h
tests_unit_data_csv_test_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
tests_unit_data_tokenizer_test_SOURCES = tests/unit/data/tokenizer.c tests/support/suite.h tests/support/sha256.h
tests_unit_data_tokenizer_test_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
tests_unit_data_loader_test_SOURCES = tests/unit/data/loader.c tests/support/suite.h
tests_fuzz_readers_test_SOURCES = tests/fuzz/readers.c tests/fuzz/mutate.h
tests_fuzz_readers_test_LDADD = libyokecore.la $(JANSSON_LIBS)
endif
