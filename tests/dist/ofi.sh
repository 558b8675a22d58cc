#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks that exchange data over libfabric: they train to the parameters of ranks with memory in common, unlike providers are told so at the
# start, and a rank that is killed ends the job. Ranks are started by hand, each as if on a host of its own.
yoke=$YOKE_BUILD/yoke
train=$YOKE_BUILD/tests/dist/fifty
tmp=$(mktemp -d) || exit 1
pids=
# shellcheck disable=SC2086
trap '[ -n "$pids" ] && kill -9 $pids 2>/dev/null; rm -rf "$tmp"' EXIT
n=0
check() { # NAME: the last command's status decides
    if [ $? -eq 0 ]; then r=ok; else r="not ok"; sed 's/^/# /' "$tmp"/out*; fi
    n=$((n + 1))
    echo "$r $n - $1"
}
[ -x "$yoke" ] && [ -e "$YOKE_BUILD/.libs/transport_ofi.so" ] || { echo "1..0 # SKIP the ofi transport is not built"; exit 0; }
echo "1..6"
export YOKE_LOG=error
head -c 32 /dev/urandom >"$tmp/secret" && chmod 600 "$tmp/secret"

start() { # RANKS STEPS: $first and $others are environments of rank 0 and of the others
    rm -f "$tmp"/out*
    pids=
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    rank=0
    while [ $rank -lt "$1" ]; do
        extra=$others
        [ $rank -eq 0 ] && extra=$first
        # shellcheck disable=SC2086
        env YOKE_RANK=$rank YOKE_SIZE="$1" YOKE_ADDR=127.0.0.1 YOKE_PORT="$port" YOKE_SECRET_FILE="$tmp/secret" YOKE_HOST_ID=$rank \
            YOKE_DEVICES=cpu:0 YOKE_TRANSPORT=ofi $extra timeout -k 1 100 "$train" $2 >"$tmp/out$rank" 2>&1 </dev/null &
        pids="$pids $!"
        last=$!
        rank=$((rank + 1))
    done
}
finish() { # waits for all; $failed: how many ended badly
    failed=0
    for p in $pids; do wait "$p" || failed=$((failed + 1)); done
    pids=
}
first= others=
for ranks in 2 3; do
    devices=$(yes cpu:0 | head -n $ranks | tr '\n' ' ')
    want=$(YOKE_DEVICES=$devices timeout 100 "$yoke" launch -- "$train" 2>&1 | sed -n "s/^ranks $ranks parameters //p")
    start $ranks
    finish
    got=$(sed -n "s/^ranks $ranks parameters //p" "$tmp"/out*)
    [ $failed -eq 0 ] && [ -n "$want" ] && [ "$got" = "$want" ]
    check "$ranks ranks over ofi, the parameters of memory in common"
done

others="YOKE_OFI_PROVIDER=tcp;ofi_rxm"
start 2
finish
[ $failed -eq 2 ] && cat "$tmp"/out* | tr '\n' ' ' | grep -q "rank 0 has libfabric's provider .*, and rank 1 has tcp;ofi_rxm (libfabric"
check "unlike providers are an error that names both"
first=$others
start 2
finish
[ $failed -eq 0 ] && grep -q '^ranks 2 parameters' "$tmp"/out*
check "YOKE_OFI_PROVIDER picks one for all"

first= others=
start 3 1000000000
i=0
until grep -q '^training' "$tmp/out0"; do
    i=$((i + 1))
    [ $i -lt 600 ] || break
    sleep 0.1
done
pkill -9 -P "$last"
begin=$(date +%s%N)
finish
ms=$((($(date +%s%N) - begin) / 1000000))
echo "# $ms ms until the last rank ended"
[ $failed -eq 3 ] && [ $ms -lt 8000 ] && [ "$(grep -l 'rank 2' "$tmp"/out* | wc -l)" -eq 2 ]
check "a rank that is killed ends the job, named"

YOKE_TRANSPORT=ofi "$yoke" info | grep -q '^transports: .*ofi (provider [a-z;_]* of libfabric'
check "yoke info names the provider"
