#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Trackers: the table and TensorBoard's file have the figures of the log. The file is read here by its format alone.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
export YOKE_DEVICES=cpu:0
small_images "$out/images"

trained() {
    mlp "$out/m" --logging-steps 10 --eval-steps 15 --metrics all --report-to tensorboard,csv,jsonl --run-name first 2>/dev/null &&
        ls "$out/m/runs/first"
}
ok "a training with all trackers" trained

same_figures() {
    python3 - "$out/m/runs/first" <<'P'
import csv, glob, json, struct, sys
def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff
assert crc32c(b"123456789") == 0xe3069283  # the check value of CRC-32C
def masked(data):
    c = crc32c(data)
    return ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff
def records(b):
    while b:
        n, crc = struct.unpack("<QI", b[:12])
        assert crc == masked(b[:8]) and struct.unpack("<I", b[12 + n:16 + n])[0] == masked(b[12:12 + n])
        yield b[12:12 + n]
        b = b[16 + n:]
def fields(b):  # of a protocol buffer: number and value
    def varint():
        nonlocal b
        v = shift = 0
        while True:
            v |= (b[0] & 127) << shift
            shift += 7
            more, b = b[0] & 128, b[1:]
            if not more:
                return v
    out = []
    while b:
        key = varint()
        kind = key & 7
        if kind == 0:
            v = varint()
        else:
            n = {1: 8, 5: 4}.get(kind) or varint()
            v, b = b[:n], b[n:]
            assert len(v) == n
        out.append((key >> 3, v))
    return out
here, = glob.glob(sys.argv[1] + "/events.out.tfevents.*")
events = [dict(fields(r)) for r in records(open(here, "rb").read())]
assert events[1][7] == b"\x08\x01" and events[1].get(2, 0) == 0, events[1]
assert events[0][3] == b"brain.Event:2" and 1.6e9 < struct.unpack("<d", events[0][1])[0] < 1e11
board = {}
for e in events[2:]:
    (one, value), = fields(e[5])
    value = dict(fields(value))
    board[e[2], value[1].decode()] = struct.unpack("<f", value[2])[0]
table = {(int(r["step"]), r["tag"]): float(r["value"]) for r in csv.DictReader(open(sys.argv[1] + "/log.csv"))}
log = {}
for r in map(json.loads, open(sys.argv[1] + "/log.jsonl")):
    if "final" in r:
        continue
    for key, tag in (("loss", "train/loss"), ("lr", "train/learning_rate"), ("grad_norm", "train/grad_norm")):
        if key in r:
            log[r["step"], tag] = r[key]
    for key in r:
        if key.startswith("eval_"):
            log[r["step"], "eval/" + key[5:]] = r[key]
assert len(log) == 3 * 3 + 2 * 6, sorted(log)
for key, v in log.items():
    assert abs(table[key] - v) <= 1e-8 * abs(v) and abs(board[key] - v) <= 1e-6 * abs(v), (key, v, table[key], board[key])
assert table.keys() == board.keys() and {t for _, t in table} - {t for _, t in log} == {"train/samples_per_s"}
P
}
ok "the table and the event file have the log's figures" same_figures
ok "a folder of its own" sh -c '"$1" train --model mlp --data "idx:$2/images" --max-steps 1 --eval-strategy no --report-to csv \
    --logging-dir "$2/logs/deep" --output-dir "$2/n" && test -s "$2/logs/deep/log.csv" && test ! -e "$2/n/runs"' sh "$yoke" "$out"
# A run that goes on goes on with its logs: each step once, and what was cut off is kept aside.
logged() { # logged STEPS CUT: the steps of three files, and of those that were cut off
    python3 - "$out/g.log" "$out/logs" "$1" "$2" <<'P'
import json, os, sys
log, runs, steps, cut = sys.argv[1:]
wanted = lambda text: [s for part in text.split() for a, b in [part.split("-")] for s in range(int(a), int(b) + 1)]
def of_json(path):
    return [r["step"] for r in map(json.loads, open(path)) if "loss" in r] if os.path.exists(path) else []
def of_table(path):
    lines = open(path).read().splitlines() if os.path.exists(path) else []
    assert sum(line.startswith("step,") for line in lines) == (path[-4:] == ".csv"), lines
    return [int(line.split(",")[0]) for line in lines if ",train/loss," in line]
for path, read in ((log, of_json), (runs + "/log.jsonl", of_json), (runs + "/log.csv", of_table)):
    assert read(path) == wanted(steps), (path, read(path))
    assert read(path + ".cut") == wanted(cut), (path + ".cut", read(path + ".cut"))
P
}
go_on() { # go_on FOLDER STEPS ARGUMENTS...
    to=$1 total=$2
    shift 2
    mlp "$to" --max-steps "$total" --save-steps 5 --report-to all --log "$out/g.log" --logging-dir "$out/logs" --eval-strategy no "$@"
}
ok "a run with all its logs, and --log beside log.jsonl" go_on "$out/g" 10
ok "has each step" logged 1-10 ""
ok "goes on from its end" go_on "$out/g" 14 --resume-from-checkpoint last
ok "each step is there once" logged 1-14 ""
ok "goes on from a folder, on two ranks, into another one" go_on "$out/h" 12 --resume-from-checkpoint "$out/g/checkpoint-10" \
    --devices "cpu:0! cpu:0!"
