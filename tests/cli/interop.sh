#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Hugging Face folders: what is opened with --from and saved again has the tensors of the original, under their names;
# a classifier has its own head in place of the one for masked words ("cls."). Folders of other versions and wrappers open alike, and
# what Yoke does not compute is refused by name.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data models tinyshakespeare banking77 fashion-mnist
export YOKE_DEVICES=cpu:0
head -c 2000 "$data/tinyshakespeare/input.txt" >"$out/text"
{ # two rows of each sixth class
    echo text,category
    grep -v '"' "$data/banking77/train.csv" | awk 'NR % 120 == 20 || NR % 120 == 21'
} >"$out/rows.csv"

same_tensors() { # same_tensors ORIGINAL SAVED [equal]: names and shapes; what only one side has is shown
    python3 - "$@" <<'P'
import json, struct, sys
def head(d):
    with open(d + "/model.safetensors", "rb") as f:
        h = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    h.pop("__metadata__", None)
    return {k: (v["shape"], v["dtype"]) for k, v in h.items()}
a, b = head(sys.argv[1]), head(sys.argv[2])
new = {k for k in b if k.split(".")[0] in ("classifier", "score", "lm_head") or ".pooler." in k or k.startswith("pooler.")}
strip = lambda h, skip: {k: v for k, v in h.items() if k not in skip and not k.endswith(("position_ids", "attn.bias", "masked_bias"))}
x, y = strip(a, {k for k in a if k.startswith("cls.")}), strip(b, new - set(a))
ok = x.keys() == y.keys() and all(x[k][0] == y[k][0] for k in x)
for k in sorted(x.keys() ^ y.keys()):
    print("only in", sys.argv[1] if k in x else sys.argv[2], k)
sys.exit(not ok)
P
}

round_trip() { # round_trip MODEL DATA ARGUMENTS...: no learning, saved, opened again: the same loss
    from=$data/models/$1 rows=$2
    shift 2
    rm -rf "$out/m"
    "$yoke" train --from "$from" --data "$rows" --learning-rate 0 --max-steps 1 --global-batch 4 \
        --overwrite-output-dir --output-dir "$out/m" "$@" || return 1
    "$yoke" eval --from "$out/m" --data "$rows" --json "$@" >"$out/one" &&
        "$yoke" eval --from "$out/m" --data "$rows" --json "$@" >"$out/two" &&
        cmp "$out/one" "$out/two" && valid_json "$out/one" && same_tensors "$from" "$out/m"
}

before_after() { # GPT-2 has no new head: the original and the saved one evaluate alike
    "$yoke" eval --from "$data/models/fake-gpt2" --data "text:$out/text" --seq-len 32 --json >"$out/before" || return 1
    "$yoke" eval --from "$out/m" --data "text:$out/text" --seq-len 32 --json >"$out/after" && cat "$out/before" "$out/after" &&
        cmp "$out/before" "$out/after"
}

ok "GPT-2: saved with the names and shapes of the original" round_trip fake-gpt2 "text:$out/text" --seq-len 32
ok "GPT-2: evaluates alike before and after" before_after
ok "BERT: saved with the names and shapes of the original" round_trip bert-tiniest "csv:$out/rows.csv,text=text,label=category"
as_people_write() {
    cat "$out/m/config.json"
    grep -qx ' *"layer_norm_eps": 1e-12,' "$out/m/config.json" && grep -qx ' *"hidden_dropout_prob": 0.1,' "$out/m/config.json"
}
ok "its numbers are written as people do" as_people_write

