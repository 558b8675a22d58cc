#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The PJRT plugin on the CPU plugin that a wheel of PyPI holds: a selection of the suite; trainings alone and beside CPU and OpenCL ranks;
# vendors' plugins that train wrong, hang or abort. The wheel is fetched once into the test cache.
. "$YOKE_SOURCE/tests/cts/lib.sh"
. "$YOKE_SOURCE/tests/cts/pjrt_wheel.sh"

# info NAME SAYS DEVICES: what `yoke info` says, and how many devices it lists, within 15 s
info()
{
    YOKE_LOG=info timeout 60 "$YOKE_BUILD/yoke" info >"$WORK/info" 2>&1
    code=$?
    found=$(grep -c '^ *pjrt:[0-9]' "$WORK/info")
    [ $code = 0 ] && grep -q "$2" "$WORK/info" && [ "$found" = "$3" ]
    failed=$?
    [ $failed = 0 ] || sed 's/^/# /' "$WORK/info"
    result $failed "$1"
}

YOKE_PJRT=/nonexistent.so info "a file that is not there is left out in one line" "/nonexistent.so is not used: .*can be loaded here" 0
VIRTUAL_ENV='' info "without a vendor's plugin there is no device, and it says why" "no vendor's plugin is there: YOKE_PJRT=FILE" 0

"$YOKE_SOURCE/scripts/iree-suite" --iree "$WORK" --build "$YOKE_BUILD" >"$WORK/out" 2>&1
[ $? = 2 ] && grep -q 'no wheels iree-base-compiler' "$WORK/out"
result $? "the plugin around IREE's compiler compiles, and scripts/iree-suite asks for IREE"

cpu_fetch || finish
export YOKE_PJRT="$VENDOR"
kept_executables
shim_build

# op, body: each primitive and each composite's body against float64; a type is a word of the text that XLA compiles
narrow=
[ "$SANITIZER" = none ] || narrow="--unsupported $WORK/narrow"
for group in ${YOKE_TEST_LONG:+all} abi,op,buffer,queue,rebind,random; do
    if [ "$group" = all ]; then
        run_cts "pjrt, all" "$PLUGIN" --timeout 300
    else
        # shellcheck disable=SC2086
        run_cts "pjrt: $group" "$PLUGIN" --quick --group "$group" --count 4 --timeout 300 $narrow
    fi
done
# --quick leaves most of these out, and XLA's vector code loses a NaN; no sanitizer sees XLA's numbers
if [ "$SANITIZER" = none ]; then
    run_cts "pjrt: NaN" "$PLUGIN" --only 'op/*.nan*' --timeout 300
    run_cts "pjrt: a window of a thousand elements" "$PLUGIN" --only 'long/avg_pool.f32*' --timeout 300
fi

# bench DEVICES FILE OPTIONS: three steps from the same weights
bench()
{
    devices=$1
    file=$2
    shift 2
    "$YOKE_BUILD/yoke" bench step --devices "$devices" --iterations 3 --save-init "$WORK/init" --json "$@" >"$WORK/$file" 2>"$WORK/err"
}

# train NAME OPTIONS: the losses of some steps, alike on the CPU plugin, on PJRT, and with TOGETHER on them with OpenCL in one job
train()
{
    name=$1
    shift
    for file in cpu pjrt ${TOGETHER:+all}; do
        case $file in cpu) devices=cpu:0 ;; pjrt) devices=pjrt:0 ;; *) devices=$MIXED ;; esac
        bench "$devices" $file "$@" || { tail -3 "$WORK/err" | sed 's/^/# /'; result 1 "$name on $devices"; return; }
    done
    python3 -c '
import json, sys
a, *rest = (json.load(open(f))["losses"] for f in sys.argv[1:])
print("# losses", a, *rest)
assert len(a) >= 3
for b in rest:
    assert len(a) == len(b) and all(abs(x - y) <= 1e-4 * abs(x) for x, y in zip(a, b))' "$WORK/cpu" "$WORK/pjrt" ${TOGETHER:+"$WORK/all"}
    result $? "$name trains as on the CPU, alone${TOGETHER:+ and beside others}"
}

# trained FILE DEVICES OPTIONS: 12 steps of an MLP with dropout on Fashion-MNIST; the log in $WORK/FILE, which has the parameters' hash.
# Parameters of ranks that differ in a bit fail the run.
trained()
{
    file=$1
    devices=$2
    shift 2
    # shellcheck disable=SC2086
    $BEFORE "$YOKE_BUILD/yoke" train --model mlp --model-config hidden=64,dropout=0.1 --data "idx:$YOKE_TEST_DATA/fashion-mnist" --json \
        --global-batch 128 --optim adamw --devices "$devices" --max-steps 12 --logging-steps 1 --log "$WORK/$file" \
        --output-dir "$WORK/model-$file" "$@" >"$WORK/json" 2>"$WORK/err" && return
    tail -n 3 "$WORK/err" | sed 's/^/# /'
    return 1
}

