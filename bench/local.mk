# SPDX-License-Identifier: Apache-2.0
# bench/gate is a test; the rest measures by hand (bench/README.md).
check_PROGRAMS += bench/gate_kernels
bench_gate_kernels_LDADD = libtestkit.la libyokecpu.la
dist_check_SCRIPTS += bench/gate
TESTS += bench/gate

noinst_PROGRAMS += bench/collectives_yoke bench/cpu_kernels bench/gemm_peer bench/saver bench/tokenizer
bench_collectives_yoke_LDADD = libyokecore.la $(CORE_LIBS)
bench_cpu_kernels_LDADD = libtestkit.la libyokecpu.la
bench_gemm_peer_LDADD = libtestkit.la libyokecpu.la $(ONEDNN_LIBS)
bench_saver_LDADD = libyokecore.la $(CORE_LIBS)
bench_tokenizer_LDADD = libyokecore.la $(CORE_LIBS)

noinst_HEADERS += bench/sizes.h
EXTRA_DIST += bench/README.md bench/cases.py bench/collectives bench/collectives_gloo.py bench/collectives_mpi.c bench/gate.tsv \
	bench/devices bench/hashes bench/jobs.py bench/kernels bench/mixed bench/overlap bench/peer_kernels.py bench/peer_models.py \
	bench/peer_step.py bench/peer_tokenize.py bench/plan bench/report bench/results.py \
	bench/save bench/shard bench/shard_peers.py bench/startup bench/steps bench/tokenize bench/notes bench/results
