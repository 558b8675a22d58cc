# SPDX-License-Identifier: Apache-2.0
# Ranks that die, stop or misbehave.
dist_check_SCRIPTS += tests/fault/kill.sh tests/fault/restart.sh tests/fault/select.sh
TESTS += tests/fault/kill.sh tests/fault/restart.sh tests/fault/select.sh
if WITH_CHECK
UNIT_TESTS += tests/fault/ranks.test
TSAN_TESTS += tests/fault/ranks.test
endif
