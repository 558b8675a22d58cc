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
assert events[0][3] == b"brain.Event:2" and 1.6e9 < struct.unpack("<d", events[0][1])[0] < 1e11
board = {}
for e in events[1:]:
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
full() {
    mkdir -p "$out/full/run" && ln -s /dev/full "$out/full/run/log.csv" || return 1
    mlp "$out/f" --report-to csv --logging-dir "$out/full" --run-name run 2>"$out/err"
    code=$?
    cat "$out/err"
    [ $code = 1 ] && grep -q "report-to: .*/log.csv: " "$out/err" && [ -s "$out/f/model.safetensors" ]
}
ok "a full disk" full
plan
