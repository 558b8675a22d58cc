#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# scripts/gpu-report as a whole on the fakes, each of its steps as short as it goes: all are in the JSON, with their results. A step that
# fails is noted there, too, and in the exit code; without a card nothing is tried.
. "$YOKE_SOURCE/tests/cli/lib.sh"
[ "$(uname -m)" = x86_64 ] || { echo "1..0 # SKIP the fake driver runs kernels on x86-64 only"; exit 0; }
. "$YOKE_SOURCE/tests/fakes/use.sh"

report() { # report FILE BUILD [OPTION...]
    file=$1 build=$2 && shift 2
    "$YOKE_SOURCE/scripts/gpu-report" --build "$build" --dry-run --out "$out/$file" "$@"
}

all_steps() { # all_steps FILE: each is in it, with its result
    python3 - "$out/$1" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
benches = ["beside_gpt2", "gpt2_bf16", "gpt2_fp32", "mlp", "one_card_twice", "resnet20", "two_cards_rank", "two_cards_run"]
assert sorted(report) == sorted(benches + ["info", "suite"]), sorted(report)
assert all(step["status"] == 0 and step["seconds"] >= 0 and "error" not in step for step in report.values()), report
assert "cuda:0" in json.dumps(report["info"]["result"]), report["info"]
assert " 0 failed" in report["suite"]["output"][0] and not report["suite"]["output"][0].startswith("# 0 passed"), report["suite"]
assert all(report[name]["result"] and isinstance(report[name]["result"], dict) for name in benches), report
alone, mixed = (report["beside_gpt2"]["result"]["sides"][devices]["median_ms"] for devices in ("cpu:0", "cpu:0 cpu:0"))
assert alone > 0 and mixed > 0 and abs(report["beside_gpt2"]["result"]["ratios"]["cpu:0 cpu:0"] - mixed / alone) < 1e-9, report
P
}

whole() {
    report whole.json "$YOKE_BUILD" && all_steps whole.json
}

# What `make dist` packs, outside of the sources: it configures, make knows how to make all that a report needs, each header that a source
# names is there; and its script runs.
distribution() {
    make -s -C "$YOKE_BUILD" distdir distdir="$out/yoke" && chmod -R u+w "$out/yoke" && mkdir "$out/yoke/build" && includes "$out/yoke" &&
        (cd "$out/yoke/build" && env -u MAKEFLAGS ../configure -q --with-nvcc=no && make -n all test-libraries >make.out) &&
        (YOKE_SOURCE=$out/yoke && report dist.json "$YOKE_BUILD") && all_steps dist.json
}

includes() { # includes FOLDER: but for what is made in a build
    python3 - "$1" <<'P'
import os, re, sys
top, gone = sys.argv[1], set()
for folder, _, files in os.walk(top):
    for file in [f for f in files if f.endswith((".c", ".h", ".inc"))]:
        for name in re.findall(r'^ *# *include "([^"]+)"', open(os.path.join(folder, file)).read(), re.M):
            made = name == "config.h" or name.endswith((".kch", "fatbins.inc"))
            places = top, top + "/include", folder, top + "/plugins/template"
            if not made and not any(os.path.exists(os.path.join(place, name)) for place in places):
                gone.add(name)
print(*sorted(gone))
sys.exit(1 if gone else 0)
P
}

# Programs that do nothing but fail: one with words that are no JSON.
failing() {
    mkdir "$out/bad" && cat >"$out/bad/yoke" <<'P' && cat >"$out/bad/yoke-cts" <<'P2' && chmod +x "$out/bad"/*
#!/bin/sh
case $* in
*--kinds*) echo cuda ;;
*fp32*|*mlp*) echo "{}" && echo "out of memory" >&2 && exit 1 ;;
*) echo '{"images": 1}' ;;
esac
P
#!/bin/sh
printf 'ok 1 - this\nnot ok 2 - that\n# 1 passed, 1 failed\n'
exit 1
P2
    report failing.json "$out/bad" && return 1
    python3 - "$out/failing.json" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
output = ["# 1 passed, 1 failed, 0 unsupported", "not ok 2 - that"]
assert report["suite"] == dict(report["suite"], status=1, output=output, error=""), report
assert report["mlp"]["error"] == "out of memory\n" and report["resnet20"]["result"] == {"images": 1}, report
P
}

# llm.c's program is given its file of tokens, and believed what it says of all steps but the first two.
beside_llmc() {
    cat >"$out/llmc" <<'P' && chmod +x "$out/llmc"
#!/bin/sh
[ "$(head -c 8 "$2" | od -An -td4 | tr -s ' ')" = " 20240520 1" ] && [ "$(wc -c <"$2")" = $((1024 + 2 * (4 * 2 * 16 + 1))) ] || exit 1
case "$*" in *"-v 0 "*) exit 136 ;; esac # it divides by that
for ms in 9000.00 800.00 2.50; do
    echo "step    1/3 | loss 11.00 (+nanz)| norm 15.30 (+nanz)| lr 3.00e-04 | $ms ms | 45.6% bf16 MFU | 12345 tok/s"
done
P
    report llmc.json "$YOKE_BUILD" --llmc "$out/llmc" --peak 1 && python3 - "$out/llmc.json" <<'P'
import json, sys
row = json.load(open(sys.argv[1]))["beside_gpt2"]["result"]
ours, theirs = row["sides"]["cpu:0"], row["sides"]["llm.c"]
assert theirs["median_ms"] == 2.5 and theirs["tokens_per_s"] == 12800, row
assert ours["tokens_per_s"] > 0 and ours["mfu"] > 0 and abs(row["ratios"]["llm.c"] - 2.5 / ours["median_ms"]) < 1e-9, row
P
}

without_a_card() {
    FAKE_CUDA_DEVICES=0 report none.json "$YOKE_BUILD" 2>"$out/none" && return 1
    grep "no CUDA device here" "$out/none" && [ ! -e "$out/none.json" ]
}

ok "all steps, with their results" whole
instrumented || ok "from a distribution" distribution
ok "a step that fails" failing
ok "beside llm.c" beside_llmc
ok "without a card" without_a_card
plan