ok "later lines are kept aside" logged 1-12 11-14
ok "in larger windows" go_on "$out/h" 7 --resume-from-checkpoint "$out/g/checkpoint-10" --gradient-accumulation-steps 2
ok "the first run's steps are its own" logged "1-10 6-7" "11-14 11-12"
refused() { # nothing is opened anew by what does not start
    go_on "$out/g" 14 --resume-from-checkpoint "$out/nothing" 2>"$out/err"
    [ $? != 0 ] && cat "$out/err" && logged "1-10 6-7" "11-14 11-12"
}
ok "a checkpoint that is not there costs no log" refused
hidden() { # hidden STEPS: TensorBoard is told from which step on earlier files say nothing: SessionLog.START
    python3 - "$out/logs" "$1" <<'P'
import glob, struct, sys
starts = []
for path in glob.glob(sys.argv[1] + "/events.out.tfevents.*"):
    b = open(path, "rb").read()
    while b:
        n, = struct.unpack("<Q", b[:8])
        if b[12:12 + n].endswith(b"\x3a\x02\x08\x01"):
            starts.append(b[12 + 10])
        b = b[16 + n:]
assert sorted(starts) == [int(s) for s in sys.argv[2].split()], starts
P
}
ok "TensorBoard hides what was given up" hidden "0 11 11 11"
anew() {
    go_on "$out/g" 3 && logged 1-3 "11-14 11-12" && hidden "0 0 11 11 11"
}
ok "a run that begins anew has logs of its own" anew
other() { # another run that is given the same --log, by another folder
    "$yoke" train --model mlp --model-config hidden=4 --data "idx:$out/images" --max-steps 2 --logging-steps 1 --eval-strategy no \
        --log "$out/same.log" --output-dir "$1" 2>"$out/err"
}
aside() {
    other "$out/i" && ! grep -q "same.log" "$out/err" && cp "$out/same.log" "$out/first.log" && other "$out/j" || return 1
    cat "$out/err"
    cmp "$out/first.log" "$out/same.log.cut" && [ "$(grep -c '"final": true' "$out/same.log")" = 1 ] &&
        grep -F "same.log: 3 lines of another run are in $out/same.log.cut now: this run writes its own" "$out/err"
}
ok "a log of another run is kept aside, in one line" aside
torn() { # a file that ends within a line, and is no log of this run, is lost neither to a new run nor to a resumed one
    for text in '{"my": "results"}' 'one\ntwo'; do
        # shellcheck disable=SC2059
        printf "$text" >"$out/mine" && cp "$out/mine" "$out/same.log" && rm -rf "$out/same.log.cut" "$out/k" && other "$out/k" || return 1
        cat "$out/err"
        cmp "$out/mine" "$out/same.log.cut" && valid_json "$out/same.log" || return 1
    done
    printf two >"$out/same.log" && rm -f "$out/same.log.cut" && mlp "$out/l" --max-steps 2 --save-steps 2 --eval-strategy no &&
        mlp "$out/l" --max-steps 4 --resume-from-checkpoint last --eval-strategy no --log "$out/same.log" &&
        [ "$(cat "$out/same.log.cut")" = two ] && valid_json "$out/same.log"
}
ok "nor is a file lost that ends within a line" torn

full() {
    mkdir -p "$out/full/run" && ln -s /dev/full "$out/full/run/log.csv" || return 1
    mlp "$out/f" --report-to csv --logging-dir "$out/full" --run-name run 2>"$out/err"
    code=$?
    cat "$out/err"
    [ $code = 1 ] && grep -q "report-to: .*/log.csv: " "$out/err" && [ -s "$out/f/model.safetensors" ]
}
ok "a full disk" full
plan
