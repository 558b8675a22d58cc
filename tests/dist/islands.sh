#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Islands: CUDA ranks of one host or of several, on the driver and the NCCL without cards (tests/fakes), add gradients up and spread
# parameters from device to device. The trainer's results are those of one device but for rounding (how rows are shared out follows the
# clock, and so do bits); all ranks have the same bits, or it fails. Where rows are shared out evenly (fifty.c), bits are those without
# islands, and of one host. A rank that dies within a collective, or before it joins, is named.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
need_cores 2
[ "$(uname -m)" = x86_64 ] || { echo "1..0 # SKIP the fake driver runs kernels on x86-64 only"; exit 0; }
. "$YOKE_SOURCE/tests/fakes/use.sh"
export FAKE_CUDA_DEVICES=4 NCCL_NVLS_ENABLE=0 YOKE_TRACE="$out/trace" YOKE_TRACE_SKIP=3 YOKE_TRACE_STEPS=6
small_images "$out/images"
steps=10

mlp() { # mlp NAME OPTION..: losses in $out/NAME.jsonl
    log=$out/$1.jsonl
    shift
    "$yoke" train --model mlp --model-config hidden=32 --data "idx:$out/images" --global-batch 32 --max-steps $steps --optim sgd \
        --learning-rate 0.02 --max-grad-norm 1 --logging-steps 1 --log "$log" --overwrite-output-dir --output-dir "$out/model" "$@"
}

train() { # train NAME ORDER DEVICES: what is said in $out/NAME.out, traces in $out/trace.RANK
    rm -f "$out"/trace.*
    YOKE_REPRODUCIBILITY=$2 mlp "$1" --devices "$3" >"$out/$1.out" 2>&1 || { cat "$out/$1.out"; return 1; }
}

# by_hand NAME ORDER HOST=DEVICE..: ranks that no launcher started, of $program; what they say in $out/NAME.RANK. The exit code is that
# of rank 0.
program=mlp
by_hand() {
    job=$1 order=$2
    shift 2
    rm -f "$out/$job".*
    head -c 32 /dev/urandom >"$out/secret" && chmod 600 "$out/secret"
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    rank=$#
    while [ $rank -gt 0 ]; do # rank 0 last: $! is its process
        rank=$((rank - 1))
        eval "place=\${$((rank + 1))}"
        YOKE_HOST_ID=${place%%=*} YOKE_RANK=$rank YOKE_SIZE=$# YOKE_ADDR=127.0.0.1 YOKE_PORT=$port YOKE_SECRET_FILE=$out/secret \
            YOKE_DEVICES="${place#*=}!" YOKE_REPRODUCIBILITY=$order $program "$job" >"$out/$job.$rank" 2>&1 &
    done
    wait $!
}

# Even rows, and parameters of each rank in each of two buckets.
fifty() {
    YOKE_BUCKET_BYTES=65536 "$YOKE_BUILD/tests/dist/fifty" $steps 4096 "$factors"
}
factors=0

hash_of() { # hash_of NAME: of the parameters, of a job of fifty
    sed -n 's/^ranks [0-9]* parameters //p' "$out/$1.0"
}

sent_by() { # sent_by NAME: bytes from all ranks to other hosts
    sed -n 's/.* \([0-9]*\) bytes went to other hosts$/\1/p' "$out/$1".* | awk '{ n += $1 } END { print n + 0 }'
}

# same_bits ORDER HOST=DEVICE..: with islands and without, and on one host where sums are in the order of ranks; no more is sent
same_bits() (
    order=$1
    shift
    program=fifty
    YOKE_LOG=debug by_hand with "$order" "$@" && YOKE_LOG=debug YOKE_CUDA_NCCL=0 by_hand without "$order" "$@" || return 1
    wait
    grep -h "compute together" "$out"/with.*
    echo "with $(hash_of with), $(sent_by with) bytes; without $(hash_of without), $(sent_by without) bytes"
    [ "$(grep -l "compute together" "$out"/with.* | wc -l)" -eq "$(echo "$@" | tr ' ' '\n' | grep -c cuda)" ] &&
        ! grep "compute together" "$out"/without.* && [ -n "$(hash_of with)" ] && [ "$(hash_of with)" = "$(hash_of without)" ] &&
        [ $(($(sent_by with) * 100)) -le $(($(sent_by without) * 101)) ] || return 1
    [ "$order" = rank ] || return 0
    # shellcheck disable=SC2046
    by_hand one rank $(echo "$@" | tr ' ' '\n' | sed 's/.*=/a=/') || return 1
    wait
    echo "one host $(hash_of one)"
    [ "$(hash_of with)" = "$(hash_of one)" ]
)

