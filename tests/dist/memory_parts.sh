#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Slices follow memory: under limits that no even split fits, gradients and parameters in slices train, with the bits of a job without
# limits that has the same fixed parts. An estimate is the run's bytes. If no parts fit, one error says so. Three hosts (network
# namespaces) do it, too, and so do three whose memory the kernel limits (control groups), with a model of which none holds parameters and
# moments.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
small_images "$out/images"
export YOKE_PLUGINS="cpu,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_OWN=1 YOKE_SLOW_FACTORS="1;1;1"
model="--model mlp --model-config hidden=2000 --data idx:$out/images --global-batch 32 --eval-strategy no --max-grad-norm 0.5"
two="slow:0! slow:1!"
a=yk$$a b=yk$$b c=yk$$c switch=yk$$s

train() { # train OUT OPTION...: its last line in OUT.json
    to=$1
    shift
    # shellcheck disable=SC2086
    "$yoke" train $model --json --overwrite-output-dir --output-dir "$out/$to" "$@" >"$out/$to.json" 2>"$out/$to.err"
}
trains() { train "$@" || { cat "$out/$1.err"; return 1; }; }
parts() { sed -n 's/.*even slices do not fit.*--shard-parts //p' "$out/$1.err"; }
same() { cmp "$out/$1/model.safetensors" "$out/$2/model.safetensors"; }
peaks() { # of the file's last line, by rank
    python3 -c 'import json, sys
last = json.loads(open(sys.argv[1]).read().splitlines()[-1])
print([rank["peak_bytes"] for rank in last.get("ranks") or last["shares"]])' "$1"
}

follows() { # follows TRANSPORT STAGE
    export YOKE_TRANSPORT="$1"
    set -- --devices "$two" --shard "$2" --shares equal
    YOKE_MEMORY_LIMIT=200M,24M train even "$@" --max-steps 3 --shard-parts equal && { echo "even parts fit"; return 1; }
    grep -q "rank 1 .*memory limit" "$out/even.err" || { cat "$out/even.err"; return 1; }
    YOKE_MEMORY_LIMIT=200M,24M trains fit "$@" --max-steps 3 --shard-parts speed && [ -n "$(parts fit)" ] &&
        trains whole --devices "$two" --shares equal --max-steps 3 --shard state --shard-parts "$(parts fit)" && same whole fit || return 1
    # shellcheck disable=SC2086
    YOKE_MEMORY_LIMIT=200M,24M "$yoke" estimate-memory $model --json "$@" --shard-parts speed >"$out/plan.json" 2>"$out/plan.err" ||
        return 1
    [ "$(peaks "$out/plan.json")" = "$(peaks "$out/fit.json")" ] && [ "$(parts plan)" = "$(parts fit)" ]
}
by_speed() { # rows follow speed, and parts reports from the first update on
    for stage in gradients params; do
        YOKE_MEMORY_LIMIT=200M,24M trains speed --devices "$two" --max-steps 12 --shard $stage && [ -n "$(parts speed)" ] || return 1
    done
}
fits() { # even slices that fit stay even
    YOKE_MEMORY_LIMIT=200M,100M trains large --devices "$two" --max-steps 2 --shard params && [ -z "$(parts large)" ]
}
nothing() {
    YOKE_MEMORY_LIMIT=9M,8M train none --devices "$two" --max-steps 2 --shard params && return 1
    [ "$(grep -c 'no parts of the slices fit: rank 1 (slow:1!) needs [0-9]* bytes with an even part, and its memory limit is 8388608; ' \
        "$out/none.err")" = 1 ] || { cat "$out/none.err"; return 1; }
}

messages=local
[ ! -e "$YOKE_BUILD/.libs/transport_sock.so" ] || messages=sock
for transport in shm $messages; do
    ok "gradients, $transport" follows $transport gradients
    ok "parameters, $transport" follows $transport params
done
ok "with rows by speed" by_speed
ok "even slices that fit stay" fits
ok "limits that no parts fit" nothing

down() { for host in $a $b $c $switch; do ip netns del "$host"; done 2>/dev/null; }
up() { # HOST ADDRESS: a namespace at the switch
    ip netns add "$1" && ip link add yk0 netns "$1" type veth peer name "${1#yk}" netns "$switch" &&
        ip -n "$switch" link set "${1#yk}" master yk0 up && ip -n "$1" link set lo up && ip -n "$1" addr add "$2/24" dev yk0 &&
        ip -n "$1" link set yk0 up
}
hosts_up() {
    ip netns add "$switch" && ip -n "$switch" link add yk0 type bridge && ip -n "$switch" link set yk0 up && up "$a" 10.178.0.1 &&
        up "$b" 10.178.0.2 && up "$c" 10.178.0.3 && ip netns exec "$a" true
}
three_hosts() {
    head -c 32 /dev/urandom >"$out/secret" && chmod 600 "$out/secret"
    rank=0 pids=
    for host in $a $b $c; do
        # shellcheck disable=SC2086
        ip netns exec "$host" env YOKE_RANK=$rank YOKE_SIZE=3 YOKE_ADDR=10.178.0.1 YOKE_PORT=17719 YOKE_SECRET_FILE="$out/secret" \
            YOKE_DEVICES="$two slow:2!" YOKE_MEMORY_LIMIT=200M,24M,20M timeout -k 1 150 "$yoke" train $model --max-steps 6 --shard params \
            --shares equal --shard-parts speed --overwrite-output-dir --output-dir "$out/hosts" >"$out/host$rank.log" \
            2>"$out/host$rank.err" </dev/null &
        pids="$pids $!"
        rank=$((rank + 1))
    done
    failed=0
    for pid in $pids; do wait "$pid" || failed=1; done
    [ $failed = 0 ] || { cat "$out"/host?.err; return 1; }
    [ -n "$(parts host0)" ] && trains whole --devices "$two slow:2!" --shares equal --max-steps 6 --shard state \
        --shard-parts "$(parts host0)" && same whole hosts
}

