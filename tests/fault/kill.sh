#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A rank of a real training is killed, stopped, or its launcher is killed: the job ends within two seconds (3 are allowed
# here), one line names the rank, no process and no shared-memory object is left.
yoke=$YOKE_BUILD/yoke
data=${YOKE_TEST_DATA:-../shared/data}/fashion-mnist
tmp=$(mktemp -d) || exit 1
job= ranks=
trap 'kill -9 $job $ranks 2>/dev/null; rm -rf "$tmp"' EXIT
echo "1..9"
n=0
skip_all() {
    while [ $n -lt 9 ]; do n=$((n + 1)); echo "ok $n # SKIP $1"; done
    exit 0
}
check() { # NAME: the last command's status decides
    if [ $? -eq 0 ]; then r=ok; else r="not ok"; fi
    n=$((n + 1))
    echo "$r $n - $1"
}
[ -x "$yoke" ] || skip_all "yoke is not built"
[ -d "$data" ] || skip_all "no data: $data"

shared=$(ls /dev/shm 2>/dev/null | grep yoke) # objects that another build left there
ms() { echo $(($(date +%s%N) / 1000000)); }

# The process of a rank: the launcher's child with this number in its environment.
rank_pid() {
    for p in /proc/[0-9]*; do
        read -r _ _ _ parent _ 2>/dev/null < "$p/stat" || continue
        [ "$parent" = "$job" ] && tr '\0' '\n' 2>/dev/null < "$p/environ" | grep -qx "YOKE_RANK=$1" && echo "${p#/proc/}"
    done
}

start() {
    rm -rf "$tmp/out" "$tmp/log"
    "$yoke" train --model mlp --data "idx:$data" --devices "cpu:0 cpu:0" --global-batch 64 --num-train-epochs 100000 \
        --logging-steps 1 --log "$tmp/log" --overwrite-output-dir --output-dir "$tmp/out" >"$tmp/stdout" 2>"$tmp/stderr" &
    job=$!
    i=0
    while [ "$(wc -l 2>/dev/null <"$tmp/log" || echo 0)" -lt 5 ]; do
        i=$((i + 1))
        if [ $i -gt 600 ] || ! kill -0 $job 2>/dev/null; then
            sed 's/^/# /' "$tmp/stderr"
            echo "# the training did not come to its fifth step"
            return 1
        fi
        sleep 0.1
    done
    ranks="$(rank_pid 0) $(rank_pid 1)"
    victim=${ranks#* }
    [ -n "$victim" ]
}

gone() { # all ranks, within three seconds: a SIGKILL acts where its process gets a processor
    for i in $(seq 60); do
        left=
        for p in $ranks; do # a zombie is gone: it waits for whoever adopted it
            read -r _ _ state _ 2>/dev/null <"/proc/$p/stat" && [ "$state" != Z ] && left="$left $p"
        done
        [ -z "$left" ] && return 0
        sleep 0.05
    done
    echo "# still there:$left"
    return 1
}

nothing_left() {
    gone && ! ls /dev/shm 2>/dev/null | grep yoke | grep -qvxF "${shared:-.}"
}

fault() { # SIGNAL WORDS
    start
    check "training runs before SIG$1" || return
    t=$(ms)
    kill "-$1" "$victim"
    wait $job
    code=$?
    t=$(($(ms) - t))
    echo "# SIG$1: $t ms, exit code $code: $(cat "$tmp/stderr")"
    [ $t -lt 3000 ] && [ $code -eq 1 ]
    check "SIG$1 ends the job in time"
    [ "$(grep -c "rank 1 (.*) $2" "$tmp/stderr")" -eq 1 ] && nothing_left
    check "SIG$1: one line names the rank, nothing is left"
}

fault KILL "was killed by signal 9"
fault STOP "was stopped"

start
check "training runs before the launcher dies"
t=$(ms)
kill -KILL $job
wait $job 2>/dev/null
gone
t=$(($(ms) - t))
[ $t -lt 3000 ]
check "a killed launcher ends the job ($t ms)"
nothing_left
check "a killed launcher leaves nothing"
