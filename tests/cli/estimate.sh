#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What yoke estimate-memory says beforehand is, to the byte, what the run takes; and it takes nothing of it itself.
. "$YOKE_SOURCE/tests/cli/lib.sh"
export YOKE_DEVICES=cpu:0

same() { # same OPTIMIZER ARGUMENTS...: the estimate's peak is the run's, which trains alone
    optim=$1 timed=$1
    shift
    [ "$optim" != sgd ] || timed=sgdm # as yoke bench calls sgd with momentum
    "$yoke" estimate-memory --eval-strategy no --optim "$optim" "$@" --json >"$out/plan" &&
        "$yoke" bench step --optim "$timed" "$@" --iterations 1 --json >"$out/run" || return 1
    python3 - "$out/plan" "$out/run" <<'P'
import json, sys
plan, run = (json.load(open(f)) for f in sys.argv[1:])
rank = plan["ranks"][0]
print(plan, run)
assert rank["peak_bytes"] == run["peak_bytes"] > 0
assert run["peak_rss_bytes"] > run["peak_bytes"] # here device memory is the host's
assert sum(v for k, v in rank.items() if k.endswith("_bytes") and k != "peak_bytes") == rank["peak_bytes"]
P
}
# A training takes what was estimated from the same options, and from none: the defaults are the same.
as_train() { # as_train DATA SHAPE OPTION...
    from=$1 shape=$2
    shift 2
    # shellcheck disable=SC2086
    "$yoke" estimate-memory $shape "$@" --json >"$out/plan" && "$yoke" train $shape --data "$from" --max-steps 2 --json \
        --overwrite-output-dir --output-dir "$out/trained" "$@" >"$out/run" || return 1
    cat "$out/plan" "$out/run"
    python3 -c 'import json, sys
plan, run = (json.loads(open(f).read().splitlines()[-1]) for f in sys.argv[1:])
assert plan["ranks"][0]["peak_bytes"] == run["peak_bytes"] > 0' "$out/plan" "$out/run"
}
if [ -e "$data/fashion-mnist" ]; then
    small_images "$out/images"
    mlp="--model mlp --model-config hidden=64,input_size=784"
    ok "yoke train's defaults" as_train "idx:$out/images" "$mlp"
    for options in "--average rows --gradient-accumulation-steps 2" "--precision fp16 --global-batch 16 --loss-scaling init=256" \
        "--per-device-eval-batch-size 150"; do
        # shellcheck disable=SC2086
        ok "yoke train $options" as_train "idx:$out/images" "$mlp" $options
    done
    file='{"fp16": {"enabled": true, "initial_scale_power": 8}, "zero_optimization": {"stage": 2}, "gradient_clipping": 1.0}'
    ok "a file of settings in fp16" as_train "idx:$out/images" "$mlp" --deepspeed "$file"
    for options in "--max-grad-norm 0" "--optim sgd" "--optim sgd --momentum 0" "--optim adam --weight-decay 0.1" "--global-batch 32" \
        "--gradient-accumulation-steps 3" "--precision bf16" "--eval-strategy no" \
        "--eval-strategy no --do-eval" "--no-do-eval" "--per-device-eval-batch-size 3" \
        "--label-smoothing-factor 0.1" "--average items --gradient-accumulation-steps 2"; do
        # shellcheck disable=SC2086
        plainly "yoke train $options" as_train "idx:$out/images" "$mlp" $options
    done
else
    skip "yoke train's defaults and options" "no fashion-mnist in YOKE_TEST_DATA"
fi

seq 10000 | tr -d '\n' >"$out/text"
gpt2="--model gpt2 --model-config n_layer=3,n_embd=64,n_head=2,vocab_size=256,n_positions=32,seq_len=32"
for options in "" "--gradient-checkpointing" "--gradient-checkpointing --eval-strategy no --label-smoothing-factor 0.1"; do
    # shellcheck disable=SC2086
    ok "yoke train with text $options" as_train "text:$out/text,tokenizer=bytes,seq-len=32" "$gpt2" $options
done
for options in "" "--gradient-accumulation-steps 2" "--precision bf16"; do
    # shellcheck disable=SC2086
    ok "yoke train --shard gradients on two ranks $options" as_train "text:$out/text,tokenizer=bytes,seq-len=32" "$gpt2" \
        --devices "cpu:0! cpu:0!" --shares equal --shard gradients $options
