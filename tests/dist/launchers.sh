#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Four ranks train 50 steps to the same parameters under yoke launch and under every other launcher, or under its variables. A signal by the
# launcher's own way ends a training of two ranks with a checkpoint. A test without its launcher is skipped by name, so is one that a
# sandbox forbids. Each run has a session of its own, which is killed when it takes too long.
yoke=$YOKE_BUILD/yoke
tmp=$(mktemp -d) || exit 1
slurm= munged= spaces=
stop_slurm() {
    [ -n "$slurm" ] || return 0
    for f in "$slurm"/slurmd.*.pid "$slurm"/slurmctld.pid; do [ -f "$f" ] && kill "$(cat "$f")" 2>/dev/null; done
    [ -n "$munged" ] && kill "$(cat /run/munge/munged.pid)" 2>/dev/null
    sleep 1
    for i in $spaces; do ip netns del "$i"; done
}
trap 'stop_slurm; rm -rf "$tmp"' EXIT
echo "1..20"
n=0 limit=120
skip() { # NAME REASON
    n=$((n + 1))
    echo "ok $n - $1 # SKIP $2"
}
check() { # NAME: the last command's status decides
    if [ $? -eq 0 ]; then r=ok; else r="not ok"; echo "# exit code $code"; sed 's/^/# /' "$tmp"/out* 2>/dev/null; fi
    n=$((n + 1))
    echo "$r $n - $1"
}
if [ ! -x "$yoke" ]; then
    while [ $n -lt 20 ]; do skip "all" "yoke is not built"; done
    exit 0
fi
export YOKE_DEVICES="cpu:0 cpu:0 cpu:0 cpu:0" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
train=$YOKE_BUILD/tests/dist/fifty
run() { # COMMAND...: in a session of its own
    rm -f "$tmp"/out*
    timeout -k 5 $limit setsid -w "$@" >"$tmp/out" 2>&1 </dev/null
    code=$?
}
run_by_variables() { # NAME=VALUE..., with @ for the rank: four processes, as a launcher starts them
    rm -f "$tmp"/out*
    pids=
    for rank in 0 1 2 3; do
        # shellcheck disable=SC2046
        timeout -k 5 $limit setsid -w env $(printf '%s ' "$@" | sed "s/@/$rank/g") "$train" >"$tmp/out$rank" 2>&1 </dev/null &
        pids="$pids $!"
    done
    code=0
    for p in $pids; do wait "$p" || code=$?; done
}
parameters() { sed -n 's/^ranks 4 parameters //p' "$tmp"/out*; }
same() { [ $code -eq 0 ] && [ -n "$hash" ] && [ "$(parameters)" = "$hash" ]; }
# ---- A signal to a training of two ranks without end ----
training="$yoke train --model mlp --model-config hidden=16 --data idx:$tmp/images --global-batch 32 --max-steps 100000000 --save-strategy no
    --eval-strategy no --output-dir $tmp/saved"
cat >"$tmp/note" <<'E'
trap : TERM USR1
"$@"
code=$?
echo $code >>"${0%/*}/codes"
exit $code
E
make_images() { # of noise
    [ -d "$tmp/images" ] || python3 - "$tmp/images" <<'P'
import os, random, sys
os.mkdir(sys.argv[1])
kinds = ("images-idx3", b"\0\0\x08\x03%s\0\0\0\x1c\0\0\0\x1c", 784), ("labels-idx1", b"\0\0\x08\x01%s", 1)
for part, rows in (("train", 640), ("t10k", 200)):
    for kind, head, row in kinds:
        with open(f"{sys.argv[1]}/{part}-{kind}-ubyte", "wb") as f:
            f.write(head % rows.to_bytes(4, "big") + bytes(random.randrange(10) for _ in range(rows * row)))
P
}
begin() { # COMMAND..: starts it behind a training; on return it has trained its first steps. $first: its process
    make_images && rm -rf "$tmp"/out* "$tmp/saved" "$tmp/codes"
    # shellcheck disable=SC2086
    YOKE_DEVICES="cpu:0 cpu:0" timeout -k 5 $limit setsid -w "$@" sh "$tmp/note" $training >"$tmp/out" 2>&1 </dev/null &
    launched=$!
    code=1
    trained
}
trained() {
    for _ in $(seq 600); do
        ! grep -qs "^step" "$tmp"/out* || return 0
        # shellcheck disable=SC2086
        kill -0 $launched 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}
