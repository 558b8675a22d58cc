#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Our prototypes of the driver and of NVRTC against CUDA's headers, where there are some: CUDA_INCLUDE, folders separated by blanks
# (of the packages nvidia-cuda-runtime and nvidia-cuda-nvrtc, say), or /usr/local/cuda/include.
folders=
for folder in ${CUDA_INCLUDE:-/usr/local/cuda/include /usr/include}; do
    folders="$folders -isystem $folder"
done
printf '#include <cuda.h>\n#include <nvrtc.h>\n' >"${TMPDIR:-/tmp}/yoke-cuda-$$.c"
trap 'rm -f "${TMPDIR:-/tmp}/yoke-cuda-$$.c"' EXIT
# shellcheck disable=SC2086
if ! ${CC:-cc} $folders -fsyntax-only "${TMPDIR:-/tmp}/yoke-cuda-$$.c" 2>/dev/null; then
    echo "1..0 # SKIP no cuda.h and nvrtc.h here (CUDA_INCLUDE names their folders)"
    exit 0
fi
folders="$folders -I$YOKE_SOURCE -I$YOKE_SOURCE/include"
# shellcheck disable=SC2086
if errors=$(${CC:-cc} -std=gnu11 $folders -fsyntax-only "$YOKE_SOURCE/tests/unit/cuda/header.c" 2>&1); then
    echo "ok 1 - prototypes"
else
    echo "$errors" | sed 's/^/# /'
    echo "not ok 1 - prototypes"
fi
echo "1..1"