# Keys that Yoke knows nothing of, and values of all kinds, are saved as they were.
keys_kept() { # keys_kept MODEL DATA ARGUMENTS...
    from=$data/models/$1 rows=$2
    shift 2
    rm -rf "$out/keys" && cp -r "$from" "$out/keys" && chmod -R u+w "$out/keys" && python3 - "$out/keys/config.json" <<'P' || return 1
import json, sys
c = json.load(open(sys.argv[1]))
c.update(transformers_version="4.40", revision="00012", digits="99999999999999999999", eos_token_id=[1, 2], mixed=[3, 4.5, "x"],
         words=["a", "b"], zero=0.0, one=1.0,
         pi=3.141592653589793, whole=1, nothing=None, task_specific_params={"0": [1]}, nested=[[1], {"a": None}], text="x" * 5000,
         truth="true", yes=True, id2label={"0": "never", "1": "seen", "2": "here"}, label2id={"never": 0, "seen": 1, "here": 2})
json.dump(c, open(sys.argv[1], "w"))
P
    "$yoke" train --from "$out/keys" --data "$rows" --learning-rate 0 --max-steps 1 --global-batch 4 --overwrite-output-dir \
        --output-dir "$out/m" --eval-strategy no "$@" || return 1
    python3 - "$out/keys/config.json" "$out/m/config.json" <<'P'
import json, sys
before, after = (json.load(open(f)) for f in sys.argv[1:])
assert len(after.get("id2label", {})) == len(after.get("label2id", {})) == after.get("num_labels", 3), after
ours = "architectures", "num_labels", "id2label", "label2id"
for k in before:
    assert k in ours or repr(after.get(k, "gone")) == repr(before[k]), (k, before[k], after.get(k, "gone"))
P
}
ok "BERT: all other keys of its config.json are as they were" keys_kept bert-tiniest "csv:$out/rows.csv,text=text,label=category"
ok "GPT-2: so are those" keys_kept fake-gpt2 "text:$out/text" --seq-len 32

# ---- Keys of config.json: read, refused, or named ----

with_key() { # with_key MODEL JSON: the folder with further keys
    rm -rf "$out/key" && cp -r "$data/models/$1" "$out/key" && chmod -R u+w "$out/key" &&
        python3 - "$out/key/config.json" "$2" <<'P'
import json, sys
c = json.load(open(sys.argv[1]))
c.update(json.loads(sys.argv[2]))
json.dump(c, open(sys.argv[1], "w"))
P
}

key_says() { # key_says CODE WORDS MODEL JSON: how eval of that folder ends, and a word on standard error
    with_key "$3" "$4" || return 1
    "$yoke" eval --from "$out/key" --data "text:$out/text" --seq-len 32 --json >"$out/loss" 2>"$out/err"
    code=$?
    cat "$out/err"
    [ "$code" = "$1" ] && grep -qF "$2" "$out/err"
}

same_loss() { # same_loss JSON: another spelling of what fake-gpt2 says
    with_key fake-gpt2 "$1" && "$yoke" eval --from "$out/key" --data "text:$out/text" --seq-len 32 --json >"$out/loss" &&
        cmp "$out/loss" "$out/before"
}
ok "a key that is not known is named" key_says 0 "does not know, which change nothing: colour" fake-gpt2 '{"colour": 1}'
ok "two names of a setting" key_says 2 "n_layer=1 and num_hidden_layers=3" fake-gpt2 '{"num_hidden_layers": 3}'
ok "transformers' names for GPT-2's keys" same_loss '{"n_layer": null, "num_hidden_layers": 1}'
ok "gelu_fast is gelu_new" same_loss '{"activation_function": "gelu_fast"}'

# A value of another type was read as if the key were absent.
ok "an object is no activation" key_says 2 'got "(an object or a list)": choose one of these' fake-gpt2 \
    '{"activation_function": {"a": 1}}'
ok "a list is no number" key_says 2 'setting n_head: expected a whole number from 0 to 2147483647, found an array' fake-gpt2 \
    '{"n_head": [1]}'
ok "nor is an object" key_says 2 'setting attn_pdrop: expected a number, found an object' fake-gpt2 '{"attn_pdrop": {}}'
ok "a list is no truth" key_says 2 'setting scale_attn_weights: expected true or false, found an array' fake-gpt2 \
    '{"scale_attn_weights": [false]}'
