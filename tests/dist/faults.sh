#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# yoke launch --hosts over two network namespaces, which are the hosts: lost packets are no cause for alarm, nor is control traffic that
# does not come through while data does; a host that does not hear the other any more ends the job on both. Where namespaces or iptables
# are forbidden everything is skipped by name.
yoke=$YOKE_BUILD/yoke
train=$YOKE_BUILD/tests/dist/fifty
tmp=$(mktemp -d) || exit 1
a=yf$$a b=yf$$b
stop() { [ -n "$pid" ] && kill "$pid" 2>/dev/null; ip netns del $a; ip netns del $b; rm -rf "$tmp"; }
trap 'stop 2>/dev/null' EXIT
CASES="a tenth of the packets is lost for ten seconds;data is a sign of life;a host does not hear the other"
echo "1..3"
n=0
check() { # the last command's status decides; cases stand in CASES, in order
    if [ $? -eq 0 ]; then r=ok; else r="not ok"; sed 's/^/# /' "$tmp/out"; fi
    n=$((n + 1))
    echo "$r $n - $(echo "$CASES" | cut -d';' -f$n)"
}
skip_all() {
    for n in 1 2 3; do echo "ok $n - $(echo "$CASES" | cut -d';' -f$n) # SKIP $1"; done
    exit 0
}
[ -x "$yoke" ] || skip_all "yoke is not built"
grep -q '^SANITIZE_CFLAGS = *$' "$YOKE_BUILD/Makefile" || skip_all "instrumented: times are not those of a user"
[ -e "$YOKE_BUILD/.libs/transport_sock.so" ] || skip_all "the sock transport is not built"
command -v ip >/dev/null || skip_all "ip is not installed"
{ ip netns add $a && ip netns add $b && ip link add yk0 netns $a type veth peer name yk0 netns $b; } 2>/dev/null ||
    skip_all "network namespaces are forbidden here"
up() { ip -n "$1" link set lo up && ip -n "$1" addr add "$2/24" dev yk0 && ip -n "$1" link set yk0 up; }
up $a 10.178.0.1 && up $b 10.178.0.2 && ip netns exec $a true 2>/dev/null || skip_all "a link between namespaces is forbidden here"
ip netns exec $b iptables -A INPUT -i yk0 -p tcp -m statistic --mode nth --every 10 --packet 9 -j ACCEPT 2>/dev/null &&
    ip netns exec $b iptables -F || skip_all "iptables does not work here"
printf '#!/bin/sh\nexec ip netns exec "$1" sh -c "$2"\n' >"$tmp/ssh" && chmod +x "$tmp/ssh"
export YOKE_SSH="$tmp/ssh" YOKE_ADDR=10.178.0.1 YOKE_PORT=17817 YOKE_DEVICES=cpu:0 YOKE_LOG=error

start() {
    rm -f "$tmp/out"
    timeout -k 5 150 "$yoke" launch --hosts "$a:2,$b:2" -- "$train" 1000000000 >"$tmp/out" 2>&1 </dev/null &
    pid=$!
    i=0
    until grep -qs 'training' "$tmp/out"; do
        i=$((i + 1))
        [ $i -lt 600 ] || return 1
        sleep 0.1
    done
}
finish() {
    wait $pid
    code=$?
    pid=
}

# Every tenth packet, of the control plane and of the rest apart, so that chance does not lose the same one four times over.
start
began=$?
for port in --sport --dport; do
    ip netns exec $b iptables -A INPUT -i yk0 -p tcp $port 17817 -m statistic --mode nth --every 10 --packet 9 -j DROP
    ip netns exec $b iptables -A INPUT -i yk0 -p tcp $port 17817 -j ACCEPT
done
ip netns exec $b iptables -A INPUT -i yk0 -m statistic --mode nth --every 10 --packet 9 -j DROP
sleep 10
dropped=$(ip netns exec $b iptables -nvxL INPUT | awk '$3 == "DROP" { n += $1 } END { print n }')
ip netns exec $b iptables -F
kill -0 $pid
alive=$?
cp "$tmp/out" "$tmp/before"
kill $pid
finish
echo "# $dropped packets lost"
[ $began -eq 0 ] && [ $alive -eq 0 ] && [ "$dropped" -gt 10 ] && ! grep -v '^\[0\] training$' "$tmp/before"
check

# As on a line full of data, whose queue delays or loses the heartbeats: none comes for twice the time after which silence counts.
start
began=$?
for port in --sport --dport; do ip netns exec $b iptables -A INPUT -i yk0 -p tcp $port 17817 -j DROP; done
sleep 4
kill -0 $pid
alive=$?
ip netns exec $b iptables -F
cp "$tmp/out" "$tmp/before"
kill $pid
finish
[ $began -eq 0 ] && [ $alive -eq 0 ] && ! grep -v '^\[0\] training$' "$tmp/before"
check

start
began=$?
ip netns exec $b iptables -A INPUT -i yk0 -j DROP
begin=$(date +%s%N)
finish
ms=$((($(date +%s%N) - begin) / 1000000))
echo "# $ms ms until the end"
[ $began -eq 0 ] && [ $code -eq 1 ] && [ $ms -lt 8000 ] && [ "$(grep -c '^yoke launch' "$tmp/out")" -eq 1 ] &&
    grep -qE '^yoke launch: rank [0-3] \(.*\).* (lost|no sign of life|silent)' "$tmp/out" &&
    grep -qE '^\[[23]\].*(lost|no sign of life|silent)' "$tmp/out"
check
