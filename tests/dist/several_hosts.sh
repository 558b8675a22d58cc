#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# yoke launch --hosts, over a script in the place of ssh that runs the command here under another YOKE_HOST_ID: three "hosts" train to the
# parameters of one; what is wrong on one of them ends all, in one line that names it; srun takes the place of ssh in an allocation.
yoke=$YOKE_BUILD/yoke
train=$YOKE_BUILD/tests/dist/fifty
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
CASES="ranks find their numbers;hosts hear of what accelerate asks for;\
the parameters of one host;the same over IPv6;devices of each host;a plan and no rank;cards come first;\
a list that is longer than the ranks;\
a file of hosts;a host that cannot be reached;a host without such devices;a failing rank ends those of all hosts;a killed rank is named;\
a connection that ends;Ctrl-C ends all;a killed launcher leaves nothing;an allocation of Slurm;a list with a fault;\
a job that starts anew on all hosts;a rank that is stopped is named and not one that ended for it;\
an output folder that hosts do not share is said at the start;\
SIGUSR1 to a rank and SIGTERM to the launcher leave a checkpoint;a failure after a SIGUSR1 that programs handle;\
a signal after a SIGUSR1 that programs handle;SIGUSR1 to a training that cannot save or is killed starts nothing;\
a host that falls silent;a launcher that falls silent;\
a job that is stopped goes on;a signal to a host's part names the host;nobody reads what ranks print;\
output that is read too late is not lost in silence;the last output of a large pipe;output that cannot be written;\
a connection of another program than ssh;\
hosts that do not answer are named;this host among hosts asks no ssh;this host under two names;other hosts reach this one"
total=$(echo "$CASES" | tr ';' '\n' | wc -l)
echo "1..$total"
n=0
check() { # the last command's status decides; cases stand in CASES, in order
    if [ $? -eq 0 ]; then r=ok; else r="not ok"; echo "# exit code $code"; sed 's/^/# /' "$tmp/out" "$tmp/err"; fi
    n=$((n + 1))
    echo "$r $n - $(echo "$CASES" | cut -d';' -f$n)"
}
skip() { # WHY: the next case
    n=$((n + 1))
    echo "ok $n # SKIP $(echo "$CASES" | cut -d';' -f$n): $1"
}
if [ ! -x "$yoke" ] || [ ! -e "$YOKE_BUILD/.libs/transport_sock.so" ]; then
    while [ $n -lt "$total" ]; do n=$((n + 1)); echo "ok $n # SKIP yoke or the sock transport is not built"; done
    exit 0
fi
# The host's shell says something of its own first, as shells do. Processes of a host are found by its name in their environment.
cat >"$tmp/ssh" <<'E2'
#!/bin/sh
echo "welcome to $1"
case $1 in mute*) exec sleep 100 ;; esac
case $1 in gone | localhost | 127.* | ::1 | "$(uname -n)") echo "ssh: connect to host $1 port 22: No route to host" >&2; exit 255 ;; esac
YOKE_HOST_ID=$1 YOKE_TEST_HOST=$YOKE_TEST_JOB.$1
export YOKE_HOST_ID YOKE_TEST_HOST
unset GIVEN ACCELERATE_USE_CPU ACCELERATE_MIXED_PRECISION ACCELERATE_GRADIENT_ACCUMULATION_STEPS # a host has an environment of its own
[ -z "${SAYS-}" ] || { printf 'of its shell\nyoke: %s\n' "$SAYS" >&2; sleep 0.5; } # long before the host answers
exec sh -c "$2"
E2
cat >"$tmp/srun" <<'E2'
#!/bin/sh
while :; do
    case $1 in
    --nodelist=*) host=${1#--nodelist=} ;;
    -*) ;;
    *) break ;;
    esac
    shift