# hash_of FILE
hash_of()
{
    sed -n 's/.*"param_hash": "\([0-9a-f]*\)".*/\1/p' "$WORK/$1"
}

MIXED="cpu:0! pjrt:0!"
"$YOKE_BUILD/yoke" info --kinds 2>/dev/null | grep -q '^opencl$' && MIXED="cpu:0! opencl:0! pjrt:0!"
TOGETHER=1
if [ -d "$YOKE_TEST_DATA/fashion-mnist" ]; then
    BEFORE=
    if [ "$SANITIZER" = none ]; then # bits are the plain build's
        trained whole pjrt:0 --save-steps 6 && trained rest pjrt:0 --resume-from-checkpoint "$WORK/model-whole/checkpoint-6" &&
            [ -n "$(hash_of whole)" ] && [ "$(hash_of whole)" = "$(hash_of rest)" ]
        result $? "a training that is resumed ends with the bits of the whole one"
    fi
    trained alone cpu:0
    BEFORE="$YOKE_BUILD/yoke trace --output $WORK/trace --"
    trained mixed "$MIXED" --shares equal && python3 "$YOKE_SOURCE/tests/cli/alike.py" 12 "$WORK/alone" "$WORK/mixed" 12 1e-4 1e-4 &&
        grep -q pjrt:0 "$WORK/trace"
    result $? "an MLP with dropout trains beside others as on the CPU, and is traced"
    BEFORE=
    export YOKE_BUCKET_BYTES=65536
    with=state # to compare with: bits are the plain build's
    [ "$SANITIZER" = none ] || with=params
    { [ $with = params ] || trained state "cpu:0! pjrt:0!" --shares equal --eval-strategy no --shard state; } &&
        trained params "cpu:0! pjrt:0!" --shares equal --eval-strategy no --shard params --keep-whole 0 &&
        [ -n "$(hash_of params)" ] && [ "$(hash_of $with)" = "$(hash_of params)" ]
    result $? "parameters in slices have the bits of whole ones"
    unset YOKE_BUCKET_BYTES
else
    train "an MLP" --model mlp --model-config hidden=64+64 --global-batch 16
fi

export YOKE_CACHE_DIR="$WORK"
# Once the devices are known, a rank makes clients of its own device alone, beside the trial's of device 0.
PJRT_SHIM=cards PJRT_SHIM_FILE="$WORK/cards" PJRT_SHIM_REAL="$VENDOR" YOKE_PJRT="$WORK/shim.so:card" "$YOKE_BUILD/yoke" info >/dev/null 2>&1
rm -f "$WORK/cards"
PJRT_SHIM=cards PJRT_SHIM_FILE="$WORK/cards" PJRT_SHIM_REAL="$VENDOR" YOKE_PJRT="$WORK/shim.so:card" "$YOKE_BUILD/yoke" bench step \
    --devices pjrt:1 --iterations 1 --global-batch 8 --model mlp --model-config hidden=8 >"$WORK/json" 2>"$WORK/err" &&
    grep -q 1 "$WORK/cards" && ! grep -q 2 "$WORK/cards"
failed=$?
[ $failed = 0 ] || { tail -n 3 "$WORK/err"; tr '\n' ' ' <"$WORK/cards"; } | sed 's/^/# /'
result $failed "a rank makes clients of its own device alone"
PJRT_SHIM=cards PJRT_SHIM_REAL="$VENDOR" YOKE_PJRT="$WORK/shim.so:card" "$YOKE_BUILD/yoke" bench step --devices pjrt:7 --iterations 1 \
    --model mlp 2>&1 | grep -q 'no device 7; there are: pjrt:0 .*pjrt:1 .*pjrt:2 '
result $? "a device that is not there is refused with those that are"

# A client that knows no options has all devices, and programs run on the rank's own, also from the cache folder.
for folder in made kept; do
    PJRT_SHIM=all PJRT_SHIM_REAL="$VENDOR" YOKE_PJRT="$WORK/shim.so:all" YOKE_CACHE_DIR="$WORK/all" "$YOKE_BUILD/yoke" bench step \
        --devices pjrt:1 --iterations 1 --global-batch 8 --model mlp --model-config hidden=8 --json >"$WORK/json" 2>"$WORK/err" &&
        grep -q '"loss' "$WORK/json"
    failed=$?
    [ $failed = 0 ] || tail -n 3 "$WORK/err" | sed 's/^/# /'
    result $failed "a rank trains on the second device of a client without options, by programs that were $folder"
done

