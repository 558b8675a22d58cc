#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes that somebody else started, or whose descriptor a wrapper closed: one error that says why, no training alone,
# nothing in the output folder. What is no cause for alarm trains.
. "$YOKE_SOURCE/tests/cli/made.sh"
hidden=16
plan 31
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
refused "one of several of torchrun.*not set: MASTER_ADDR, MASTER_PORT (for a second host YOKE_SECRET_FILE, too).*YOKE_LAUNCHER=none"
check "with half of torchrun's variables, rank 0"

train env WORLD_SIZE=2 RANK=1 LOCAL_RANK=1
refused "one of several of torchrun.*(WORLD_SIZE=2, RANK=1).*not set: MASTER_ADDR, MASTER_PORT"
check "with half of torchrun's variables, rank 1, which rank 0 may not speak for"

YOKE_RANK=1 YOKE_SIZE=2 YOKE_ADDR=127.0.0.1 YOKE_PORT=99999 YOKE_SECRET_FILE=/nonexistent timeout 60 \
    "$YOKE_BUILD/tests/dist/fifty" >"$tmp/out" 2>"$tmp/err"
code=$?
refused "rank 1 of 2: YOKE_PORT=99999: expected a number from 1 to 65535"
check "by hand, with a port that is none"

train env RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=1
refused "(RANK=0), but how they find each other is not known; not set: WORLD_SIZE"
check "with torchrun's variables but the number of processes"

YOKE_DEVICES="cpu:0 cpu:0" train env SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0
refused "one of several of srun"
check "with half of srun's variables, before ranks are launched"

YOKE_DEVICES=cpu:0 train env WORLD_SIZE=2 RANK=1 YOKE_LAUNCHER=none
[ $code -eq 0 ] && [ -e "$tmp/model/model.safetensors" ]
check "overruled"

YOKE_DEVICES="cpu:0 cpu:0" train env SLURM_NTASKS=4 SLURM_PROCID=0 YOKE_LAUNCHER=none
[ $code -eq 0 ] && grep -q "bit-identical on all ranks" "$tmp/out"
check "overruled for the launcher, not for its ranks"

# Ranks that do not come: all these processes wait at the same time, until each has said so that is to.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
for name in secret other; do head -c 32 /dev/urandom >"$tmp/$name"; done
chmod 600 "$tmp/secret" "$tmp/other"
waiting=
waits() { # NAME VARIABLES...
    name=$1
    shift
    env YOKE_DEVICES=cpu:0 "$@" timeout 60 "$YOKE_BUILD/tests/dist/fifty" >"$tmp/waits.$name" 2>&1 &
    waiting="$waiting $!"
}
slurm="SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NUM_NODES=1 SLURM_STEP_ID=0"
hand="YOKE_SIZE=4 YOKE_ADDR=127.0.0.1 YOKE_PORT=$port"
waits lowest $slurm SLURM_JOB_ID=$$ SLURM_PROCID=0
waits third $slurm SLURM_JOB_ID=$$ SLURM_PROCID=2
waits alone $slurm SLURM_JOB_ID=${$}1 SLURM_PROCID=1
waits hand $hand YOKE_RANK=0 YOKE_SECRET_FILE="$tmp/secret"
waits twice $hand YOKE_RANK=2 YOKE_SECRET_FILE="$tmp/secret"
waits again $hand YOKE_RANK=2 YOKE_SECRET_FILE="$tmp/secret"
waits secret $hand YOKE_RANK=3 YOKE_SECRET_FILE="$tmp/other"
waits address $hand YOKE_RANK=1 YOKE_SECRET_FILE="$tmp/secret" YOKE_PORT=1
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
waits torchrun WORLD_SIZE=2 RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$(free_port)"
waits mpirun OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE="test.$$" PMIX_RANK=0
waits pods JOB_COMPLETION_INDEX=0 YOKE_SIZE=2 YOKE_ADDR=127.0.0.1 YOKE_PORT="$(free_port)" YOKE_SECRET_FILE="$tmp/secret"
printf '127.0.0.1 localhost\n127.0.1.1 yk-own\n' >"$tmp/hosts" # as Debian names a host
named=
if unshare -rm sh -c 'mount --bind "$0" /etc/hosts' "$tmp/hosts" 2>/dev/null; then
    named=waits.named
    env YOKE_DEVICES=cpu:0 YOKE_SIZE=2 YOKE_RANK=0 YOKE_ADDR=yk-own YOKE_PORT="$(free_port)" YOKE_SECRET_FILE="$tmp/secret" timeout 60 \
        unshare -rm sh -c 'mount --bind "$0" /etc/hosts && exec "$1"' "$tmp/hosts" "$YOKE_BUILD/tests/dist/fifty" >"$tmp/waits.named" 2>&1 &
    waiting="$waiting $!"
