# SPDX-License-Identifier: Apache-2.0
"""The file of results: JSON lines that are only ever added to, and what is computed from them."""
import collections
import datetime
import json
import os
import statistics


def read(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def append(path, lines):
    with open(path, "a", encoding="utf-8") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)


PEAK_OF = {"avx2": {"avx2 fma"}, "avx512": {"avx2 fma", "avx512 fma"}}  # of an instruction set that is forced


def peak(lines, name, threads, isa=""):
    """The best measured rate of a format, in operations a second, and the instructions that reached it. A processor without
    instructions for bf16 computes it in fp32."""
    best = (0.0, "")
    for line in lines:
        for row in line["peaks"] if line["kind"] == "peaks" else ():
            if isa and row["isa"] not in PEAK_OF[isa]:
                continue
            if row["what"] == "math" and row["name"] in ({"fp32"} if name == "fp32" else {"fp32", name}):
                rate = row["giga"].get(str(threads), {"best": 0})["best"] * 1e9
                best = max(best, (rate, row["isa"]))
    return best


def row_of(line):
    """Which row of the tables a run belongs to: (case, precision, threads, forced instruction set, core taken). A row of devices
    has sides of several numbers of threads, which are in their names."""
    threads = 0 if ":" in line["side"] else line["threads"]
    return line["case"], line["precision"], threads, line.get("isa", ""), line.get("load", False)


def rounds(lines, build=None):
    """row_of -> build -> the lines of its rounds."""
    seen = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in lines:
        if line["kind"] == "step" and build in (None, line["build"]):
            seen[row_of(line)][line["build"]].append(line)
    return seen


def summary(lines, steps):
    """One row from the lines of one case, precision and build."""
    sides = collections.defaultdict(list)
    for line in steps:
        sides[line["side"]].append(line)
    first = steps[0]
    row = {"case": first["case"], "precision": first["precision"], "build": first["build"], "threads": first["threads"],
           "isa": first.get("isa", ""), "load": first.get("load", False),
           "rounds": min(len(v) for v in sides.values()), "runs": {side: len(v) for side, v in sides.items()},
           "disturbed": sum(line["disturbed"] for line in steps), "sides": {}}
    for side, v in sides.items():
        row["sides"][side] = {
            "min_ms": min(line["min_ms"] for line in v), "median_ms": statistics.median(line["median_ms"] for line in v),
            "cpu_ms": statistics.median(line["user_ms"] + line["sys_ms"] for line in v),
            "rss_bytes": min(line["rss_bytes"] for line in v)}
    return {**row, **compared(lines, row, sides)}


def efficiency(sides):
    """Of the first side, which holds the devices of the others in one job: its throughput over the sum of theirs, round by round."""
    together, *alone = ([line["median_ms"] for line in v] for v in sides.values())
    return statistics.median(1 / t / sum(1 / x for x in each) for t, *each in zip(together, *alone))


def compared(lines, row, sides):
    least = {k: v["min_ms"] for k, v in row["sides"].items()}
    median = {k: v["median_ms"] for k, v in row["sides"].items()}
    if any(" " in k for k in least):
        return {"eta": efficiency(sides)} if len(least) == 3 else {}
    if any(":" in k for k in least):  # two devices of ours: throughput of the first over that of the second
        times = list(least.values())
        return {"ratio": times[1] / times[0]} if len(times) == 2 else {}
    if "yoke" not in least:
        return {}
    got = {}
    ours, mine = least["yoke"], sides["yoke"][0]
    default = [k for k in ("eager", "compile") if k in least]
    if default:
        got["ratio"], got["ratio_median"] = (min(t[k] for k in default) / t["yoke"] for t in (least, median))
        got["least_peer_rss"] = min(v["rss_bytes"] for k, v in row["sides"].items() if k != "yoke")
    if "tuned" in least or "tuned-compile" in least:  # the best of all: what tuning makes slower is not used
        got["ratio_tuned"], got["ratio_tuned_median"] = (min(v for k, v in t.items() if k != "yoke") / t["yoke"] for t in (least, median))
    got["gflop"] = mine["gflops"] * mine["median_ms"] / 1e3
    rate, isa = peak(lines, row["precision"], row["threads"], row["isa"])
    if rate:
        got["floor_ms"], got["floor_isa"] = 1e12 * got["gflop"] / rate, isa
        got["of_floor"] = got["floor_ms"] / ours
    return got


def runs(row):
    """How many rounds, and of which sides there were fewer."""
    most = max(row["runs"].values())
    few = ", ".join(f"{side} {n}" for side, n in row["runs"].items() if n < most)
    notes = [few] if few else []
    notes += [f"{row['disturbed']} runs disturbed"] if row["disturbed"] else []
    return f"{most}" + (f" ({'; '.join(notes)})" if notes else "")


def name(row):
    return row["case"] + (f", {row['isa']}" if row["isa"] else "") + (", core taken" if row["load"] else "")


def text(row):
    s = f"{name(row):26} {row['precision']} x{row['threads']}  "
    s += "  ".join(f"{k} {v['min_ms']:.4g}/{v['median_ms']:.4g}" for k, v in row["sides"].items())
    s += f" ms  ratio {row['ratio']:.2f}" if "ratio" in row else " ms"
    s += f"/{row['ratio_median']:.2f}" if "ratio_median" in row else ""
    s += f" tuned {row['ratio_tuned']:.2f}/{row['ratio_tuned_median']:.2f}" if "ratio_tuned" in row else ""
    s += f"  efficiency {row['eta']:.3f}" if "eta" in row else ""
    s += f"  {100 * row['of_floor']:.0f} % of the floor's speed" if "of_floor" in row else ""
    return s + f"  rounds {runs(row)}"
