# SPDX-License-Identifier: Apache-2.0
"""The benchmarks: what is trained, on which sides, and how a side is run. One row of the report is a case at a precision."""
import contextlib
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NO_DROPOUT = {"gpt2": "embd_pdrop=0,attn_pdrop=0,resid_pdrop=0", "bert": "hidden_dropout_prob=0,attention_probs_dropout_prob=0"}
KEEP_PAGES = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=68719476736"
TORCH = "2.15.0"
PACKAGES = [f"torch=={TORCH}", "accelerate==1.15.0", "tokenizers==0.23.3", "numpy"]
PEERS = ("yoke", "eager", "compile", "tuned")
ISA_PEER = {  # what keeps PyTorch, oneDNN and MKL to an instruction set, and what PyTorch then says it has
    "avx2": ({"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}, "AVX2"),
    "avx512": ({"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "MKL_ENABLE_INSTRUCTIONS": "AVX512"}, "AVX512"),
}
LOAD_MS = 10  # --load: so long the core is taken, then left for as long
LOAD = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
period = int(sys.argv[2]) * 1e-3
while True:
    end = time.perf_counter() + period
    while time.perf_counter() < end:
        pass
    time.sleep(period)
"""


@dataclasses.dataclass
class Case:
    name: str
    model: str
    batch: int
    iterations: int
    config: str = ""
    threads: int = 0  # 0: as many as --threads says
    precisions: tuple = ("fp32", "bf16")
    sides: tuple = PEERS  # the first is ours; "cpu:1" and the like are ours on that device, several words on all of them
    loader: bool = False
    run_sides: tuple = ()  # those of this run

    @property
    def full_config(self):
        return ",".join(w for w in (self.config, NO_DROPOUT.get(self.model, "")) if w)


CASES = [
    Case("GPT-2 124M 4x256", "gpt2", 4, 3, "seq_len=256"),
    Case("BERT-base 32x128", "bert", 32, 2, "seq_len=128"),
    Case("ResNet-18 128", "resnet18", 128, 3, "stem=3x3"),
    Case("ResNet-20 128", "resnet20", 128, 10),
    Case("MLP 128", "mlp", 128, 300),
    Case("small MLP 16", "mlp", 16, 3000, "input_size=64,hidden=64+64", 1, ("fp32",), ("yoke", "eager", "compile")),
    Case("small MLP 16, loader", "mlp", 16, 2000, "input_size=64,hidden=64+64", 1, ("fp32",), ("yoke", "eager"), True),
    Case("ResNet-20 32, OpenCL", "resnet20", 32, 5, "", 1, ("fp32",), ("opencl:0@1", "cpu:1")),
    Case("BERT small 8x64, OpenCL", "bert", 8, 5, "seq_len=64,num_hidden_layers=2,hidden_size=128,num_attention_heads=2,"
         "intermediate_size=512", 1, ("fp32",), ("opencl:0@1", "cpu:1")),
]
TOGETHER = ("cpu:0 opencl:0@1", "cpu:0", "opencl:0@1")  # both in one job, each alone
CASES += [dataclasses.replace(c, name=f"{name}, mixed", sides=TOGETHER, batch=batch, iterations=n)
          for c, name, batch, n in ((CASES[-2], "ResNet-20 128", 128, 10), (CASES[-1], "BERT small 64x64", 64, 20))]
CASES += [dataclasses.replace(c, name=f"{c.name}, scaling", sides=("cpu:0-1", "cpu:0"), iterations=min(c.iterations, 4)) for c in CASES[:4]]

SMALL = {  # one of each family for the check that both sides train the same thing
    "gpt2": (4, "seq_len=16,n_layer=2,n_embd=64,n_head=4,vocab_size=500"),
    "bert": (4, "seq_len=16,num_hidden_layers=2,hidden_size=64,num_attention_heads=4,intermediate_size=128,vocab_size=500"),
    "resnet18": (8, "widths=16+32+64+128,stem=3x3"),
    "resnet20": (8, ""),
    "resnet50": (8, "widths=64+128+256+512,blocks_per_stage=1+2+1+1,image_size=64"),  # tests/cli/resnet.sh has its losses
    "mlp": (16, "input_size=64,hidden=64+64"),
}


def build_id(build):
    """Names the program that was measured: rounds of another build are not mixed with it."""
    h = hashlib.sha256()
    for part in ("yoke", ".libs/yoke_cpu.so", ".libs/yoke_opencl.so"):
        path = os.path.join(build, part)
        if os.path.exists(path):
            with open(path, "rb") as f:
                h.update(f.read())
    return h.hexdigest()[:12]


class OutOfTime(Exception):
    pass


deadline = float("inf")  # of all runs, on the monotonic clock


@contextlib.contextmanager
def core_taken(wanted):
    """While it lasts a process on the last of our cores runs half of the time, as a hypervisor takes a virtual core away."""
    if not wanted:
        yield
        return
    core = max(os.sched_getaffinity(0))
    load = subprocess.Popen([sys.executable, "-c", LOAD, str(core), str(LOAD_MS)])
    try:
        yield
    finally:
        load.kill()
        load.wait()


def run(command, env=None):
    """The last line of the command's output as JSON, with its largest resident set and the seconds it took. At the deadline the
    command is killed and OutOfTime raised."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        p = subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, **(env or {})})
        killer = threading.Timer(min(deadline - began, threading.TIMEOUT_MAX), p.kill)
        killer.daemon = True
        killer.start()
        _, status, used = os.wait4(p.pid, 0)
        killer.cancel()
        p.returncode = os.waitstatus_to_exitcode(status)
        if p.returncode and time.monotonic() >= deadline:
            raise OutOfTime(" ".join(command))
        out.seek(0)
        err.seek(0)
        if p.returncode:
            sys.exit(f"{' '.join(command)} failed ({p.returncode}):\n{err.read()[-3000:]}")
        got = json.loads(out.read().strip().split("\n")[-1])
    return {**got, "rss_bytes": used.ru_maxrss * 1024, "seconds": time.monotonic() - began}


def small_images(folder):
    """1,024 images of 8 x 8 in IDX form: as many rows of 64 numbers as the peer's loader has."""
    for part in ("train", "t10k"):
        for name, head, row in (("images-idx3", (0x803, 1024, 8, 8), 64), ("labels-idx1", (0x801, 1024), 1)):
            with open(f"{folder}/{part}-{name}-ubyte", "wb") as f:
                f.write(b"".join(n.to_bytes(4, "big") for n in head) + bytes(i * 37 % (256 if row > 1 else 10) for i in range(1024 * row)))


def yoke(a, case, precision, device=None, extra=()):
    threads = case.threads or a.threads
    command = [f"{a.build}/yoke", "bench", "step", "--json", "--model", case.model, "--global-batch", str(case.batch), "--precision",
               precision, "--iterations", str(case.iterations), *extra]
    command += ["--devices", device] if device else ["--threads", str(threads)]
    command += ["--model-config", case.full_config] if case.full_config else []
    with tempfile.TemporaryDirectory() as d:
        if case.loader:
            small_images(d)
            command += ["--data", f"idx:{d}"]
        return run(command, {"YOKE_PLUGIN_DIR": f"{a.build}/.libs", **({"YOKE_CPU_ISA": a.isa} if a.isa else {})})


def peer(a, case, precision, side, extra=()):
    threads = case.threads or a.threads
    command = [f"{a.peer}/bin/python", f"{HERE}/peer_step.py", "--model", case.model, "--global-batch", str(case.batch), "--precision",
               precision, "--threads", str(threads), "--iterations", str(case.iterations), *extra]
    command += ["--model-config", case.full_config] if case.full_config else []
    command += [f"--{w}" for w in side.split("-") if w != "eager"] + (["--accelerate"] if case.loader else [])
    env, isa = ISA_PEER[a.isa] if a.isa else ({}, None)
    got = run(command, {**env, **({"GLIBC_TUNABLES": KEEP_PAGES} if "tuned" in side else {})})
    want = {"threads": threads, "world": 1, "matmul": "medium" if "tuned" in side else "highest", **({"capability": isa} if isa else {})}
    if not got["torch"].startswith(TORCH) or any(got[k] != v for k, v in want.items()):
        sys.exit(f"the peer is not what it should be: wanted torch {TORCH} and {want}, it says {got}")
    return got


def threads_of(a, case, side):
    """How many threads a side's first process computes with."""
    if ":" not in side:
        return case.threads or a.threads
    first, _, last = side.split("@")[-1].split(":")[-1].partition("-")
    return int(last or first) - int(first) + 1


def measure(a, case, precision, side):
    """One run of a side: a line of the results."""
    threads = threads_of(a, case, side)
    with core_taken(a.load):
        if side in ("eager", "compile", "tuned", "tuned-compile"):
            got = peer(a, case, precision, side)
        else:
            got = yoke(a, case, precision, None if side == "yoke" else side)
    got["disturbed"] = not a.load and got["user_ms"] + got["sys_ms"] < 0.8 * threads * got["wall_ms"]
    return {**got, "kind": "step", "case": case.name, "precision": precision, "side": side, "threads": threads, "isa": a.isa,
            "load": a.load}


def same_training(a, model):
    """Losses of three steps from the same weights and batch on both sides; ends the program where they differ."""
    batch, config = SMALL[model]
    case = Case("check", model, batch, 3, config, 1)
    with tempfile.TemporaryDirectory() as d:
        ours = yoke(a, case, "fp32", None, ("--save-init", d))["losses"]
        theirs = peer(a, case, "fp32", "eager", ("--init", f"{d}/model.safetensors"))["losses"]
    worst = max(abs(x - y) / max(abs(y), 1e-3) for x, y in zip(ours, theirs))
    if len(ours) != 3 or len(theirs) != 3 or not worst <= 1e-4:
        sys.exit(f"{model}: the two sides do not train the same thing: losses {ours} here, {theirs} in PyTorch")
    return {"kind": "check", "model": model, "losses": ours, "peer_losses": theirs, "worst": worst}
