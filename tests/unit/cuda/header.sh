#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Our prototypes of the driver, of NVRTC, of NCCL, of cuBLASLt and of cuDNN against NVIDIA's headers, where there are some: CUDA_INCLUDE,
# folders separated by blanks (of the packages nvidia-cuda-runtime, nvidia-cuda-nvrtc, nvidia-nccl, nvidia-cublas and nvidia-cudnn-cu13,
# say), or /usr/local/cuda/include.
grep -q '^#define YK_SANITIZER "none"' "$YOKE_BUILD/config.h" ||
    { echo "1..0 # SKIP instrumented: the plain build's, as it runs no code of this one"; exit 0; }
folders=
for folder in ${CUDA_INCLUDE:-/usr/local/cuda/include /usr/include}; do
    folders="$folders -isystem $folder"
done
probe="${TMPDIR:-/tmp}/yoke-cuda-$$.c"
trap 'rm -f "$probe"' EXIT
n=0

compare() { # compare NAME TEST HEADER...
    name=$1 test=$2
    shift 2
    n=$((n + 1))
    printf '#include <%s>\n' "$@" >"$probe"
    # shellcheck disable=SC2086
    if ! ${CC:-cc} $folders -fsyntax-only "$probe" 2>/dev/null; then
        echo "ok $n - $name # SKIP no $* here (CUDA_INCLUDE names their folders)"
    elif errors=$(${CC:-cc} -std=gnu11 $folders -I"$YOKE_SOURCE" -I"$YOKE_SOURCE/include" -fsyntax-only \
        "$YOKE_SOURCE/tests/unit/cuda/$test" 2>&1); then
        echo "ok $n - $name"
    else
        echo "$errors" | sed 's/^/# /'
        echo "not ok $n - $name"
    fi
}

compare "driver and NVRTC" header.c cuda.h nvrtc.h
compare "NCCL" header_nccl.c cuda.h nccl.h
compare "cuBLASLt" header_cublaslt.c cuda.h cublasLt.h
compare "cuDNN" header_cudnn.c cuda.h cudnn_graph.h
echo "1..$n"
