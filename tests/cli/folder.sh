#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The output folder: what training puts there, what it leaves alone, and what it takes away.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data models banking77 fashion-mnist tokenizers
export YOKE_DEVICES=cpu:0
small_images "$out/images"
{
    echo text,category
    grep -v '"' "$data/banking77/train.csv" | awk 'NR % 120 == 20 || NR % 120 == 21'
} >"$out/rows.csv"

classify() { # classify FROM OUT ARGUMENTS...
    from=$1 to=$2
    shift 2
    "$yoke" train --from "$from" --data "csv:$out/rows.csv,text=text,label=category" --global-batch 4 --max-steps 2 \
        --overwrite-output-dir --output-dir "$to" "$@"
}

same_tokenizer() { # same_tokenizer DIR: byte for byte that of the original
    for file in vocab.txt tokenizer.json tokenizer_config.json special_tokens_map.json; do
        [ ! -e "$data/models/bert-tiniest/$file" ] || cmp "$data/models/bert-tiniest/$file" "$1/$file" || return 1
    done
    [ -s "$1/vocab.txt" ] || [ -s "$1/tokenizer.json" ]
}

in_place() { # in_place SPELLING: of the folder that is opened and written
    rm -rf "$out/m" "$out/link" && cp -r "$data/models/bert-tiniest" "$out/m" && chmod -R u+w "$out/m" && ln -s m "$out/link" || return 1
    (cd "$out" && classify m "$1") && same_tokenizer "$out/m"
}
for spelling in m ./m m/ "$out/m" link; do
    ok "fine-tuning in place keeps the tokenizer (--output-dir $spelling)" in_place "$spelling"
done

hard_links() {
    rm -rf "$out/m" "$out/n"
    cp -r "$data/models/bert-tiniest" "$out/m" && chmod -R u+w "$out/m" && cp -rl "$out/m" "$out/n" && classify "$out/m" "$out/n" &&
        same_tokenizer "$out/n" && same_tokenizer "$out/m" && cmp "$data/models/bert-tiniest/config.json" "$out/m/config.json"
}
ok "files that are hard links of those read stay what they are" hard_links

as_model() { # a checkpoint has the files of the final model, and evaluates as it does
    rm -rf "$out/n"
    classify "$data/models/bert-tiniest" "$out/n" --save-steps 2 || return 1
    for file in "$out"/n/*.*; do
        cmp "$file" "$out/n/checkpoint-2/${file##*/}" || return 1
    done
    [ -s "$out/n/checkpoint-2/config.json" ] && [ -s "$out/n/checkpoint-2/vocab.txt" ] || return 1
    for model in n n/checkpoint-2; do
        "$yoke" eval --from "$out/$model" --data "csv:$out/rows.csv,text=text,label=category" --json >"$out/eval" || return 1
        tail -n 1 "$out/eval" >>"$out/evals"
    done
    cat "$out/evals"
    [ "$(sort -u "$out/evals" | wc -l)" = 1 ] && classify "$out/n/checkpoint-2" "$out/further"
}
ok "a checkpoint opens as a model" as_model

# ---- What turned text into ids ----

says() { # says DIR TEXT: its ids
    echo "$2" >"$out/line" && "$yoke" tokenize --tokenizer "$1" "$out/line"
}

casing() { # decided by an option, and kept wherever the folder lies
    for dir in here bert-base-cased; do
        mkdir -p "$out/cased/$dir" && cp "$data/tokenizers/bert-base-uncased/vocab.txt" "$out/cased/$dir" &&
            echo '{"<new>": 30522}' >"$out/cased/$dir/added_tokens.json" || return 1
        [ "$(says "$out/cased/$dir" 'Hello <new> hello')" = "101 7592 30522 7592 102" ] || return 1
    done
    "$yoke" train --model bert --model-config hidden_size=8,num_hidden_layers=1,num_attention_heads=1,intermediate_size=8 \
        --max-steps 2 --save-steps 1 --tokenizer "$out/cased/here" --global-batch 4 --max-length 16 --output-dir "$out/cased/o" \
        --data "csv:$out/rows.csv,text=text,label=category,lowercase=no" || return 1
    mv "$out/cased/o/checkpoint-1" "$out/cased/bert-base-uncased" && mv "$out/cased/o" "$out/cased/bert-large-uncased" || return 1
    for dir in bert-base-uncased bert-large-uncased; do
        says "$out/cased/$dir" 'Hello <new> hello'
        [ "$(says "$out/cased/$dir" 'Hello <new> hello')" = "101 100 30522 7592 102" ] || return 1
    done
}
ok "casing and added tokens are saved, in checkpoints too, and no folder's name decides them" casing