# factored HOST=DEVICE..: the norm of factored gradients, which are added up in an island first, but for rounding
factored() (
    program=fifty factors=2
    by_hand with run "$@" && YOKE_CUDA_NCCL=0 by_hand without run "$@" || return 1
    wait
    sed -n 's/^gradient norm //p' "$out/with.0" "$out/without.0" | python3 -c '
import sys
a, b = (float(line) for line in sys.stdin)
print("norms", a, b)
assert abs(a - b) < 1e-3 * b'
)

near() { # near NAME: the losses of "alone", to 1e-4
    python3 - "$out/alone.jsonl" "$out/$1.jsonl" <<'P'
import json, sys
a, b = ([r["loss"] for r in map(json.loads, open(f)) if "loss" in r] for f in sys.argv[1:])
worst = max(abs(x - y) / abs(x) for x, y in zip(a, b))
print("largest relative difference of", len(a), "losses:", worst)
assert len(a) == len(b) and a and worst <= 1e-4
P
}

did() { # did WHAT RANK..: the wire lanes of these ranks say so; in the first of the traced steps, before jobs without a rank are timed
    what=$1
    shift
    for rank; do
        grep -q "\"island $what\"" "$out/trace.$rank" || { echo "no island $what in the trace of rank $rank"; return 1; }
    done
}

summed() { # summed RANK..: on the cards; parts are equal if their speeds are not too different
    for rank; do
        did reduce_scatter "$rank" || did all_reduce "$rank" || return 1
    done
}

did_not() { # did_not WHAT: no rank's
    ! grep "\"island $1\"" "$out"/trace.*
}

in_rank_order() {
    cards="cuda:0! cuda:1! cuda:2!"
    YOKE_CUDA_NCCL=0 train host rank "$cards" && did_not broadcast && train ranks rank "$cards" &&
        did broadcast 0 1 2 && did_not reduce_scatter && did_not all_reduce && near ranks
}

# In a step no gradients and no parameters come from a card or go to one, but a batch (of 50 KB). One of the traced steps is enough: parts
# of the optimizer move at times.
stays() {
    python3 - "$out"/trace.[01] <<'P'
import json, sys
for name in sys.argv[1:]:
    with open(name) as f:
        events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X"]
    steps = [e for e in events if e["name"] == "step"]
    copies = [[(e["name"], e["args"]["number"]) for e in events if s["ts"] <= e["ts"] < s["ts"] + s["dur"] and " device" in e["name"]]
              for s in steps]
    print(name, copies)
    assert len(steps) == 6 and any(all(n <= (4096 if kind == "from device" else 32 * 785 * 4) for kind, n in c) for c in copies)
P
}

in_its_own_order() { # NVLS adds in no fixed order: then sums stay on the host; but not where cards have no switch that adds
    train run run "cuda:0! cuda:1!" && summed 0 1 && did broadcast 0 1 && stays && near run &&
        train two rank "cuda:0! cuda:1!" && summed 0 1 && stays && near two &&
        NCCL_NVLS_ENABLE=1 train nvls run "cuda:0! cuda:1!" && did_not reduce_scatter && did_not all_reduce && did broadcast 0 1 &&
        NCCL_NVLS_ENABLE=1 FAKE_CUDA_MULTICAST=0 train switchless run "cuda:0! cuda:1!" && summed 0 1
}

beside() { # beside NAME DEVICES: a rank without an island, whose part goes through the host
    train "$1" run "$2" && did reduce_scatter 0 1 && near "$1"
}

of_three() { # parts of a bucket that cannot be even, and a rank beside it
    train three run "cuda:0! cuda:1! cpu:0! cuda:2!" && did all_reduce 0 1 3 && near three
}

# The others wait for it on their devices.
a_rank_dies() {
    rm -f "$out/died"
    FAKE_NCCL_DIE="7 1 $out/died" train dead run "cuda:0! cuda:1!" && return 1
    ended=$(date +%s)
    grep -q "rank 1 (cuda:1!)" "$out/dead.out" && [ -e "$out/died" ] && [ $((ended - $(stat -c %Y "$out/died"))) -le 10 ]
}

# The cards of each host are an island: all ranks have the same bits. Who updates how much follows the clock, and may be one host.
of_two_hosts() {
    rm -f "$out"/trace.*
    YOKE_LOG=info by_hand hosts run a=cuda:0 a=cuda:1 b=cuda:2 b=cuda:3 || { cat "$out"/hosts.*; return 1; }
    wait
    [ "$(grep -l "one of 2 devices that compute together; they add" "$out"/hosts.* | wc -l)" -eq 4 ] &&
        did reduce_scatter 0 1 2 3 && grep -h '"island broadcast"' "$out"/trace.* && grep "bit-identical on all ranks" "$out/hosts.0" &&
        near hosts
}

