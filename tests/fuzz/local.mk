# SPDX-License-Identifier: Apache-2.0
# Readers of outside bytes, each for a moment; YOKE_FUZZ_SECONDS makes it longer.
noinst_HEADERS += tests/fuzz/graph_input.h tests/fuzz/mutate.h
if WITH_CHECK
UNIT_TESTS += tests/fuzz/described.test tests/fuzz/graph.test tests/fuzz/readers.test tests/fuzz/state.test
tests_fuzz_described_test_SOURCES = tests/fuzz/described.c tools/plan/device_file.c
if WITH_SODIUM
UNIT_TESTS += tests/fuzz/net.test tests/fuzz/sock.test
endif
if WITH_OFI
UNIT_TESTS += tests/fuzz/ofi.test
tests_fuzz_ofi_test_SOURCES = tests/fuzz/ofi.c transport/ofi/ofi_message.c
tests_fuzz_ofi_test_CFLAGS = $(AM_CFLAGS) $(OFI_CFLAGS)
endif
endif
