# SPDX-License-Identifier: Apache-2.0
# The yoke program: one file per subcommand; options are defined once, in each command's table.
bin_PROGRAMS += yoke
yoke_SOURCES = tools/yoke.c tools/cli.c tools/cli.h tools/train.c tools/train.h tools/train_refused.h \
	tools/train_loop.c tools/train_loop.h tools/train_when.c tools/train_when.h tools/train_best.c tools/train_best.h \
	tools/train_reports.c tools/train_reports.h tools/trackers.c tools/trackers.h tools/metrics.c tools/metrics.h \
	tools/checkpoints.c tools/checkpoints.h tools/output.c tools/output.h tools/progress.c tools/progress.h \
	tools/sanity.c tools/sanity.h tools/vectors.h tools/bench_mixed.c tools/bench_mixed.h tools/bench_peaks.c tools/bench_peaks.h \
	bench/peaks.h bench/peaks_math.c bench/peaks_memory.c tools/cmd_bench.c tools/cmd_eval.c \
	tools/sample.c tools/sample.h tools/cmd_estimate.c \
	tools/cmd_info.c tools/cmd_inspect.c tools/cmd_launch.c tools/cmd_predict.c tools/predict.c tools/predict.h \
	tools/cmd_test.c tools/cmd_tokenize.c tools/cmd_train.c \
	tools/vectors.c tools/vectors_ops.c tools/vectors_ops.h tools/golden/golden.h \
	tools/golden/golden.c tools/golden/job.c tools/golden/curves.c tools/golden/curves_model.c \
	tools/golden/layers.c tools/golden/layers_ops.c tools/golden/optim.c tools/golden/tables.c
yoke_LDADD = libyokecore.la $(HWLOC_LIBS) $(JANSSON_LIBS) $(UTF8PROC_LIBS) $(PCRE2_LIBS) $(ZLIB_LIBS)