fi
cat >"$tmp/pmi.py" <<'P'
# pmi.py COMMAND..: the only one of two processes that comes to a PMI launcher's barrier
import os, socket, subprocess, sys
server, client = socket.socketpair()
os.set_inheritable(client.fileno(), True)
variables = dict(os.environ, PMI_FD=str(client.fileno()), PMI_SIZE="2", PMI_RANK="1", MPI_LOCALNRANKS="1")
process = subprocess.Popen(sys.argv[1:], env=variables, close_fds=False)
client.close()
answers = {"cmd=init": b"cmd=response_to_init rc=0\n", "cmd=get_my_kvsname": b"cmd=my_kvsname kvsname=k\n"}
for line in server.makefile("r"):
    server.sendall(answers.get(line.split()[0], b""))
sys.exit(process.wait())
P
env YOKE_DEVICES=cpu:0 YOKE_SECRET_FILE="$tmp/secret" timeout 60 python3 "$tmp/pmi.py" \
    "$YOKE_BUILD/tests/dist/fifty" >"$tmp/waits.pmi" 2>&1 &
waiting="$waiting $!"
count=8
if command -v mpirun.openmpi >/dev/null; then # whose processes do not know that they are on one host
    count=9
    env YOKE_DEVICES=cpu:0 YOKE_SECRET_FILE="$tmp/secret" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 \
        mpirun.openmpi --oversubscribe -np 2 sh -c 'unset OMPI_COMM_WORLD_LOCAL_SIZE
            [ $OMPI_COMM_WORLD_RANK = 1 ] || exec sleep 50; exec "$0"' "$YOKE_BUILD/tests/dist/fifty" >"$tmp/waits.pmix" 2>&1 &
    waiting="$waiting $!"
fi
i=0
speaking="waits.pmi waits.pmix waits.lowest waits.alone waits.hand waits.address waits.torchrun waits.mpirun waits.pods $named"
[ -z "$named" ] || count=$((count + 1))
# shellcheck disable=SC2086
while [ "$(cd "$tmp" && grep -l "waited 5 s so far" $speaking 2>/dev/null | wc -l)" -lt $count ] &&
    [ $i -lt 400 ]; do
    i=$((i + 1))
    sleep 0.1
done
kill $waiting 2>/dev/null
wait
cat "$tmp"/waits.* >"$tmp/err"
said() { # NAME WORDS
    grep -q "waited 5 s so far for $2; if it is a job of its own, set YOKE_LAUNCHER=none$" "$tmp/waits.$1"
}
said lowest "ranks 1, 3: this process is rank 0 of 4 of srun (SLURM_STEP_NUM_TASKS=4, SLURM_PROCID=0); all on this host" &&
    ! grep "waited" "$tmp/waits.third"
check "the lowest rank that waits names those that are missing, and its variables"
said alone "the lowest rank of this host.*: this process is rank 1 of 4 of srun (SLURM_STEP_NUM_TASKS=4, SLURM_PROCID=1).*"
check "rank 0 is missing"
said hand "ranks 1, 3; [2-9] connections were refused, .*: this process is rank 0 of 4 of .*(YOKE_RANK=0, YOKE_SIZE=4).*"
check "ranks are missing, of which one has another secret; one is there twice"
said address "rank 0 at 127.0.0.1 port 1 (.*refused): this process is rank 1 of 4.*port 1"
check "rank 0 is elsewhere"
said torchrun "rank 1: this process is rank 0 of 2 of torchrun .*(WORLD_SIZE=2, RANK=0).*" &&
    said mpirun "rank 1: this process is rank 0 of 2 of mpirun .*(OMPI_COMM_WORLD_SIZE=2, OMPI_COMM_WORLD_RANK=0).*" &&
    said pods "rank 1: this process is rank 0 of 2 of a Kubernetes indexed job (YOKE_SIZE=2, JOB_COMPLETION_INDEX=0).*"