# Its neighbour waits for it on its device, the other host for messages.
a_rank_of_two_hosts_dies() ( # ORDER
    rm -f "$out/died"
    program=fifty steps=400
    FAKE_NCCL_DIE="9 3 $out/died" by_hand far "$1" a=cuda:0 a=cuda:1 b=cuda:2 b=cuda:3 && return 1
    wait
    ended=$(date +%s.%N)
    cat "$out"/far.*
    [ "$(grep -l "rank 3 " "$out"/far.[012] | wc -l)" -eq 3 ] && [ -e "$out/died" ] &&
        python3 -c 'import sys; s = float(sys.argv[1]) - float(sys.argv[2]); print("all ended", s, "s after"); assert s < 3' \
            "$ended" "$(stat -c %.Y "$out/died")"
)

# Who waits in the join gives it up long before its own limit of 30 s, and names the rank.
a_rank_dies_joining() {
    rm -f "$out/died"
    FAKE_NCCL_NAME=$$- FAKE_NCCL_DIE="0 1 $out/died" by_hand joining run a=cuda:0 a=cuda:1 && return 1
    ended=$(date +%s)
    wait
    rm -f "/dev/shm/fake-nccl-$$-"* # nobody was there to take the name away
    cat "$out/joining.0"
    grep -q "rank 1 " "$out/joining.0" && [ -e "$out/died" ] && [ $((ended - $(stat -c %Y "$out/died"))) -le 10 ]
}

# What a member says of a call that fails ends the job, in NCCL's words.
a_call_fails() {
    FAKE_NCCL_FAIL=40 train fails run "cuda:0! cuda:1!" >/dev/null && return 1
    grep -q "NCCL: .*unhandled system error" "$out/fails.out"
}

# A collective that computes wrongly would train other numbers, the same on all ranks: the start-up probe names it and the ranks.
a_wrong_collective() { # a_wrong_collective FAULT WHAT
    FAKE_NCCL_WRONG=$1 train wrong run "cuda:0! cuda:1! cpu:0!" >/dev/null && return 1
    grep "start-up probe" "$out/wrong.out"
    grep -q "cuda:[01]! (.*): $2 among the devices of ranks 0, 1 (yk.coll.1) computes wrongly: in the start-up probe" "$out/wrong.out"
}

ok "one CPU" train alone rank cpu:0
ok "a broadcast from the wrong rank" a_wrong_collective root "a broadcast"
ok "a part of a sum at the wrong rank" a_wrong_collective part "a sum by parts"
ok "sums in the order of ranks" in_rank_order
ok "sums of an island" in_its_own_order
ok "an island and a CPU" beside cpu "cuda:0! cuda:1! cpu:0!"
if "$yoke" info --kinds 2>/dev/null | grep -q '^opencl$'; then
    ok "an island and an OpenCL device" beside opencl "cuda:0! cuda:1! opencl:0!"
else
    skip "an island and an OpenCL device" "no OpenCL device here"
fi
ok "an island of three" of_three
if [ ! -e "$YOKE_BUILD/.libs/transport_sock.so" ]; then
    for name in "cards of two hosts" "two hosts, in the order of ranks" "two hosts, in their own order" "a CPU is the other host" \
        "hosts of unlike ranks" "one host over sockets" "factors of two hosts" "a rank of two hosts dies (rank)" \
        "a rank of two hosts dies (run)"; do
        skip "$name" "the sock transport is not built"
    done
else
    ok "cards of two hosts" of_two_hosts
    ok "two hosts, in the order of ranks" same_bits rank a=cuda:0 a=cuda:1 b=cuda:2 b=cuda:3
    ok "two hosts, in their own order" same_bits run a=cuda:0 a=cuda:1 b=cuda:2 b=cuda:3
    ok "a CPU is the other host" same_bits rank a=cuda:0 a=cuda:1 b=cpu:0
    ok "hosts of unlike ranks" same_bits rank a=cuda:0 b=cuda:2 a=cpu:0 b=cuda:3 a=cuda:1
    YOKE_TRANSPORT=sock ok "one host over sockets" same_bits rank a=cuda:0 a=cuda:1 a=cpu:0
    ok "factors of two hosts" factored a=cuda:0 a=cuda:1 b=cuda:2 b=cuda:3
    ok "a rank of two hosts dies (rank)" a_rank_of_two_hosts_dies rank
    ok "a rank of two hosts dies (run)" a_rank_of_two_hosts_dies run
fi
ok "two cards of one host" same_bits rank a=cuda:0 a=cuda:1
ok "factors of an island" factored a=cuda:0 a=cuda:1
ok "a rank dies in a collective" a_rank_dies
ok "a rank dies before it joins" a_rank_dies_joining
ok "a call of NCCL fails" a_call_fails
plan