ok "a text is no truth, as transformers takes false for true" key_says 2 \
    'setting scale_attn_weights=false: expected true or false, found a string' fake-gpt2 '{"scale_attn_weights": "false"}'
ok "null is no number of heads" key_says 2 'config.json: n_head: expected a value, found null' fake-gpt2 '{"n_head": null}'
ok "null is no dropout" key_says 2 'config.json: attn_pdrop: expected a value, found null' fake-gpt2 '{"attn_pdrop": null}'
ok "heads that were taken out" key_says 2 'config.json: pruned_heads is not empty' fake-gpt2 '{"pruned_heads": {"0": [1]}}'
ok "no heads that were taken out" same_loss '{"pruned_heads": {}}'
ok "an object is no list of heads" key_says 2 'config.json: architectures: expected a list of names' fake-gpt2 \
    '{"architectures": {"0": "GPT2DoubleHeadsModel"}}'
ok "a negative epsilon" key_says 2 'layer_norm_epsilon=-1: expected 0 or a positive number' fake-gpt2 '{"layer_norm_epsilon": -1}'

# What transformers writes for a tokenizer without a longest text.
whole_beyond() {
    mkdir "$out/words" && printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n' >"$out/words/vocab.txt" &&
        printf '{"do_lower_case": true, "model_max_length": 1000000000000000019884624838656}' >"$out/words/tokenizer_config.json" &&
        printf '{"text": "hello", "id": 18446744073709551615, "label": "x"}\n' >"$out/d.jsonl" && printf 'hello world\n' >"$out/hello" &&
        "$yoke" tokenize --tokenizer "$out/words" "$out/hello" && "$yoke" inspect "$out/d.jsonl"
}
ok "whole numbers beyond 64 bits, where nobody asks for them" whole_beyond

characters() { # what AutoTokenizer needs: without the class it makes GPT-2's own tokenizer of the file
    "$yoke" train --model gpt2 --model-config n_layer=1,n_head=1,n_embd=8,n_positions=16 --data "text:$out/text" --tokenizer char \
        --seq-len 16 --max-steps 2 --save-steps 1 --eval-strategy no --output-dir "$out/chars" || return 1
    for dir in "$out/chars" "$out/chars/checkpoint-1"; do
        python3 - "$dir" <<'P' || return 1
import json, sys
assert json.load(open(sys.argv[1] + "/tokenizer_config.json"))["tokenizer_class"] == "PreTrainedTokenizerFast"
assert json.load(open(sys.argv[1] + "/tokenizer.json"))["pre_tokenizer"]["pattern"]["Regex"] == r"[\s\S]" # Oniguruma has no (?s:.)
P
    done
    "$yoke" train --from "$out/chars" --data "text:$out/text" --seq-len 16 --max-steps 2 --eval-strategy no --output-dir "$out/chars2" &&
        cmp "$out/chars/tokenizer_config.json" "$out/chars2/tokenizer_config.json"
}
ok "a vocabulary of characters is saved as transformers reads it" characters

# ---- Folders that were changed ----

changed() { # changed MODEL CODE: a copy in $out/c; the Python has its tensors t[name] = (dtype, shape, bytes), and its config.json c
    rm -rf "$out/c" && cp -r "$data/models/$1" "$out/c" && chmod -R u+w "$out/c" && python3 - "$out/c" "$2" <<'P'
import json, struct, sys
config, file = sys.argv[1] + "/config.json", sys.argv[1] + "/model.safetensors"
with open(file, "rb") as f:
    head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    data = f.read()
head.pop("__metadata__", None)
t = {k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k, v in head.items()}
c = json.load(open(config))
def renamed(new):
    return {new(k): v for k, v in t.items()}
exec(sys.argv[2])
at, head = 0, {}
for k, (dtype, shape, b) in t.items():
    head[k] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(b)]}
    at += len(b)
