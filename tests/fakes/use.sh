# SPDX-License-Identifier: Apache-2.0
# Sourced: CUDA from here on is the fakes of the build $YOKE_BUILD.
unset CUDA_VISIBLE_DEVICES # of real cards
fakes=$YOKE_BUILD/tests/fakes/.libs
export YOKE_CUDA_DRIVER="$fakes/fake_cuda.so" YOKE_CUDA_NVRTC="$fakes/fake_nvrtc.so" YOKE_CUDA_NCCL="$fakes/fake_nccl.so"
export YOKE_CUDA_CUBLASLT="$fakes/fake_cublaslt.so" YOKE_CUDA_CUDNN="$fakes/fake_cudnn.so"
