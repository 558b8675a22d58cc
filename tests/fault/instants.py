# SPDX-License-Identifier: Apache-2.0
# instants.py FOLDER DEVICES NUMBER [SEED]: a training gets a signal at NUMBER instants of its life, and goes on until it has ended. No
# step that was done before it left is lost, and the model is that of the training that nobody disturbed, byte for byte. Instants are
# random, one in each NUMBERth part of the life. There is one in each phase besides: a checkpoint, an evaluation, an epoch's end, the last
# step, the model.
#
# SIGINT, SIGHUP and a second SIGTERM end it at once in these phases: what was saved is whole, and the run goes on from there.
#
# The signal comes to the launcher, to one rank, to the launcher's process group (a terminal, a container), or to every process (Slurm).
import glob
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time

folder, devices, number = sys.argv[1], sys.argv[2].split(), int(sys.argv[3])
seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 31)
rng = random.Random(seed)
yoke = os.environ["YOKE_BUILD"] + "/yoke"
STEPS, PER_EPOCH, LIMIT = 60, 20, 300
COMMAND = [yoke, "train", "--model", "mlp", "--model-config", "hidden=64", "--data", f"idx:{folder}/images", "--global-batch", "32",
           "--max-steps", str(STEPS), "--eval-strategy", "steps", "--eval-steps", "8", "--save-steps", "15", "--logging-steps", "1",
           "--shares", "equal"]
SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
ENDING = (signal.SIGINT, signal.SIGHUP, None)  # None: SIGTERM, and once more 0.1 s later


def digest(out):
    with open(out + "/model.safetensors", "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def checkpoints(out):
    return glob.glob(out + "/checkpoint-*[0-9]/trainer_state.json")


def command(out, *more):
    return COMMAND + ["--devices", " ".join(devices), "--output-dir", out, "--log", out + ".log", *more]


def start(out, *more):
    with open(out + ".said", "a", encoding="utf-8") as said:
        return subprocess.Popen(command(out, *more), stdout=said, stderr=said, stdin=subprocess.DEVNULL, start_new_session=True)


def family(pid):
    """The process and those that it started, of a session of their own."""
    found = []
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat, encoding="utf-8", errors="replace") as f:
                text = f.read()
        except OSError:
            continue
        if text.rsplit(")", 1)[1].split()[3] == str(pid):
            found.append(int(text.split()[0]))
    return found


def rank_of(pid, rank):
    for one in family(pid):
        try:
            with open(f"/proc/{one}/environ", "rb") as f:
                if f"YOKE_RANK={rank}".encode() in f.read().split(b"\0"):
                    return one
        except OSError:
            pass
    return None


def send(process, target, sig):
    """False: whom it was for is not there."""
    try:
        if target == "rank":
            pid = rank_of(process.pid, rng.randrange(len(devices)))
            if not pid:
                return False
            os.kill(pid, sig)
        elif target == "group":
            os.killpg(process.pid, sig)
        elif target == "all":
            for pid in family(process.pid):
                os.kill(pid, sig)
        else:
            os.kill(process.pid, sig)
    except ProcessLookupError:
        return False
    return True


def lines(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except OSError:
        return ""


def steps_logged(out):
    return max((json.loads(line)["step"] for line in lines(out + ".log").splitlines(True) if line.endswith("\n")), default=0)


# What shows that a training is in a phase.
PHASES = {
    "checkpoint": lambda out: os.path.isdir(out + "/checkpoint-30.yoke-tmp"),
    "evaluation": lambda out: '"step": 40,' in lines(out + ".log"),
    "epoch's end": lambda out: f'"step": {2 * PER_EPOCH},' in lines(out + ".log"),
    "last step": lambda out: f'"step": {STEPS},' in lines(out + ".log"),
    "model": lambda out: os.path.isdir(out + "/.yoke-save.tmp") or os.path.exists(out + "/model.safetensors"),
}


def wait(process):
    code = process.wait(LIMIT)
    return 128 - code if code < 0 else code


def await_instant(process, out, instant):
    begin = time.monotonic()
    while process.poll() is None:
        if instant(out) if callable(instant) else time.monotonic() - begin >= instant:
            return
        time.sleep(0.0005)


def whole(out, cut=False):
    """Each checkpoint has what its state names, and nothing half written is left, but where a save was cut off, until the next attempt."""
    for state in checkpoints(out):
        with open(state, encoding="utf-8") as f:
            files = json.load(f)["files"]
        for name, entry in files.items():
            assert os.path.getsize(os.path.join(os.path.dirname(state), name)) == entry["bytes"], (state, name)
    left = [name for name in os.listdir(out) if name.endswith(("tmp", ".yoke-old"))] if os.path.isdir(out) else []
    assert cut or not left, left


def disturbed(index, name, instant, target, sig, want):
    out = f"{folder}/{len(devices)}.{index}"
    process = start(out)
    await_instant(process, out, instant)
    sent = send(process, target, sig or signal.SIGTERM)
    if not sig:
        time.sleep(0.1)
        send(process, target, signal.SIGTERM)
    at = time.monotonic()
    first = code = wait(process)
    took = time.monotonic() - at
    attempts, logged = 1, steps_logged(out)
    number = int(sig or signal.SIGTERM)
    ended = code in (128 + number, 1 if target == "rank" else 0)  # 1: of a rank alone, as the launcher has it
    early = ended and not os.path.exists(out)  # before main a program has no say
    whole(out, ended and sig not in SIGNALS)
    assert code in (0, 75) or early or (ended and sig not in SIGNALS), f"exit code {code}"
    assert took < 30, took
    saved = max((int(state.split("-")[-1].split("/")[0]) for state in checkpoints(out)), default=None)
    assert code != 75 or not logged or (saved or 0) >= logged, f"step {logged} was done, and checkpoint {saved} is the last"
    while code and attempts < 5:
        attempts += 1
        code = wait(start(out, *(["--resume-from-checkpoint", "last"] if checkpoints(out) else ["--overwrite-output-dir"])))
    same = code == 0 and digest(out) == want
    whole(out)
    named = (sig.name if sig else "SIGTERM twice") + f" to {target}" + ("" if sent else " (not there)")
    print(f"# {index} {name}: {named}: {first} after {took:.2f} s, checkpoint {saved}, {attempts} attempts: "
          f"{'the same' if same else f'exit code {code}, ANOTHER'}")
    return same


def main():
    plain = f"{folder}/{len(devices)}.plain"
    begin = time.monotonic()
    code = wait(start(plain))
    life = time.monotonic() - begin
    assert code == 0, lines(plain + ".said")
    want = digest(plain)
    targets = ["launcher", "group", "all"] + ["rank"] * (len(devices) > 1)
    print(f"# seed {seed}: {life:.2f} s of {devices}")
    plan = [(f"{(i + u) / number:.2f} of its life", (i + u) / number * life) for i, u in ((i, rng.random()) for i in range(number))]
    plan = [(name, instant, rng.choice(SIGNALS)) for name, instant in plan]
    plan += [(*phase, rng.choice(signals)) for signals in (SIGNALS, ENDING) for phase in PHASES.items()]
    bad = 0
    for index, (name, instant, sig) in enumerate(plan):
        try:
            bad += not disturbed(index, name, instant, rng.choice(targets), sig, want)
        except AssertionError as why:
            bad += 1
            print(f"# {index} {name}: {why}: " + lines(f"{folder}/{len(devices)}.{index}.said")[-600:].replace("\n", "\n# "))
    print(f"# {len(plan) - bad} of {len(plan)} are the same")
    sys.exit(bad > 0)


main()