head = json.dumps(head).encode()
open(file, "wb").write(struct.pack("<Q", len(head)) + head + b"".join(b for _, _, b in t.values()))
json.dump(c, open(config, "w"))
P
}

original() { # original KIND: its folder
    [ "$1" = gpt2 ] && echo fake-gpt2 || echo bert-tiniest
}

evaluate() { # evaluate KIND FOLDER: GPT-2, BERT by masked words ("mlm"), BERT as a classifier ("classes")
    case $1 in
    gpt2) "$yoke" eval --from "$2" --data "text:$out/text" --seq-len 32 --json ;;
    mlm) "$yoke" eval --from "$2" --data "csv:$out/rows.csv,text=text,label=category" --mlm-probability 0.15 --max-eval-samples 32 --json ;;
    *) "$yoke" eval --from "$2" --data "csv:$out/rows.csv,text=text,label=category" --json ;;
    esac
}

alike() { # alike KIND CODE: the changed folder evaluates as the original does, and nothing more is said
    [ -s "$out/before-$1" ] || evaluate "$1" "$data/models/$(original "$1")" >"$out/before-$1" 2>"$out/said-$1" || return 1
    changed "$(original "$1")" "$2" && evaluate "$1" "$out/c" >"$out/after" 2>"$out/says"
    code=$?
    cat "$out/before-$1" "$out/says" "$out/after"
    [ $code = 0 ] && cmp "$out/before-$1" "$out/after" && [ "$(grep -c '^yoke: ' "$out/said-$1")" = "$(grep -c '^yoke: ' "$out/says")" ]
}

refused() { # refused KIND WORDS CODE
    changed "$(original "$1")" "$3" || return 1
    evaluate "$1" "$out/c" >"$out/says" 2>&1
    code=$?
    cat "$out/says"
    [ $code = 2 ] && grep -qF -e "$2" "$out/says"
}

ok "GPT-2: an untied head" refused gpt2 'has tie_word_embeddings=true only, and the configuration says false' \
    'c["tie_word_embeddings"] = False'
ok "GPT-2: scores that are not scaled" refused gpt2 'scale_attn_weights=true only' 'c["scale_attn_weights"] = False'
ok "GPT-2: scores that are scaled by the layer" refused gpt2 'scale_attn_by_inverse_layer_idx=false only' \
    'c["scale_attn_by_inverse_layer_idx"] = True'
ok "GPT-2: cross attention" refused gpt2 'add_cross_attention=false only' 'c["add_cross_attention"] = True'
ok "GPT-2: an activation" refused gpt2 \
    'activation_function: expected relu, gelu, gelu_new, silu, tanh or sigmoid, got "quick_gelu"' 'c["activation_function"] = "quick_gelu"'
ok "GPT-2: scores in f32 are the same mathematics" alike gpt2 'c["reorder_and_upcast_attn"] = True'
ok "BERT: an untied head" refused mlm 'tie_word_embeddings=true only' 'c["tie_word_embeddings"] = False'
ok "BERT: a classifier has no tied head" alike classes 'c["tie_word_embeddings"] = False'
ok "BERT: a decoder" refused mlm 'is_decoder=false only' 'c["is_decoder"] = True'
ok "BERT: relative positions" refused classes 'position_embedding_type=absolute only, and the configuration says relative_key' \
    'c["position_embedding_type"] = "relative_key"'
ok "BERT: cross attention" refused mlm 'add_cross_attention=false only' 'c["add_cross_attention"] = True'

bare='t = renamed(lambda k: k.removeprefix("bert."))'
for family in roberta electra distilbert; do
    ok "BERT by config.json, and $family by its tensors" refused classes "tensor \"$family.embeddings" \
        "t = renamed(lambda k: k.replace('bert.', '$family.'))"
done
ok "or by the head alone" refused classes 'tensor "lm_head.dense.weight" is of another model than bert' \
    "$bare; t['lm_head.dense.weight'] = t['encoder.layer.0.attention.output.dense.weight']"
