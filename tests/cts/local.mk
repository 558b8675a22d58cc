# SPDX-License-Identifier: Apache-2.0
dist_check_SCRIPTS += tests/cts/template.sh tests/cts/broken.sh tests/cts/loader.sh tests/cts/cpu.sh \
	tests/cts/opencl.sh tests/cts/opencl_machines.sh tests/cts/rusticl.sh
TESTS += tests/cts/template.sh tests/cts/broken.sh tests/cts/loader.sh tests/cts/cpu.sh tests/cts/opencl.sh \
	tests/cts/opencl_machines.sh tests/cts/rusticl.sh
EXTRA_DIST += tests/cts/lib.sh tests/cts/broken.c tests/cts/loader.c
