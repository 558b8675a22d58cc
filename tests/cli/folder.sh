#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The output folder: what training puts there, what it leaves alone, and what it takes away.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data models banking77 fashion-mnist
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
        --output-dir "$to" "$@"
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
    rm -f "$out/n/.yoke-lock"
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
plan