ok "so are masked words" refused mlm 'is of another model than bert-mlm, like RoBERTa' \
    "$bare; t['module.lm_head.bias'] = t['embeddings.LayerNorm.bias']"
ok "RoBERTa by config.json, and BERT by its tensors" refused classes 'bert, got "roberta"' 'c["model_type"] = "roberta"'
other_type() { # other_type CODE: the weights of a folder for a model that --model names
    changed "$(original classes)" "c['model_type'] = 'roberta'; $1" || return 1
    "$yoke" eval --model bert --from "$out/c" --data "csv:$out/rows.csv,text=text,label=category" --tokenizer "$data/models/bert-tiniest" \
        --model-config hidden_size=4,intermediate_size=8,num_attention_heads=1,num_hidden_layers=1 >"$out/says" 2>&1
    code=$?
    cat "$out/says"
    [ $code = 2 ] && grep -qF 'config.json is of another model, model_type "roberta": expected "bert" for model bert' "$out/says"
}
ok "nor are they weights for --model bert" other_type 'pass'
ok "nor those of a base, whose names are the same" other_type "$bare"

for head in $(ends_of BertForTokenClassification BertForQuestionAnswering BertForMultipleChoice); do
    ok "a head that Yoke has not: $head" refused classes "architectures \"$head\" is a head that Yoke has not" \
        "c['architectures'] = ['$head']"
done
ok "nor has it where transformers gave one to a folder of ours" refused classes 'architectures "BertForTokenClassification"' \
    'c.update(yoke_model="bert", architectures=["BertForTokenClassification"])'
for head in GPT2ForSequenceClassification GPT2DoubleHeadsModel; do
    ok "a head that Yoke has not: $head" refused gpt2 "architectures \"$head\" is a head that Yoke has not" "c['architectures'] = ['$head']"
done
for head in $(ends_of BertModel BertForPreTraining BertForMaskedLM); do
    ok "a new classifier begins from $head" alike classes "c['architectures'] = ['$head']"
done
ok "masked words go on from BertForPreTraining" alike mlm 'c["architectures"] = ["BertForPreTraining"]'
ok "and from a folder that names no head" alike mlm 'del c["architectures"]'

# The real bert-base-uncased has such names, and the head of its pre-training.
ok "LayerNorm.gamma and .beta" alike mlm \
    't = renamed(lambda k: k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"))'
ok "the bias by its place in the head" alike mlm 't = renamed(lambda k: k.replace("predictions.bias", "predictions.decoder.bias"))'
ok "BERT: module." alike mlm 't = renamed(lambda k: "module." + k)'
ok "BERT: module. before a base's names" alike mlm 't = renamed(lambda k: "module." + k.removeprefix("bert."))'
ok "GPT-2: module. before a base's names" alike gpt2 't = renamed(lambda k: "module." + k.removeprefix("transformer."))'

ok "constants of older versions need no word" alike mlm 't["bert.embeddings.position_ids"] = ("F32", [1], bytes(4))'
ok "nor do those of GPT-2" alike gpt2 't.update({"transformer.h.0.attn.bias": ("F32", [1], bytes(4)),
"transformer.h.0.attn.masked_bias": ("F32", [], bytes(4))})'
ok "nor does a copy of the tied matrix" alike gpt2 't["lm_head.weight"] = t["transformer.wte.weight"]'
ok "nor of the bias of BERT's head" alike mlm 't["cls.predictions.decoder.bias"] = t["cls.predictions.bias"]'
ok "another matrix there is another model" refused gpt2 'tensor "lm_head.weight" has other numbers than "transformer.wte.weight"' \
    'd, s, b = t["transformer.wte.weight"]; t["lm_head.weight"] = d, s, bytes(len(b))'