done
# The command line of a training can be asked for as it is: vocabulary and length are the data's.
by_data() { # by_data OPTION...
    "$yoke" estimate-memory "$@" --json >"$out/plan" && "$yoke" train --max-steps 2 --json --overwrite-output-dir \
        --output-dir "$out/trained" "$@" >"$out/run" || return 1
    cat "$out/plan" "$out/run"
    python3 -c 'import json, sys
plan, run = (json.loads(open(f).read().splitlines()[-1]) for f in sys.argv[1:])
assert plan["ranks"][0]["peak_bytes"] == run["peak_bytes"] > 0' "$out/plan" "$out/run"
}
no_more() { # but for the loader's own inputs
    set -- --model gpt2 --model-config $layers --tokenizer char --data "text:$out/text" --seq-len 24
    "$yoke" estimate-memory "$@" --json >"$out/both" && "$yoke" estimate-memory "$@" --eval-strategy no --json >"$out/alone" || return 1
    python3 -c 'import json, sys
both, alone = (json.load(open(f))["ranks"][0] for f in sys.argv[1:])
print(both, alone)
assert both["peak_bytes"] - both["input_bytes"] <= alone["peak_bytes"] - alone["input_bytes"]
assert both["input_bytes"] <= 4 * alone["input_bytes"]' "$out/both" "$out/alone"
}
layers="n_layer=2,n_embd=32,n_head=2"
ok "the data's vocabulary and length" by_data --model gpt2 --model-config $layers --tokenizer char --data "text:$out/text" --block_size 24 \
    --learning_rate 1e-3 --optim adamw_torch --logging_steps 1
ok "a training whose evaluation batch nobody names takes no more than one that does not evaluate" no_more
less() { # checkpointing is worth its name, in what is said as in what is taken
    # shellcheck disable=SC2086
    "$yoke" estimate-memory $gpt2 --json >"$out/all" && "$yoke" estimate-memory $gpt2 --gradient-checkpointing --json >"$out/few" &&
        at_least "$(field ranks "$out/all" | python3 -c 'print(eval(input())[0]["activation_bytes"])')" \
            "$(field ranks "$out/few" | python3 -c 'print(1 + eval(input())[0]["activation_bytes"])')"
}
ok "--gradient-checkpointing keeps less" less

precisions="fp32 fp8" # fp8 is bf16 with rounded operands
[ -z "${YOKE_TEST_LONG-}" ] || precisions="fp32 bf16 fp8"
instrumented && [ -z "${YOKE_TEST_LONG-}" ] && precisions=fp8
for precision in $precisions; do
    ok "mlp, $precision" same sgd --model mlp --model-config hidden=64 --global-batch 32 --precision $precision
    ok "mlp with adamw, $precision" same adamw --model mlp --model-config hidden=64 --global-batch 32 --precision $precision
    ok "resnet20, $precision" same sgd --model resnet20 --global-batch 4 --precision $precision
    ok "gpt2, $precision" same adamw --model gpt2 --model-config n_layer=2,n_embd=64,n_head=2,vocab_size=500,seq_len=32 --global-batch 3 \
        --precision $precision
    ok "bert, $precision" same adamw --model bert --global-batch 3 --precision $precision --model-config \
        num_hidden_layers=2,hidden_size=64,num_attention_heads=2,intermediate_size=128,vocab_size=500,seq_len=16
done

on_opencl() {
    YOKE_DEVICES=opencl:0@0 same adamw --model gpt2 --model-config n_layer=2,n_embd=64,n_head=2,vocab_size=500,seq_len=32 --global-batch 3
}
if "$yoke" info --kinds 2>/dev/null | grep -q '^opencl$'; then
    ok "gpt2 on OpenCL" on_opencl
else
    skip "gpt2 on OpenCL" "no OpenCL device here"
fi

large() { # 1.6 billion parameters take 25 GB; here 1 GB of address space beside what the program has must do
    (ulimit -v 4000000 && "$yoke" estimate-memory --model gpt2 --model-config \
        n_layer=48,n_embd=1600,n_head=25,n_positions=1024,seq_len=1024 --global-batch 1 --precision bf16 --json) >"$out/xl" || return 1
    at_least "$(field ranks "$out/xl" | python3 -c 'import sys; print(eval(sys.stdin.read())[0]["peak_bytes"])')" 25e9
}
if instrumented; then
    skip "GPT-2 XL on a small machine" "a sanitizer needs more address space than that"
else
    ok "GPT-2 XL on a small machine" large
fi

