#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A user's first hour: the message for what is typed wrong names the remedy: a near name of a missing path, the program of a script, the
# kind of a folder, the option with the same words. The program of docs/data.md makes pictures into data that train.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist cifar10-part
export YOKE_DEVICES=cpu:0
small_images "$out/images"
cd "$out" || exit 1

says() { # says WORDS ARGUMENTS...: exit code 2, and a line has the words
    words=$1
    shift
    "$yoke" "$@" >"$out/said" 2>&1 </dev/null
    code=$?
    cat "$out/said"
    [ $code = 2 ] && grep -qF -e "$words" "$out/said"
}
absent() {
    printf 'text,label\na,0\n' >dev.csv && mkdir -p run/checkpoint-20 run/checkpoint-x run/checkpoint-300 bare || return 1
    printf '{}' >run/checkpoint-20/config.json
    says "(this folder has no devv.csv: did you mean dev.csv?)" train --model bert --tokenizer bytes --data devv.csv --output-dir x &&
        says "(this folder has no imagse: did you mean images?)" train --model mlp --data idx:imagse --output-dir x &&
        says "(this folder has no folder distant)" train --model mlp --data idx:distant/away --output-dir x &&
        says "(run has no checkpoint-2: did you mean checkpoint-20?)" train --model mlp --data idx:images --output-dir run \
            --resume-from-checkpoint run/checkpoint-2 &&
        says "(no model was written there at a training's end: run/checkpoint-20 is one)" eval --from run --data idx:images &&
        says "(expected a folder with config.json and model.safetensors" eval --from bare --data idx:images
}
ok "a path that is not there: the part that is missing, and a near name" absent
scripts() {
    printf 'print(1)\n' >train.py && printf 'data' >data.bin && printf '#!/nosuch/sh\n' >odd && chmod +x odd || return 1
    says "name the program that runs it: python3 train.py" launch train.py --lr 3 &&
        says "name the program that runs it: python3 ./train.py" launch ./train.py &&
        : >own.c && says "is a source: compile it" launch own.c &&
        says "--include: --hosts names the hosts" launch --include localhost true &&
        says "in PATH: ./data.bin is the file of this folder" launch data.bin &&
        says "expected a program, a file that may be executed (chmod +x)" launch ./data.bin &&
        says "its interpreter (its first line, #!..) is not there" launch ./odd &&
        says "a file of settings stands behind --config-file" train settings.yaml
}
ok "a script that is no program" scripts
folders() {
    mkdir -p photos/cats
    "$yoke" train --model mlp --data images --max-steps 1 --output-dir by_kind >said 2>&1 || { cat said; return 1; }
    "$yoke" train --model resnet20 --data "$data/cifar10-part" --max-train-samples 8 --max-eval-samples 8 --max-steps 1 \
        --output-dir coloured >said 2>&1 || { cat said; return 1; }
    says "this folder has none; cifar10:DIR reads *.bin files" train --model mlp --data "idx:$data/cifar10-part" --output-dir x &&
        says "folders of pictures are not read" train --model resnet20 --data idx:photos --output-dir x &&
        says "as docs/data.md says" train --model resnet20 --data imagefolder:photos --output-dir x &&
        says "as docs/data.md says" train --model resnet20 --train_dir photos --output-dir x
}
ok "the kind of a folder" folders
words() {
    says "--trainer.max-epochs: did you mean --max-epochs, here --num-train-epochs?" train --trainer.max_epochs 2 &&
        says "--foo.max-steps: did you mean --max-steps?" train --foo.max_steps 2 &&
        says "--hub-model: as of --hub-model-id, nothing is uploaded" train --hub_model x &&
        says "--save-total: did you mean --save-total-limit?" train --save_total 3 &&
        says "-lr: options begin with --: did you mean --lr?" train -lr 3 &&
        says "--learning-rte: did you mean --learning-rate?" train --learning_rte 3 &&
        says "--per-device-batch: did you mean --per-device-train-batch-size?" train --per_device_batch 8 &&
        says "--per-device-batch: did you mean --per-device-eval-batch-size?" eval --per_device_batch 8
}
ok "an option with the same words" words
valueless() { # an option is no value of the one before it, by its own name or another program's; and advice has no origin
    says "--resume-from-checkpoint needs a value: DIR|last, and --output_dir stands there" train --resume_from_checkpoint --output_dir t2 &&
        [ "$(wc -l <said)" = 1 ] && says "--learning-rate needs a value: R, and --model stands there" train --lr --model mlp &&
        says "--data needs a value: [KIND:]PATH[,..], and --learning-rate stands there" train --data --lr=3 &&
        says "--num-processes needs a value: N, and --hosts stands there" launch -n --hosts a true &&
        says "--zero_stage: --shard state" train --zero_stage 2 --fsdp full_shard && ! grep -q "for the optimizer \[" said
}
ok "an option without its value" valueless
near() { # near COMMAND, on standard input OPTION MEANT: one command line has them all, and each its line
    cat >table
    # shellcheck disable=SC2046
    "$yoke" "$1" $(sed 's/ .*/ 1/' table) >said 2>&1
    [ $? = 2 ] || { cat said; return 1; }
    while read -r option meant; do
        grep -qF -e "unknown option $option: $meant" said || { echo "$1: no line: $option: $meant"; cat said; return 1; }
    done <table
}
sounds() { # dashes and underscores are no letters, nor is the s of plurals, and other programs' names count
    near train <<'T' && near predict <<'T' && near eval <<'T' && near launch <<'T' || return 1
--outdir did you mean --out-dir, here --output-dir?
--epoch did you mean --epochs, here --num-train-epochs?
--batchsize did you mean --batch-size, here --per-device-train-batch-size?
--trainfile did you mean --train-file, here --data?
--train-files did you mean --train-file, here --data?
--trainfle did you mean --train-file, here --data?
--maxseqlen did you mean --max-seq-len, here --max-length?
--WeightDecay did you mean --weight-decay?
--pushtohub as of --push-to-hub, nothing is uploaded
--nproc-per-nodes as of --nproc-per-node, --devices names the devices
--numworkers did you mean --num-workers?
--log-file did you mean --log?
--data-folder did you mean --data?
--lossfunc no option is called nearly so
T
--nproc-per-node did you mean --devices?
--batchsize did you mean --batch-size, here --per-device-eval-batch-size?
--outputfile did you mean --output-file, here --output?
T
--num-processes did you mean --devices?
--out-file no option is called nearly so
T
--nprocpernode did you mean --nproc-per-node?
--host-files did you mean --hostfile?
T
    says "--metrics precision: expected names out of loss, accuracy, f1, f1_macro, perplexity, mse, pearson, or all (f1 is made of" \
        train --metrics precision,acuracy,bleu --metric_for_best_model eval_mcc --load_best_model_at_end &&
        grep -qF "(did you mean accuracy?)" said && grep -qF "(no text is generated)" said &&
        grep -qF -e "--metric-for-best-model eval_mcc: expected loss, " said && ! grep -q "did you mean pearson" said
}
ok "a name that sounds like one, and a metric that is not computed" sounds
pairs() { # a row of two texts
    printf 'a,b,label\nx,y,0\nv,w,1\n' >pair.csv && printf 'premise,hypothesis,label\nx,y,0\nv,w,1\n' >mnli.csv || return 1
    printf '{"sentence1":"x","sentence2":"y","label":0}\n' >pair.jsonl
    bert="train --model bert --tokenizer bytes --max-steps 1 --output-dir x"
    one="a row has one text, which --data csv:FILE,text=COLUMN names: choose a column, or join both in the file"
    here="a row has one text here, which text=COLUMN names: choose a column, or join both in the file"
    # shellcheck disable=SC2086
    says "--sentence1_key: $one" $bert --sentence1_key a --sentence2_key b --task_name mrpc && grep -qF -e "--sentence2_key: $one" said &&
        grep -qF -e "--task_name: nothing is downloaded, and a row has one text: " said && says "--sentence1_key: $one" \
        predict --sentence1_key a && says "--task_name: nothing is downloaded" eval --task_name mnli &&
        says "no column 'a+b' in the header (it has 'a', 'b', 'label'): $here" $bert --data csv:pair.csv,text=a+b &&
        says "unknown key 'text_pair': $here" $bert --data csv:pair.csv,text=a,text_pair=b &&
        says "pairs of texts; $here" $bert --data mnli.csv && says "pairs of texts; $here" $bert --data pair.jsonl
}
ok "pairs of texts" pairs
short() { # each has its fate, in one message
    says "-bs: did you mean --per-device-train-batch-size?" train --mpi -bs 8 -e 3 -m m -d d -v -q -b8 -t t -k \
        --help_all --version --precision x || return 1
    for fate in "--mpi: ranks find each other" "-e: did you mean --num-train-epochs?" "-m: did you mean --model?" \
        "-d: did you mean --data?" "-v: YOKE_LOG=debug" "-q: YOKE_LOG=error" "-b8 is rows of each rank" "-t: did you mean --tokenizer?" \
        "-k: options begin with --: did you mean one of --keep" "--help-all: did you mean --help" "--version: yoke --version"; do
        grep -qF -e "$fate" said || { echo "no line: $fate"; return 1; }
    done
    says "-N: to srun it is the number of hosts, --nnodes" launch -x A -H a,b -f f -ppn two -N 2 -t 3 --mpi -c c.yaml true || return 1
    for fate in "-x A: expected NAME=VALUE" "-t: as of --tee" "--mpi: mpirun starts" "-c: did you mean --config-file?"; do
        grep -qF -e "$fate" said || { echo "no line: $fate"; return 1; }
    done
    says "--mem: an option of srun or salloc" launch --foo te --fp8_format HYBRID -r 3 --no-python --mem 4G "$yoke" --bar || return 1
    [ "$(wc -l <said)" = 5 ] || { cat said; return 1; } # --bar is the program's
    [ "$("$yoke" -V)" = "$("$yoke" --version)" ]
}
ok "options of one letter, and of habit" short
beside() { # a value or a file that is wrong hides no unknown option
    printf -- '- a\n' >list.yaml && : >none.yaml && printf 'text,label\na,0\n' >dev.csv || return 1
    says "--foo" train --mixed_precision x --foo 3 && says "--foo" train --deepspeed list.yaml --foo 3 &&
        says "--foo" train --learning_rte --foo 3 &&
        says "list.yaml, line 1: expected a map of keys, got a list: expected DeepSpeed's JSON" train --deepspeed list.yaml &&
        says "none.yaml: has no settings: expected DeepSpeed's JSON" train --deepspeed none.yaml &&
        says "dev.csv, line 1: " train --config-file dev.csv && grep -qF "expected Yoke's or Accelerate's YAML" said
}
ok "what is wrong is said beside a wrong value or file, which is named with its kind" beside
once() { # by the process that selects devices, or by the table
    mkdir -p plugins && cp "$YOKE_BUILD/.libs/yoke_cpu.so" plugins && printf junk >plugins/yoke_junk.so || return 1
    for line in "train --model mlp --data idx:images --max-steps 1 --output-dir once --overwrite-output-dir" info; do
        # shellcheck disable=SC2086
        YOKE_DEVICES= YOKE_PLUGIN_DIR=$PWD/plugins "$yoke" $line >said 2>&1 || { cat said; return 1; }
        [ "$(grep -c "plugin .*yoke_junk.so" said)" = 1 ] || { cat said; return 1; }
    done
}
ok "a plugin that does not load is named once" once
pictures() { # Pillow's three calls by a stand-in: a file's first byte is the colour of all its pixels
    mkdir -p PIL train/cat train/dog && cat >PIL/Image.py <<'P'
class Picture:
    def __init__(self, value): self.value = value
    def convert(self, mode): assert mode == "RGB"; return self
    def resize(self, size): self.size = size; return self
    def split(self): return [self] * 3
    def tobytes(self): return bytes([self.value]) * (self.size[0] * self.size[1])
def open(path):
    with path.open("rb") as f: return Picture(f.read(1)[0])
P
    touch PIL/__init__.py
    for i in 1 2 3 4; do printf '\377' >train/cat/$i.png && printf 'a' >train/dog/$i.png || return 1; done
    mkdir -p pixels && awk '/^```python/ {on = 1; next} /^```/ {on = 0} on' "$YOKE_SOURCE/docs/data.md" >pictures.py &&
        PYTHONPATH=. python3 pictures.py train pixels/train && PYTHONPATH=. python3 pictures.py train pixels/t10k &&
        "$yoke" train --model resnet20 --data idx:pixels,classes=2 --global-batch 4 --max-steps 2 --output-dir animals >said 2>&1 &&
        "$yoke" predict --from animals --data idx:pixels,classes=2 >rows && [ "$(wc -l <rows)" = 8 ]
}
ok "a folder of pictures, by the program of docs/data.md" pictures
rounds() { # what is wrong is said at once; an argument without an option is told its option
    printf 'text,label\na,0\nb,1\n' >rows.csv && printf 'some words\nand more\n' >new.txt || return 1
    says "--data: rosw.csv: cannot be opened: No such file or directory (this folder has no rosw.csv: did you mean rows.csv?)" train \
        --model bert --data rosw.csv --metrics acuracy,bleu --learning_rate abc --report_to wandb --eval-rows none --from ./away ||
        return 1
    for fate in "--metrics acuracy: " "--metrics bleu: " "--learning-rate abc: " "--report-to wandb: " "--eval-rows: none: cannot be" \
        "--from: ./away: cannot be opened" "--output-dir is missing"; do
        grep -qF -e "$fate" said || { echo "no line: $fate"; return 1; }
    done
    mkdir -p model && printf '{}' >model/config.json && says '"model": a model'"'"'s folder stands behind --from' predict model new.txt &&
        grep -qF '"new.txt": a file of data stands behind --data' said && says '"odd"; usage: yoke eval' eval odd &&
        says "--model model: is a model's folder, which stands behind --from" predict --model model --data new.txt &&
        says "--text_column: --data names the columns" train --text_column review
}
ok "all errors of a command line in one message" rounds
# A text's end that does not train, checkpoints that are not written beside a model in a folder of its name, the lines of a text to predict.
told() {
    printf 'text,label\na b,0\nb c,1\na b c,0\nb,1\n' >rows.csv && seq 400 >t.txt || return 1
    small="--tokenizer bytes --max-steps 2 --devices cpu:0 --overwrite-output-dir"
    # shellcheck disable=SC2086
    "$yoke" train --model gpt2 --model-config n_layer=1,n_head=2,n_embd=16,n_positions=32 --data text:t.txt --save-steps 9 $small \
        --output-dir gpt2 >said 2>&1 && grep -q "the last tenth of the text evaluates and does not train: --eval-data" said &&
        grep -q -- "no checkpoint is written but the model at the end: --save-steps 9 is more than the run's 2 steps" said &&
        says "there is no checkpoint in the output folder gpt2: a run writes some by --save-steps" train --model gpt2 --data text:t.txt \
            --model-config n_layer=1,n_head=2,n_embd=16,n_positions=32 $small --output-dir gpt2 --resume-from-checkpoint last || return 1
    # shellcheck disable=SC2086
    "$yoke" train --model bert --data rows.csv --global-batch 2 \
        --model-config hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=16 $small \
        --output-dir of_rows >said 2>&1 || { cat said; return 1; }
    printf 'a b\nc\n' >new.txt || return 1
    for spec in new.txt lines:- lines:/dev/stdin; do # a pipe is read, too
        # shellcheck disable=SC2002
        cat new.txt | "$yoke" predict --from of_rows --data "$spec" --devices cpu:0 >said && [ "$(wc -l <said)" = 2 ] || return 1
    done
}
ok "defaults of running text and checkpoints, and a text to predict" told
plan
