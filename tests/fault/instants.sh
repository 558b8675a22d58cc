#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SIGTERM and SIGUSR1 at random instants of a training, and in each of its phases: it goes on to the model of the training that nobody
# disturbed. With YOKE_TEST_LONG=1 at 50 instants, and on an OpenCL device too.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
instants() { # instants DEVICES NUMBER [SEED]
    mkdir -p "$out/life" && small_images "$out/life/images" &&
        python3 "$YOKE_SOURCE/tests/fault/instants.py" "$out/life" "$@" >"$out/said" 2>&1
    code=$?
    cat "$out/said"
    rm -rf "$out/life"
    return $code
}
number=4
[ "${YOKE_TEST_LONG:-0}" = 1 ] && number=50
second=$([ "$(nproc)" -gt 1 ] && echo cpu:1 || echo cpu:0)
ok "one rank goes on to the same model" instants cpu:0 $number
ok "two ranks do" instants "cpu:0 $second" $number
if [ $number = 50 ] && "$yoke" info --kinds 2>/dev/null | grep -q '^opencl$'; then
    ok "so do unlike ones" instants "cpu:0 opencl:0" $number
else
    skip "so do unlike ones" "only with YOKE_TEST_LONG=1 and an OpenCL device"
fi

# timeout(1) sends its signal to the launcher, and then to the launcher's group: these two are one. Slurm sends one to each process, and
# the launcher passes its own on, late on a busy machine.
timed_out() { # timed_out DEVICES WHEN
    for _ in 1 2 3; do
        rm -rf "$out/timed" "$out/timed.said"
        python3 "$YOKE_SOURCE/tests/fault/twice.py" "$2" "$out/timed" "$yoke" train --model mlp --model-config hidden=32 \
            --data "idx:$out/images" --global-batch 32 --max-steps 100000000 --save-strategy steps --save-steps 1 --save-total-limit 1 \
            --eval-strategy no --devices "$1" --output-dir "$out/timed"
        code=$?
        [ $code = 75 ] || { echo "exit code $code"; cat "$out/timed.said"; return 1; }
    done
}
small_images "$out/images"
ok "the same signal twice within a millisecond saves: a process" timed_out cpu:0 soon
ok "a launcher" timed_out "cpu:0 cpu:0" soon
ok "a launcher that passes it on late" timed_out "cpu:0 cpu:0" late
plan
