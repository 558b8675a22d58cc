#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Golden tables and operator vectors on the CUDA plugin: some of them, on the driver without a GPU (tests/fakes), which compiles each
# kernel for the host and so takes a second for each. `make check-gpu` runs all on a card (YOKE_GPU=1); YOKE_GOLDEN_FULL=1: all, here.
. "$YOKE_SOURCE/tests/golden/lib.sh"
need_data golden onnx-op-vectors
if [ -z "${YOKE_GPU-}" ]; then
    [ "$(uname -m)" = x86_64 ] || { echo "1..0 # SKIP the fake driver runs kernels on x86-64 only"; exit 0; }
    . "$YOKE_SOURCE/tests/fakes/use.sh"
    YOKE_CUDA_NCCL=0
elif ! "$yoke" info --kinds 2>/dev/null | grep -q '^cuda$'; then
    echo "Bail out! no CUDA device here; with YOKE_LOG=debug, yoke info says why"
    exit 1
fi

held() { # held LEAST FOLDER-OPTION FOLDER OPTION..: nothing fails, and so many cases are built
    least=$1
    shift
    "$yoke" test "$@" --devices cuda:0 >"$out/held" || { grep -v '^ok' "$out/held"; return 1; }
    tail -n 1 "$out/held"
    [ "$(grep -c '^ok' "$out/held")" -ge "$least" ]
}

# A job compiles the very units that a build --with-nvcc has in the plugin: what nvcc was given and what is launched have one key.
listed() {
    YOKE_CACHE_DIR="$out/cache" YOKE_LOG=debug "$yoke" test --golden "$data/golden" --only curves/mlp_sgd_nesterov --devices cuda:0 \
        >"$out/log" 2>&1 || return 1
    "$YOKE_BUILD/backends/cuda/fatbin-units" | cut -d ' ' -f 1 >"$out/keys"
    # units of generated kernels have no macro but the chip's and a vector's; NVRTC compiles them in any case
    sed -n -e '/( *-D\(MMA_TERMS=[0-9]*\|K_FOUR\( -DK_WIDTH=[48]\)*\( -DK_LINED\)*\)) is /d' \
        -e 's/.*unit \([0-9a-f]*\) ( *-D.*) is .*/\1/p' "$out/log" |
        sort -u >"$out/launched"
    echo "units: $(wc -l <"$out/launched")"
    [ -s "$out/launched" ] && ! grep -v -F -f "$out/keys" "$out/launched"
}

# losses DEVICE: of two steps of a small ResNet. A step of ResNet-20 takes half a minute under ASan on a loaded machine, as a dead one does.
losses() {
    YOKE_CACHE_DIR="$out/cache" "$yoke" bench step --model resnet20 --model-config blocks_per_stage=1 --precision bf16 --global-batch 32 \
        --iterations 2 --save-init "$out/init" --devices "$1" --json | sed -n 's/.*"losses": \[\(.*\), \(.*\)\].*/\1 \2/p'
}

# All kinds of convolutions of a model by cuDNN, the golden ones being too small for it: the losses are the processor's.
resnet() {
    (export YOKE_LOG=debug && losses cuda:0) 2>"$out/said" >"$out/losses" || return 1
    losses cpu >>"$out/losses" || return 1
    for kind in " of bf16:" "the gradient of its input:" "the gradient of its filter:"; do
        grep -q "a convolution .*$kind by cuDNN" "$out/said" || { echo "none is \"$kind\" by cuDNN"; return 1; }
    done
    paste -s -d ' ' "$out/losses" | tee "$out/line"
    awk 'function off(a, b) { return a > b ? a / b - 1 : b / a - 1 }
        { exit NF != 4 || off($1, $3) > 1e-3 || off($2, $4) > 1e-3 }' "$out/line"
}

ok "what is launched is what nvcc compiles" listed
ok "a ResNet's convolutions by cuDNN" resnet
if [ -n "${YOKE_GPU-}${YOKE_GOLDEN_FULL-}" ]; then
    ok "all golden tables" held 350 --golden "$data/golden"
    ok "all operator vectors" held 220 --vectors "$data/onnx-op-vectors"
else
    ok "a curve" held 1 --golden "$data/golden" --only curves/mlp_sgd_nesterov
    ok "layers" held 2 --golden "$data/golden" --only layers/linear
    ok "operators" held 2 --vectors "$data/onnx-op-vectors" --only MatMul
fi
plan