check "under each launcher's variables"
if [ -n "$named" ]; then
    said named "rank 1; if ranks are on other hosts, yk-own stands for 127.0.1.1 on this host, which they do not reach: set YOKE_ADDR to .*"
    check "a name that is a loopback address on rank 0's host alone"
else
    n=$((n + 1))
    echo "ok $n # SKIP a namespace of mounts is forbidden here"
fi
unnamed() { # NAME STORE WORDS
    said "$1" "other ranks ($2 does not tell which; each that waits says so): this process is rank 1 of 2 of $3"
}
unnamed pmi PMI "mpiexec .*(PMI_SIZE=2, PMI_RANK=1).*" &&
    { [ $count = 8 ] || unnamed pmix PMIx "mpirun .*(OMPI_COMM_WORLD_SIZE=2, OMPI_COMM_WORLD_RANK=1).*"; }
check "in the barrier of a launcher's store"

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
rank() { # RANK BEFORE...: of two by torchrun's variables
    rank=$1
    shift
    timeout 60 env WORLD_SIZE=2 RANK="$rank" LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" "$@"
}
cores=$(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[:2])')
first=${cores% *} second=${cores#* }
if [ "$first" = "$second" ] || ! command -v taskset >/dev/null; then
    skip "needs two cores and taskset" 1
else
    export YOKE_DEVICES="cpu:$first cpu:$second"
    rank 1 taskset -c "$second" "$YOKE_BUILD/tests/dist/fifty" >"$tmp/err" 2>&1 &
    rank 0 taskset -c "$first" "$YOKE_BUILD/tests/dist/fifty" >"$tmp/out" 2>&1
    code=$?
    wait $! && [ $code -eq 0 ] && grep -q "^ranks 2 parameters" "$tmp/out"
    check "a list of devices where each rank is bound to its core"
    unset YOKE_DEVICES
fi

# --devices, where the ranks were started before.
ranks_train() { # "VARIABLES, with @ for the rank" WORDS..: two ranks of yoke train with these; their codes in codes, what they said in out
    variables=$1
    shift
    rm -rf "$tmp/model"
    for rank in 0 1; do
        # shellcheck disable=SC2046
        timeout 60 env $(echo "$variables" | sed "s/@/$rank/g") "$yoke" train --model mlp --model-config hidden=16 \
            --data "idx:$tmp/images" --global-batch 8 --max-steps 2 \
            --eval-strategy no --no-do-eval --output-dir "$tmp/model" "$@" >"$tmp/rank.$rank" 2>&1 &
        eval "p$rank=$!"
    done
    wait $p0
    codes=$?
    wait $p1
    codes=$codes.$?
    code=$codes
    cat "$tmp/rank.0" "$tmp/rank.1" >"$tmp/out"
}
head -c 32 /dev/urandom >"$tmp/secret" && chmod 600 "$tmp/secret"
address="YOKE_ADDR=127.0.0.1 YOKE_PORT=$port YOKE_SECRET_FILE=$tmp/secret"
torchrun="WORLD_SIZE=2 RANK=@ LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port"
hand="YOKE_RANK=@ YOKE_SIZE=2 $address"
pods="JOB_COMPLETION_INDEX=@ YOKE_SIZE=2 $address"
all() { # CODES WORDS WORDS..: with these options each launcher's ranks end so, and say these words each
    want=$1 said=$2
    shift 2
    for variables in "$torchrun" "$hand" "$pods"; do
        ranks_train "$variables" "$@"
        [ $codes = "$want" ] && [ "$(grep -c "$said" "$tmp/rank.0")" -ge 1 ] && [ "$(grep -c "$said" "$tmp/rank.1")" -ge 1 ] ||
            { echo "# $variables: $codes"; return 1; }
    done
}
all 2.2 'no plugin "nosuch"' --devices "nosuch:0 nosuch:1"
check "devices that are not there, on every rank"
YOKE_DEVICES="nosuch" all 2.2 "a list of 3 devices .*, and 2 ranks of the job run on its host" --devices "cpu:$first cpu:$first cpu:$first"
check "more devices than ranks"
YOKE_DEVICES="cpu:$first" ranks_train "$torchrun" --devices "cpu:$first! cpu:$first"
[ $codes = 0.0 ] && grep -q "^0  *cpu:$first!  *yes " "$tmp/rank.0" && grep -q "^1  *cpu:$first  *no " "$tmp/rank.0"
check "each rank takes its own of the list, which goes before YOKE_DEVICES"
refused_by_launch() { # WORDS..: of yoke launch
    timeout 60 "$yoke" launch "$@" "$yoke" train --model mlp --data "idx:$tmp/images" --global-batch 8 --max-steps 2 --devices nosuch \
        --output-dir "$tmp/model" >"$tmp/out" 2>"$tmp/err"
    code=$?
    [ $code -eq 2 ] && grep -q -- "--devices has no effect in a rank of a job" "$tmp/err"
}
printf '#!/bin/sh\nexport YOKE_HOST_ID=$1\nexec sh -c "$2"\n' >"$tmp/ssh" && chmod +x "$tmp/ssh"
refused_by_launch --devices "cpu:$first cpu:$first" &&
    YOKE_SSH=$tmp/ssh YOKE_ADDR=127.0.0.1 refused_by_launch --hosts a,b --devices "cpu:$first"
check "under yoke launch, on one host and on several"

for i in 1 2; do
    YOKE_JOIN_MS=3000 rank 0 "$YOKE_BUILD/tests/dist/fifty" >"$tmp/rank0.$i" 2>&1 &
done
wait
cat "$tmp/rank0.1" "$tmp/rank0.2" >"$tmp/out"
[ "$(grep -c "another rank 0 of this job is there already .*; waiting for it to end" "$tmp/out")" -eq 1 ]
check "rank 0 that is started twice"

# What auto finds is shared out as ranks were started; a card that none of them takes is named.
auto() { # RANKS [CARDS OF EACH..]
    for rank in $(seq $(($1 - 1)) -1 0); do
        ( . "$YOKE_SOURCE/tests/fakes/use.sh"
          [ -z "${2-}" ] || eval "export CUDA_VISIBLE_DEVICES=\${$((rank + 2))}"
          YOKE_PLUGINS="cpu cuda" timeout 60 env WORLD_SIZE="$1" RANK="$rank" LOCAL_WORLD_SIZE="$1" MASTER_ADDR=127.0.0.1 \
              MASTER_PORT="$port" "$YOKE_BUILD/tests/dist/fifty" >"$tmp/auto.$rank" 2>&1 ) &
    done
    wait
    cat "$tmp"/auto.* >"$tmp/out"
}
if [ "$(uname -m)" = x86_64 ] && [ -e "$YOKE_BUILD/tests/fakes/.libs/fake_cuda.so" ]; then
    YOKE_LOG=info auto 2
    grep -q "^ranks 2 parameters" "$tmp/out" && [ "$(grep -c "fake CUDA device [01]: one of 2 devices" "$tmp/out")" -eq 2 ] &&
        ! grep "not used" "$tmp/out"
    check "as many ranks as there are cards"
    FAKE_CUDA_DEVICES=3 auto 2
    grep -q "^ranks 2 parameters" "$tmp/out" &&
        [ "$(grep -c "not used: cuda:2; auto finds 4 devices for the 2 ranks of this host" "$tmp/out")" -eq 1 ]
    check "fewer ranks than there are devices"
    YOKE_LOG=info auto 2 1 0
    grep -q "^ranks 2 parameters" "$tmp/out" && [ "$(grep -c "fake CUDA device [01]: one of 2 devices" "$tmp/out")" -eq 2 ] &&
        ! grep "not used" "$tmp/out"
    check "each is shown a card of its own"
    auto 3 0 0 ""
    grep -q "^ranks 3 parameters" "$tmp/out" && [ "$(grep -c "not used: cuda:0; auto finds 2 devices for the 2 ranks" "$tmp/out")" -eq 1 ]
    check "some are shown a card in common, and one none"
    ( . "$YOKE_SOURCE/tests/fakes/use.sh"
      YOKE_LOG=info YOKE_PLUGINS="cpu cuda" timeout 60 "$YOKE_BUILD/tests/dist/fifty" >"$tmp/out" 2>&1 )
    grep -q "^ranks 1 parameters" "$tmp/out" && grep -q "cuda:0 is fake CUDA device 0" "$tmp/out" &&
        [ "$(grep -c "not used: cuda:1; 'yoke launch PROGRAM' starts a rank for each device" "$tmp/out")" -eq 1 ]
    check "a process alone takes a card before the cores"
    auto 4
    [ "$(grep -c "not used: cuda:0, cuda:1; auto finds 3 devices for the 4 ranks.* share the cores" "$tmp/out")" -eq 1 ]
    check "more ranks than there are devices"
else
    skip "the fake driver is not built" 6
fi

# Rank 0 has too few descriptors for some part of the start, whichever that is: it ends at once, and names the remedy. libtool's script
# before a program needs more.
program=$YOKE_BUILD/tests/dist/.libs/fifty
[ -x "$program" ] || program=$YOKE_BUILD/tests/dist/fifty
export LD_LIBRARY_PATH="$YOKE_BUILD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
few() { # DESCRIPTORS
    port=$(free_port)
    others=
    for rank in 1 2 3 0; do
        (
            exec >"$tmp/few.$rank" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- # inherited ones would count
            export RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" YOKE_DEVICES=cpu:0
            [ $rank != 0 ] || ulimit -n "$1"
            exec timeout -s KILL 20 "$program"
        ) &
        others="$others $!"
    done
    wait $!
    code=$?
    # shellcheck disable=SC2086
    [ $code -eq 0 ] || kill $others 2>/dev/null
    # shellcheck disable=SC2086
    wait $others
    cp "$tmp/few.0" "$tmp/err"
    echo "# $1 descriptors: exit code $code" >>"$tmp/out"
    [ $code -eq 0 ] || { [ $code -ne 137 ] && grep -q 'raise the limit (ulimit -n)' "$tmp/few.0"; }
}
: >"$tmp/out"
enough=1
for descriptors in 8 9 10 11 12 13 14 15 16; do # fewer and a program may not start
    few $descriptors || { enough=0; break; }
done
[ $enough -eq 1 ]
check "too few descriptors at the start"

# The same with processes and threads, of a user who has no other. A shortage is no wrong input.
crowded() { # PROCESSES
    setpriv --reuid "$user" --regid "$user" --clear-groups prlimit --nproc="$1" "$yoke" launch --devices "cpu:0! cpu:0!" -- \
        "$program" >"$tmp/out" 2>"$tmp/err"
    code=$?
    grep -q Permission "$tmp/err" && return 77
    [ $code -eq 0 ] || { [ $code -eq 1 ] && grep -q 'raise the limit (ulimit -u' "$tmp/err"; }
}
user=$((60000 + $$ % 5000)) enough=77
if command -v setpriv >/dev/null && command -v prlimit >/dev/null &&
    setpriv --reuid $user --regid $user --clear-groups "$yoke" --version >/dev/null 2>&1; then
    for processes in 1 2 3 4 5 6 7 8 9 10 12; do
        HOME=$tmp crowded $processes
        enough=$?
        [ $enough -eq 0 ] || { echo "# $processes processes: exit code $code"; break; }
    done
fi
if [ $enough -eq 77 ]; then
    n=$((n + 1))
    echo "ok $n # SKIP another user can not run the programs of this build"
else
    [ $enough -eq 0 ]
    check "too few processes at the start"
fi