# A group below this process's own, of version 1 or 2.
group_path() { # NUMBER
    own=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
    if [ -d "/sys/fs/cgroup/memory$own" ]; then echo "/sys/fs/cgroup/memory$own/yk$$.$1"
    elif [ -d /sys/fs/cgroup/memory ]; then echo "/sys/fs/cgroup/memory/yk$$.$1"
    else echo "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/yk$$.$1"; fi
}
group_up() { # NUMBER BYTES
    at=$(group_path "$1")
    mkdir "$at" && for file in memory.limit_in_bytes memory.max; do [ ! -f "$at/$file" ] || echo "$2" >"$at/$file" || return 1; done &&
        ls "$at" | grep -qxE 'memory.(limit_in_bytes|max)'
}
groups_down() { for i in 0 1 2; do rmdir "$(group_path $i)"; done 2>/dev/null; }
groups_up() { # BYTES BYTES BYTES
    group_up 0 "$1" && group_up 1 "$2" && group_up 2 "$3" && sh -c 'echo $$ >"$0/cgroup.procs"' "$(group_path 0)"
}
# Trains GPT-2 of one byte a token in three groups; the result has the bits of a job without limits with the same parts.
three_groups() { # NAME DEVICES LIMITS STEPS BYTES CONFIG: parameters and moments take more than BYTES
    deep="--model gpt2 --model-config $6,vocab_size=256,n_positions=16,seq_len=16 --global-batch 3"
    deep="$deep --data text:$out/text,tokenizer=bytes,seq-len=16 --max-steps $4 --eval-strategy no --max-grad-norm 0.5 --shares equal"
    deep="$deep --overwrite-output-dir"
    seq 10000 | tr -d '\n' >"$out/text"
    rank=0 pids=
    for host in $a $b $c; do
        # shellcheck disable=SC2016,SC2086
        sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$(group_path $rank)" ip netns exec "$host" env YOKE_RANK=$rank YOKE_SIZE=3 \
            YOKE_ADDR=10.178.0.1 YOKE_PORT=17720 YOKE_SECRET_FILE="$out/secret" YOKE_DEVICES="$2" \
            YOKE_BUCKET_BYTES=2000000 YOKE_MEMORY_LIMIT="$3" timeout -k 1 $((250 * $4 / 4)) "$yoke" train $deep --shard params \
            --shard-parts speed --output-dir "$out/$1" >"$out/host$rank.log" 2>"$out/host$rank.err" </dev/null &
        pids="$pids $!"
        rank=$((rank + 1))
    done
    failed=0
    for pid in $pids; do wait "$pid" || failed=1; done
    [ $failed = 0 ] && [ -n "$(parts host0)" ] || { cat "$out"/host?.err; return 1; }
    [ $((3 * $(wc -c <"$out/$1/model.safetensors"))) -gt "$5" ] || return 1
    # shellcheck disable=SC2086
    YOKE_BUCKET_BYTES=2000000 "$yoke" train $deep --devices "$2" --shard state --shard-parts "$(parts host0)" \
        --output-dir "$out/whole" >"$out/whole.log" 2>&1 && same whole "$1" || { cat "$out/whole.log"; return 1; }
}
processors() { three_groups groups "cpu:0! cpu:0! cpu:0!" 180M,130M,90M 4 245000000 n_layer=30,n_embd=240,n_head=4; }
unlike_devices() { # 103 million parameters: 1.24 GB with their moments
    YOKE_PLUGINS=cpu,opencl,vulkan three_groups large "opencl:0! vulkan:0! cpu:0!" 900M,600M,400M 20 1200000000 \
        n_layer=21,n_embd=640,n_head=4
}
unset YOKE_TRANSPORT
if [ $messages != sock ] || ! command -v ip >/dev/null; then
    skip "three hosts" "the sock transport is not built, or ip is not installed"
    skip "three groups of memory" "the sock transport is not built, or ip is not installed"
elif trap 'down; groups_down; rm -rf "$out"' EXIT && hosts_up 2>/dev/null; then
    ok "three hosts" three_hosts
    if instrumented; then
        skip "three groups of memory" "instrumented: the sanitizer's own memory passes the limits"
    elif groups_up 245000000 165000000 140000000 2>/dev/null; then
        ok "three groups of memory" processors
    else
        skip "three groups of memory" "no group of memory (cgroup) can be made here"
    fi
    large="OpenCL, Vulkan and a processor in groups of 1.2, 0.8 and 0.5 GB"
    if [ -z "${YOKE_TEST_LONG-}" ]; then
        skip "$large" "only with --long"
    elif ! [ -e "$YOKE_BUILD/.libs/yoke_opencl.so" ]; then
        skip "$large" "yoke_opencl.so is not built"
    elif ! [ -e "$YOKE_BUILD/.libs/yoke_vulkan.so" ]; then
        skip "$large" "yoke_vulkan.so is not built"
    else
        groups_down
        if groups_up 1200000000 800000000 500000000; then
            ok "$large" unlike_devices
        else
            ok "$large" false
        fi
    fi
else
    skip "three hosts" "network namespaces are forbidden here"
    skip "three groups of memory" "network namespaces are forbidden here"
fi
plan
