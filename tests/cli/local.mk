# SPDX-License-Identifier: Apache-2.0
# The commands as a user meets them: what they refuse and how, what they leave behind, and that a stop loses nothing.
CLI_TESTS = tests/cli/errors.sh tests/cli/estimate.sh tests/cli/fit.sh tests/cli/folder.sh tests/cli/headers.sh tests/cli/help.sh \
	tests/cli/install.sh tests/cli/interop.sh tests/cli/labels.sh tests/cli/masking.sh tests/cli/metrics.sh tests/cli/mixed.sh \
	tests/cli/modes.sh tests/cli/options.sh tests/cli/peaks.sh tests/cli/predict.sh tests/cli/quickstart.sh tests/cli/ranks.sh \
	tests/cli/regression.sh tests/cli/reports.sh tests/cli/resnet.sh tests/cli/resume.sh tests/cli/shard.sh tests/cli/shares.sh \
	tests/cli/startup.sh tests/cli/train.sh tests/cli/trainer.sh tests/cli/examples.sh tests/cli/excluded.sh tests/cli/gpu_report.sh \
	tests/cli/limits.sh tests/cli/bare.sh tests/cli/config.sh tests/cli/fates.sh tests/cli/foreign.sh tests/cli/newcomer.sh \
	tests/cli/plan.sh tests/cli/switcher.sh tests/cli/unlike.sh
dist_check_SCRIPTS += $(CLI_TESTS)
TESTS += $(CLI_TESTS)
EXTRA_DIST += tests/cli/switcher.txt tests/cli/lib.sh tests/cli/made.sh tests/cli/alike.py tests/cli/fates.py