end_by() { # COMMAND..: a signal; then the training's end
    "$@" && wait $launched
    code=$?
    return 0
}
to_launcher() { # SIGNAL: to timeout's child, which setsid has become
    # shellcheck disable=SC2046
    kill -"$1" $(ps -o pid= --ppid $launched)
}
saved() { # CODE..: the launcher's; both ranks left with 75; one whole checkpoint, which the main rank names
    case " $* " in *" $code "*) ;; *) return 1 ;; esac
    [ "$(tr '\n' ' ' <"$tmp/codes")" = "75 75 " ] && [ "$(ls -d "$tmp/saved"/checkpoint-*[0-9] | wc -l)" -eq 1 ] &&
        [ -f "$tmp/saved"/checkpoint-*/trainer_state.json ] &&
        [ "$(cat "$tmp"/out* | grep -c "holds the training after step")" -eq 1 ]
}

run "$yoke" launch -- "$train"
hash=$(parameters)
[ $code -eq 0 ] && [ -n "$hash" ]
check "yoke launch"

if command -v mpirun.openmpi >/dev/null; then
    run mpirun.openmpi --oversubscribe -np 4 "$train"
    same
    check "mpirun (Open MPI)"
    # it has an exit code of its own, 1, and kills after a second; SIGUSR1 it does not always pass on
    begin mpirun.openmpi --oversubscribe --mca odls_base_sigkill_timeout 4 --bind-to none -np 2 && end_by to_launcher TERM
    saved 1
    check "SIGTERM to mpirun (Open MPI) saves"
else
    skip "mpirun (Open MPI)" "mpirun.openmpi is not installed"
    skip "SIGTERM to mpirun (Open MPI) saves" "mpirun.openmpi is not installed"
fi

if command -v mpiexec.hydra >/dev/null; then
    run mpiexec.hydra -n 4 "$train"
    same
    check "mpiexec (hydra)"
    # now and then it ends with 0 though both ranks left with 75
    for s in TERM USR1; do
        begin mpiexec.hydra -n 2 && end_by to_launcher $s
        saved 75 0
        check "SIG$s to mpiexec (hydra) saves"
    done
else
    for name in "mpiexec (hydra)" "SIGTERM to mpiexec (hydra) saves" "SIGUSR1 to mpiexec (hydra) saves"; do
        skip "$name" "mpiexec.hydra is not installed"
    done
fi

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
run_by_variables WORLD_SIZE=4 RANK=@ LOCAL_RANK=@ LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" \
    TORCHELASTIC_RUN_ID="t$$" TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_USE_AGENT_STORE=True
same
check "torchrun's variables"

# torchrun's agent passes its SIGTERM on to each process, and kills after 30 s
make_images && rm -rf "$tmp"/out* "$tmp/saved" "$tmp/codes"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
launched=
for rank in 0 1; do
    # shellcheck disable=SC2086
    YOKE_DEVICES="cpu:0 cpu:0" WORLD_SIZE=2 RANK=$rank LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" \
        TORCHELASTIC_RUN_ID="s$$" TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_USE_AGENT_STORE=True \
        timeout -k 5 $limit sh "$tmp/note" $training >"$tmp/out$rank" 2>&1 </dev/null &
    launched="$launched $!"
done
code=1
# shellcheck disable=SC2086
trained && kill -TERM $launched && { code=0; for p in $launched; do wait $p; code=$((code + $?)); done; }
saved 150
check "SIGTERM to each process under torchrun's variables saves"

head -c 32 /dev/urandom >"$tmp/secret" && chmod 600 "$tmp/secret"
run_by_variables JOB_COMPLETION_INDEX=@ YOKE_SIZE=4 YOKE_ADDR=127.0.0.1 YOKE_PORT="$port" YOKE_SECRET_FILE="$tmp/secret"
same
check "Kubernetes' variables"

run_by_variables YOKE_RANK=@ YOKE_SIZE=4 YOKE_ADDR=127.0.0.1 YOKE_PORT="$port" YOKE_SECRET_FILE="$tmp/secret"
same
check "by hand"

run_by_variables YOKE_RANK=@ YOKE_SIZE=4 YOKE_ADDR=127.0.0.1 YOKE_PORT="$port" YOKE_SECRET_FILE="$tmp/secret" YOKE_BUCKET_BYTES=1@M
named="$(grep -lE "YOKE_BUCKET_BYTES is .10485760. on rank 0 .* and .11534336. on rank 1 .*same on all" "$tmp"/out* | wc -l)"
[ $code -ne 0 ] && [ "$named" -eq 4 ]
check "a variable that is unlike on two ranks is named"

