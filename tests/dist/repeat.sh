#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same devices with the same shares give the same bits: repeat.c trains an MLP, ResNet-20, GPT-2 and BERT over shm, sock, local and
# ofi, on one host and on two, with islands and without, started by yoke launch and by hand. mpirun, mpiexec and the variables of torchrun
# and srun start the MLP alone, and ResNet-20 and GPT-2 train beside an OpenCL device; ./check --long has each model in each way.
# Losses, norms and parameters are compared, in all their digits. Two hosts are YOKE_HOST_ID's.
. "$YOKE_SOURCE/tests/golden/lib.sh"
need_cores 2
unset YOKE_SHARES YOKE_REPRODUCIBILITY YOKE_TRANSPORT
export YOKE_LOG=error YOKE_ADDR=127.0.0.1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
repeat=$YOKE_BUILD/tests/dist/repeat
have() { [ -e "$YOKE_BUILD/.libs/transport_$1.so" ]; }
have sock || { echo "1..0 # SKIP the sock transport is not built"; exit 0; }
others="sock local"
! have ofi || others="$others ofi"

python3 - "$out" <<'P'
import os, random, struct, sys
r, out = random.Random(1), sys.argv[1]
os.mkdir(f"{out}/images")
for part, rows in (("train", 96), ("t10k", 24)):
    with open(f"{out}/images/{part}-images-idx3-ubyte", "wb") as f:
        f.write(struct.pack(">IIII", 0x803, rows, 8, 8) + bytes(r.randrange(256) for _ in range(rows * 64)))
    with open(f"{out}/images/{part}-labels-idx1-ubyte", "wb") as f:
        f.write(struct.pack(">II", 0x801, rows) + bytes(r.randrange(10) for _ in range(rows)))
with open(f"{out}/text", "w") as f:
    f.write("".join(r.choice("abcdefgh .\n") for _ in range(4000)))
with open(f"{out}/rows.csv", "w") as f:
    f.write("text,label\n")
    for i in range(96):
        f.write("".join(r.choice("abcdefgh ") for _ in range(6 + i % 9)) + f",{i % 3}\n")
P
cat >"$out/ssh" <<'E2'
#!/bin/sh
YOKE_HOST_ID=$1
export YOKE_HOST_ID
exec sh -c "$2"
E2
chmod +x "$out/ssh"
export YOKE_SSH="$out/ssh"

# What differs by model are buckets, sums over rows and micro batches, so resnet20 and gpt2 stand for the other two. What differs by way is
# seen in any model. A sanitizer sees the same of a model over each transport, and bits are the plain build's.
models= # all four
some() { # some PLAIN SANITIZED: models of the plain build, and under a sanitizer; all in ./check --long
    models=$1
    ! instrumented || models=$2
    [ -z "${YOKE_TEST_LONG-}" ] || models=
}

launched() { # launched NAME OPTION..: by yoke launch; what rank 0 says, in $out/NAME
    to=$out/$1
    shift
    # shellcheck disable=SC2086
    timeout -k 5 300 "$yoke" launch "$@" -- "$repeat" "$out" $models >"$to.said" 2>&1 || { cat "$to.said"; return 1; }
    sed -n 's/^\[0\] //; / parameters /p' "$to.said" >"$to"
}

started() { # started NAME COMMAND..: by another launcher; what rank 0 says, in $out/NAME
    to=$out/$1
    shift
    # shellcheck disable=SC2086
    timeout -k 5 300 setsid -w env -u YOKE_ADDR "$@" "$repeat" "$out" $models >"$to.said" 2>&1 </dev/null || { cat "$to.said"; return 1; }
    grep ' parameters ' "$to.said" >"$to"
}