ok "so is one in BERT's head" refused mlm 'tensor "cls.predictions.decoder.weight" has other numbers' \
    'd, s, b = t["bert.embeddings.word_embeddings.weight"]; t["cls.predictions.decoder.weight"] = d, s, bytes(len(b))'
ok "the last of its elements counts" refused gpt2 'tensor "lm_head.weight" has other numbers than "transformer.wte.weight"' \
    'd, s, b = t["transformer.wte.weight"]; t["lm_head.weight"] = d, s, b[:-1] + bytes([b[-1] ^ 1])'
prefixed() { # by a name of the weights in the job, too
    changed "$(original gpt2)" 'd, s, b = t["transformer.wte.weight"]; t["lm_head.weight"] = d, s, bytes(len(b))' || return 1
    "$yoke" eval --from "$out/c" --model-config prefix=teacher. --data "text:$out/text" --seq-len 32 --json >"$out/says" 2>&1
    code=$?
    cat "$out/says"
    [ $code = 2 ] && grep 'tensor "lm_head.weight" has other numbers than "transformer.wte.weight"' "$out/says"
}
ok "under a prefix, too" prefixed
tied_ranks() { # tied_ranks CODE TEXT PYTHON: three ranks by messages, with parameters in slices, open the changed folder
    changed "$(original gpt2)" "$3" || return 1
    YOKE_TRANSPORT=local "$yoke" train --from "$out/c" --data "text:$out/text" --seq-len 16 --global-batch 3 --max-steps 1 --shard params \
        --devices 'cpu:0! cpu:0! cpu:0!' --eval-strategy no --output-dir "$out/tied" --overwrite-output-dir >"$out/says" 2>&1
    code=$?
    cat "$out/says"
    [ $code = "$1" ] && grep -qF -e "$2" "$out/says"
}
nan='n = bytes([0, 0, 192, 127]); d, s, b = t["transformer.wte.weight"]'
ok "three ranks in slices compare it" tied_ranks 2 'has other numbers than "transformer.wte.weight"' \
    'd, s, b = t["transformer.wte.weight"]; t["lm_head.weight"] = d, s, b[:-1] + bytes([b[-1] ^ 1])'
ok "and take a copy" tied_ranks 0 'saved in' 't["lm_head.weight"] = t["transformer.wte.weight"]'
ok "a NaN in one of both differs" tied_ranks 2 'has other numbers' "$nan; t['lm_head.weight'] = d, s, b[:-4] + n"
same_nan() { # a NaN in both is no difference: the gradient is the error
    tied_ranks 1 'the gradient of "transformer.wte.weight" is not finite' \
        "$nan; t['lm_head.weight'] = t['transformer.wte.weight'] = d, s, n + b[4:]" &&
        ! grep -q 'has other numbers' "$out/says"
}
ok "a NaN in both does not" same_nan
cut() { # the file ends before its last tensor does
    changed "$(original gpt2)" 't["lm_head.weight"] = t["transformer.wte.weight"]' && truncate -s -8 "$out/c/model.safetensors" || return 1
    evaluate gpt2 "$out/c" >"$out/says" 2>&1
    code=$?
    cat "$out/says"
    [ $code = 2 ] && grep -q "model.safetensors: " "$out/says"
}
ok "a file that is cut is named" cut
left() { # left KIND LINE TENSOR...: evaluates as before, and one line names them
    kind=$1 line=$2
    shift 2
    changed "$(original "$kind")" "t.update({k: ('F32', [1], bytes(4)) for k in '$*'.split()})" &&
        evaluate "$kind" "$out/c" >"$out/after" 2>"$out/says" || return 1
    cat "$out/says"
    cmp "$out/before-$kind" "$out/after" && grep -F "$out/c: model $line" "$out/says"
}
ok "tensors that the model has no place for are named" left mlm \
    "bert-mlm has no place for 5 of its tensors: bert.adapter.0, bert.adapter.1, bert.adapter.2, .." \
    bert.adapter.0 bert.adapter.1 bert.adapter.2 bert.adapter.3 bert.adapter.4
