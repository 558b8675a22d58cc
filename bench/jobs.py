# SPDX-License-Identifier: Apache-2.0
"""Jobs of several processes for the benchmarks: they run beside each other, in network namespaces if asked, and are sampled for memory."""
import collections
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time

SPARE = 1 << 30  # bytes that a sampled job leaves free, or it is ended


class Network:
    """Namespaces on one bridge, each with a line of its own rate in bytes/s. Each has names of its own: a namespace's devices go some time
    after it."""
    made = 0

    def __init__(self, rates):
        self.rates = rates
        self.names = [f"ykc{os.getpid()}n{Network.made}{i}" for i in range(len(rates))]
        self.addresses = [f"10.178.0.{i + 1}" for i in range(len(rates))]
        self.bridge = f"ykb{os.getpid() % 100000}n{Network.made}"
        Network.made += 1

    def __enter__(self):
        try:
            return self.build()
        except BaseException:
            self.__exit__()
            raise

    def build(self):
        ip("link", "add", self.bridge, "type", "bridge")
        ip("link", "set", self.bridge, "up")
        for i, name in enumerate(self.names):
            veth = f"{self.bridge}v{i}"
            ip("netns", "add", name)
            ip("link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", veth, "master", self.bridge, "up")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "addr", "add", f"{self.addresses[i]}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            burst = max(256 << 10, int(self.rates[i] / 250))  # bytes of a tick
            limit = ["root", "tbf", "rate", f"{self.rates[i] * 8:.0f}bit", "burst", str(burst), "latency", "50ms"]
            subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "eth0", *limit], check=True)
            subprocess.run(["tc", "qdisc", "add", "dev", veth, *limit], check=True)
        return self

    def sent(self):
        """Bytes that the namespaces have sent."""
        total = 0
        for name in self.names:
            text = subprocess.run(["ip", "netns", "exec", name, "cat", "/proc/net/dev"], check=True, capture_output=True, text=True).stdout
            total += next(int(line.split(":")[1].split()[8]) for line in text.splitlines() if "eth0:" in line)
        return total

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def field_of(path, key):
    """Bytes of a line "key: N kB"; 0 if the process is gone."""
    try:
        with open(path, encoding="ascii") as f:
            return next((int(line.split()[1]) * 1024 for line in f if line.startswith(key)), 0)
    except OSError:
        return 0


def free_bytes():
    return field_of("/proc/meminfo", "MemAvailable:")


def tree(roots):
    """The processes and all that they started."""
    below = collections.defaultdict(list)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                below[int(f.read().rpartition(")")[2].split()[1])].append(int(pid))
        except OSError:
            continue
    found = list(roots)
    for pid in found:
        found += below[pid]
    return found


@dataclasses.dataclass
class Ran:
    said: list  # the last line of each command's output, read as JSON; None if it printed nothing
    pss: int = 0  # bytes of the job at most, shared pages counted once
    rank_pss: int = 0  # of one process at most
    short: bool = False  # the machine's memory ended the job


def sample(ranks, ran):
    each = [field_of(f"/proc/{pid}/smaps_rollup", "Pss:") for pid in tree([r.pid for r in ranks])]
    ran.pss, ran.rank_pss = max(ran.pss, sum(each)), max(ran.rank_pss, *each)
    ran.short = ran.short or free_bytes() < SPARE


def wait(ranks, ran, limit, sampled):
    """Until all have ended, one has failed, or memory or time is short."""
    end = time.monotonic() + limit
    while any(r.poll() is None for r in ranks) and not any(r.poll() for r in ranks) and not ran.short and time.monotonic() < end:
        if sampled:
            sample(ranks, ran)
        time.sleep(0.1)


def run(commands, limit, sampled=False):
    """Runs commands, each with its additions to the environment. The memory of a sampled run is known, and its times are disturbed."""
    ran = Ran([])
    with tempfile.TemporaryDirectory() as folder:
        files = [[open(f"{folder}/{i}.{kind}", "w+", encoding="utf-8") for kind in ("out", "err")] for i in range(len(commands))]
        ranks = [subprocess.Popen(command, env={**os.environ, **more}, stdout=out, stderr=err)
                 for (command, more), (out, err) in zip(commands, files)]
        try:
            wait(ranks, ran, limit, sampled)
        finally:
            ended = [r.poll() for r in ranks]
            for r in ranks:
                r.kill()
                r.wait()
        texts = [[f.seek(0) or f.read() for f in pair] for pair in files]
        for f in sum(files, []):
            f.close()
    failed = [i for i, code in enumerate(ended) if code] or [i for i, code in enumerate(ended) if code is None]
    if failed and not ran.short:
        sys.exit("\n".join(f"{' '.join(commands[i][0])}: " + (f"exit code {ended[i]}" if ended[i] else f"no end after {limit} s") +
                           f"\n{texts[i][1][-3000:]}" for i in failed))
    ran.said = [json.loads(out.strip().split("\n")[-1]) if out.strip() and not ran.short else None for out, _ in texts]
    return ran