limited() { # with a limit the plan stays below it, and so does the run
    set -- --model gpt2 --model-config n_layer=4,n_embd=64,n_head=2,vocab_size=500,seq_len=64 --global-batch 8
    "$yoke" estimate-memory "$@" --eval-strategy no --json >"$out/free" || return 1
    limit=$(python3 -c "import json; r = json.load(open('$out/free'))['ranks'][0]
print(r['peak_bytes'] - r['activation_bytes'] // 3)")
    "$yoke" estimate-memory "$@" --eval-strategy no --memory-limit "$limit" --json >"$out/tight" || return 1
    YOKE_MEMORY_LIMIT=$limit "$yoke" bench step "$@" --iterations 1 --json >"$out/run" || return 1
    python3 - "$out/tight" "$out/run" "$limit" <<'P'
import json, sys
plan, run, limit = json.load(open(sys.argv[1])), json.load(open(sys.argv[2])), int(sys.argv[3])
print(plan, run, limit)
assert plan["ranks"][0]["peak_bytes"] == run["peak_bytes"] <= limit
P
}
ok "--memory-limit recomputes" limited

refused() {
    "$yoke" estimate-memory --memory-limit 20K --model mlp && return 1
    "$yoke" estimate-memory --memory-limit plenty --model mlp 2>"$out/said"
    [ $? = 2 ] && grep -q "plenty" "$out/said"
}
ok "a limit that nothing fits, and one that is none" refused

no_model() { # no_model WORDS MODEL SETTINGS: refused before anything is made of them, by bench step as well
    for command in "estimate-memory" "bench step"; do
        # shellcheck disable=SC2086
        "$yoke" $command --model "$2" --model-config "$3" 2>"$out/said"
        code=$?
        cat "$out/said"
        [ $code = 2 ] && grep -qF -e "$1" "$out/said" || return 1
    done
}
few() { # fewer rows than a batch make no epoch's end come after the other, on one rank or several
    python3 -c 'print("abcdefghij" * 4)' >"$out/few"
    set -- --model gpt2 --model-config $layers --tokenizer char --data "text:$out/few" --seq-len 8 --eval-strategy no
    for devices in cpu "cpu:0! cpu:0! cpu:0!"; do
        timeout -k 5 60 "$yoke" estimate-memory "$@" --devices "$devices" >"$out/said" 2>&1
        code=$?
        cat "$out/said"
        [ $code = 2 ] && grep -q "the data has fewer rows than one batch: lower --global-batch" "$out/said" || return 1
        timeout -k 5 60 "$yoke" estimate-memory "$@" --devices "$devices" --no-dataloader-drop-last || return 1
    done
}
ok "fewer rows than a batch" few
ok "no classes" no_model "fc3.weight: length 0 of dimension 0" mlp num_labels=0
ok "no classes of images" no_model "linear.weight: length 0 of dimension 0" resnet20 num_labels=0
ok "no classes of rows of text" no_model "classifier.weight: length 0 of dimension 0" bert num_labels=0
ok "no vocabulary" no_model "wte.weight: length 0 of dimension 0" gpt2 vocab_size=0
ok "no vocabulary of a masked model" no_model "word_embeddings.weight: length 0 of dimension 0" bert-mlm vocab_size=0
ok "rows of no tokens" no_model "setting seq_len=0: expected a whole number from 1" bert seq_len=0

ranks() { # of gpt2 the matrices have copies of 16 bits, once for the host; positions, norms and biases have none
    for precision in fp32 bf16; do
        set -- --devices cpu/2 --global-batch 4 --precision $precision --model gpt2 --model-config \
            n_layer=2,n_embd=64,n_head=2,vocab_size=500,seq_len=32,n_positions=32
        "$yoke" estimate-memory --eval-strategy no --optim adamw "$@" --json >"$out/$precision" || return 1
        python3 - "$out/fp32" "$out/$precision" <<'P' || return 1
import json, sys
full, plan = (json.load(open(f)) for f in sys.argv[1:])
print(plan)
copies = 2 * (500 * 64 + 2 * 12 * 64 * 64) if "bf16" in sys.argv[2] else 0
assert len(plan["ranks"]) == 2 and all(r["parameter_bytes"] == 0 for r in plan["ranks"])
assert plan["shared_bytes"] == full["shared_bytes"] + copies and full["shared_bytes"] > 0
P
        as_train "text:$out/text,tokenizer=bytes,seq-len=32" "$gpt2" --precision $precision --devices "cpu:0! cpu:1!" --shares equal ||
            return 1
    done
}
if [ "$(nproc)" -ge 2 ]; then ok "two ranks" ranks; else skip "two ranks" "needs 2 cores"; fi
plan
