#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The CUDA plugin passes the suite on a driver without a GPU (tests/fakes): the kernels' text as CUDA C++, compiled for the host;
# products by a cuBLASLt that computes there, too, and attention by such a cuDNN.
. "$YOKE_SOURCE/tests/cts/lib.sh"
[ "$(uname -m)" = x86_64 ] || skip_all "the fake driver runs kernels on x86-64 only"
[ "$SANITIZER" = thread ] && skip_all "the kernels that the fake compiles are not instrumented"
PLUGIN=$YOKE_BUILD/.libs/yoke_cuda.so
. "$YOKE_SOURCE/tests/fakes/use.sh"
export FAKE_CUDA_DEVICES=4 # as many members of a collective as the suite joins
# under sanitizers without the group body, whose kernels the other groups make and run in the same way
[ "$SANITIZER" = none ] || ALL="--group abi,buffer,queue,extension,op,composite,random,gradients,guard,rebind,leak,offsets,processes,errors"
# shellcheck disable=SC2086
run_cts "cuda" "$PLUGIN" --timeout 300 $QUICK $FEW ${ALL-}
# the other kinds are a minute's work for this driver; tests/unit/kit/gpu_shape has some, OpenCL's and Vulkan's suites all
[ "$SANITIZER" != none ] || run_cts "long sums" "$PLUGIN" --only 'long/*sum.f32*' --group long --timeout 300 $QUICK
YOKE_CUDA_CUBLASLT=0 run_cts "products by its own kernels" "$PLUGIN" --only 'op/dot*' --timeout 300 $QUICK
# Tensor cores by what a chip has: all cases with heads that models have, the smallest convolution, and a product; and the log says so.
mma() { # mma SM PATTERN [WORDS]
    YOKE_LOG=debug FAKE_CUDA_SM=$1 YOKE_CUDA_CUBLASLT=0 YOKE_CUDA_CUDNN=0 run_cts "sm_$1: $2" "$PLUGIN" --group op,composite --only "$2" \
        --timeout 300
    [ -z "${3-}" ] || { grep -qF "$3" "$WORK/err"; result $? "sm_$1: $3"; }
}
# those with as many scores as cuDNN is asked about
YOKE_LOG=debug run_cts "attention by cuDNN" "$PLUGIN" --group composite --only 'composite/attention*.long.rows.*16' --timeout 300
for words in "attention [1,2,130,32] of f16: by cuDNN" "attention's gradients [1,2,130,32] of bf16: by cuDNN"; do
    grep -qF "$words" "$WORK/err"
    result $? "$words"
done
mma 90 'composite/attention*.heads*16' "(attention_bwd of bf16) computes by tensor cores"
if [ "$SANITIZER" = none ]; then # numbers of kernels that are not instrumented
    mma 90 'composite/attention*.long*16' "(attention_bwd of bf16) computes by tensor cores" # blocks that are seen whole, and others
    mma 75 'composite/attention*.heads64*f16' "(attention_bwd of f16) computes by tensor cores"
fi
mma 75 'composite/attention.heads64.bf16' "(attention of bf16) computes in fp32"
mma 75 'composite/conv2d*.3x3.f16' "(conv2d_dw of f16) computes by tensor cores"
[ "$SANITIZER" != none ] || # without a batch of 65541, each a group that the fake runs for itself
    mma 75 'op/dot.f16.[!6]*' "(dot of f16) computes by tensor cores"
# without a library a product's padded result is a copy; and a chip of another way to round two numbers
mma 90 'composite/cross_entropy*.padded.*16'
if [ "$SANITIZER" = none ]; then
    mma 90 'composite/cross_entropy*.5x20011.f16'
    mma 75 'composite/cross_entropy*.64x1001.bf16'
fi
second=buffer,queue,rebind
[ "$SANITIZER" = none ] || second=buffer,rebind
run_cts "its second device" "$PLUGIN" --device 1 --group $second --timeout 300
[ "$SANITIZER" = none ] || finish # the rest takes the same ways through the plugin, and each kernel is compiled anew
YOKE_LAYERS=validate run_cts "cuda under the validating layer" "$PLUGIN" --group buffer,queue,rebind,leak --timeout 300
# a chip that NVRTC does not know yet: the driver finishes what it compiles for the one before
FAKE_CUDA_SM=103 run_cts "a newer chip" "$PLUGIN" --group rebind --timeout 300
# libraries by their own names: those of CUDA 13, which are none here, are for a driver of 13
mkdir "$WORK/names" && ln -s "$fakes/fake_cuda.so" "$WORK/names" && for library in nvrtc cublasLt; do
    ln -s "$fakes/fake_cuda.so" "$WORK/names/lib$library.so.13"
    ln -s "$fakes/fake_$(echo $library | tr L l).so" "$WORK/names/lib$library.so.12"
done
named() { # named VERSION: of the driver
    env -u YOKE_CUDA_NVRTC -u YOKE_CUDA_CUBLASLT LD_LIBRARY_PATH="$WORK/names" FAKE_CUDA_VERSION="$1" YOKE_LOG=info "$CTS" \
        --plugin "$PLUGIN" --only 'op/dot.f32.1*' --timeout 300 >"$WORK/out" 2>"$WORK/err"
}
named 12090 && grep -q "products are computed by cuBLASLt" "$WORK/err"
result $? "a driver of CUDA 12 is given libraries of 12"
! named 13000 && cat "$WORK/out" "$WORK/err" | grep -q "NVRTC is needed.*(this one lacks" &&
    grep -q "cuBLASLt is not used: it lacks" "$WORK/err"
result $? "a driver of CUDA 13 is given libraries of 13"
finish
