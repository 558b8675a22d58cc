#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Layers on an OpenCL device, training curves on a CPU rank and an OpenCL rank together; ./check --long has curves on the device alone, too.
. "$YOKE_SOURCE/tests/golden/lib.sh"
unset POCL_EXTRA_BUILD_FLAGS # curves of kernels as users have them (Makefile.am)
need_data golden
need_opencl
# The driver takes a second or two to compile a layer's kernels, which yoke-cts tries, too: one or some of each kind of layer;
# YOKE_GOLDEN_FULL=1: all.
layers() {
    kinds="attention_grouped attention_plain batch_norm_train_2d bce_with_logits_mean conv2d_stride2 cross_entropy_mean embedding_padding
        gelu_tanh layer_norm linear_3d pool2d_ceil"
    [ -z "${YOKE_GOLDEN_FULL-}" ] || kinds=layers/
    for kind in $kinds; do
        "$yoke" test --golden "$data/golden" --only "$kind" --devices opencl:0 >"$out/layers" || { grep -v '^ok' "$out/layers"; return 1; }
        grep -c '^ok .*layers/' "$out/layers" || { echo "there is no layer $kind"; return 1; }
    done
}

# under a sanitizer the driver's preprocessor takes minutes for each list: tests/cts/opencl.sh and golden/cpu.sh try the layers' code there,
# the last list that of curves
plainly "layers on opencl:0" layers
# the device alone has the kernels of the job below, for all of its rows: YOKE_GOLDEN_FULL=1 and YOKE_TEST_LONG=1
[ -z "${YOKE_GOLDEN_FULL-}${YOKE_TEST_LONG-}" ] ||
    ok "curves on opencl:0" "$yoke" test --golden "$data/golden" --only curves/ --devices opencl:0
need_cores 2
ok "curves on cpu:0 and opencl:0@1" "$yoke" test --golden "$data/golden" --only curves/ --devices "cpu:0! opencl:0@1!"
plan
