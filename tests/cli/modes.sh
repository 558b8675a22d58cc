#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A file or a checkpoint that a command replaces keeps its permissions: its owner may have closed it to other users.
. "$YOKE_SOURCE/tests/cli/lib.sh"
export YOKE_DEVICES=cpu:0
umask 022
python3 -c 'for i in range(24): print(("text,label\n" if not i else "") + ("yes it is" if i % 2 else "no"), f"{i},{i % 2}", sep=" ")' \
    >"$out/rows.csv"
rows="csv:$out/rows.csv,text=text,label=label"

bert() { # bert STEPS ARGUMENTS...
    steps=$1
    shift
    "$yoke" train --data "$rows" --model bert --tokenizer bytes --max-length 16 --global-batch 8 --learning-rate 1e-3 --model-config \
        hidden_size=8,num_hidden_layers=1,num_attention_heads=2,intermediate_size=8,max_position_embeddings=16 --max-steps "$steps" \
        --eval-strategy no --no-do-eval --logging-steps 1 "$@"
}
again() { # again STEPS: writes the model, its checkpoints and its log anew
    bert "$1" --save-steps 1 --overwrite-output-dir --output-dir "$out/m" --log "$out/steps"
}
has() { # has MODE FILE...: each file has the mode
    mode=$1
    shift
    for file in "$@"; do
        [ "$(stat -c %a "$file")" = "$mode" ] || { stat -c '%a %n' "$file"; return 1; }
    done
}
closed() { # closed MODE FILE: an old file of that mode
    rm -f "$2" && echo old >"$2" && chmod "$1" "$2"
}

open_at_first() {
    again 2 && has 644 "$out/m/model.safetensors" "$out/m/config.json" "$out/m/tokenizer.json" "$out/steps" && has 755 "$out/m/checkpoint-1"
}
ok "new files have the mode that the shell asks for" open_at_first
trained_again() {
    chmod 600 "$out/m/model.safetensors" "$out/steps" && chmod 640 "$out/m/config.json" && chmod 400 "$out/m/tokenizer.json" &&
        chmod 700 "$out/m/checkpoint-1" && again 3 && has 600 "$out/m/model.safetensors" "$out/steps" && has 640 "$out/m/config.json" &&
        has 400 "$out/m/tokenizer.json" && has 700 "$out/m/checkpoint-1" && has 755 "$out/m/checkpoint-2"
}
ok "a model's files, its checkpoints and its log keep theirs" trained_again
files_within() { # in an open folder, too; a file that the new checkpoint has first is a new one
    chmod 755 "$out/m/checkpoint-1" && chmod 600 "$out/m/checkpoint-1"/* && chmod 640 "$out/m/checkpoint-1/config.json" &&
        rm "$out/m/checkpoint-1/tokenizer.json" && again 3 && has 755 "$out/m/checkpoint-1" && for file in "$out/m/checkpoint-1"/*; do
            case $file in
            */config.json) has 640 "$file" ;;
            */tokenizer.json) has 644 "$file" ;;
            *) has 600 "$file" ;;
            esac || return 1
        done
}
ok "each file of a checkpoint keeps its own" files_within
put_aside() { # an interrupted save left the old checkpoint aside, and an empty folder in its place: the checkpoint's permissions count
    mv "$out/m/checkpoint-2" "$out/m/checkpoint-2.yoke-old" && chmod 700 "$out/m/checkpoint-2.yoke-old" &&
        chmod 600 "$out/m/checkpoint-2.yoke-old/model.safetensors" && mkdir -m 755 "$out/m/checkpoint-2" && again 3 &&
        has 700 "$out/m/checkpoint-2" && has 600 "$out/m/checkpoint-2/model.safetensors" && [ ! -e "$out/m/checkpoint-2.yoke-old" ]
}
ok "one that was put aside, too" put_aside
empty_folder() {
    mkdir -m 700 "$out/m/checkpoint-4" && again 4 && has 700 "$out/m/checkpoint-4" && [ -s "$out/m/checkpoint-4/trainer_state.json" ]
}
ok "an empty folder that becomes a checkpoint, too" empty_folder
cut_lines() {
    rm -f "$out/steps.cut" && chmod 600 "$out/steps" && bert 1 --output-dir "$out/n" --log "$out/steps" && grep -q step "$out/steps.cut" &&
        has 600 "$out/steps" "$out/steps.cut"
}
ok "lines that leave a log are as private as it was" cut_lines
predictions() {
    closed "$1" "$out/p" && "$yoke" predict --from "$out/m" --data "$rows" --output "$out/p" && has "$1" "$out/p" && grep -q 1 "$out/p" &&
        ! grep -q old "$out/p"
}
for mode in 600 640 664 400; do
    ok "predictions over a file of mode $mode" predictions $mode
done
linked() {
    mkdir "$out/deep" && closed 600 "$out/deep/p" && rm -f "$out/link" && ln -s deep/p "$out/link" &&
        "$yoke" predict --from "$out/m" --data "$rows" --output "$out/link" && [ -L "$out/link" ] && has 600 "$out/deep/p"
}
ok "through a link too" linked
settings() {
    closed 600 "$out/s.yaml" && "$yoke" config --config-file "$out/s.yaml" --overwrite --devices cpu:0 && has 600 "$out/s.yaml" &&
        grep -q cpu:0 "$out/s.yaml"
}
ok "a file of settings" settings
traced() {
    closed 600 "$out/t.json" && : >"$out/t.json" && trace_of bert 2 --output-dir "$out/traced" &&
        has 600 "$out/t.json" && grep -q traceEvents "$out/t.json"
}
trace_of() { # trace_of COMMAND...: a function of this file, whose program is traced
    traced_program=$yoke
    yoke=$out/traced.sh
    printf '#!/bin/sh\nexec "%s" trace --steps 1 --skip 0 --output "%s" -- "%s" "$@"\n' "$traced_program" "$out/t.json" "$traced_program" \
        >"$yoke" && chmod +x "$yoke" && "$@"
    code=$?
    yoke=$traced_program
    return $code
}
ok "a trace" traced
tokens() {
    closed 600 "$out/ids" && : >"$out/ids" && "$yoke" tokenize --tokenizer bytes --output "$out/ids" "$out/rows.csv" &&
        has 600 "$out/ids" && [ -s "$out/ids" ]
}
ok "a file of tokens" tokens
a_killed_run_left() { # a read-only file under construction is in nobody's way
    closed 600 "$out/p" && closed 400 "$out/p.yoke-tmp" && "$yoke" predict --from "$out/m" --data "$rows" --output "$out/p" &&
        has 600 "$out/p" && [ ! -e "$out/p.yoke-tmp" ]
}
ok "the remains of a killed run" a_killed_run_left
plan
