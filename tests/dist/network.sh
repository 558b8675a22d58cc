#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two hosts, each a network namespace of its own with two ranks, over a switch between them (in one case three): they train to the
# parameters of one host, nothing
# listens while they do, and whatever happens to the link or to a rank ends the job with one error on every rank that is left. Where
# namespaces are forbidden everything is skipped by name.
yoke=$YOKE_BUILD/yoke
train=$YOKE_BUILD/tests/dist/fifty
tmp=$(mktemp -d) || exit 1
a=yk$$a b=yk$$b c=yk$$c switch=yk$$s
pids=
# shellcheck disable=SC2086
stop() { [ -n "$pids" ] && kill -9 $pids 2>/dev/null; for n in $a $b $c $switch; do ip netns del $n; done; rm -rf "$tmp"; }
trap 'stop 2>/dev/null' EXIT
CASES="the parameters of one host;the same parameters over libfabric, on the job's addresses alone;\
hosts with unlike providers of libfabric are named;nothing listens while ranks train;the link goes down;a rank of the other host is killed;\
rank 0 is killed;a host is cut off without a word;data connections that are reset are named;two of three hosts do not hear each other"
echo "1..10"
n=0
skip() { # NAME REASON
    n=$((n + 1))
    echo "ok $n - $1 # SKIP $2"
}
check() { # NAME: the last command's status decides
    if [ $? -eq 0 ]; then r=ok; else r="not ok"; sed 's/^/# /' "$tmp"/out*; fi
    n=$((n + 1))
    echo "$r $n - $1"
}
skip_all() {
    echo "$CASES" | tr ';' '\n' | while read -r name; do skip "$name" "$1"; done
    exit 0
}
[ -x "$yoke" ] || skip_all "yoke is not built"
[ -e "$YOKE_BUILD/.libs/transport_sock.so" ] || skip_all "the sock transport is not built"
command -v ip >/dev/null || skip_all "ip is not installed"
{ ip netns add $switch && ip -n $switch link add yk0 type bridge && ip -n $switch link set yk0 up; } 2>/dev/null ||
    skip_all "network namespaces are forbidden here"
up() { # HOST ADDRESS: a namespace at the switch
    ip netns add "$1" && ip link add yk0 netns "$1" type veth peer name "${1#yk}" netns $switch &&
        ip -n $switch link set "${1#yk}" master yk0 up && ip -n "$1" link set lo up && ip -n "$1" addr add "$2/24" dev yk0 &&
        ip -n "$1" link set yk0 up
}
up $a 10.177.0.1 2>/dev/null && up $b 10.177.0.2 && up $c 10.177.0.3 && ip netns exec $a true 2>/dev/null ||
    skip_all "a link between namespaces is forbidden here"
export YOKE_DEVICES="cpu:0 cpu:0" YOKE_LOG=error
head -c 32 /dev/urandom >"$tmp/secret" && chmod 600 "$tmp/secret"

start() { # STEPS [ENVIRONMENT OF B]: ranks 0 and 1 in namespace a, 2 and 3 in b; where last is set, rank 3 in that one
    rm -f "$tmp"/out*
    pids=
    for rank in 0 1 2 3; do
        host=$a
        extra=
        [ $rank -ge 2 ] && host=$b && extra=$2
        [ $rank -eq 3 ] && host=${last:-$b}
        # shellcheck disable=SC2086
        ip netns exec $host env YOKE_RANK=$rank YOKE_SIZE=4 YOKE_ADDR=10.177.0.1 YOKE_PORT=17717 YOKE_SECRET_FILE="$tmp/secret" \
            $extra timeout -k 1 150 "$train" $1 >"$tmp/out$rank" 2>&1 </dev/null &
        pids="$pids $!"
        eval "pid$rank=$!"
    done
}
finish() { # waits for all; $failed: how many ended badly, $ms: milliseconds until the last
    begin=$(date +%s%N)
    failed=0
    for p in $pids; do wait "$p" || failed=$((failed + 1)); done
    pids=
    ms=$((($(date +%s%N) - begin) / 1000000))
}
training() {
    i=0
    until grep -q '^training' "$tmp/out0"; do
        i=$((i + 1))
        [ $i -lt 600 ] || return 1
        sleep 0.1
    done
}
# ended COUNT WORDS..: so many ranks ended badly, and every one that was left says one of the words; soon: a host's silence counts after 2 s
ended() {
    count=$1
    shift
    echo "# $ms ms until the last rank ended"
    [ $failed -eq 4 ] && [ $ms -lt 8000 ] && [ "$(grep -lE "$*" "$tmp"/out* | wc -l)" -eq "$count" ]
}
restore() {
    ip -n $b link set yk0 up
    ip netns exec $b iptables -F 2>/dev/null
    sleep 0.2
}