by_variables() { # by_variables NAME HOST=DEVICE.. -- VARIABLE..: ranks that no launcher started, @ in a variable for the rank
    to=$out/$1
    shift
    places='' ranks=0 ended=0
    while [ "$1" != -- ]; do
        places="$places $1" ranks=$((ranks + 1))
        shift
    done
    shift
    rank=$ranks
    for place in $(printf '%s\n' $places | tac); do
        rank=$((rank - 1))
        # shellcheck disable=SC2046,SC2086
        YOKE_HOST_ID=${place%%=*} YOKE_DEVICES=${place#*=} timeout -k 5 300 env $(printf '%s ' "$@" | sed "s/@/$rank/g; s/#/$ranks/g") \
            "$repeat" "$out" $models >"$to.said$rank" 2>&1 &
    done
    wait $! || ended=1
    wait
    [ $ended -eq 0 ] || { cat "$to.said"*; return 1; }
    cp "$to.said0" "$to"
}

meet() { # a free port, and a secret
    head -c 32 /dev/urandom >"$out/secret" && chmod 600 "$out/secret"
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
}

by_hand() { # by_hand NAME HOST=DEVICE..
    meet
    by_variables "$@" -- YOKE_RANK=@ YOKE_SIZE=# YOKE_PORT="$port" YOKE_SECRET_FILE="$out/secret"
}

alike() { # alike NAME..: each says of the models what the first does
    cat "$out/$1"
    [ "$(grep -c '^[a-z0-9]* loss .* parameters' "$out/$1")" -eq "$(echo "${models:-m r g b}" | wc -w)" ] || return 1
    first=$1
    for job; do
        diff "$out/$first" "$out/$job" || { echo "$job differs from $first"; return 1; }
    done
}

transports() { # transports DEVICES: one host
    launched shm --devices "$1" || return 1
    for transport in $others; do
        YOKE_TRANSPORT=$transport launched "$transport" --devices "$1" || return 1
    done
    # shellcheck disable=SC2086
    alike shm $others
}

two_hosts() { # two_hosts DEVICE DEVICE: behind transports of the same
    launched hosts --hosts "a=$1,b=$2" && by_hand hand "a=$1" "b=$2" && by_hand beside "a=$1" "a=$2" && alike shm hosts hand beside
}

uneven() { # parts that do not divide the batch, on unlike hosts
    export YOKE_SHARES=3:2
    transports "cpu:0 cpu:1" && two_hosts cpu:0 cpu:1
    code=$?
    unset YOKE_SHARES
    return $code
}

# Other launchers, on parts that do not divide the batch.
launch_here() { # launch_here COMMAND..: on one host
    YOKE_DEVICES=$pair started other "$@" && alike first other
}
torchrun() { # torchrun HOST HOST: its variables; on two hosts with the secret
    meet
    by_variables torch "$1=${pair% *}" "$2=${pair#* }" -- WORLD_SIZE=# RANK=@ LOCAL_RANK=0 LOCAL_WORLD_SIZE="$3" MASTER_ADDR=127.0.0.1 \
        MASTER_PORT="$port" YOKE_SECRET_FILE="$out/secret" TORCHELASTIC_RUN_ID="t$$" && alike first torch
}
srun() { # srun HOST HOST NODES
    meet
    by_variables slurm "$1=${pair% *}" "$2=${pair#* }" -- SLURM_STEP_NUM_TASKS=# SLURM_PROCID=@ SLURM_STEP_NUM_NODES="$3" \
        SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_STEP_NODELIST=localhost YOKE_PORT="$port" YOKE_SECRET_FILE="$out/secret" && alike first slurm
}

some "" "mlp bert"
ok "processors, over all transports" transports "cpu:0 cpu:1"
some "resnet20 gpt2" "resnet20 gpt2"
ok "processors, parts of 3 and 2, on two hosts too" uneven
if "$yoke" info --kinds 2>/dev/null | grep -q '^opencl$'; then
    some "resnet20 gpt2" gpt2 # tests/dist/mixed.sh has the other two
    ok "a processor and an OpenCL device, over all transports" transports "cpu:0 opencl:0"
    ok "a processor and an OpenCL device, on two hosts" two_hosts cpu:0 opencl:0
else
    skip "a processor and an OpenCL device, over all transports" "no OpenCL device here"
    skip "a processor and an OpenCL device, on two hosts" "no OpenCL device here"
fi

pair="cpu:0 cpu:1"
! "$yoke" info --kinds 2>/dev/null | grep -q '^opencl$' || pair="cpu:0 opencl:0"
export YOKE_SHARES=3:2
launchers() { # each program that starts ranks: which rank it makes of whom shows in any model
    some mlp mlp
    ok "$pair, parts of 3 and 2, by yoke launch" launched first --devices "$pair"
    for command in "mpirun.openmpi --oversubscribe" mpiexec.hydra; do
        if command -v ${command%% *} >/dev/null; then
            # shellcheck disable=SC2086
            ok "the same by $command" launch_here $command -n 2
        else
            skip "the same by $command" "${command%% *} is not installed"
        fi
    done
    ok "the same by torchrun's variables" torchrun a a 2
    ok "the same by torchrun's variables on two hosts" torchrun a b 1
    ok "the same by srun's variables" srun a a 1
    ok "the same by srun's variables on two hosts" srun a b 2
}
if instrumented; then
    skip "the same by other launchers" "instrumented: launchers.sh has their ranks, and the bits are the plain build's"
else
    launchers
fi
unset YOKE_SHARES

islands() { # islands DEVICES HOST=DEVICE..: on one host with an island and without, and on two hosts
    (
        . "$YOKE_SOURCE/tests/fakes/use.sh"
        export FAKE_CUDA_DEVICES=2 NCCL_NVLS_ENABLE=0
        devices=$1
        shift
        YOKE_LOG=info launched island --devices "$devices" && grep -q "compute together" "$out/island.said" || return 1
        YOKE_CUDA_NCCL=0 launched none --devices "$devices" && by_hand hosts "$@" && alike island none hosts
    )
}
if [ "$(uname -m)" = x86_64 ] && [ -e "$YOKE_BUILD/tests/fakes/.libs/fake_cuda.so" ]; then
    some "mlp gpt2" gpt2
    ok "two cards" islands "cuda:0 cuda:1" a=cuda:0 b=cuda:1
    export YOKE_SHARES=3:1:2
    some "resnet20 bert" bert
    ok "two cards and a processor, parts of 3, 1 and 2" islands "cuda:0 cuda:1 cpu:0" a=cuda:0 a=cuda:1 b=cpu:0
    unset YOKE_SHARES
else
    skip "two cards" "the fake driver runs kernels on x86-64 only"
    skip "two cards and a processor, parts of 3, 1 and 2" "the fake driver runs kernels on x86-64 only"
fi
plan
