# SPDX-License-Identifier: Apache-2.0
"""Rows B1 to B5 of bench/shard: our steps beside PyTorch's DDP and FSDP2 over gloo, an optimizer's step, and the state on a disk beside
fio. A side of a row is a function that runs once, and returns median_ms, min_ms and, if known, cpu_ms of all ranks.
"""
import dataclasses
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import typing

import cases
import jobs

LARGE = "n_layer=24,n_embd=1024,n_head=16,seq_len=128"
LINE = 10e9 / 8  # bytes/s of a host's line
ports = itertools.count(17720)


@dataclasses.dataclass
class Row:
    name: str
    goal: str
    base: typing.Callable = None
    variant: typing.Callable = None
    more: typing.Callable = None  # entries of the row's line, by runs of its own; with no sides, the line but for name and goal
    bounded: bool = False


def left_out(name, why):
    print(f"{name}: left out, {why}", file=sys.stderr)


# ---- Sides: lists of commands, and what they said -------------------------------------------------------------------------------------

def core(rank):
    cores = sorted(os.sched_getaffinity(0))
    return cores[rank % len(cores)]


def place(network, rank):
    """Words before a rank's command: its namespace, and its core."""
    return [*(["ip", "netns", "exec", network.names[rank]] if network else []), "taskset", "-c", str(core(rank))]


def step_options(a, config, batch, iterations):
    return ["--model", "gpt2", "--model-config", f"{config},{cases.NO_DROPOUT['gpt2']}", "--global-batch", str(batch), "--iterations",
            str(iterations)]


def our_command(a, options):
    return [os.path.join(a.build, "yoke"), "bench", "step", "--optim", "adamw", "--max-grad-norm", "1", "--json", *options]


def ours(a, options, n):
    """A job of n ranks in common memory, each on a core of its own, with even shares as the peers have."""
    devices = " ".join(f"cpu:{core(rank)}!" for rank in range(n))
    return [(our_command(a, [*options, "--devices", devices]), {"YOKE_SHARES": "equal", "YOKE_PLUGIN_DIR": f"{a.build}/.libs"})]


def ours_of_hosts(a, options, network):
    secret = f"{a.folder}/secret"
    if not os.path.exists(secret):
        with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
            f.write(os.urandom(32))
    n = len(network.names)
    port = str(next(ports))
    return [(["ip", "netns", "exec", name, *our_command(a, options)],
             {"YOKE_RANK": str(rank), "YOKE_SIZE": str(n), "YOKE_ADDR": network.addresses[0], "YOKE_PORT": port, "YOKE_SECRET_FILE": secret,
              "YOKE_DEVICES": f"cpu:{core(rank)}!", "YOKE_SHARES": "equal", "YOKE_PLUGIN_DIR": f"{a.build}/.libs"})
            for rank, name in enumerate(network.names)]


def peers(a, options, kind, n, network=None):
    """PyTorch's ranks, of one thread each; kind: ddp or fsdp."""
    python, script = os.path.join(a.peer, "bin", "python"), os.path.join(cases.HERE, "peer_step.py")
    env = {"WORLD_SIZE": str(n), "MASTER_ADDR": network.addresses[0] if network else "127.0.0.1", "MASTER_PORT": str(next(ports)),
           "GLOO_SOCKET_IFNAME": "eth0" if network else "lo", "OMP_NUM_THREADS": "1"}
    return [([*place(network, rank), python, script, *options, "--threads", "1", "--clip", "1", f"--{kind}"], {**env, "RANK": str(rank)})
            for rank in range(n)]


def times(ran):
    """A run's result: ours says all on rank 0, each of the peer's ranks says its own."""
    if len(ran.said) == 1 or ran.said[1] is None:
        return ran.said[0]
    return {"median_ms": max(r["median_ms"] for r in ran.said), "min_ms": max(r["min_ms"] for r in ran.said),
            "cpu_ms": sum(r["user_ms"] + r["sys_ms"] for r in ran.said)}


def side(a, commands):
    """commands: a function, as each run has a port of its own."""
    return lambda: times(jobs.run(commands(), a.limit))