cut_says() { # cut_says CODE FILE BYTES WORDS: the first bytes of that file, behind which no line end stands
    head -c "$3" "$data/$2" >"$out/cut/${2##*/}" && [ -n "$(tail -c 1 "$out/cut/${2##*/}")" ] || return 1
    says "$out/cut" hello >"$out/shown" 2>"$out/err"
    code=$?
    cat "$out/shown" "$out/err"
    [ $code = "$1" ] && grep -qF -e "$4" "$out/shown" "$out/err"
}
cut_files() { # what ends within a word names both numbers; a whole file may lack the last line's end, and a model may be wider
    vocab=tokenizers/bert-base-uncased/vocab.txt merges=models/fake-gpt2/merges.txt
    rm -rf "$out/cut" && mkdir "$out/cut" && echo '{"model_type": "bert", "vocab_size": 30522}' >"$out/cut/config.json" || return 1
    half=$(($(wc -c <"$data/$vocab") / 2 - 3)) last=$(($(wc -c <"$data/$vocab") - $(tail -n 1 "$data/$vocab" | wc -c)))
    lines=$(($(head -c $half "$data/$vocab" | wc -l) + 1))
    cut_says 2 $vocab $half "vocab.txt: expected 30522 tokens, the vocab_size of config.json, got $lines, and the last line has no end" &&
        cut_says 2 $vocab $((last - 1)) 'vocab.txt: expected 30522 tokens, the vocab_size of config.json, got 30521, and' &&
        cut_says 0 $vocab $(($(wc -c <"$data/$vocab") - 1)) '101 7592 102' || return 1
    for size in 30528 30592 30720; do # a model of 30720 would have more rows than the next multiple
        echo "{\"model_type\": \"bert\", \"vocab_size\": $size}" >"$out/cut/config.json"
        [ $size = 30720 ] && code=2 words='or end that line if the file is whole' || code=0 words='101 7592 102'
        cut_says $code $vocab $(($(wc -c <"$data/$vocab") - 1)) "$words" || return 1
    done
    cp "$data/$vocab" "$out/cut" && for size in 30522 30528 32000; do
        echo "{\"model_type\": \"bert\", \"vocab_size\": $size}" >"$out/cut/config.json"
        [ "$(says "$out/cut" hello 2>"$out/err")" = '101 7592 102' ] || return 1
        [ "$(grep -c 'it has 30522 tokens, and config.json says vocab_size 32000' "$out/err")" = $((size / 32000)) ] || return 1
    done
    rm "$out"/cut/* && cp "$data/models/fake-gpt2/vocab.json" "$out/cut" || return 1
    cut_says 2 $merges $(($(head -n 25000 "$data/$merges" | wc -c) - 1)) \
        'merges.txt: expected a merge for each token of several bytes, of 50257 tokens in vocab.json, got 24999 merges' &&
        cut_says 0 $merges $(($(wc -c <"$data/$merges") - 1)) 31373
}
ok "a vocabulary or merges that are cut" cut_files

replaced() { # in a folder of another model: its tokenizer's further files would be read with the new ones, or in their place
    rm -rf "$out/cased/r" && cp -r "$data/models/bert-tiniest" "$out/cased/r" &&
        chmod -R u+w "$out/cased/r" && echo mine | tee "$out/cased/r/chat_template.jinja" >"$out/cased/r/notes" ||
        return 1
    for tokenizer in "$out/cased/here" bytes; do
        "$yoke" train --model bert --model-config hidden_size=8,num_hidden_layers=1,num_attention_heads=1,intermediate_size=8 \
            --max-steps 1 --tokenizer $tokenizer --global-batch 4 --max-length 16 --output-dir "$out/cased/r" --overwrite-output-dir \
            --data "csv:$out/rows.csv,text=text,label=category" || return 1
        ls "$out/cased/r"
        [ ! -e "$out/cased/r/generation_config.json" ] && [ ! -e "$out/cased/r/chat_template.jinja" ] && [ -e "$out/cased/r/notes" ] &&
            [ "$(says "$out/cased/r" 'hello <new>')" = "$(says $tokenizer 'hello <new>')" ] || return 1
    done
    [ ! -e "$out/cased/r/vocab.txt" ] && [ ! -e "$out/cased/r/special_tokens_map.json" ]
}
ok "a model that replaces another does not keep files of its tokenizer" replaced

single() { # a tokenizer's file of the output folder itself: the files beside it stay
    rm -rf "$out/m" && cp -r "$data/models/bert-tiniest" "$out/m" && chmod -R u+w "$out/m" || return 1
    classify "$out/m" "$out/m" --tokenizer "$out/m/tokenizer.json" || return 1
    for file in vocab.txt special_tokens_map.json; do
        cmp "$data/models/bert-tiniest/$file" "$out/m/$file" || return 1
    done
}
ok "fine-tuning in place by the tokenizer's one file keeps the files beside it" single

companions() { # of the model's folder and of the tokenizer's
    for file in special_tokens_map.json generation_config.json; do
        for dir in n n/checkpoint-2; do
            cmp "$data/models/bert-tiniest/$file" "$out/$dir/$file" || return 1
        done
    done
}
ok "special_tokens_map.json and generation_config.json go along" companions

# ---- How many checkpoints stay ----

short() { # short ARGUMENTS...: 20 steps, a checkpoint every 4, two of which stay
    timeout 60 "$yoke" train --model mlp --model-config hidden=8 --data "idx:$out/images" --global-batch 32 --max-steps 20 \
        --save-steps 4 --save-total-limit 2 --output-dir "$out/o" "$@"
}

left() { # left NAME...: what of that naming is in the folder
    have=$(cd "$out/o" && find . -maxdepth 1 -name 'checkpoint-*' | sort -V | tr '\n' ' ')
    echo "$have"
    [ "$have" = "$(printf './%s ' "$@")" ]
}

leftovers() { # of a former model, where the new one has none: they may be the user's, and are named
    rm -rf "$out/l" && cp -r "$data/models/bert-tiniest" "$out/l" && chmod -R u+w "$out/l" && echo '{}' >"$out/l/quantize_config.json" &&
        short --output-dir "$out/l" --overwrite-output-dir --max-steps 1 2>"$out/err" || return 1
    cat "$out/err"
    [ -e "$out/l/vocab.txt" ] && grep -qF "$out/l: the tokenizer there (tokenizer.json) stays, and is not of the saved model" "$out/err" &&
        grep -qF "$out/l: quantize_config.json was there and is of another model: move it away" "$out/err"
}
ok "files of a former model that stay are named" leftovers

others() { # what is none of ours is neither followed nor counted nor touched
    rm -rf "$out/o" "$out/p" && mkdir -p "$out/o/checkpoint-2" "$out/o/checkpoint-0001" "$out/o/checkpoint-3/sub" "$out/p" || return 1
    echo x >"$out/p/thesis"
    echo x >"$out/o/checkpoint-2/notes"
    echo x >"$out/o/checkpoint-7"
    ln -s ../p "$out/o/checkpoint-1"
    ln -s ../p "$out/o/checkpoint-8.yoke-tmp"
    ln -s ../p "$out/o/checkpoint-12.old"
    short 2>"$out/err"
    code=$?
    cat "$out/err"
    ls "$out/p" && [ -e "$out/p/thesis" ] && [ -e "$out/o/checkpoint-2/notes" ] && [ -L "$out/o/checkpoint-1" ] && [ $code -ne 124 ]
}
ok "links, files and other folders are left alone" others
ok "a link where a checkpoint is to be written is an error that names it" \
    grep -q "checkpoint-8.yoke-tmp: cannot be opened as a folder" "$out/err"

foreign() { # a foreign file stays, in a folder that is named once, and so do a user's copies
    rm -rf "$out/o"
    short --max-steps 4 && cp -r "$out/o/checkpoint-4" "$out/copy" || return 1
    for copy in 3.old 16.tmp; do
        cp -r "$out/copy" "$out/o/checkpoint-$copy" || return 1
    done
    echo x | tee "$out/o/checkpoint-4/model.safetensors.tmp" >"$out/o/checkpoint-4/notes"
    mkdir "$out/o/checkpoint-4/sub" && echo x >"$out/o/checkpoint-4/sub/model.safetensors"
    short --resume-from-checkpoint last 2>"$out/err" || return 1
    cat "$out/err"
    for copy in 3.old 16.tmp; do
        diff -r "$out/copy" "$out/o/checkpoint-$copy" && rm -r "$out/o/checkpoint-$copy" || return 1
    done
    left checkpoint-4 checkpoint-16 checkpoint-20 &&
        [ "$(cd "$out/o/checkpoint-4" && find . -type f | sort | tr '\n' ' ')" = \
            "./model.safetensors.tmp ./notes ./sub/model.safetensors " ] &&
        [ "$(grep -c 'checkpoint-4: .* in it cannot be removed' "$out/err")" = 1 ]
}
ok "a foreign file in a checkpoint stays, and its folder is named once; copies of checkpoints stay" foreign

earlier() { # a run that goes on from an earlier step is the newer one
    rm -rf "$out/o"
    short --save-total-limit 0 && short --resume-from-checkpoint "$out/o/checkpoint-4" --save-steps 3 --max-steps 10 || return 1
    left checkpoint-6 checkpoint-9 && short --resume-from-checkpoint last --max-steps 12 || return 1
    rm -r "$out/o/checkpoint-9" && mv "$out/o/checkpoint-12" "$out/o/checkpoint-12.old" &&
        short --resume-from-checkpoint last --max-steps 13 --logging-steps 1 --log "$out/o.log" && head -n 1 "$out/o.log" |
        grep '"step": 13,'
}
ok "after going on from an earlier step the newer checkpoints stay, and 'last' is the newest" earlier

damaged() { # its name is one that this run has to write
    rm -rf "$out/o"
    short --max-steps 8 && : >"$out/o/checkpoint-8/trainer_state.json" &&
        short --max-steps 8 --resume-from-checkpoint last 2>"$out/err" || return 1
    cat "$out/err"
    [ "$(grep -c "checkpoint-8/trainer_state.json: .*is damaged, and a save replaces it" "$out/err")" = 1 ] &&
        left checkpoint-4 checkpoint-8 && rm "$out/o/checkpoint-8/trainer_state.json" && # as a copy in the names' order that broke off
        short --max-steps 8 --resume-from-checkpoint last 2>"$out/err" || return 1
    cat "$out/err"
    grep -q "o/checkpoint-8: it has no trainer_state.json: this checkpoint is damaged, and a save replaces it" "$out/err" &&
        short --max-steps 12 --resume-from-checkpoint "$out/o/checkpoint-8"
}
ok "a damaged checkpoint is named and replaced" damaged

# ---- A folder that is used ----

used() { # used CODE WORDS ARGUMENTS...
    want=$1 words=$2
    shift 2
    short "$@" 2>"$out/err"
    code=$?
    cat "$out/err"
    [ $code = "$want" ] && grep -qF -e "$words" "$out/err"
}
aside() { # where no file system exchanges names
    mv "$out/o/checkpoint-8" "$out/o/checkpoint-8.yoke-old"
    used 2 "called $out/o/checkpoint-8.yoke-old: rename that to $out/o/checkpoint-8" --resume-from-checkpoint "$out/o/checkpoint-8/"
}
ok "a checkpoint that a save put aside is named" aside
taken() { # taken KIND NAME ARGUMENTS...: checkpoint-6 is of another program, too, and no step of this run
    kind=$1 place=$2 words="is no folder: a checkpoint cannot take its place"
    shift 2
    rm -rf "$out/o" && mkdir -p "$out/o/checkpoint-6" && echo '{"global_step": 8}' >"$out/o/checkpoint-6/trainer_state.json" || return 1
    case $kind in
    folder) cp -r "$out/o/checkpoint-6" "$out/o/$place" && words="is there and is no checkpoint of Yoke (another program wrote";;
    link) ln -s "$out/m" "$out/o/$place";;
    file) echo mine >"$out/o/$place";;
    esac
    used 1 "$out/o/$place: $words" --overwrite-output-dir --log "$out/o/log.jsonl" "$@" && [ ! -e "$out/o/checkpoint-4" ] &&
        [ ! -e "$out/o/log.jsonl" ] && rm -r "$out/o/$place"
}
taken_ways() {
    for way in checkpoint-8 "checkpoint-best --load-best-model-at-end --eval-steps 4" \
        "checkpoint-best --save-total-limit 0 --save-steps 0 --save-strategy best --eval-steps 4"; do
        for kind in folder link file; do
            # shellcheck disable=SC2086
            taken $kind $way || { echo "$kind: $way"; return 1; }
        done
    done
    short --log "$out/o/log.jsonl" && [ -s "$out/o/log.jsonl" ]
}
ok "a place that another program has is an error before the first step" taken_ways
rm -rf "$out/o" && short >"$out/lines" 2>&1
ok "a used folder is refused" used 2 "--output-dir $out/o: there is a training's output already (config.json): --overwrite-output-dir"
rm -f "$out/o"/*.*
ok "a folder of checkpoints is refused" used 2 "already (checkpoints)"
ok "so is the folder that is opened" used 2 "--overwrite-output-dir" --from "$out/m" --output-dir "$out/m"
ok "--overwrite-output-dir writes there" short --overwrite-output-dir
ok "on two ranks it is refused too" used 2 "already (config.json)" --devices "cpu:0! cpu:0!"

locked() { # two jobs at a time: the second is told who the first is; the lock of a killed one does not hold
    rm -rf "$out/o"
    "$yoke" train --model mlp --data "idx:$out/images" --global-batch 8 --max-steps 100000000 --output-dir "$out/o" >/dev/null 2>&1 &
    pid=$!
    for i in $(seq 120); do
        [ -s "$out/o/.yoke-lock" ] && break
        sleep 0.5
    done
    used 1 "another job writes there: process $pid on $(uname -n) holds its .yoke-lock" --overwrite-output-dir
    told=$?
    kill -9 $pid
    wait $pid 2>/dev/null
    [ $told = 0 ] && [ -e "$out/o/.yoke-lock" ] && short && [ ! -e "$out/o/.yoke-lock" ]
}
ok "two jobs in one folder are told apart by a lock that ends with its process" locked
plan
