#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job in fp8 trains on one CPU, and on ranks of several kinds with bit-identical parameters (the trainer fails otherwise); its losses
# are near bf16's, and not bf16's.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_cores 2
[ "$(uname -m)" = x86_64 ] && . "$YOKE_SOURCE/tests/fakes/use.sh"
python3 - "$out/text" <<'P'
import random, sys
random.seed(1)
words = ["the ", "quick ", "brown ", "fox ", "jumps ", "over ", "lazy ", "dog. "]
open(sys.argv[1], "w").write("".join(random.choice(words) for _ in range(20000)))
P

steps=60 most=0.6
instrumented && steps=12 most=1 # what a sanitizer sees is in the first ones

train() { # train NAME DEVICES PRECISION [OPTION...]: log in $out/NAME.jsonl
    log=$1 devices=$2 precision=$3
    shift 3
    "$yoke" train --model gpt2 --model-config n_layer=2,n_embd=32,n_head=2,vocab_size=256,n_positions=16,seq_len=16 \
        --data "text:$out/text,tokenizer=bytes,seq-len=16" --devices "$devices" --precision "$precision" --global-batch 8 \
        --max-steps $steps --learning-rate 0.003 --logging-steps 1 --log "$out/$log.jsonl" --overwrite-output-dir \
        --output-dir "$out/model" "$@"
}

near() { # near NAME OTHER MOST: the means of the last ten losses are near each other; not all losses are the same
    python3 - "$out/$1.jsonl" "$out/$2.jsonl" "$3" $steps $most <<'P'
import json, sys
a, b = ([r["loss"] for r in map(json.loads, open(f)) if "loss" in r] for f in sys.argv[1:3])
x, y = sum(a[-10:]) / 10, sum(b[-10:]) / 10
print(f"first loss {a[0]:.4f}; means of the last ten: {x:.5f}, {y:.5f}")
assert len(a) == len(b) == int(sys.argv[4]) and a != b and y < float(sys.argv[5]) * b[0] and abs(x - y) <= float(sys.argv[3]) * x
P
}

as_bf16() {
    train bf16 cpu:0 bf16 && train fp8 cpu:0 fp8 && near bf16 fp8 0.02
}
cuda() { # what cuBLASLt computes of it in 8 bits, in all three of a layer's products
    YOKE_LOG=debug ranks "cpu:0! cuda:0!" 2>"$out/cuda.log" && grep -q "e4m3 to bf16: by cuBLASLt" "$out/cuda.log" &&
        grep -q "e5m2 x e4m3 to bf16: by cuBLASLt" "$out/cuda.log" && grep -q "e4m3 x e5m2 to f32: by cuBLASLt" "$out/cuda.log"
}
ranks() { # ranks DEVICES
    train ranks "$1" fp8 && near fp8 ranks 0.01
}
ok "one CPU: within 2 % of bf16" as_bf16
ok "two CPU ranks: within 1 % of one" ranks "cpu:0! cpu:0!"
if [ "$(uname -m)" = x86_64 ]; then
    ok "a CPU and a CUDA rank (fake driver), in 8 bits: within 1 % of one CPU" cuda
else
    skip "a CPU and a CUDA rank" "the fake driver runs kernels on x86-64 only"
fi
if "$yoke" info --kinds 2>/dev/null | grep -q '^opencl$'; then
    ok "a CPU and an OpenCL rank: within 1 % of one CPU" ranks "cpu:0! opencl:0!"
else
    skip "a CPU and an OpenCL rank" "no OpenCL device here"
fi
plan