# A compile starts threads, too.
if [ "$(nproc)" -ge 2 ]; then
    core=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)
    export PJRT_SHIM=cores PJRT_SHIM_FILE="$WORK/cores" PJRT_SHIM_REAL="$VENDOR"
    YOKE_PJRT="$WORK/shim.so:cores" YOKE_PJRT_PROBE=none YOKE_PJRT_CACHE_MIB=0 "$YOKE_BUILD/yoke" bench step \
        --devices "cpu:0! pjrt:0@$core!" --iterations 1 --global-batch 16 --model mlp --model-config hidden=8 \
        >"$WORK/json" 2>"$WORK/err" && [ -s "$WORK/cores" ] && ! grep -qv '^1$' "$WORK/cores"
    failed=$?
    [ $failed = 0 ] || { tail -n 3 "$WORK/err"; tr '\n' ' ' <"$WORK/cores"; } | sed 's/^/# /'
    result $failed "a rank compiles on its own cores"
    unset PJRT_SHIM PJRT_SHIM_FILE PJRT_SHIM_REAL
fi

# accounted NAME PROGRAM OPTIONS: the estimate's peak is the run's, with the temporary memory that the vendor says; the largest program's
# account is the vendor's own, as a shim around it writes down
accounted()
{
    name=$1
    shift
    rm -f "$WORK/accounts"
    for compiles in "" --no-compile; do
        PJRT_SHIM=account PJRT_SHIM_FILE="$WORK/accounts" PJRT_SHIM_REAL="$VENDOR" YOKE_PJRT="$WORK/shim.so:shim" "$YOKE_BUILD/yoke" \
            estimate-memory --devices pjrt:0 --eval-strategy no --optim sgd "$@" --json $compiles >"$WORK/plan$compiles" 2>"$WORK/err" ||
            { tail -n 3 "$WORK/err" | sed 's/^/# /'; result 1 "$name"; return; }
    done
    "$YOKE_BUILD/yoke" bench step --devices pjrt:0 --optim sgdm --iterations 1 --json "$@" >"$WORK/run" 2>"$WORK/err" &&
        python3 - "$WORK/plan" "$WORK/plan--no-compile" "$WORK/run" "$WORK/accounts" <<'P'
import json, sys
plan, plain = (json.load(open(f))["ranks"][0] for f in sys.argv[1:3])
run = json.load(open(sys.argv[3]))
said = [tuple(map(int, line.split())) for line in open(sys.argv[4])]
total = lambda a: a[0] + a[1] - a[2] + a[3] + a[4]
print("#", plan["program"], plan["programs"], "programs", plan["compile_seconds"], "s; peaks", plan["peak_bytes"], plain["peak_bytes"])
largest = max(said, key=total)
assert plan["program"] == dict(zip(("argument", "result", "alias", "temporary", "code"), largest)) | {"total": total(largest)}
assert len(said) <= plan["programs"] and plan["compile_seconds"] > 0
most = max(a[3] for a in said)
assert plan["peak_bytes"] == run["peak_bytes"] > 0 < most and plan["peak_bytes"] == plain["peak_bytes"] + most
assert "program" not in plain and plain["peak_bytes"] > 0
P
    result $? "$name"
}
if [ "$SANITIZER" = none ]; then # numbers; the suite's rebind/account goes this way, too
    accounted "an MLP's memory is estimated to the byte, with the executables' own" --model mlp --model-config hidden=64 --global-batch 16
    TOGETHER=${YOKE_TEST_LONG-}
    # tied embeddings: two gradients lie in one place
    train "a GPT-2" --model gpt2 --global-batch 4 --model-config n_layer=1,n_head=2,n_embd=32,vocab_size=100,seq_len=16
    # batch norm's moments are summed up between programs
    train "a ResNet" --model resnet20 --model-config blocks_per_stage=1 --global-batch 6
    # its layers are a GPT-2's
    [ -z "${YOKE_TEST_LONG-}" ] || train "a BERT" --model bert --global-batch 4 \
        --model-config hidden_size=32,num_hidden_layers=1,num_attention_heads=2,intermediate_size=64,seq_len=32
fi

# goes_on NAME FILE SAYS: a job whose list has the file first leaves it out in one line of each process and trains. A trial takes 12 s
# at most
goes_on()
{
    began=$(date +%s)
    # shellcheck disable=SC2097,SC2098 # the list names the good one too
    YOKE_PJRT="$2, $VENDOR" "$YOKE_BUILD/yoke" bench step --devices "cpu:0! pjrt:0!" --iterations 2 --global-batch 16 --json \
        --model mlp >"$WORK/json" 2>"$WORK/err"
    code=$?
    took=$(($(date +%s) - began))
    said=$(grep -c "^yoke: pjrt: $2 is not used: .*$3" "$WORK/err")
    [ $code = 0 ] && [ "$said" = 2 ] && [ $took -le 40 ] && grep -q '"losses"\|"loss"' "$WORK/json"
    failed=$?
    echo "# $took s: $(grep -m 1 'is not used' "$WORK/err")"
    [ $failed = 0 ] || tail -n 5 "$WORK/err" | sed 's/^/# /'
    result $failed "$1"
}

