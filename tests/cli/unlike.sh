#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two ranks with unlike values of an option: each option of a command that trains or evaluates is compared before the first step, or is a
# rank's own. A new option has no row below, and fails the test until it has one.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
small_images "$out/images"

cat >"$out/unlike.py" <<'P'
import os, re, shlex, subprocess, sys
yoke, out, command = sys.argv[1:4]
base = {"train": f"--model mlp --model-config hidden=8 --data idx:{out}/images --max-steps 4 --overwrite-output-dir --output-dir {out}/m "
                 "--warmup-steps 1 --weight-decay 0.1",
        "eval": f"--from {out}/model --data idx:{out}/images", "predict": f"--from {out}/model --data idx:{out}/images",
        "bench": "--model mlp --iterations 2"}
own = {  # options in which ranks may differ: a pair of values that trains, or None for a file of settings, which turns into options
    "devices": None, "memory-limit": ("2G", "3G"), "allow-substitute": ("", None), "output-dir": (f"{out}/m", f"{out}/./m"),
    "log": (f"{out}/log", None), "logging-dir": (f"{out}/a", None), "run-name": ("a", "b"), "json": ("", None),
    "output": (f"{out}/said1", f"{out}/said2"), "config-file": None, "dry-run": None, "plan": None, "measure-seconds": None,
    "device-file": None, "threads": None,
    "deepspeed": None, "fsdp-config": None, "parallelism-config": None, "accelerator-config": None,
    "data": (f"idx:{out}/images", f"idx:{out}/./images"), "from": None if command == "train" else (f"{out}/model", f"{out}/./model"),
    "tokenizer": None, "eval-rows": None, "resume-from-checkpoint": None, "save-init": None}
unlike = {  # two values of every other option; None: not given. An option stands with what it needs
    "model": ("mlp", "resnet20 --model-config depth=8"), "model-config": ("hidden=8", "hidden=16"),
    "eval-data": (f"idx:{out}/images", None), "eval-split": ("0.1", "0.2"),
    "max-length": None, "seq-len": None, "shares": ("equal", "2:1"), "precision": ("fp32", "bf16"),
    "bf16": ("", None), "fp16": ("", None), "bf16-full-eval": ("", None), "fp16-full-eval": ("", None), "mlm-probability": None,
    "per-device-eval-batch-size": ("8", "16"), "seed": (str(2**53), str(2**53 + 1)), "new-head": None, "overwrite-output-dir": None,
    "num-train-epochs": ("1", "2"), "max-steps": ("4", "6"), "per-device-train-batch-size": ("8", "16"), "global-batch": ("16", "32"),
    "gradient-accumulation-steps": ("1", "2"), "bucket-bytes": ("1M", "2M"), "local-sgd-steps": ("0", "2"), "average": ("micro", "rows"),
    "learning-rate": ("1e-3", "1e-4"), "lr-scheduler-type": ("linear", "cosine"), "lr-scheduler-kwargs": ("min_lr=1e-5", "min_lr=2e-5"),
    "warmup-steps": ("1", "2"), "warmup-ratio": None, "label-smoothing-factor": ("0", "0.1"), "weight-decay": ("0.1", "0.2"),
    "decay-all": ("", None), "max-grad-norm": ("1", "2"), "optim": ("adamw", "adam"), "momentum": ("0.8", "0.9"),
    "adam-beta1": ("0.8", "0.9"), "adam-beta2": ("0.98", "0.99"), "adam-epsilon": ("1e-8", "1e-7"), "gradient-checkpointing": ("", None),
    "group-by-length": None, "dataloader-drop-last": (None, "!"), "data-seed": (str(2**53), str(2**53 + 1)),
    "max-train-samples": ("320", "640"),
    "max-eval-samples": ("100", "120"), "logging-strategy": ("steps", "epoch"), "logging-steps": ("1", "2"),
    "logging-first-step": ("", None),
    "eval-strategy": ("no", "epoch"), "eval-steps": ("2", "3"), "eval-delay": ("0", "1"), "eval-on-start": ("", None), "do-train": None,
    "do-eval": ("", None), "do-predict": ("", None), "metrics": ("loss", "loss,accuracy"), "save-strategy": ("no", "epoch"),
    "save-steps": ("2", "3"), "save-total-limit": ("1", "2"), "enable-jit-checkpoint": (None, "!"), "load-best-model-at-end": ("", None),
    "metric-for-best-model": ("loss", "accuracy"), "greater-is-better": ("", "!"), "early-stopping-patience": ("1", "2"),
    "early-stopping-threshold": ("0.1", "0.2"), "report-to": ("csv", "none"), "fsdp": None, "sharded-ddp": None,
    "shard": ("state", "gradients"),
    "shard-within": ("world", "host"), "shard-parts": ("equal", "2:1"), "shard-unit": ("1M", "2M"), "reshard-after-forward": ("on", "off"),
    "prefetch-units": ("1", "2"), "keep-whole": ("5000", "6000"), "keep-whole-params": None, "reduce": ("auto", "micro"),
    "tied-gradients": None, "offload": None, "parallel": None, "loss-scaling": ("init=256", "init=512"), "iterations": ("2", "3"),
    "rounds": None}