def memory_of(a, base, variant):
    """Bytes of both jobs at most, and of a process of them, by runs of their own."""
    def measured():
        got = {}
        for name, commands in (("base", base), ("variant", variant)):
            ran = jobs.run(commands(), a.limit, sampled=True)
            got |= {f"{name}_bytes": ran.pss, f"{name}_rank_bytes": ran.rank_pss, f"{name}_short": ran.short}
        short = " at least: the machine's memory ended the base" if got["base_short"] else ""
        got["note"] = (f"memory {got['variant_bytes'] / got['base_bytes']:.3f} of the job, "
                       f"{got['variant_rank_bytes'] / got['base_rank_bytes']:.3f} of a process{short}")
        return got
    return measured


# ---- The rows -------------------------------------------------------------------------------------------------------------------------

def two_ranks(a):
    """B1."""
    config, batch = a.model
    ours_of = lambda n: lambda: ours(a, [*step_options(a, config, batch, n), "--shard", "state"], 2)
    for kind, name, goal in (("ddp", "DDP", "step 0.6, memory 0.45"), ("fsdp", "FSDP2", "step 0.45, memory 0.45")):
        peer_of = lambda n, kind=kind: lambda: peers(a, step_options(a, config, batch, n), kind, 2)
        yield Row(f"B1 two ranks, {name}", goal, side(a, peer_of(a.iterations)), side(a, ours_of(a.iterations)),
                  memory_of(a, peer_of(1), ours_of(1)))


def wire(a, network, options):
    """Bytes on the wire of a step, the difference of two runs of unlike length, over those of the formula."""
    def measured():
        seen = []
        for iterations in (1, 1 + a.iterations):
            before = network.sent()
            said = jobs.run(ours_of_hosts(a, options(iterations), network), a.limit).said[0]
            seen.append((network.sent() - before, said["settled_steps"] + iterations))
        work, step = said["work"], (seen[1][0] - seen[0][0]) / (seen[1][1] - seen[0][1])
        formula = 4 * (len(network.names) - 1) * (work["trained"] + work["pulled"])
        return {"ratio": step / formula, "pairs": 1, "base_bytes": formula, "variant_bytes": step, "note": "bytes: formula, a step"}
    return measured


def hosts_of(a, n, network):
    config, batch = a.model
    count = {2: "two", 4: "four"}[n]

    def options(stage):
        return lambda iterations: [*step_options(a, config, batch, iterations), "--shard", stage]

    def ours_of(stage, iterations):
        return lambda: ours_of_hosts(a, options(stage)(iterations), network)

    def peer_of(iterations):
        return lambda: peers(a, step_options(a, config, batch, iterations), "fsdp", n, network)

    mine = side(a, ours_of("params", a.iterations))
    name = f"B2 {count} hosts, FSDP2"
    if a.peer:
        yield Row(name, "step 0.6, memory of a process 0.4", side(a, peer_of(a.iterations)), mine,
                  memory_of(a, peer_of(1), ours_of("params", 1)))
    else:
        left_out(name, "there is no --peer")
    yield Row(f"B2 {count} hosts, own state", "step 1.15", side(a, ours_of("state", a.iterations)), mine)
    yield Row(f"B2 {count} hosts, wire", "0.99 to 1.01", more=wire(a, network, options("params")))


def hosts(a):
    """B2, if namespaces are allowed."""
    for n in (2, 4):
        try:
            network = jobs.Network([LINE] * n).__enter__()
        except (FileNotFoundError, subprocess.CalledProcessError) as why:
            left_out(f"B2 of {n} hosts", f"network namespaces: {why}")
            continue
        try:
            yield from hosts_of(a, n, network)
        finally:
            network.__exit__()


def four_ranks(a):
    """B3: memory alone, of a step."""
    config, batch = (LARGE if not a.quick else a.model[0]), 4
    name, options = "B3 four ranks, FSDP2", step_options(a, config, batch, 1)

    def measured():
        got = memory_of(a, lambda: peers(a, options, "fsdp", 4), lambda: ours(a, [*options, "--shard", "params"], 4))()
        if got["variant_short"]:
            return left_out(name, f"this machine's memory is short for our job, {got['variant_bytes'] / 1e6:.0f} MB were not enough")
        return {"ratio": got["variant_bytes"] / got["base_bytes"], "pairs": 1, **got}
    yield Row(name, "FSDP2 above 24 GiB, ours below", more=measured)