# Two hosts, which mpirun reaches by a script in the place of ssh, that are this one under another name. The address comes over PMIx; a
# secret by a file, or by munge where its daemon runs, and without either every rank ends at once.
cat >"$tmp/rsh" <<'E'
#!/bin/sh
host=$1
shift
export YOKE_HOST_ID="$host" TMPDIR="$0.$host" # the daemons of two hosts share no folder
mkdir -p "$TMPDIR" && exec sh -c "$*"
E
chmod +x "$tmp/rsh"
on_two_hosts() { run mpirun.openmpi --mca plm_rsh_agent "$tmp/rsh" -H a:2,b:2 -x YOKE_DEVICES "$@" "$train"; }
said_what_to_set() { [ $code -ne 0 ] && grep -q "need a secret: set YOKE_SECRET_FILE .* or run munged" "$tmp/out"; }
if ! command -v mpirun.openmpi >/dev/null || [ ! -e "$YOKE_BUILD/.libs/transport_sock.so" ]; then
    skip "mpirun on two hosts" "mpirun.openmpi is not installed, or the sock transport not built"
    skip "mpirun on two hosts without a file" "mpirun.openmpi is not installed, or the sock transport not built"
else
    on_two_hosts -x YOKE_SECRET_FILE="$tmp/secret"
    same
    check "mpirun on two hosts"
    on_two_hosts
    if munge -n >/dev/null 2>&1; then same; else said_what_to_set; fi
    check "mpirun on two hosts without a file"
fi

