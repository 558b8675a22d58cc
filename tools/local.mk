# SPDX-License-Identifier: Apache-2.0
# The yoke program: one file per subcommand; options are defined once, in each command's table.
bin_PROGRAMS += yoke
yoke_SOURCES = tools/bench/mixed.c tools/bench/mixed.h tools/bench/peak_loops.h tools/bench/peak_math.c \
	tools/bench/peak_memory.c tools/bench/peaks.c tools/bench/peaks.h tools/bench/sample.c tools/bench/sample.h \
	tools/bench/sample_time.c tools/bench/sample_time.h \
	tools/check/golden/curves.c tools/check/golden/curves_model.c tools/check/golden/golden.c tools/check/golden/golden.h \
	tools/check/golden/job.c tools/check/golden/golden_layers.c tools/check/golden/layers_ops.c \
	tools/check/golden/golden_loader.c tools/check/golden/loader_case.c tools/check/golden/loader_case.h \
	tools/check/golden/loader_ranks.c tools/check/golden/loader_ranks.h tools/check/golden/golden_optim.c \
	tools/check/golden/tables.c tools/check/sanity.c tools/check/sanity.h tools/check/sanity_model.c tools/check/sanity_model.h \
	tools/check/sanity_ranks.c tools/check/sanity_ranks.h tools/check/sanity_report.c tools/check/sanity_report.h \
	tools/check/vectors.c tools/check/vectors.h tools/check/vectors_ops.c tools/check/vectors_ops.h tools/cli.c tools/cli.h \
	tools/unknown_option.c \
	tools/cmd/cmd_bench.c tools/cmd/cmd_config.c tools/cmd/cmd_estimate.c tools/cmd/cmd_eval.c tools/cmd/cmd_info.c \
	tools/cmd/cmd_inspect.c tools/cmd/cmd_launch.c tools/cmd/cmd_plan.c tools/cmd/cmd_predict.c tools/cmd/cmd_test.c \
	tools/cmd/launch_words.c tools/cmd/launch_words.h \
	tools/cmd/cmd_trace.c tools/cmd/cmd_tokenize.c tools/cmd/cmd_train.c tools/cmd/yoke.c tools/config/apply.c \
	tools/config/apply.h tools/config/batch.c tools/config/keys_accelerate.c tools/config/keys_deepspeed.c tools/config/keys_fsdp.c \
	tools/config/config_read.c tools/config/config_settings.c tools/config/config_settings.h tools/config/config_shard.c \
	tools/config/config_shard.h tools/config/decide.c tools/config/show.c tools/plan/child.c tools/plan/child.h \
	tools/plan/cost.c tools/plan/cost.h \
	tools/plan/describe.c tools/plan/describe.h tools/plan/device_file.c tools/plan/device_file.h tools/plan/disk_probe.c \
	tools/plan/disk_probe.h tools/plan/search.c tools/plan/search.h tools/plan/step_times.c tools/plan/step_times.h \
	tools/plan/table.c tools/plan/table.h tools/plan/work_count.c tools/plan/work_count.h tools/spell.c tools/spell.h tools/eval/metrics.c \
	tools/eval/metrics.h tools/eval/predict.c tools/eval/predict.h tools/train/alike.c \
	tools/train/alike.h tools/train/best.c tools/train/best.h tools/train/inputs.c tools/train/inputs.h \
	tools/train/checkpoints.c tools/train/checkpoints.h tools/train/logfile.c tools/train/logfile.h tools/train/leave.c \
	tools/train/leave.h tools/train/loop.c tools/train/loop.h tools/train/train_options.h tools/train/output.c \
	tools/train/output.h tools/train/prediction.c tools/train/prediction.h tools/train/train_progress.c \
	tools/train/train_progress.h tools/train/refused.h tools/train/spellings.h tools/train/reports.c tools/train/reports.h \
	tools/train/train_restart.c tools/train/train_restart.h tools/train/trackers.c \
	tools/train/trackers.h tools/train/train.c tools/train/train.h tools/train/when.c tools/train/when.h
# A command's error names no line of the command's own source. Empty, as headers of the core define it so too.
yoke_CPPFLAGS = $(AM_CPPFLAGS) -DYK_NO_HERE=
yoke_LDADD = libyokecore.la $(CORE_LIBS)
