#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ResNet-18 and -50: one trains as PyTorch's does, each has torchvision's names and its stem in the folder, and refuses what is no network.
. "$YOKE_SOURCE/tests/golden/lib.sh"

small() { # small CONFIG OPTION...
    config=$1
    shift
    "$yoke" bench step --json --model resnet50 --model-config "$config" --global-batch 8 --iterations 3 "$@"
}

# PyTorch 2.15 from the file that is saved here, three steps on the same numbers (bench/steps --check asks it anew).
as_pytorch() {
    small widths=64+128+256+512,blocks_per_stage=1+2+1+1,image_size=64 --save-init "$out" >"$out/said" && python3 - "$out/said" <<'P'
import json, sys
ours, theirs = json.load(open(sys.argv[1]))["losses"], [2.3508524894714355, 1.4660253524780273, 0.926365315914154]
assert len(ours) == 3 and all(abs(a - b) < 1e-4 * b for a, b in zip(ours, theirs)), ours
P
}

names() {
    small image_size=32 --save-init "$out" >"$out/said" && python3 - "$out/model.safetensors" <<'P'
import json, struct, sys
with open(sys.argv[1], "rb") as f:
    head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
norm = [f"{part}" for part in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]
want = {"conv1.weight", "fc.weight", "fc.bias"} | {f"bn1.{part}" for part in norm}
for stage, blocks in enumerate((3, 4, 6, 3), 1):
    for i in range(blocks):
        for k in (1, 2, 3):
            want |= {f"layer{stage}.{i}.conv{k}.weight"} | {f"layer{stage}.{i}.bn{k}.{part}" for part in norm}
    want |= {f"layer{stage}.0.downsample.0.weight"} | {f"layer{stage}.0.downsample.1.{part}" for part in norm}
have = set(head) - {"__metadata__"}
assert have == want and len(have) == 320, have ^ want
shapes = {"conv1.weight": [64, 3, 7, 7], "layer2.0.conv1.weight": [128, 256, 1, 1], "layer2.0.conv2.weight": [128, 128, 3, 3],
          "layer4.2.conv3.weight": [2048, 512, 1, 1], "layer3.0.downsample.0.weight": [1024, 512, 1, 1], "fc.weight": [10, 2048]}
assert all(head[name]["shape"] == shape for name, shape in shapes.items()), head
P
}

names_18() {
    "$yoke" bench step --json --model resnet18 --global-batch 2 --iterations 1 --save-init "$out/18" >"$out/said" &&
        python3 - "$out/18" <<'P'
import json, struct, sys
with open(f"{sys.argv[1]}/model.safetensors", "rb") as f:
    head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
want = {"conv1.weight", "fc.weight", "fc.bias"} | {f"bn1.{part}" for part in norm}
for stage in range(1, 5):
    for i in range(2):
        for k in (1, 2):
            want |= {f"layer{stage}.{i}.conv{k}.weight"} | {f"layer{stage}.{i}.bn{k}.{part}" for part in norm}
    if stage > 1:
        want |= {f"layer{stage}.0.downsample.0.weight"} | {f"layer{stage}.0.downsample.1.{part}" for part in norm}
have = set(head) - {"__metadata__"}
assert have == want and len(have) == 122, have ^ want
assert head["conv1.weight"]["shape"] == [64, 3, 7, 7] and head["layer4.0.downsample.0.weight"]["shape"] == [512, 256, 1, 1], head
assert json.load(open(f"{sys.argv[1]}/config.json"))["stem"] == "7x7"
P
}

