#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# New shares wait for the programs of devices whose compilers are costly: the old shares train on while a thread makes them. Two devices of
# known times per row begin with equal rows, and their shares move. A training program takes 3 s.
. "$YOKE_SOURCE/tests/cli/lib.sh"
export YOKE_PLUGINS="cpu,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_FACTORS="1;1" YOKE_SLOW_ROW_US="1500;500" YOKE_PROBE=off
export YOKE_SLOW_PRODUCT_US="20000;20000" # of like pace at the start
export YOKE_SLOW_QUANTUM=4 YOKE_SLOW_TRAINER_MS=3000

python3 - "$out" <<'P'
import random, sys
r = random.Random(1)
def idx(name, dims, data):
    with open(name, "wb") as f:
        f.write(bytes([0, 0, 8, len(dims)]) + b"".join(n.to_bytes(4, "big") for n in dims) + data)
for part, rows in (("train", 64 * 200), ("t10k", 64)):
    idx(f"{sys.argv[1]}/{part}-labels-idx1-ubyte", [rows], bytes(r.randrange(10) for _ in range(rows)))
    idx(f"{sys.argv[1]}/{part}-images-idx3-ubyte", [rows, 28, 28], r.randbytes(784 * rows))
P

# trained ESTIMATE STEPS [OPTIONS]: exit code in $code; words in $out/words, a line per step in $out/steps
trained() {
    estimate=$1 steps=$2
    shift 2
    YOKE_SLOW_ESTIMATE_MS=$estimate YOKE_LOG=debug "$yoke" train --devices "slow:0! slow:1!" --model mlp --model-config hidden=16 \
        --data "idx:$out" --global-batch 64 --max-steps "$steps" --learning-rate 1e-3 --eval-strategy no --logging-steps 1 \
        --log "$out/steps" --overwrite-output-dir --output-dir "$out/model" "$@" >"$out/words" 2>&1
    code=$?
}

# waited [stalls]: the shares moved, and no step behind the first ones waited for a program, so none took 2.5 s; with `stalls` one did
waited() {
    [ "$code" = 0 ] || { tail -5 "$out/words"; return 1; }
    sed -n 's/.* \([0-9]*\) windows under the old shares.*/\1/p' "$out/words" >"$out/windows"
    python3 - "$out/steps" "$out/windows" "$@" <<'P'
import json, sys
lines = [r for r in map(json.loads, open(sys.argv[1])) if "loss" in r and not r.get("final")]
gaps = [b["seconds"] - a["seconds"] for a, b in zip(lines[2:], lines[3:])]
windows = [int(line) for line in open(sys.argv[2])]
print(f"{windows} windows under old shares; the longest step takes {max(gaps):.2f} s of {sum(gaps):.1f} s")
assert max(gaps) > 2.5 and not windows if sys.argv[3:] else windows and max(windows) >= 8 and max(gaps) < 2.5
P
}

trained 2000 150
ok "windows of the old shares run while the next program is made" waited
trained 0 60
ok "without an estimate of the compiler's time a step waits for it" waited stalls
trained 2000 100 --gradient-accumulation-steps 2
ok "a window's first micro batch and its later ones have their programs" waited

failed_once() {
    [ "$code" = 0 ] && grep -q 'rows is made when its batch comes, not ahead: .*broken by YOKE_SLOW_BROKEN' "$out/words" &&
        [ "$(grep -c 'shares (parts of the optimizer): ' "$out/words")" -ge 2 ]
}
YOKE_SLOW_BROKEN=2,2 trained 2000 120
ok "a program that fails once is made again when its batch comes" failed_once || tail "$out/words"
failed_again() { [ "$code" = 1 ] && tail -1 "$out/words" | grep -q 'training program 3 is broken by YOKE_SLOW_BROKEN'; }
YOKE_SLOW_BROKEN=2 trained 2000 120
ok "one that fails again ends the job, and is named" failed_again
failed_all() { # each of a window's programs is tried once, and one line of a rank says so
    [ "$code" = 1 ] && tail -1 "$out/words" | grep -q 'is broken by YOKE_SLOW_BROKEN' &&
        [ "$(grep -c '0\].*rows is made when its batch comes, not ahead' "$out/words")" = 1 ]
}
YOKE_SLOW_BROKEN=3 YOKE_SLOW_TRAINER_MS=200 trained 2000 80 --gradient-accumulation-steps 2
ok "so do several of one window" failed_all || tail "$out/words"

# A program that takes 6 s is being made when the user, or a rank's end, ends the job.
started() {
    : >"$out/words"
    YOKE_SLOW_TRAINER_MS=6000 trained 6000 5000 &
    training=$!
    for _ in $(seq 600); do
        grep -q 'makes the program of [0-9]* rows ahead' "$out/words" && return 0
        kill -0 $training || return 1
        sleep 0.1
    done
    return 1
}
# ends SIGNAL RANK PATTERN: of rank 0's parent, which started the ranks, or of that rank
ends() {
    started || { tail -5 "$out/words"; return 1; }
    pid=$(rank_pid "$2" "$out/model")
    [ "$1" = INT ] && pid=$(ps -o ppid= -p "$pid")
    kill "-$1" $pid
    begun=$(date +%s)
    wait $training
    tail -2 "$out/words"
    [ $(($(date +%s) - begun)) -le 20 ] && grep -q "$3" "$out/words" && [ -z "$(rank_pid 0 "$out/model")$(rank_pid 1 "$out/model")" ]
}
ok "a job that is stopped meanwhile ends" ends INT 0 'interrupted by signal 2'
ok "so does one whose rank is lost" ends KILL 1 'rank 1'
plan
