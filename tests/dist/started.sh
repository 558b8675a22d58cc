#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes that somebody else started, or whose descriptor a wrapper closed: one error that says why, no training alone,
# nothing in the output folder. What is no cause for alarm trains.
. "$YOKE_SOURCE/tests/cli/made.sh"
hidden=16
plan 8
cat > "$tmp/wrapper.py" <<'P'
import subprocess, sys
sys.exit(subprocess.call(sys.argv[1:], close_fds=sys.argv[0].endswith("wrapper.py")))
P
cp "$tmp/wrapper.py" "$tmp/keeps.py"

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