want=$(YOKE_DEVICES="cpu:0 cpu:0 cpu:0 cpu:0" timeout 150 "$yoke" launch -- "$train" 2>&1 | sed -n 's/^ranks 4 parameters //p')
start
finish
[ $failed -eq 0 ] && [ -n "$want" ] && [ "$(sed -n 's/^ranks 4 parameters //p' "$tmp"/out*)" = "$want" ]
check "the parameters of one host"

if [ -e "$YOKE_BUILD/.libs/transport_ofi.so" ]; then
    export YOKE_TRANSPORT=ofi
    start
    finish
    [ $failed -eq 0 ] && got=$(sed -n 's/^ranks 4 parameters //p' "$tmp"/out*) || got=
    start 1000000000
    training
    began=$?
    listening=$(ip netns exec $b ss -Hltn | tr -s ' ' | cut -d' ' -f4)
    pkill -9 -P "$pid0"
    finish
    echo "# listening in a job over ofi: $listening"
    [ $began -eq 0 ] && [ -n "$want" ] && [ "$got" = "$want" ] && [ -n "$listening" ] && ! echo "$listening" | grep -qv '^10\.177\.0\.2:'
    check "the same parameters over libfabric, on the job's addresses alone"
    start 50 "YOKE_OFI_PROVIDER=tcp;ofi_rxm"
    finish
    [ $failed -eq 4 ] && cat "$tmp"/out* | tr '\n' ' ' | grep -q "rank 0 has libfabric's provider .*, and rank 2 has tcp;ofi_rxm (libfabric"
    check "hosts with unlike providers of libfabric are named"
    unset YOKE_TRANSPORT
else
    skip "the same parameters over libfabric, on the job's addresses alone" "the ofi transport is not built"
    skip "hosts with unlike providers of libfabric are named" "the ofi transport is not built"
fi

start 1000000000
training
began=$?
listening=$(ip netns exec $a ss -Hltn; ip netns exec $b ss -Hltn)
[ $began -eq 0 ] && [ -z "$listening" ] || { echo "# $listening" && false; }
check "nothing listens while ranks train"

ip -n $b link set yk0 down
finish
ended 4 'lost|no sign of life|silent|ended|died'
check "the link goes down"
restore

start 1000000000
training
pkill -9 -P "$pid3"
finish
ended 3 'rank 3'
check "a rank of the other host is killed"

start 1000000000
training
pkill -9 -P "$pid0"
finish
ended 3 'rank 0'
check "rank 0 is killed"

# Each rank that is left names both ranks and their addresses, and blames no program.
connection() { # ADDRESS ADDRESS
    cat "$tmp"/out* | grep -q 'calls' && return 1
    ended 4 "data connection of rank .*$1:.* with rank .*$2:.* was lost|data connection of rank .*$2:.* with rank .*$1:.* was lost"
}
if ip netns exec $b iptables -L >/dev/null 2>&1; then
    start 1000000000
    training
    ip netns exec $b iptables -A INPUT -i yk0 -j DROP && ip netns exec $b iptables -A OUTPUT -o yk0 -j DROP
    finish
    ended 4 'lost|no sign of life|silent|ended|died'
    check "a host is cut off without a word"
    restore

    export YOKE_TRANSPORT=sock
    start 1000000000
    training
    ip netns exec $b iptables -A INPUT -i yk0 -p tcp -m multiport ! --ports 17717 -j REJECT --reject-with tcp-reset
    for i in $(seq 300); do # on a busy machine ranks may send nothing for a while
        [ "$(ip netns exec $b iptables -nvxL INPUT | awk '$3 == "REJECT" { n += $1 } END { print n + 0 }')" = 0 ] || break
        sleep 0.1
    done
    sleep 1
    restore
    finish
    connection '10\.177\.0\.1' '10\.177\.0\.2'
    check "data connections that are reset are named"

    last=$c YOKE_DEVICES="cpu:0 cpu:0 cpu:0 cpu:0" # one for each rank of the job, as hosts have unlike numbers of them
    [ -e "$YOKE_BUILD/.libs/transport_ofi.so" ] && YOKE_TRANSPORT=ofi
    start 1000000000
    training
    ip netns exec $b iptables -A INPUT -s 10.177.0.3 -j DROP && ip netns exec $b iptables -A OUTPUT -d 10.177.0.3 -j DROP
    finish
    connection '10\.177\.0\.2' '10\.177\.0\.3'
    check "two of three hosts do not hear each other"
else
    for name in "a host is cut off without a word" "data connections that are reset are named" \
        "two of three hosts do not hear each other"; do
        skip "$name" "iptables does not work here"
    done
fi
