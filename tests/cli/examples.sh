#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The examples do what their first lines say: each is run, and what it prints is held to that.
. "$YOKE_SOURCE/tests/cli/lib.sh"
export YOKE_DEVICES=cpu:0
examples=$YOKE_BUILD/examples
has_images=
texts=80 tested=30 lines=200 right=0.9 # texts of each class to learn from and to try, and how many are told apart then
instrumented && texts=16 tested=8 lines=20 right=0.3 # what a sanitizer sees is in the first steps
[ -d "$data/fashion-mnist" ] && small_images "$out/images" && has_images=1

number() { # number TEXT FILE: what stands behind it on its last line
    sed -n "s/.*$1 \([0-9.]*\).*/\1/p" "$2" | tail -n 1
}

falls() { # falls FILE: the loss of the last line that names one is below that of the first
    first=$(sed -n 's/.*loss[^0-9]* \([0-9.]*\).*/\1/p' "$1" | head -n 1)
    last=$(sed -n 's/.*loss[^0-9]* \([0-9.]*\).*/\1/p' "$1" | tail -n 1)
    python3 -c "import sys; sys.exit(not float('$last') < 0.8 * float('$first'))" || { echo "loss $first, then $last"; return 1; }
}

linked() { # by the README's line, which names no library but ours
    for source in "$YOKE_SOURCE"/examples/*.c; do
        ${CC:-gcc} "$source" -I"$YOKE_SOURCE/include" -L"$YOKE_BUILD/.libs" -lyoke -o "$out/linked" || { echo "$source"; return 1; }
    done
}
first_program() { # the README's first program is a part of examples/mlp.c
    python3 - "$YOKE_SOURCE/README.md" "$YOKE_SOURCE/examples/mlp.c" <<'E'
import re, sys
readme, source = (open(name, encoding="utf-8").read() for name in sys.argv[1:])
program = re.search(r"^```c\n(.*?)^```$", readme, re.S | re.M).group(1)
sys.exit(program not in source and f"README's program is not in examples/mlp.c:\n{program}")
E
}
ok "README's first program is the example" first_program
if instrumented; then
    skip "each links with libyoke alone" "instrumented: that takes a sanitizer's library too"
else
    ok "each links with libyoke alone" linked
fi

own_loop() {
    "$examples/own_loop" >"$out/one" && at_least "$(number accuracy "$out/one")" 0.9 || return 1
    YOKE_DEVICES="cpu:0! cpu:0!" "$yoke" launch "$examples/own_loop" >"$out/two" && diff "$out/one" "$out/two"
}
ok "own data and loop, on two ranks as on one" own_loop

stream() { # 323 lines, no multiple of the batch; the same on two ranks
    python3 -c 'for i in range(323): x = i % 41 / 20 - 1; print(x, 2 * x + 3)' >"$out/lines"
    "$examples/stream" "$out/lines" >"$out/one" && cat "$out/one" && grep -q '^323 rows, [1-9][0-9]* epochs: .* 0.0[01]$' "$out/one" &&
        ! grep -q ' 51 epochs' "$out/one" || return 1
    YOKE_DEVICES="cpu:0! cpu:0!" "$yoke" launch "$examples/stream" "$out/lines" >"$out/two" && diff "$out/one" "$out/two"
}
ok "a stream of unknown length, on two ranks as on one" stream

finetune() {
    python3 - "$data/banking77" "$out" "$texts" "$tested" <<'P'
import csv, sys
keep = ["card_arrival", "exchange_rate"]
for part, each in (("train", int(sys.argv[3])), ("test", int(sys.argv[4]))):
    with open(f"{sys.argv[1]}/{part}.csv", encoding="utf-8", newline="") as f:
        rows = list(csv.reader(f))
    parts = [[r for r in rows[1:] if r[1] == k][:each] for k in keep]
    with open(f"{sys.argv[2]}/{part}.csv", "w", encoding="utf-8", newline="") as f:
        csv.writer(f).writerows([rows[0]] + [r for pair in zip(*parts) for r in pair])
P
    "$examples/finetune" "$data/models/all-minilm-l6-v2" "$out/train.csv" "$out/test.csv" "$out/tuned" >"$out/said" || return 1
    cat "$out/said"
    at_least "$(number accuracy "$out/said")" "$right" || return 1
    "$yoke" eval --from "$out/tuned" --eval-data "csv:$out/test.csv,text=text,label=category" --json >"$out/eval" || return 1
    at_least "$(field eval_accuracy "$out/eval")" "$right"
}
if [ -d "$data/models/all-minilm-l6-v2" ] && [ -d "$data/banking77" ]; then
    ok "a folder of the hub is fine-tuned, and opens again" finetune
else
    skip "a folder of the hub is fine-tuned, and opens again" "no models/all-minilm-l6-v2 or banking77 in YOKE_TEST_DATA"
fi

serving() { # the page's commands, as they stand there; socat by python
    mkdir "$out/bin" && ln -s "$examples/serve" "$out/bin/serve" || return 1
    sed -n '/^```sh$/,/^```$/p' "$YOKE_SOURCE/docs/serving.md" | sed -e '/^```/d' -e "s/--bench 200/--bench $lines/" >"$out/page.sh"
    cat >"$out/bin/socat" <<'P'
#!/usr/bin/env python3
import socket, sys, time
to = socket.socket(socket.AF_UNIX)
while to.connect_ex(sys.argv[-1].split(":", 1)[1]):
    time.sleep(0.05)
to.sendall(sys.stdin.buffer.read())
print(to.makefile().readline(), end="")
P
    chmod +x "$out/bin/socat"
    PATH=$out/bin:$PATH MODEL=$out/tuned SOCKET=$out/socket sh -e "$out/page.sh" >"$out/said" 2>"$out/errors" ||
        { cat "$out/said" "$out/errors"; return 1; }
    cat "$out/said"
    grep -q "^warm: $lines lines, p50 [0-9.]* ms, p99 [0-9.]* ms\$" "$out/said" && [ ! -e "$out/socket" ] || return 1
    printf 'text,category\nmy card has not arrived,card_arrival\n' >"$out/one.csv"
    "$yoke" predict --from "$out/tuned" --eval-data "csv:$out/one.csv,text=text,label=category" >"$out/predicted" || return 1
    cut -f 2,3 "$out/predicted"
    [ "$(tail -n 1 "$out/said" | cut -f 1)" = "$(tail -n 1 "$out/predicted" | cut -f 2)" ]
}
if [ -d "$data/models/all-minilm-l6-v2" ] && [ -d "$data/banking77" ]; then
    ok "a server answers, by the commands of docs/serving.md" serving
else
    skip "a server answers, by the commands of docs/serving.md" "no models/all-minilm-l6-v2 or banking77 in YOKE_TEST_DATA"
fi

own_layer() {
    "$examples/own_layer" "$out/images" >"$out/said" && falls "$out/said"
}

resume() { # stopped after step 37 and begun again from the checkpoint of step 25: the bits of a run that nobody stopped
    "$examples/resume" "$out/images" "$out/whole" 60 >"$out/one" || return 1
    "$examples/resume" "$out/images" "$out/parts" 60 37 >/dev/null || return 1
    "$examples/resume" "$out/images" "$out/parts" 60 >"$out/two" || return 1
    cat "$out/one" "$out/two"
    grep -qx 'goes on after step 25' "$out/two" && [ "$(tail -n 1 "$out/one")" = "$(tail -n 1 "$out/two")" ]
}

mlp_runs() {
    (cd "$out" && "$examples/mlp" "$out/images" 3 >said && falls said && grep -q "accuracy 0\.[0-9]*$" said &&
        [ -f mlp-out/model.safetensors ])
}

two_devices() { # the second kind of device is OpenCL's on the CPU where there is one
    "$yoke" info --kinds 2>/dev/null | grep -q '^opencl$' && second='opencl:0@0!' || second='cpu:0!'
    "$examples/two_devices" "$out/images" "cpu:0! $second" 60 >"$out/said" || return 1
    cat "$out/said"
    grep -q '^rank 0, cpu:0!: ' "$out/said" && grep -q '^rank 1, ' "$out/said" && grep -q '^parameters [0-9a-f]* on all ranks$' "$out/said"
}
for one in "a first program: mlp_runs" "a layer of one's own: own_layer" "saved and resumed: resume" "two unlike devices: two_devices"; do
    if [ -n "$has_images" ]; then ok "${one%: *}" "${one##*: }"; else skip "${one%: *}" "no fashion-mnist in YOKE_TEST_DATA"; fi
done
plan