done
YOKE_HOST_ID=$host exec "$@"
E2
chmod +x "$tmp/ssh" "$tmp/srun"
export YOKE_SSH="$tmp/ssh" YOKE_ADDR=127.0.0.1 YOKE_TEST_JOB=j$$ YOKE_LOG=error YOKE_DEVICES=cpu:0
limit=100
run() { # WORDS...: yoke launch with these; $code
    timeout -k 5 $limit "$yoke" launch "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    code=$?
}
# Nothing of the job is left, or only what ends within two seconds more
nothing_left() {
    i=0
    while grep -lz "YOKE_TEST_HOST=$YOKE_TEST_JOB" /proc/[0-9]*/environ >"$tmp/left" 2>/dev/null; [ -s "$tmp/left" ]; do
        i=$((i + 1))
        [ $i -lt 200 ] || { sed 's/^/# left: /' "$tmp/left"; return 1; }
        sleep 0.05
    done
}
await() { # COMMAND...: until it succeeds
    i=0
    until "$@"; do
        i=$((i + 1))
        [ $i -lt 1200 ] || return 1
        sleep 0.05
    done
}

run -np 4 -x GIVEN="by mpirun" --hosts a:2,b:1,c:3 -- \
    sh -c 'echo "$YOKE_RANK $YOKE_LOCAL_RANK $YOKE_WORLD_SIZE $YOKE_SIZE $YOKE_HOST_ID $YOKE_DEVICES $GIVEN"'