# A whole Slurm of two nodes, without systemd and cgroups. Each node, and its controller, is a network namespace with a name of its own;
# where those are forbidden the nodes are this host. munged only starts from the folder that Debian gives it.
start_munge() {
    munge -n >/dev/null 2>&1 && return 0
    install -d -o munge -g munge -m 0755 /run/munge &&
        setpriv --reuid munge --regid munge --clear-groups munged --num-threads=2 --pid-file=/run/munge/munged.pid >/dev/null 2>&1
    munge -n >/dev/null 2>&1 || return 1
    munged=yes
}
# A bridge in the controller's namespace joins the nodes'. Not by `ip netns exec`: it mounts another /sys, where slurmd finds no cgroups.
connect_node() { # NUMBER
    ip netns add "yks$$n$1" && spaces="$spaces yks$$n$1" && ip link add "yk$1" netns "yks$$c" type veth peer name yk0 netns "yks$$n$1" &&
        ip -n "yks$$c" link set "yk$1" master bridge up && ip -n "yks$$n$1" link set lo up &&
        ip -n "yks$$n$1" addr add "10.179.0.$1/24" dev yk0 && ip -n "yks$$n$1" link set yk0 up
}
make_namespaces() {
    for c in ip nsenter unshare hostname; do command -v $c >/dev/null || return 1; done
    { ip netns add "yks$$c" && spaces="yks$$c" && ip -n "yks$$c" link add bridge type bridge && ip -n "yks$$c" link set lo up &&
        ip -n "yks$$c" addr add 10.179.0.9/24 dev bridge && ip -n "yks$$c" link set bridge up && connect_node 1 && connect_node 2 &&
        inside c true; } 2>/dev/null
}
inside() { # c|n1|n2 COMMAND..: on the controller, or on a node
    where=$1
    shift
    if [ -z "$spaces" ]; then
        "$@"
    else
        # shellcheck disable=SC2016
        nsenter --net="/run/netns/yks$$$where" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$where" "$@"
    fi
}
start_slurm() {
    for c in slurmctld slurmd munged srun; do command -v $c >/dev/null || { why="$c is not installed"; return 1; }; done
    [ "$(id -u)" = 0 ] || { why="slurmd needs root"; return 1; }
    start_munge || { why="munged does not start here"; return 1; }
    slurm=$tmp/slurm
    mkdir -p "$slurm/state" "$slurm/spool.n1" "$slurm/tmp.n1" "$slurm/spool.n2" "$slurm/tmp.n2" && chmod 755 "$tmp"
    ports=$(python3 -c 'import socket
s = [socket.socket() for i in range(3)]
for i in s: i.bind(("127.0.0.1", 0))
print(*[i.getsockname()[1] for i in s])')
    # shellcheck disable=SC2086
    set -- $ports
    if make_namespaces; then
        controller="c(10.179.0.9)"
        nodes="NodeName=n1 NodeAddr=10.179.0.1 Port=$2 CPUs=4 CoresPerSocket=4 State=UNKNOWN
NodeName=n2 NodeAddr=10.179.0.2 Port=$2 CPUs=4 CoresPerSocket=4 State=UNKNOWN"
    else
        for i in $spaces; do ip netns del "$i"; done
        spaces=
        echo "# network namespaces are forbidden here: both nodes are this host"
        controller=localhost
        nodes="NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$2 CPUs=4 CoresPerSocket=4 State=UNKNOWN
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$3 CPUs=4 CoresPerSocket=4 State=UNKNOWN"
    fi
    cat >"$slurm/slurm.conf" <<E
ClusterName=yoke
SlurmctldHost=$controller
SlurmctldPort=$1
AuthType=auth/munge
SlurmUser=root
StateSaveLocation=$slurm/state
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdPidFile=$slurm/slurmd.%n.pid
SlurmdLogFile=$slurm/slurmd.%n.log
SlurmdSpoolDir=$slurm/spool.%n
TmpFS=$slurm/tmp.%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=2
$nodes
PartitionName=p Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
E
    export SLURM_CONF="$slurm/slurm.conf"
    why="the Slurm of this test does not start here"
    { inside c slurmctld -f "$SLURM_CONF" && inside n1 slurmd -f "$SLURM_CONF" -N n1 && inside n2 slurmd -f "$SLURM_CONF" -N n2; } \
        >"$slurm/start.log" 2>&1 || return 1
    i=0
    until [ "$(inside c sinfo -h -N -o %T 2>/dev/null | grep -c idle)" -eq 2 ]; do
        i=$((i + 1))
        [ $i -lt 100 ] || return 1
        sleep 0.2
    done
}
# As run; a namespace has an id of its host of its own.
run_inside() {
    if [ -z "$spaces" ]; then
        run "$@"
    else
        # shellcheck disable=SC2016
        run nsenter --net="/run/netns/yks$$c" unshare --uts sh -c 'hostname c && exec "$@"' srun "$@"
    fi
}
begin_inside() { # as begin
    if [ -z "$spaces" ]; then
        begin "$@"
    else
        # shellcheck disable=SC2016
        begin nsenter --net="/run/netns/yks$$c" unshare --uts sh -c 'hostname c && exec "$@"' srun "$@"
    fi
}
to_step() { inside c scancel --signal="$1" "$(inside c squeue -h -o %i --name="ends$1").0"; } # SIGNAL: to the step's processes
# It is listed where its file is there, though it may not load (pmix without libpmix.so, which libpmix-dev has).
has_mpi() { inside c srun --mpi=list 2>&1 | grep -q "$1" && inside c timeout 20 srun -N1 -n1 --mpi="$1" true >/dev/null 2>&1; }
if start_slurm; then
    for kind in none pmi2 pmix; do
        if has_mpi $kind; then
            run_inside srun -N1 --mpi=$kind -n 4 "$train"
            same
            check "srun --mpi=$kind"
        else
            skip "srun --mpi=$kind" "this Slurm has no such plugin that loads"
        fi
    done
    for s in USR1 TERM; do
        begin_inside srun -N1 -n 2 --mpi=none --job-name="ends$s" && end_by to_step $s
        saved 75
        check "scancel --signal=$s saves"
    done
    own_host=
    # shellcheck disable=SC2016
    [ -n "$spaces" ] || own_host='YOKE_HOST_ID=$SLURMD_NODENAME '
    # the address and, by munge, the secret come over the launcher's store
    for kind in pmi2 pmix; do
        if ! has_mpi $kind; then
            skip "srun --mpi=$kind on two nodes" "this Slurm has no such plugin that loads"
        elif [ ! -e "$YOKE_BUILD/.libs/transport_sock.so" ]; then
            skip "srun --mpi=$kind on two nodes" "the sock transport is not built"
        else
            # shellcheck disable=SC2016
            run_inside srun -N2 --mpi=$kind -n 4 sh -c "$own_host"'exec "$0"' "$train"
            same
            check "srun --mpi=$kind on two nodes"
        fi
    done
else
    for kind in none pmi2 pmix "pmi2 on two nodes" "pmix on two nodes"; do skip "srun --mpi=$kind" "$why"; done
    for s in USR1 TERM; do skip "scancel --signal=$s saves" "$why"; done
fi
