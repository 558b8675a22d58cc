#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A masked language model (bert-mlm) end to end: it learns hidden words, on one rank and on two, and a resumed run masks as the
# first did. Which tokens are hidden, and how often, is tests/unit/data/mask.c's.
. "$YOKE_SOURCE/tests/cli/lib.sh"
export YOKE_DEVICES=cpu:0
steps=800 right=0.6
instrumented && steps=200 right=0.2 # what a sanitizer sees is in the first ones; one of eight is right by chance
mkdir "$out/words"
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' one two three four five six seven eight >"$out/words/vocab.txt"
python3 - "$out/lines" <<'P'
import sys
words = "one two three four five six seven eight".split()
with open(sys.argv[1], "w") as f: # the words in order from any one on: the neighbours say which one is hidden
    for i in range(256):
        f.write(" ".join(words[(i + k) % 8] for k in range(6 + i % 5)) + "\n")
P
small="hidden_size=32,num_hidden_layers=2,num_attention_heads=2,intermediate_size=64,max_position_embeddings=32,hidden_dropout_prob=0"
small="$small,attention_probs_dropout_prob=0"

learn() { # learn OUT ARGUMENTS...
    to=$1
    shift
    "$yoke" train --model bert-mlm --model-config "$small" --data "lines:$out/lines" --eval-data "lines:$out/lines" --tokenizer \
        "$out/words" --global-batch 64 --max-steps "$steps" --learning-rate 3e-3 --logging-steps 1 --log "$to.log" --json \
        --overwrite-output-dir --output-dir "$to" "$@"
}

learned() {
    learn "$out/m" --save-steps "$((steps - 10))" --save-total-limit 1 --eval-strategy no --do-eval >"$out/run" && cat "$out/run" &&
        at_least "$(field eval_accuracy "$out/run")" "$right"
}
ok "it learns which word is hidden" learned

again() { # evaluation hides the same tokens each time, whatever the seed; about 15 % of them
    "$yoke" eval --from "$out/m" --data "lines:$out/lines" --json --seed 7 >"$out/eval" && cat "$out/eval" &&
        [ "$(field eval_loss "$out/eval")" = "$(field eval_loss "$out/run")" ] &&
        python3 - "$out/eval" "$out/lines" <<'P'
import json, sys
r, n = json.load(open(sys.argv[1])), len(open(sys.argv[2]).read().split())
assert abs(r["total"] - 0.15 * n) <= 3 * (0.15 * 0.85 * n) ** 0.5, (r, n)
P
}
ok "the saved model is evaluated on the same tokens" again

resumed() {
    mkdir "$out/r" && cp -r "$out/m/checkpoint-$((steps - 10))" "$out/r" &&
        learn "$out/r" --eval-strategy no --do-eval --resume-from-checkpoint last >"$out/run2" || return 1
    cat "$out/run2"
    [ "$(field param_hash "$out/run2")" = "$(field param_hash "$out/run")" ]
}
ok "resumed it hides the same tokens: the same bits" resumed

two() { # the loss of the first step says that both hide the same
    learn "$out/two" --devices "cpu:0! cpu:0!" --max-steps 3 --eval-strategy no >"$out/run3" || return 1
    python3 - "$out/m.log" "$out/two.log" <<'P'
import json, sys
a, b = (json.loads(open(f).readline())["loss"] for f in sys.argv[1:])
print(a, b)
assert abs(a - b) < 1e-5 * a
P
}
ok "two ranks hide the same tokens" two

more() { # another rate; running text
    learn "$out/more" --mlm-probability 0.4 --max-steps 1 >"$out/run4" &&
        "$yoke" train --model bert-mlm --model-config "$small" --data "text:$out/lines,tokenizer=$out/words,seq-len=16" --global-batch 4 \
            --max-steps 2 --output-dir "$out/running" --json >"$out/run5" || return 1
    cat "$out/run4" "$out/run5"
    "$yoke" eval --from "$out/more" --data "lines:$out/lines" --mlm-probability 0.4 --json >"$out/eval" &&
        python3 - "$out/eval" "$out/lines" <<'P'
import json, sys
r, n = json.load(open(sys.argv[1])), len(open(sys.argv[2]).read().split())
assert abs(r["total"] - 0.4 * n) <= 3 * (0.4 * 0.6 * n) ** 0.5, (r, n)
P
}
ok "--mlm-probability, and running text" more
whole() { # lines have no part that evaluates
    "$yoke" train --model bert-mlm --model-config "$small" --data "lines:$out/lines" --tokenizer "$out/words" --global-batch 16 \
        --max-steps 1 --output-dir "$out/whole" >"$out/said" 2>&1 && cat "$out/said" && ! grep "eval loss" "$out/said" &&
        grep "no evaluation: all rows of the file train" "$out/said"
}
ok "rows that train do not evaluate" whole

refused() { # refused WORDS COMMAND...: exit code 2 and the words
    words=$1
    shift
    "$@" >"$out/refused" 2>&1
    code=$?
    cat "$out/refused"
    [ $code = 2 ] && grep -qF -e "$words" "$out/refused"
}
ok "a tokenizer without a mask" refused "has neither [MASK] nor <mask>" learn "$out/x" --tokenizer bytes
ok "another model" refused "--mlm-probability has no effect with another model than bert-mlm" learn "$out/x" --model bert \
    --mlm-probability 0.2
plan