ok "so is the head of BERT's pre-training" left mlm \
    "bert-mlm has no place for 3 of its tensors: bert.pooler.dense.weight, cls.seq_relationship.bias, cls.seq_relationship.weight" \
    bert.pooler.dense.weight cls.seq_relationship.bias cls.seq_relationship.weight
ok "and that of masked words, which a classifier leaves" left classes \
    "bert has no place for 6 of its tensors: cls.predictions.bias, " score.weight
ok "so are heads like those of BERT's relatives beside BERT's own names" left classes "bert has no place for 7 of its tensors: " \
    classifier.dense.weight lm_head.weight
ok "and another head of GPT-2" left gpt2 "gpt2 has no place for 1 of its tensors: score.weight" score.weight

# Without such a tensor the layers compute something else than those of the file.
of_layers() { # of_layers KIND TENSOR...
    kind=$1
    shift
    for name in $(ends_of "$@"); do
        refused "$kind" "tensor \"$name\" belongs to layers of model " "t['$name'] = ('F32', [4], bytes(16))" || return 1
    done
}
layer=bert.encoder.layer.0.attention
ok "BERT: further layers, biases, norms, adapters and rotations are refused" of_layers mlm bert.encoder.layer.1.output.dense.bias \
    bert.embeddings.word_embeddings.bias encoder.layer.0.output.dense.bias $layer.self.q_norm.weight $layer.self.distance_embedding.weight \
    $layer.rotary_emb.inv_freq $layer.self.query.lora_A.weight module.bert.encoder.layer.9.output.dense.bias cls.predictions.scale
ok "a classifier refuses them too" of_layers classes bert.encoder.layer.1.output.dense.bias bert.pooler.gate
ok "GPT-2: so are such" of_layers gpt2 transformer.h.1.ln_1.weight transformer.h.0.attn.q_norm.weight transformer.wpe.bias lm_head.bias
fewer() { # the last layers are left out where the caller sets their number, in one line
    changed fake-gpt2 't["transformer.h.1.ln_1.weight"] = ("F32", [2], bytes(8)); c["n_layer"] = 2' &&
        "$yoke" train --from "$out/c" --model-config n_layer=1 --data "text:$out/text" --seq-len 32 --max-steps 1 --eval-strategy no \
            --output-dir "$out/fewer" 2>"$out/says" || return 1
    cat "$out/says"
    grep -F "model gpt2 has no place for 1 of its tensors: transformer.h.1.ln_1.weight" "$out/says"
}
ok "the caller may leave out the last layers" fewer
fewer_only() { # fewer_only TENSOR...: the layers that stay have no place for it, so it is refused there, too
    for name in "$@"; do
        changed fake-gpt2 "t.update({k: ('F32', [2], bytes(8)) for k in ('transformer.h.1.ln_1.weight', '$name')})
c['n_layer'] = 2" || return 1
        "$yoke" train --from "$out/c" --model-config n_layer=1 --data "text:$out/text" --seq-len 32 --max-steps 1 --eval-strategy no \
            --overwrite-output-dir --output-dir "$out/fewer" 2>"$out/says"
        code=$?
        cat "$out/says"
        [ $code = 2 ] && grep -qF "tensor \"$name\" belongs to layers of model " "$out/says" || return 1
    done
}
ok "and nothing else" fewer_only transformer.h.0.attn.q_norm.weight transformer.wpe.bias lm_head.bias h.x.ln_1.weight

# ---- Quantized weights, as each library writes them ----

for key in $(ends_of quantization_config compression_config quantization quant_config); do
    ok "config.json with $key" refused classes "config.json's key \"$key\" says that the weights are quantized" "c['$key'] = {'bits': 8}"