# A published plugin trains wrong where a large gradient takes the place of a donated parameter. Its wheel has the vendor's header, too.
if fetch xla-cpu-pjrt 0.0.1 55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc; then
    xla=$cache/xla_plugins/xla_cpu_pjrt
    # its code for some processors with AVX-512 is right: the plugin is used there, and must train as the CPU does
    if YOKE_PJRT="$xla/xla_cpu_pjrt.so" "$YOKE_BUILD/yoke" info 2>/dev/null | grep -q '^ *pjrt:0' && [ -s "$WORK/alone" ]; then
        YOKE_PJRT="$xla/xla_cpu_pjrt.so" trained right "cpu:0! pjrt:0!" --shares equal &&
            python3 "$YOKE_SOURCE/tests/cli/alike.py" 12 "$WORK/alone" "$WORK/right" 12 1e-4 1e-4
        result $? "xla-cpu-pjrt 0.0.1, which is used on this processor, trains as the CPU"
    else
        goes_on "xla-cpu-pjrt 0.0.1 is left out for its numbers" "$xla/xla_cpu_pjrt.so" "wrong numbers"
        cp "$xla/xla_cpu_pjrt.so" "$WORK/any_name.so"
        YOKE_PJRT="$WORK/any_name.so" info "by another file name, too" "any_name.so is not used: .*wrong numbers" 0
        rm "$WORK/any_name.so"
    fi
    ${CC:-gcc} -std=gnu11 -fsyntax-only -I"$xla/include" -I"$YOKE_SOURCE" "$YOKE_SOURCE/tests/cts/pjrt_layout.c"
    result $? "our prototypes are laid out as the vendor's header says"
fi

# tables NAME OPTIONS: all that the CPU plugin holds of the stored values, and nothing left out that it does not leave out, too
tables()
{
    name=$1
    shift
    for device in cpu pjrt; do
        "$YOKE_BUILD/yoke" test --devices "$device:0" "$@" >"$WORK/out" 2>&1 && tail -n 1 "$WORK/out" | grep -q '^[1-9].* 0 failed' ||
            { tail -n 3 "$WORK/out" | sed 's/^/# /'; result 1 "$name"; return; }
        grep -o '^unsupported *[^ ]*' "$WORK/out" >"$WORK/out-$device"
    done
    echo "# $(tail -n 1 "$WORK/out")"
    cmp "$WORK/out-cpu" "$WORK/out-pjrt"
    result $? "$name"
}
if [ -n "${YOKE_TEST_LONG-}" ] && [ -d "$YOKE_TEST_DATA/golden" ]; then # minutes
    tables "golden layers" --golden "$YOKE_TEST_DATA/golden" --only layers/
    tables "operator vectors" --vectors "$YOKE_TEST_DATA/onnx-op-vectors"
fi

if [ -n "${YOKE_TEST_LONG-}" ]; then # 270 MB
    fetch libtpu 0.0.52 f5e2e596eaea9357fbb5a6755a7a9007c6ab75bfde4a55191b03eff402971140 --python-version 3.11 --only-binary=:all: &&
        goes_on "libtpu without a TPU is left out" "$cache/libtpu/libtpu.so" "makes no client"
    fetch jax-cuda13-pjrt 0.12.0.1 5899bb6177eda86ea532afb9a26794f2bdd04966f6a01f9028266b16c2b6cf90 &&
        goes_on "JAX's CUDA plugin without a GPU is left out" "$cache/jax_plugins/xla_cuda13/xla_cuda_plugin.so" "makes no client"
fi

export PJRT_SHIM_REAL="$VENDOR" YOKE_PJRT="$WORK/shim.so:shim"
PJRT_SHIM=none info "a shim that changes nothing is a device, by the name it was given" "pjrt:0 *shim (cpu)" 1
touch "$WORK/shim.so"
PJRT_SHIM=spoil info "one that spoils a donated result from the third step on is left out" "shim.so.*is not used: .*wrong numbers" 0
touch "$WORK/shim.so"
PJRT_SHIM=exit info "one that aborts at its end is left out" "shim.so.*is not used: its driver died of signal 6" 0
touch "$WORK/shim.so"
YOKE_PJRT_PROBE_MS=3000 PJRT_SHIM=hang info "one that hangs in a compile is left out" "shim.so.*is not used: .*no answer within 3000 ms" 0
YOKE_PJRT="$WORK/shim.so, $VENDOR" PJRT_SHIM=spoil info "and the others of the list stay" "shim.so is not used" 1
finish
