#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Model, data and tokenizer that do not go together are refused before the first step, in one line that names both.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist models
export YOKE_DEVICES=cpu:0
small_images "$out/images"
{ echo text,label && for i in 1 2 3 4 5 6 7 8; do echo "some words of row $i,$((i % 2))"; done; } >"$out/rows.csv"
for i in 1 2 3 4 5 6 7 8; do echo "{\"text\": \"some words of row $i\", \"label\": $((i % 2))}"; done >"$out/rows.jsonl"
for i in $(seq 60); do echo "some words of line $i, and some more of them so that windows are full"; done >"$out/text"
python3 -c 'import sys; sys.stdout.buffer.write(b"".join((i % 50).to_bytes(2, "little") for i in range(400)))' >"$out/tokens"

small="hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=32,max_position_embeddings=64"
train() { # train MODEL DATA ARGUMENTS...: one step
    model=$1 rows=$2
    shift 2
    case $model in
    bert*) set -- --model-config "$small" "$@" ;;
    gpt2) set -- --model-config n_layer=1,n_head=2,n_embd=16,n_positions=32 "$@" ;;
    esac
    case $model$rows in
    *idx:* | *tokens:*) ;;
    bert-mlm*) set -- --tokenizer "$data/models/bert-tiniest" "$@" ;;
    *) set -- --tokenizer bytes "$@" ;;
    esac
    "$yoke" train --model "$model" --data "$rows" --global-batch 4 --max-steps 1 --overwrite-output-dir --output-dir "$out/m" "$@"
}

refused() { # refused WORDS COMMAND...: exit code 2, one line with the words beside the table of devices, and no step
    words=$1
    shift
    rm -rf "$out/m"
    "$@" >"$out/stdout" 2>"$out/err"
    code=$?
    cat "$out/err"
    grep -v -e '^rank  device spec' -e '^[0-9]* *cpu:0' -e 'no evaluation: ' -e ' starts new$' "$out/err" >"$out/lines"
    [ $code = 2 ] && [ "$(wc -l <"$out/lines")" = 1 ] && grep -qF -e "$words" "$out/lines" && [ ! -e "$out/m/model.safetensors" ]
}

matrix() { # each model with each kind of data: trains where they go together, else says what does
    while read -r model goes; do
        for rows in "idx:$out/images" "csv:$out/rows.csv" "jsonl:$out/rows.jsonl" "text:$out/text" "tokens:$out/tokens"; do
            kind=${rows%%:*}
            case " $goes " in
            *" $kind "*) train "$model" "$rows" >"$out/stdout" 2>&1 || { cat "$out/stdout"; echo "$model with $kind fails"; return 1; } ;;
            *) refused "model $model and $kind data do not go together: $model takes " train "$model" "$rows" || return 1 ;;
            esac
        done
    done <<P
mlp idx
resnet20 idx
bert csv jsonl
gpt2 text tokens
bert-mlm csv jsonl text
P
}
ok "every model with every kind of data" matrix

other_vocabulary() { # a model of few ids, as a folder
    mkdir -p "$out/few" && "$yoke" train --model bert --model-config "$small" --tokenizer bytes --data "csv:$out/rows.csv" \
        --global-batch 4 --max-steps 1 --output-dir "$out/few" >/dev/null 2>&1 || return 1
    refused "ids up to 30521, but model bert has a vocabulary of 256 (vocab_size)" "$yoke" train --from "$out/few" \
        --tokenizer "$data/models/bert-tiniest" --data "csv:$out/rows.csv" --overwrite-output-dir --output-dir "$out/m" &&
        refused "ids up to 30521, but model bert has a vocabulary of 256 (vocab_size)" "$yoke" eval --from "$out/few" \
            --tokenizer "$data/models/bert-tiniest" --data "csv:$out/rows.csv"
}
ok "a tokenizer with more ids than the model has, in training and in evaluation" other_vocabulary
ok "a vocabulary smaller than the tokenizer's" refused "ids up to 255, but model bert has a vocabulary of 10 (vocab_size)" \
    train bert "csv:$out/rows.csv" --model-config "$small,vocab_size=10"
ok "token ids above the vocabulary" refused "tokens data have ids up to 49, but model gpt2 has a vocabulary of 20 (vocab_size)" \
    train gpt2 "tokens:$out/tokens" --model-config n_layer=1,n_head=2,n_embd=16,n_positions=32,vocab_size=20
sed '2s/,.$/,2/' "$out/rows.csv" >"$out/three.csv"
ok "more classes than labels" refused "the csv data have 3 classes, but model bert has 2 (num_labels)" \
    train bert "csv:$out/three.csv" --model-config "$small,num_labels=2"
ok "images of another size" refused "1x28x28, 784 numbers, but model mlp takes 3072 (input_size)" \
    train mlp "idx:$out/images" --model-config input_size=3072
ok "images of another number of channels" refused "have 1 channels, but model resnet20 takes 3 (num_channels)" \
    train resnet20 "idx:$out/images" --model-config num_channels=3
colours() { # colour images of a size that the training's have not
    python3 -c 'import sys; sys.stdout.buffer.write(b"".join(bytes([i % 10]) + bytes(3072) for i in range(8)))' >"$out/colours.bin"
    refused "3x32x32, 3072 numbers, but model mlp takes 784 (input_size)" train mlp "idx:$out/images" --eval-data "cifar10:$out/colours.bin"
}
ok "evaluation data of another shape are found before the first step" colours
ok "evaluation data of another kind too" refused "model mlp and csv data do not go together" train mlp "idx:$out/images" \
    --eval-data "csv:$out/rows.csv" --tokenizer bytes

other_tokenizer() { # a model trained on bytes is not saved with the words of the one it came from
    "$yoke" train --from "$data/models/fake-gpt2" --tokenizer bytes --data "text:$out/text" --seq-len 16 --global-batch 2 \
        --max-steps 1 --output-dir "$out/bytes" >/dev/null 2>&1 || return 1
    [ -e "$out/bytes/model.safetensors" ] || return 1
    for file in vocab.json merges.txt; do
        [ ! -e "$out/bytes/$file" ] || { echo "$file"; return 1; }
    done
    echo 'a b' >"$out/line" && [ "$("$yoke" tokenize --tokenizer "$out/bytes" "$out/line")" = "97 32 98" ]
}
ok "another tokenizer's files are not saved beside the weights" other_tokenizer

long_rows() { # an evaluation that fails at its first batch: the model is saved by then
    { echo text,label && echo "short,0" && echo "$(seq -s ' ' 1 60),1"; } >"$out/long.csv"
    rm -rf "$out/m"
    train bert "csv:$out/rows.csv" --eval-data "csv:$out/long.csv" --max-length 128 2>"$out/err"
    code=$?
    cat "$out/err"
    [ $code = 2 ] && grep -q "128 tokens in a row, but max_position_embeddings is 64" "$out/err" && [ -s "$out/m/model.safetensors" ]
}
ok "a failed evaluation does not lose the trained model" long_rows
plan