done
ok "no quantization is none" alike classes 'c["quantization_config"] = None'
for file in $(ends_of quantize_config.json quant_config.json hf_quant_config.json quanto_qmap.json); do
    ok "$file beside it" refused classes "$file says that the weights are quantized" "open(sys.argv[1] + '/$file', 'w').write('{}')"
done
ok "an adapter beside it" refused classes "adapter_config.json names an adapter, which Yoke does not apply" \
    "open(sys.argv[1] + '/adapter_config.json', 'w').write('{}')"
for name in $(ends_of SCB absmax weight_scale weight_scale_inv qweight qzeros scales weight_packed); do
    ok "a tensor of ..$name" refused mlm 'belongs to quantized weights' \
        "t['bert.encoder.layer.0.output.dense.$name'] = ('F32', [1], bytes(4))"
done
for type in $(ends_of I8 U8 I32 I64 BOOL); do
    ok "weights of type $type" refused mlm "has type $type, but the model needs fractions" "size = {'I32': 4, 'I64': 8}.get('$type', 1)
d, s, b = t['bert.pooler.dense.bias' if 'bert.pooler.dense.bias' in t else 'bert.embeddings.LayerNorm.bias']
t['bert.embeddings.LayerNorm.bias'] = '$type', [len(b) // 4], bytes(len(b) // 4 * size)"
done
ok "weights of 8 bits" refused mlm 'has type F8_E4M3, which cannot become f32' "d, s, b = t['bert.embeddings.LayerNorm.bias']
t['bert.embeddings.LayerNorm.bias'] = 'F8_E4M3', s, bytes(len(b) // 4)"

pickled() {
    changed bert-tiniest "" && mv "$out/c/model.safetensors" "$out/c/pytorch_model.bin" || return 1
    evaluate mlm "$out/c" >"$out/says" 2>&1
    code=$?
    cat "$out/says"
    [ $code = 2 ] && grep -q "its weights are in pytorch_model.bin, .*'model.safetensors',{'format':'pt'})\"" "$out/says"
}
ok "a pickle is named, with the line that makes safetensors of it" pickled

typed() { # tensors are saved as float32, and transformers takes what config.json says
    changed bert-tiniest 'c["dtype"] = c["torch_dtype"] = "bfloat16"' &&
        "$yoke" train --from "$out/c" --data "csv:$out/rows.csv,text=text,label=category" --max-steps 1 --global-batch 4 \
            --eval-strategy no --output-dir "$out/typed" && cat "$out/typed/config.json" &&
        [ "$(grep -c '"\(torch_\)\?dtype": "float32"' "$out/typed/config.json")" = 2 ]
}
ok "config.json says the type of what is saved" typed

small_images "$out/images"
resnet() { # of transformers' "resnet", which has other layers, it would make a random one without a word
    "$yoke" train --model resnet20 --model-config widths=4+4+4,blocks_per_stage=1 --data "idx:$out/images" --global-batch 8 --max-steps 1 \
        --eval-strategy no --output-dir "$out/r" && grep -q '"model_type": "yoke-resnet"' "$out/r/config.json" || return 1
    "$yoke" eval --from "$out/r" --data "idx:$out/images" --json >"$out/one" || return 1
    sed -i 's/yoke-resnet/resnet/' "$out/r/config.json" && "$yoke" eval --from "$out/r" --data "idx:$out/images" --json >"$out/two" &&
        cmp "$out/one" "$out/two"
}
ok "a ResNet has a model_type of its own, and opens from folders with the older one" resnet
theirs() {
    printf '{"model_type": "resnet", "architectures": ["ResNetForImageClassification"], "hidden_sizes": [8, 16]}' >"$out/r/config.json"
    "$yoke" eval --from "$out/r" --data "idx:$out/images" >"$out/says" 2>&1
    code=$?
    cat "$out/says"
    [ $code = 2 ] && grep -F 'model_type "resnet" without yoke_model is a ResNet of transformers' "$out/says"
}
ok "a ResNet of transformers is named" theirs
plan