# A folder of before the key "stem" has a 3x3 stem in its file alone.
old_folder() {
    few="--max-eval-samples 8 --devices cpu:0"
    train_18() { # train_18 FOLDER STEM
        "$yoke" train --model resnet18 --model-config "widths=8+8,blocks_per_stage=1,stem=$2" --data "idx:$data/fashion-mnist" \
            --max-train-samples 4 --max-steps 1 --global-batch 2 --optim sgd --eval-strategy no --no-do-eval --devices cpu:0 \
            --output-dir "$1" >"$out/said" 2>&1
    }
    for stem in 3x3 7x7; do
        train_18 "$out/stem.$stem" $stem && grep -q "\"stem\": *\"$stem\"" "$out/stem.$stem/config.json" &&
            pictures eval --from "$out/stem.$stem" $few && mv "$out/said" "$out/said.$stem" || return 1
    done
    python3 - "$out/stem.3x3/config.json" <<'P' &&
import json, sys
config = json.load(open(sys.argv[1]))
del config["stem"]
json.dump(config, open(sys.argv[1], "w"))
P
        pictures eval --from "$out/stem.3x3" $few && cmp "$out/said" "$out/said.3x3" &&
        ! train_18 "$out/stem" 5x5 && grep -q "stem: expected 3x3 or 7x7, got 5x5" "$out/said"
}

refused() { # refused WORDS CONFIG
    small "$2" >"$out/said" 2>&1 && return 1
    cat "$out/said"
    grep -q "$1" "$out/said"
}

# 28x28 images are 1x1 in the last stage, so that a batch of one image has one value for each channel there.
pictures() { # pictures COMMAND OPTION...
    command=$1
    shift
    "$yoke" "$command" --data "idx:$data/fashion-mnist" "$@" >"$out/said" 2>&1
    code=$?
    cat "$out/said"
    return $code
}

tiny() { # tiny OPTION...
    pictures train --model resnet50 --model-config widths=8+8+8+8,blocks_per_stage=1+1+1+1 --max-train-samples 4 --max-steps 2 --optim sgd \
        --eval-strategy no --no-do-eval --output-dir "$out/tiny" "$@"
}

one_image() {
    pictures train --model resnet18 --model-config widths=8+8+8+8,blocks_per_stage=1 --max-train-samples 4 --max-steps 2 --optim sgd \
        --eval-strategy no --no-do-eval --output-dir "$out/18.tiny" --devices cpu:0 --global-batch 1
    [ $? = 2 ] && grep -q "expected more than one value for each channel" "$out/said" || return 1
    tiny --devices cpu:0 --global-batch 1
    [ $? = 2 ] && [ "$(grep -c "expected more than one value for each channel" "$out/said")" = 1 ] && [ ! -e "$out/tiny/model.safetensors" ]
}

one_image_each() { # the ranks' values count together
    tiny --devices "cpu:0 cpu:0" --shares equal --global-batch 2 && [ -e "$out/tiny/model.safetensors" ]
}

one_image_read() { # with the statistics that training kept
    pictures eval --from "$out/tiny" --devices cpu:0 --per-device-eval-batch-size 1 --max-eval-samples 3 && grep -q "of 3)" "$out/said"
}

ok "three steps as PyTorch's" as_pytorch
ok "torchvision's names and shapes" names
ok "the same of resnet18" names_18
if [ -e "$data/fashion-mnist" ]; then
    ok "one value for each channel, refused in training" one_image
    ok "one image on each of two ranks trains" one_image_each
    ok "one image is evaluated" one_image_read
    ok "each stem is in the folder, one of an older folder too" old_folder
fi
ok "too many blocks" refused "expected widths and blocks_per_stage of 1 to 64 blocks" blocks_per_stage=40
ok "fewer numbers of blocks than stages" refused \
    "blocks_per_stage: expected 1 or 4 numbers, one for each of widths, got 2" blocks_per_stage=1+2
ok "a list that lacks its last number" refused "blocks_per_stage=1+: expected whole numbers joined by +" blocks_per_stage=1+
ok "more of them" refused \
    "blocks_per_stage: expected 1 or 2 numbers, one for each of widths, got 4" widths=8+8,blocks_per_stage=1+1+1+5
ok "a width that is no multiple of four" refused "expected widths in multiples of 4" widths=30+60
plan
