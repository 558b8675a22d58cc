#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes that somebody else started, or whose descriptor a wrapper closed: one error that says why, no training alone,
# nothing in the output folder. What is no cause for alarm trains.
yoke=$YOKE_BUILD/yoke
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
echo "1..8"
n=0
check() { # NAME: the last command's status decides
    if [ $? -eq 0 ]; then r=ok; else r="not ok"; echo "# exit code $code"; sed 's/^/# /' "$tmp/out" "$tmp/err"; fi
    n=$((n + 1))
    echo "$r $n - $1"
}
if [ ! -x "$yoke" ]; then
    while [ $n -lt 8 ]; do n=$((n + 1)); echo "ok $n # SKIP yoke is not built"; done
    exit 0
fi
mkdir "$tmp/images" && python3 - "$tmp/images" <<'P'
import sys
for part in ("train", "t10k"):
    with open(f"{sys.argv[1]}/{part}-images-idx3-ubyte", "wb") as f:
        f.write(bytes.fromhex("00000803") + b"".join(n.to_bytes(4, "big") for n in (64, 8, 8)))
        f.write(bytes(i * 7 % 256 for i in range(64 * 64)))
    with open(f"{sys.argv[1]}/{part}-labels-idx1-ubyte", "wb") as f:
        f.write(bytes.fromhex("00000801") + (64).to_bytes(4, "big") + bytes(i % 10 for i in range(64)))
P
cat > "$tmp/wrapper.py" <<'P'
import subprocess, sys
sys.exit(subprocess.call(sys.argv[1:], close_fds=sys.argv[0].endswith("wrapper.py")))
P
cp "$tmp/wrapper.py" "$tmp/keeps.py"

train() { # BEFORE...: yoke train behind these words
    rm -rf "$tmp/model"
    timeout 60 "$@" "$yoke" train --model mlp --model-config hidden=16 --data "idx:$tmp/images" --global-batch 8 \
        --max-steps 2 --overwrite-output-dir --output-dir "$tmp/model" >"$tmp/out" 2>"$tmp/err"
    code=$?
}
refused() { # WORDS: with exit code 2, in one line, and nothing was written
    [ $code -eq 2 ] && [ "$(grep -c "$1" "$tmp/err")" -eq 1 ] && [ ! -e "$tmp/model" ]
}

train "$yoke" launch --devices "cpu:0 cpu:0" -- python3 "$tmp/wrapper.py"
refused "rank 0 of 2 of a .yoke launch., but cannot reach it: YOKE_JOB_FD=.* is closed"
check "behind a wrapper that closes descriptors"

train "$yoke" launch --devices "cpu:0 cpu:0" -- sh -c 'if [ $YOKE_RANK = 1 ]; then exec python3 "$0" "$@"; fi; exec "$@"' \
    "$tmp/wrapper.py"
refused "rank 1 of 2 of a 'yoke launch', but cannot reach it"
check "one rank of two behind such a wrapper"

train "$yoke" launch --devices "cpu:0 cpu:0" -- python3 "$tmp/keeps.py"
[ $code -eq 0 ] && [ -e "$tmp/model/model.safetensors" ] && grep -q "bit-identical on all ranks" "$tmp/out"
check "a wrapper that keeps them"

train env WORLD_SIZE=2 RANK=0 LOCAL_RANK=0
refused "one of several of torchrun.*not set: YOKE_ADDR, YOKE_PORT, YOKE_SECRET_FILE.*YOKE_LAUNCHER=none"
check "with half of torchrun's variables, rank 0"

train env WORLD_SIZE=2 RANK=1 LOCAL_RANK=1
[ $code -eq 2 ] && [ ! -s "$tmp/err" ] && [ ! -s "$tmp/out" ] && [ ! -e "$tmp/model" ]
check "with half of torchrun's variables, rank 1 leaves the words to rank 0"

YOKE_DEVICES="cpu:0 cpu:0" train env SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0
refused "one of several of srun"
check "with half of srun's variables, before ranks are launched"

YOKE_DEVICES=cpu:0 train env WORLD_SIZE=2 RANK=1 YOKE_LAUNCHER=none
[ $code -eq 0 ] && [ -e "$tmp/model/model.safetensors" ]
check "overruled"

YOKE_DEVICES="cpu:0 cpu:0" train env SLURM_NTASKS=4 SLURM_PROCID=0 YOKE_LAUNCHER=none
[ $code -eq 0 ] && grep -q "bit-identical on all ranks" "$tmp/out"
check "overruled for the launcher, not for its ranks"
