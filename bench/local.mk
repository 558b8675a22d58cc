# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += bench/hashes bench/steps bench/report bench/cases.py bench/results.py bench/peer_models.py bench/peer_step.py bench/gate.tsv \
	bench/startup \
	bench/tokenize bench/peer_tokenize.py bench/kernels bench/peer_kernels.py \
	bench/README.md bench/mixed

check_PROGRAMS += bench/gate_kernels
bench_gate_kernels_SOURCES = bench/gate_kernels.c $(CPU_KIT)
bench_gate_kernels_LDADD = libyokecpu.la
dist_check_SCRIPTS += bench/gate
TESTS += bench/gate

noinst_PROGRAMS += bench/tokenizer
bench_tokenizer_SOURCES = bench/tokenizer.c
bench_tokenizer_LDADD = libyokecore.la $(HWLOC_LIBS) $(JANSSON_LIBS) $(UTF8PROC_LIBS) $(PCRE2_LIBS) $(ZLIB_LIBS)