best, params = "--load-best-model-at-end", "--shard params"
also = {  # options without which one changes nothing
    "lr-scheduler-kwargs": "--lr-scheduler-type cosine_with_min_lr", "momentum": "--optim sgd", "loss-scaling": "--fp16",
    "bf16-full-eval": "--bf16" if command == "train" else "", "fp16-full-eval": "--fp16" if command == "train" else "",
    "eval-delay": "--eval-strategy steps --eval-steps 2", "metric-for-best-model": best, "greater-is-better": best,
    "early-stopping-patience": "--eval-strategy epoch", "early-stopping-threshold": "--early-stopping-patience 1",
    "logging-dir": "--report-to csv", "run-name": "--report-to csv", "shard-within": params, "shard-unit": params,
    "prefetch-units": params, "reshard-after-forward": params, "keep-whole": params, "reduce": "--shard gradients"}
# told by the core when the job is opened, by its own name of the setting
core = {"shares": "--shares", "shard-parts": "--shard-parts", "shard-unit": "--shard-unit",
        "shard-within": "--shard-within", "bucket-bytes": "YOKE_BUCKET_BYTES"}

def words(name, value):
    return [] if value is None else ["--no-" + name] if value == "!" else ["--" + name] + shlex.split(value)

def ranks(name, pair):
    given = shlex.split(base[command])
    while "--" + name in given:  # the pair stands instead
        at = given.index("--" + name)
        del given[at:at + 2]
    lines = [given + shlex.split(also.get(name, "")) + words(name, value) for value in pair]
    script = 'if [ "$YOKE_RANK" = 0 ]; then exec %s; else exec %s; fi' % tuple(
        shlex.join([yoke, command] + (["step"] if command == "bench" else []) + line) for line in lines)
    done = subprocess.run([yoke, "launch", "--devices", "cpu:0 cpu:0", "sh", "-c", script], capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout + done.stderr

help = subprocess.run([yoke, command, "--help"], capture_output=True, text=True, check=True).stdout
text = help.split("\nOptions:\n")[1].split("\n\n")[0]  # without other programs' names
bad = 0
known = set()
for name in re.findall(r"^ +--([a-z0-9-]+)", text, re.M):
    if name in ("help", "man", "options") or name in known:
        continue
    known.add(name)
    if name not in own and name not in unlike:
        print(f"--{name} has no row")
        bad += 1
        continue
    pair = own.get(name, unlike.get(name))
    if pair is None:
        continue
    code, said = ranks(name, pair)
    if name in own:
        right = code == 0
    else:
        line = [x for x in said.split("\n") if "expected" in x]
        right = code == 2 and len(line) == 1 and core.get(name, f"--{name}: expected ") in line[0] and "step " not in said
    if not right:
        print(f"--{name} {pair}: exit code {code}: " + "; ".join(said.strip().split("\n")[-4:]))
        bad += 1
print(f"{len(known)} options, {bad} wrong")
sys.exit(bad > 0)
P

unlike() { # unlike COMMAND
    python3 "$out/unlike.py" "$yoke" "$out" "$1"
}

numbers() { # one number in two spellings, and environments that differ where ranks may
    "$yoke" launch --devices "cpu:0 cpu:0" sh -c '
        rate=1e-3; [ "$YOKE_RANK" = 0 ] || rate=0.001
        [ "$YOKE_RANK" = 0 ] || export YOKE_LOG=info YOKE_MEMORY_LIMIT=3G
        exec "$@" --learning-rate $rate' - "$yoke" train --model mlp --data "idx:$out/images" --max-steps 2 --output-dir "$out/numbers"
}

mlp "$out/model" >"$out/said" 2>&1 || cat "$out/said"
if instrumented; then # the same code compares the options of each command
    skip "each option of yoke train" "instrumented: 100 jobs; the fewer of yoke predict are below"
else
    ok "each option of yoke train" unlike train
    ok "each option of yoke eval" unlike eval
    ok "each option of yoke bench" unlike bench
fi
ok "each option of yoke predict" unlike predict
ok "one number in two spellings" numbers
plan
