# SPDX-License-Identifier: Apache-2.0
"""fates.py YOKE IMAGES OUT CONFIGS CONFIGS-BAD [no-yaml] [only REGEX]: --dry-run says of each key of a file what a run does: of real
files, and of each key of each format alone, with a value of every second kind (YOKE_TEST_LONG: of each kind). Prints the differences. Runs
with the same options and fates are one run."""
import json
import os
import re
import subprocess
import sys

yoke, images, out = sys.argv[1:4]
FATE = re.compile(r"^(?:.*:\d+: )(\S+): (.*?): (honoured|mapped|not needed|not built yet|refused)(?:: (.*))?$")
BAD = "not built yet", "refused"
VALUES = [True, "nvme", out + "/place", 0, 2, 0.5, 1e30, None, [0.5, 0.5]]
RUN = ["train", "--model", "mlp", "--model-config", "hidden=1", "--data", "idx:" + images, "--max-steps", "1", "--eval-strategy", "no",
       "--output-dir", out + "/model", "--overwrite-output-dir", "--devices", "cpu:0"]
runs = {}


def start(*args):
    done = subprocess.run([yoke, *args], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, cwd=out)
    return done.returncode, done.stdout, done.stderr


def compare(name, *option):
    """None, or the difference between what is said and what is done."""
    code, shown, said = start(*RUN, "--dry-run", *option)
    fates = [m.groups() for m in map(FATE.match, shown.splitlines()) if m]
    bad = [f for f in fates if f[2] in BAD]
    options = [line for line in shown.splitlines() if line.startswith(("yoke ", "variable: "))]
    alike = str((code, options, [(path, why) for path, _, _, why in bad], code and re.sub(r"[^a-z]", "", said)))
    if alike not in runs:
        runs[alike] = start(*RUN, *option)
    done, _, errors = runs[alike]
    for path, value, fate, why in bad:
        if done != 2 or why not in errors:
            return f"{name}: {path} {value}: said {fate}: {why}; done: {done} {errors}"
    if "model mlp has no blocks" in errors: # --gradient-checkpointing is of other models
        return None
    if done not in (0, 2):
        return f"{name}: the run fails with {done}: {errors}"
    if done == 2 and code == 0 and not bad:
        return f"{name}: said {shown}{said}; done: {errors}"
    if done == 0 and code != 0:
        return f"{name}: said {code} {said}; done: {done}"
    return None


def put(tree, path, value):
    tree = json.loads(json.dumps(tree))
    at = tree
    *maps, last = path.split(".")
    for key in maps:
        at[key] = at[key] if isinstance(at.get(key), dict) else {}
        at = at[key]
    at[last] = value
    return tree


def keys(form):
    rows = start("config", "--keys", form)[1].splitlines()[2:]
    return [(key, row.split(" | ")[1]) for row in rows for key in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


def zero(device):
    place = {"device": device, "nvme_path": out}
    return {"stage": 3, "offload_optimizer": place, "offload_param": place if device == "cpu" else {"device": "none", "nvme_path": out}}


def cases():
    """Names and the options of a run."""
    full = {"train_micro_batch_size_per_gpu": 4, "fp16": {"enabled": True}, "zero_optimization": zero("cpu"),
            "optimizer": {"type": "AdamW", "params": {}}, "scheduler": {"type": "WarmupLR", "params": {}}}
    disk = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": zero("nvme")}
    plugin = {"zero_stage": 3, "offload_param_nvme_path": out}
    forms = [("deepspeed", "", [{"train_micro_batch_size_per_gpu": 4}, full, disk], "--deepspeed", ""),
             ("accelerate", "", [{"distributed_type": "NO"}, {"distributed_type": "MULTI_CPU"}], "--config-file", "yaml"),
             ("accelerate-deepspeed", "deepspeed_config.", [{"distributed_type": "DEEPSPEED", "deepspeed_config": plugin}],
              "--config-file", "yaml"),
             ("accelerate-megatron", "megatron_lm_config.", [{"distributed_type": "MEGATRON_LM"}], "--config-file", "yaml"),
             ("fsdp", "fsdp_config.", [{"distributed_type": "FSDP"}], "--config-file", "yaml"),
             ("fsdp", "", [{"sharding_strategy": "FULL_SHARD"}], "--fsdp-config", ""),
             ("parallelism", "", [{}], "--parallelism-config", ""), ("accelerator", "", [{}], "--accelerator-config", "")]
    for form, before, bases, option, ending in forms:
        if ending and "no-yaml" in sys.argv:
            continue
        for number, base in enumerate(bases):
            for place, (key, fate) in enumerate(keys(form)):
                if number and form == "deepspeed" and not key.startswith(("zero_optimization", "scheduler", "optimizer", "fp16")):
                    continue
                kinds = VALUES if "YOKE_TEST_LONG" in os.environ else VALUES[place % 2::2]
                for value in kinds[:2] if fate == "not needed" else kinds:
                    given = json.dumps(put(base, before + key, value))
                    if ending:
                        with open(f"{out}/case.{ending}", "w", encoding="utf-8") as f:
                            f.write(given + "\n")
                        given = f"{out}/case.{ending}"
                    yield f"{form} {number} {key}={value!r}", option, given


def files():
    """The real files, and those with a fault."""
    for folder in sys.argv[4:6]:
        with open(folder + "/index.tsv", encoding="utf-8") as f:
            for row in list(f)[1:]:
                name = row.split("\t")[0]
                if "hostfile" not in name and name.endswith(".json" if "no-yaml" in sys.argv else (".json", ".yaml", ".yml")):
                    yield name, "--config-file", f"{folder}/{name}"


def main():
    wrong = count = 0
    for name, option, given in [*files(), *cases()]:
        if "only" in sys.argv and not re.search(sys.argv[sys.argv.index("only") + 1], name):
            continue
        count += 1
        fault = compare(name, option, given)
        if fault:
            wrong += 1
            print(fault.replace("\n", " / "))
    print(count, "cases,", len(runs), "runs,", wrong, "wrong")
    return wrong > 0


sys.exit(main())