[ $code -eq 0 ] && [ "$(grep '^\[' "$tmp/out" | LC_ALL=C sort)" = "[0] 0 0 4 4 a cpu:0 by mpirun
[1] 1 1 4 4 a cpu:0 by mpirun
[2] 2 0 4 4 b cpu:0 by mpirun
[3] 3 0 4 4 c cpu:0 by mpirun" ]
check

asked() { # each variable of another launcher that yoke env lists reaches a rank
    (
        export ACCELERATE_USE_CPU=1 ACCELERATE_MIXED_PRECISION=bf16 ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4
        "$yoke" env | grep -o '^[A-Z][A-Z_]*' | grep -v '^YOKE_' | LC_ALL=C sort -u >"$tmp/names"
        [ "$(grep -c ACCELERATE_ "$tmp/names")" -ge 3 ] || exit 1
        run --hosts a:1 sh -c 'while read -r name; do eval "echo \"\$name=\${$name-}\""; done <"$0"' "$tmp/names"
        [ $code -eq 0 ] && [ "$(sed -n 's/^\[0\] //p' "$tmp/out")" = "ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4
ACCELERATE_MIXED_PRECISION=bf16
ACCELERATE_USE_CPU=1" ]
    )
}
asked
check

want=$(YOKE_DEVICES="cpu:0 cpu:0 cpu:0 cpu:0" timeout $limit "$yoke" launch -- "$train" 2>&1 | sed -n 's/^ranks 4 parameters //p')
run --hosts a:2,b:1,c:1 -- "$train"
[ $code -eq 0 ] && [ -n "$want" ] && [ "$(sed -n 's/^\[0\] ranks 4 parameters //p' "$tmp/out")" = "$want" ]
check

if grep -q '^0*1 .* lo$' /proc/net/if_inet6 2>/dev/null; then
    YOKE_ADDR='[::1]'
    run --hosts "[fd99::1]:2,b:1,[fd99::2]:1" -- "$train"
    [ $code -eq 0 ] && [ -n "$want" ] && [ "$(sed -n 's/^\[0\] ranks 4 parameters //p' "$tmp/out")" = "$want" ]
    check
    YOKE_ADDR=127.0.0.1
else
    skip "no IPv6 here"
fi

run --json --hosts "a=cpu:0 cpu:0!,user@b:1=cpu:0" sh -c 'echo "$YOKE_DEVICES"'
[ $code -eq 0 ] && tail -n 1 "$tmp/out" | python3 -c '
import json, sys
assert json.load(sys.stdin) == {"ranks": ["cpu:0", "cpu:0!", "cpu:0"], "hosts": ["a", "a", "user@b"], "exit_code": 0, "error": None}' &&
    grep -qx '\[1\] cpu:0!' "$tmp/out"
check

run --dry-run --hosts a:2,b -- touch "$tmp/touched"
[ $code -eq 0 ] && [ ! -e "$tmp/touched" ] && [ "$(grep -v '^welcome' "$tmp/out" | cut -c-40 | sed "s,$tmp,T," | grep -v '^host')" = \
    "$(printf '  rank 0: cpu:0\n  rank 1: cpu:0\n  rank 2: cpu:0\nprogram: touch %s' "$tmp/touched" | cut -c-40 | sed "s,$tmp,T,")" ] &&
    grep -q "^host b: $tmp/ssh b exec '.*yoke' launch --node$" "$tmp/out"
check

cards() { # the plan for two ranks of a host with three cards
    ( [ "$(uname -m)" = x86_64 ] && [ -e "$YOKE_BUILD/tests/fakes/.libs/fake_cuda.so" ] || exit 77
      . "$YOKE_SOURCE/tests/fakes/use.sh"
      export SAYS="a word of Yoke's" FAKE_CUDA_DEVICES=3 YOKE_PLUGINS="cpu cuda" YOKE_LOG=warn YOKE_DEVICES=auto
      run --dry-run --hosts a:2 true
      [ $code -eq 0 ] && grep -q "rank 0: cuda:0" "$tmp/out" && grep -q "rank 1: cuda:1" "$tmp/out" &&
          grep -q "not used: cuda:2; there are 4 devices for 2 ranks$" "$tmp/err" && grep -q "yoke: $SAYS" "$tmp/err" &&
          ! grep "of its shell" "$tmp/err" || exit 1
      run --dry-run -n 5 true # too few cards for that: none is used
      [ $code -eq 0 ] && ! grep "rank .*cuda" "$tmp/out" && grep -q "not used: cuda:0, cuda:1, cuda:2; there are 4 devices for 5 ranks, \
which share the cores instead: -n 4 or a list of --devices uses them" "$tmp/err" )
}
if cards; [ $? -eq 77 ]; then skip "the fake driver is not built"; else cards; check; fi

listed() { # WORDS OPTION..: a list of another length than a host has ranks starts nothing
    words=$1
    shift
    run --dry-run "$@" touch "$tmp/touched"
    [ $code -eq 2 ] && [ ! -e "$tmp/touched" ] && grep -q "$words" "$tmp/err"
}
listed 'devices "cpu:0 cpu:0 cpu:0" are 3, for 2 ranks of this host' --hosts a:2 --devices "cpu:0 cpu:0 cpu:0" &&
    listed 'devices "cpu:0 cpu:0" are 2, for 1 rank of this host' --hosts a:1,b:1 --devices "cpu:0 cpu:0" &&
    listed 'devices "cpu:0 cpu:0" are 2, for 3 ranks of this host' --hosts "a:3=cpu:0 cpu:0" &&
    listed 'devices "cpu:0 cpu:0" are 2, for 1 rank of this host' --num-processes 1 --devices "cpu:0 cpu:0"
check

printf '# two\na slots=2 # here\n\n b=cpu:0\n' >"$tmp/hosts"
run --dry-run --hostfile "$tmp/hosts" true
[ $code -eq 0 ] && [ "$(grep -c '^  rank' "$tmp/out")" -eq 3 ]
check

run --hosts a,gone,c -- touch "$tmp/touched"
[ $code -eq 1 ] && [ ! -e "$tmp/touched" ] && [ "$(grep -c '^yoke launch' "$tmp/err")" -eq 1 ] &&
    grep -q "^yoke launch: host gone cannot be reached: .*exit code 255: ssh: connect to host gone port 22: No route" "$tmp/err" &&
    nothing_left
check

run --hosts a,b=nosuch:0 -- touch "$tmp/touched"
[ $code -eq 2 ] && [ ! -e "$tmp/touched" ] && grep -q "^yoke launch: host b: .*nosuch" "$tmp/err" && nothing_left
check

run --hosts a:2,b,c -- sh -c 'test $YOKE_RANK = 2 || exec sleep 60; exit 2'
[ $code -eq 2 ] && grep -q "^yoke launch: rank 2 (cpu:0 on b) ended with exit code 2$" "$tmp/err" && nothing_left
check

run --hosts a:2,b,c -- sh -c 'test $YOKE_RANK = 3 && sleep 0.2 && kill -9 $$; exec "$0" 1000000000' "$train"
[ $code -eq 1 ] && grep -q "^yoke launch: rank 3 (cpu:0 on c) was killed by signal 9" "$tmp/err" && nothing_left
check

start() { # WORDS...: in the background, as $pid
    : >"$tmp/out"; : >"$tmp/err"
    timeout -k 5 $limit "$yoke" launch "$@" >"$tmp/out" 2>"$tmp/err" </dev/null &
    outer=$!
    await pgrep -P $outer >/dev/null
    pid=$(pgrep -P $outer)
}
finish() {
    wait $outer
    code=$?
}
training() { await grep -q '^\[0\] training' "$tmp/out"; }
node_of() { # HOST: the process that its ssh became
    for p in $(pgrep -P "$pid"); do
        tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -qx "YOKE_HOST_ID=$1" && echo "$p"
    done
}

start --hosts a,b,c -- "$train" 1000000000
training && kill -9 "$(node_of b)"
finish
[ $code -eq 1 ] && [ "$(grep -c '^yoke launch' "$tmp/err")" -eq 1 ] && nothing_left
check

start --hosts a:2,b,c -- "$train" 1000000000
training && kill -INT "$pid"
finish
[ $code -eq 130 ] && grep -q "^yoke launch: interrupted by signal 2" "$tmp/err" && nothing_left
check

start --hosts a:2,b,c -- "$train" 1000000000
training && kill -9 "$pid"
finish
[ $code -eq 137 ] && nothing_left
check

allocated() { # WORDS...: in an allocation of three nodes and four tasks
    PATH=$tmp:$PATH SLURM_JOB_ID=7 SLURM_NNODES=3 SLURM_JOB_NODELIST="n[1-2],m" SLURM_NTASKS=4 SLURM_TASKS_PER_NODE="1(x2),2" run "$@"
}
allocated --nnodes 2 -n 4 true
first=$code
grep -q -e '--nnodes 2: the 3 nodes of this Slurm allocation are the hosts' "$tmp/err" || first=1
allocated --nnodes 3 --node-rank 1 true
second=$code
allocated --nnodes 3 -- sh -c 'echo "$YOKE_RANK $YOKE_HOST_ID"'
[ $first -eq 2 ] && [ $second -eq 2 ] && [ $code -eq 0 ] && [ "$(grep '^\[' "$tmp/out" | LC_ALL=C sort)" = "[0] 0 n1
[1] 1 n2
[2] 2 m
[3] 3 m" ]
check

run --hosts "a,b:0" true
first=$code
run --hosts "a,-oProxyCommand=x" true
second=$code
run --hosts "a,a" true
[ $first -eq 2 ] && [ $second -eq 2 ] && [ $code -eq 2 ] && grep -q "host 'a' stands twice" "$tmp/err"
check

# A rank of b is killed in the first attempt; the second has another secret.
run --max-restarts 3 --hosts a:2,b,c -- sh -c 'echo "$YOKE_RANK $YOKE_RESTART_COUNT $YOKE_HOST_ID ${#YOKE_RUN_ID}"
    [ $YOKE_RESTART_COUNT$YOKE_RANK != 00 ] || cksum <$YOKE_SECRET_FILE >"$0/secret.0"
    [ $YOKE_RESTART_COUNT$YOKE_RANK != 10 ] || cksum <$YOKE_SECRET_FILE >"$0/secret.1"
    [ $YOKE_RESTART_COUNT = 1 ] && exit 0
    until [ -e "$0/secret.0" ]; do sleep 0.02; done
    [ $YOKE_RANK != 2 ] || kill -9 $$
    exec sleep 60' "$tmp"
[ $code -eq 0 ] && grep -qx "yoke launch: rank 2 (cpu:0 on b) was killed by signal 9 (Killed): restart 1 of 3" "$tmp/err" &&
    [ "$(grep '^\[.\] . 1' "$tmp/out" | LC_ALL=C sort)" = "[0] 0 1 a 32
[1] 1 1 a 32
[2] 2 1 b 32
[3] 3 1 c 32" ] && [ -s "$tmp/secret.0" ] && [ -s "$tmp/secret.1" ] && ! cmp -s "$tmp/secret.0" "$tmp/secret.1" && nothing_left
check

# Rank 0 hears of it and ends with an error of its own, which is all that its host sees.
rank_of() { # RANK: its process
    for p in /proc/[0-9]*; do
        { tr '\0' '\n' <"$p/environ"; } 2>/dev/null | grep -cx -e "YOKE_RANK=$1" -e "YOKE_TEST_HOST=$YOKE_TEST_JOB\.[a-z]*" | grep -qx 2 &&
            echo "${p#/proc/}"
    done
}
start --hosts a,b -- "$train" 1000000000
training && kill -STOP "$(rank_of 1)"
finish
[ $code -eq 1 ] && [ "$(grep -c '^yoke launch' "$tmp/err")" -eq 1 ] &&
    grep -qE "^yoke launch: rank 1 \(.*\) (was stopped and does not go on|gave no sign of life for)" "$tmp/err" && nothing_left
check

python3 - "$tmp" <<'P'
import os, struct, sys
for part, n in (("train", 64), ("t10k", 16)):
    with open(f"{sys.argv[1]}/{part}-images-idx3-ubyte", "wb") as f:
        f.write(struct.pack(">4I", 2051, n, 28, 28) + os.urandom(n * 784))
    with open(f"{sys.argv[1]}/{part}-labels-idx1-ubyte", "wb") as f:
        f.write(struct.pack(">2I", 2049, n) + bytes(i % 10 for i in range(n)))
P
said() { # FOLDER WORDS...: trains into it; whether the folders are said to differ
    folder=$1
    shift
    run --hosts a:2,b "$@" sh -c 'eval "folder=$1"; shift; exec "$0" train --output-dir "$folder" --model mlp "$@"' "$yoke" "$folder" \
        --data "idx:$tmp" --max-steps 2 --overwrite-output-dir $save
    [ $code -eq 0 ] || return 2
    grep "^\[0\] yoke train: --output-dir $tmp/trained.a is not one folder on all hosts: rank 2 (" "$tmp/err"
}
save="--save-steps 1" one=$(said "$tmp/trained")
one_code=$?
save="--save-steps 1" other=$(said "$tmp/trained.\$YOKE_HOST_ID")
save="" restart=$(said "$tmp/trained.\$YOKE_HOST_ID" --max-restarts 1)
save="" never=$(said "$tmp/trained.\$YOKE_HOST_ID")
never_code=$?
[ $one_code -eq 1 ] && [ -z "$one" ] && [ -n "$other" ] && [ -n "$restart" ] && [ $never_code -eq 1 ] && [ -z "$never" ]
check

# One rank of host b has all start anew; the launcher's signal ends the job.
start --max-restarts 2 --hosts a:2,b "$yoke" train --model mlp --data "idx:$tmp" --max-steps 100000000 --eval-strategy no \
    --output-dir "$tmp/asked"
await grep -q '^\[0\] step ' "$tmp/err"
kill -USR1 "$(rank_of 2)"
await grep -q '^\[0\] yoke train: restart 1 goes on from' "$tmp/err"
lines=$(grep -c '^\[0\] step ' "$tmp/err")
more() { [ "$(grep -c '^\[0\] step ' "$tmp/err")" -gt "$lines" ]; }
await more
kill -TERM "$pid"
finish
[ $code -eq 75 ] && [ "$(grep '^yoke launch' "$tmp/err")" = \
    "yoke launch: the ranks have left with exit code 75, to be started again: restart 1 of 2
yoke launch: interrupted by signal 15 (Terminated): the ranks have left with exit code 75, to be started again, after 1 restart" ] &&
    grep -q "^\[0\] yoke train: SIGTERM: $tmp/asked/checkpoint-[0-9]* holds the training" "$tmp/err" &&
    [ "$(ls -d "$tmp/asked"/checkpoint-* | wc -l)" -eq 2 ] && nothing_left
check

start --max-restarts 1 --hosts a,b -- sh -c '[ $YOKE_RESTART_COUNT = 0 ] || exit 0
    trap got=1 USR1; echo ready; until [ "${got-}" ]; do sleep 0.05; done; [ $YOKE_RANK = 0 ] || exit 3; sleep 60'
await grep -q '^\[0\] ready' "$tmp/out" && await grep -q '^\[1\] ready' "$tmp/out" && kill -USR1 "$pid"
finish
[ $code -eq 0 ] && [ "$(grep '^yoke launch' "$tmp/err")" = \
    "yoke launch: rank 1 (cpu:0 on b) ended with exit code 3 (signal 10 came before): restart 1 of 1" ] && nothing_left
check

start --hosts a,b -- sh -c 'n=0; trap "n=\$((n + 1)); echo taken \$n" USR1; trap "[ \$YOKE_RANK = 0 ] || exit 200" TERM
    echo ready; until [ $n = 3 ]; do sleep 0.05; done; sleep 60'
await grep -q '^\[0\] ready' "$tmp/out" && await grep -q '^\[1\] ready' "$tmp/out"
for turn in 1 2; do
    kill -USR1 "$pid" && await grep -q "^\[0\] taken $turn" "$tmp/out" && await grep -q "^\[1\] taken $turn" "$tmp/out"
    sleep 0.6
done
kill -TERM "$pid"
finish
[ $code -eq 143 ] && [ "$(grep '^yoke launch' "$tmp/err")" = \
    "yoke launch: interrupted by signal 15 (Terminated), then rank 1 (cpu:0 on b) ended with exit code 200" ] && nothing_left
check

# A file is in the way of the checkpoint; a rank that says nothing is killed in the middle of a step.
unsaved() { # COMMAND..: what happens to a training, and its end after a SIGUSR1 to the launcher
    rm -rf "$tmp/unsaved" "$tmp/moved"
    start --max-restarts 2 --hosts a,b "$yoke" train --model mlp --data "idx:$tmp" --max-steps 100000000 --eval-strategy no \
        --output-dir "$tmp/unsaved"
    await grep -q '^\[0\] step ' "$tmp/err" && "$@"
    finish
    [ $code -eq 138 ] && ! grep restart "$tmp/err" && [ "$(grep -c '^yoke launch: interrupted by signal 10' "$tmp/err")" -eq 1 ] &&
        nothing_left
}
in_the_way() {
    mv "$tmp/unsaved" "$tmp/moved" && : >"$tmp/unsaved" && kill -USR1 "$pid"
}
went_on() { ! grep -q '^State:.T' "/proc/$one/status"; }
crash() {
    one=$(rank_of 0) two=$(rank_of 1)
    kill -STOP "$one" "$two" && kill -USR1 "$pid" || return 1
    await went_on # the signal is passed on, with SIGCONT
    kill -9 "$one" "$two"
}
unsaved in_the_way && grep -q "^yoke launch: interrupted by signal 10 .*, then .*Not a directory" "$tmp/err" && unsaved crash
check

# Silence: over a process for each direction between launcher and host b, one of which stops, as a connection does that ends without a word.
cat >"$tmp/relay" <<'E2'
#!/bin/sh
[ "$1" = b ] || exec "${0%relay}ssh" "$@"
YOKE_HOST_ID=$1 YOKE_TEST_HOST=$YOKE_TEST_JOB.$1
export YOKE_HOST_ID YOKE_TEST_HOST
to=${0%relay}to from=${0%relay}from
rm -f "$to" "$from" && mkfifo "$to" "$from"
exec 3<&0
cat <&3 >"$to" & echo $! >"$to.pid"
cat <"$from" & echo $! >"$from.pid"
exec 3<&-
sh -c "$2" <"$to" >"$from" & echo $! >"${0%relay}node.pid"
wait $!
code=$?
wait "$(cat "$from.pid")"
exit $code
E2
chmod +x "$tmp/relay"
sleeping() { # all ranks print a word, and sleep
    YOKE_SSH="$tmp/relay" YOKE_LIVENESS_MS=100 start --hosts a,b -- "$@"
    await grep -q '^\[1\] here' "$tmp/out"
}
since() { echo $((($(date +%s%N) - begin) / 1000000)); }
sleeping sh -c 'echo here; exec sleep 60'
begin=$(date +%s%N)
kill -STOP "$(cat "$tmp/from.pid")"
finish
ms=$(since)
echo "# $ms ms"
[ $code -eq 1 ] && [ $ms -lt 5000 ] && [ "$(grep -c '^yoke launch' "$tmp/err")" -eq 1 ] &&
    grep -q "^yoke launch: host b gave no sign of life for" "$tmp/err" && nothing_left
check

# What comes from host b is heard all the same; it ends its ranks by itself.
sleeping sh -c 'echo here; exec sleep 60'
begin=$(date +%s%N)
kill -STOP "$(cat "$tmp/to.pid")"
await grep -q "^yoke launch" "$tmp/err"
kill -CONT "$(cat "$tmp/to.pid")"
finish
ms=$(since)
echo "# $ms ms"
[ $code -eq 1 ] && [ $ms -lt 10000 ] && nothing_left &&
    grep -q "^yoke launch: host b: the launcher of the job gives no sign of life" "$tmp/err"
check

# Both sides would be silent for long enough by then, and the ranks print nothing while they are stopped.
sleeping sh -c 'echo here; while :; do echo on; sleep 0.1; done'
kill -TSTP "$pid"
await grep -q "^State:.T" "/proc/$pid/status"
sleep 0.5
stopped=$(wc -l <"$tmp/out")
sleep 3
still=$(wc -l <"$tmp/out")
kill -CONT "$pid"
grew() { [ "$(wc -l <"$tmp/out")" -gt $((still + 4)) ]; }
await grew
went_on=$?
kill -INT "$pid"
finish
echo "# $stopped lines when it was stopped, $still later"
[ $code -eq 130 ] && [ $((still - stopped)) -le 6 ] && [ $went_on -eq 0 ] && nothing_left
check

sleeping sh -c 'echo here; exec sleep 60'
kill -TERM "$(cat "$tmp/node.pid")"
finish
[ $code -eq 1 ] && grep -qx "yoke launch: host b: interrupted by signal 15 (Terminated)" "$tmp/err" && nothing_left
check

rm -f "$tmp/fifo" && mkfifo "$tmp/fifo"
sleep 60 <"$tmp/fifo" &
reader=$!
"$yoke" launch --hosts a,b -- yes >"$tmp/fifo" 2>"$tmp/err" </dev/null &
pid=$!
full() { python3 -c 'import fcntl, os, sys, termios
p = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
sys.exit(int.from_bytes(fcntl.ioctl(p, termios.FIONREAD, b"\0" * 4), sys.byteorder) < 60000)' "/proc/$reader/fd/0"; }
await full
begin=$(date +%s%N)
kill -INT "$pid"
wait "$pid"
code=$?
ms=$(since)
kill -9 $reader
echo "# $ms ms"
# END_MS and DRAIN_MS of core/launch/remote.c are 6 s together
most=6500
grep -q '^#define YK_SANITIZER "none"' "$YOKE_BUILD/config.h" || most=8000
[ $code -eq 130 ] && [ $ms -lt $most ] && grep -q "the ranks' last output was not read, and is lost" "$tmp/err" && nothing_left
check

# The reader takes nothing before host a has given up a part of its output, and everything after that.
rm -f "$tmp/fifo" && mkfifo "$tmp/fifo"
ended() { ! kill -0 "$(cat "$tmp/node")" 2>/dev/null; }
{ await test -s "$tmp/node"; await ended; exec cat; } <"$tmp/fifo" >"$tmp/out" &
reader=$!
timeout -k 5 $limit "$yoke" launch --hosts a -- sh -c 'echo $PPID >"$0"; exec seq 60000' "$tmp/node" >"$tmp/fifo" 2>"$tmp/err" </dev/null
code=$?
wait $reader
lines=$(grep -c '^\[0\] ' "$tmp/out")
echo "# $lines lines of 60000"
: >"$tmp/out" # too long to be shown
[ $code -eq 0 ] && [ "$lines" -lt 60000 ] && grep -q "the ranks' last output was not read, and is lost" "$tmp/err" && nothing_left
check

# More than one look takes, and the one that reads the pipe stands still until its writer has ended: all of it waits there then.
cat >"$tmp/large" <<'E2'
#!/bin/sh
python3 -c 'import fcntl; fcntl.fcntl(1, 1031, 1 << 20)'
exec "${0%large}ssh" "$@"
E2
chmod +x "$tmp/large"
cat >"$tmp/last.py" <<'P'
import fcntl, os, signal, sys, time
def fields(pid): return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
def until(pid, states):
    while fields(pid)[0] not in states: time.sleep(0.01)
own, node = os.getpid(), os.getppid()
launcher = int(fields(node)[1])
writer, reader = (own, node) if sys.argv[1] == "node" else (node, launcher)
fcntl.fcntl(1, 1031, 1 << 20)
os.kill(reader, signal.SIGSTOP)
until(reader, "T")
if os.fork() == 0:
    os.closerange(0, 3)
    until(writer, "Z")
    os.kill(reader, signal.SIGCONT)
    os._exit(0)
for i in range(90000): print(i)
P
large() { # node|launcher: the one that reads
    YOKE_SSH="$tmp/large" YOKE_LIVENESS_MS=60000 run --hosts a -- python3 "$tmp/last.py" "$1"
    lines=$(grep -c '^\[0\] ' "$tmp/out")
    echo "# $lines lines of 90000 past the $1"
    : >"$tmp/out" # too long to be shown
    [ $code -eq 0 ] && [ "$lines" -eq 90000 ] && ! grep . "$tmp/err"
}
large node && large launcher
check

timeout -k 5 $limit "$yoke" launch --hosts a -- sh -c 'echo hi' >/dev/full 2>"$tmp/err" </dev/null
code=$?
: >"$tmp/out"
[ $code -eq 1 ] &&
    grep -qx "yoke launch: the ranks' last output cannot be written: No space left on device, and is lost (2 pieces)" "$tmp/err"
check

# Its exit code says nothing of a broken connection; the line about that is the only one.
cat >"$tmp/exec" <<'E2'
#!/bin/sh
exec 3<&0
"${0%exec}ssh" "$@" <&3 3<&- &
child=$!
trap 'kill -9 $child; exit 137' USR2
wait $child
E2
chmod +x "$tmp/exec"
YOKE_SSH="$tmp/exec" start --hosts a -- sh -c 'echo here; exec sleep 60'
await grep -q '^\[0\] here' "$tmp/out"
kill -USR2 "$(pgrep -P "$pid" exec)"
finish
[ $code -eq 1 ] && [ "$(grep -c '^yoke launch: ' "$tmp/err")" -eq 1 ] && grep -q "its connection .* ended with exit code 137$" "$tmp/err"
check

# They are named after 5 s, once, and one that has answered is not; the end comes 2 s later.
YOKE_LOG=warn YOKE_JOIN_MS=7000
export YOKE_LOG YOKE_JOIN_MS
run --hosts mute1,a,mute2 -- touch "$tmp/mute"
[ $code -eq 1 ] && [ ! -e "$tmp/mute" ] && [ "$(grep -c 'waited 5 s so far' "$tmp/err")" -eq 1 ] &&
    grep -q 'waited 5 s so far for an answer of hosts mute1, mute2: ' "$tmp/err" &&
    grep -q 'host mute1 has not answered within 7.0 s' "$tmp/err"
check
unset YOKE_JOIN_MS
export YOKE_LOG=error

# As rank 0's host and as another, with settings of YOKE_SSH and without a word to it. It is found by the name of each host before the plan.
same() { # LIST WORDS..: the parameters of one host
    YOKE_TEST_HOST=$YOKE_TEST_JOB.own run --hosts "$@" -- "$train"
    [ $code -eq 0 ] && [ -n "$want" ] && [ "$(sed -n 's/^\[0\] ranks 4 parameters //p' "$tmp/out")" = "$want" ] && nothing_left
}
run --dry-run --hosts "b:2,$(uname -n):1" true
planned=$code
grep "^host $(uname -n): .*yoke launch --node$" "$tmp/out" >"$tmp/planned"
[ $planned -eq 0 ] && ! grep "$YOKE_SSH" "$tmp/planned" && [ -s "$tmp/planned" ] && same localhost:2,b:1,c:1 &&
    (unset YOKE_ADDR && same b:2,127.0.0.1:2 --master-addr 127.0.0.1)
check

run --hosts "b,localhost,c,$(uname -n)" -- touch "$tmp/touched"
[ $code -eq 2 ] && [ ! -e "$tmp/touched" ] && grep -q "hosts 'localhost' and '$(uname -n)' are this host under two names" "$tmp/err"
check

# In a network of its own, in which 10.178.1.2 would be reached from 10.178.1.1.
lonely() { # WORDS..
    unshare -rn sh -c 'ip link set lo up && ip link add yk0 type veth peer name yk1 && ip addr add 10.178.1.1/24 dev yk0 &&
        ip link set yk1 up && ip link set yk0 up && exec "$@"' lonely "$@"
}
if lonely true 2>/dev/null; then
    (unset YOKE_ADDR && lonely timeout -k 5 $limit "$yoke" launch --hosts localhost,10.178.1.2 -- sh -c 'echo "$YOKE_RANK $YOKE_ADDR"
        exec "$0"' "$train" >"$tmp/out" 2>"$tmp/err" </dev/null)
    code=$?
    [ $code -eq 0 ] && [ "$(grep -c '^\[[01]\] [01] 10.178.1.1$' "$tmp/out")" -eq 2 ] && grep -q '^\[0\] ranks 2 parameters' "$tmp/out"
    check
else
    skip "a network of its own is forbidden here"
fi