def optimizers(a):
    """B4: ns of 124 million elements; the small size has 30 million."""
    size = 30 if a.quick else 124

    def mine(threads):
        def once():
            out = subprocess.run([f"{a.build}/bench/cpu_kernels", str(threads), "", f"adamw {size}M"], check=True, capture_output=True,
                                 text=True).stdout
            ms = float(re.search(r"([\d.]+) ms", out)[1])
            return {"median_ms": ms, "min_ms": ms}
        return once

    def other(kernel, threads):
        def once():
            out = subprocess.run([f"{a.peer}/bin/python", f"{cases.HERE}/peer_kernels.py", str(threads)], check=True, capture_output=True,
                                 text=True, input=json.dumps({kernel: [kernel, "f32", size * 1000000]}),
                                 env={**os.environ, "OMP_NUM_THREADS": str(threads)}).stdout
            ms = json.loads(out.strip().split("\n")[-1])[kernel]
            return {"median_ms": ms, "min_ms": ms}
        return once

    kinds = (("adamw", "torch fused", "0.95"), ("deepspeed_adamw", "DeepSpeed", "1.0"))
    for threads, (kernel, who, goal) in itertools.product((1, 2), kinds):
        name = f"B4 Adam, {threads} threads, {who}"
        load = "import torch" if kernel == "adamw" else "from deepspeed.ops.op_builder import CPUAdamBuilder; CPUAdamBuilder().load()"
        if subprocess.run([f"{a.peer}/bin/python", "-c", load], capture_output=True).returncode:
            left_out(name, f"{a.peer} cannot do this: {load}")
            continue
        yield Row(name, goal, other(kernel, threads), mine(threads))


def disk_elements(a):
    """As many elements as disk and memory allow, 256 million at most."""
    want = most = 1000000 if a.quick else 256000000
    free = shutil.disk_usage(a.disk).free
    while want > 1000000 and (20 * want > free or 12 * want > jobs.free_bytes() - jobs.SPARE):
        want //= 2
    if want < most:
        print(f"B5: {want} elements instead of {most}, as disk or memory is short", file=sys.stderr)
    return want


def disk(a):
    """B5: a step whose state passes through a disk, beside fio that reads and writes as many bytes."""
    name, elements = "B5 state on a disk, fio", disk_elements(a)
    if not shutil.which("fio"):
        return left_out(name, "fio is not installed")
    width = int(((795 ** 2 + 4 * elements) ** 0.5 - 795) / 2)  # of an MLP 784 - width - width - 10
    state = 8 * (width * width + 796 * width + 10)

    def fio():
        size = state >> 22 << 22 or 4 << 20
        command = ["fio", "--name=state", f"--filename={a.disk}/fio", "--rw=rw", "--rwmixread=50", "--bs=4M", "--direct=1",
                   "--ioengine=libaio", "--iodepth=8", "--overwrite=1", "--fallocate=none", f"--size={size}", f"--io_size={2 * size}",
                   "--output-format=json"]
        out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=a.limit).stdout
        got = json.loads(out[out.index("{"):])["jobs"][0]
        rate = (got["read"]["io_bytes"] + got["write"]["io_bytes"]) / (1e-3 * got["job_runtime"])
        ms = 2e3 * state / rate
        return {"median_ms": ms, "min_ms": ms, "cpu_ms": ms * (got["usr_cpu"] + got["sys_cpu"]) / 100}

    def step():
        return times(jobs.run([(our_command(a, ["--model", "mlp", "--model-config", f"hidden={width}+{width}", "--global-batch", "1",
                                                "--iterations", str(min(a.iterations, 3)), "--offload", f"state=nvme:{a.disk}"]),
                                {"YOKE_PLUGIN_DIR": f"{a.build}/.libs"})], a.limit))

    yield Row(name, "1.11", fio, step, lambda: {"note": f"{2 * state / 1e6:.0f} MB a step"})
    os.remove(f"{a.disk}/fio")


def rows(a):
    """Those that --only wants, or all."""
    for family, make, needs in (("B1", two_ranks, True), ("B2", hosts, False), ("B3", four_ranks, True), ("B4", optimizers, True),
                                ("B5", disk, False)):
        if a.only and a.only[:2] != family:
            continue
        if needs and not a.peer:
            left_out(family, "there is no --peer")
            continue
        yield from make(a)
