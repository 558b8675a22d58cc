#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# scripts/gpu-report as a whole on the fakes, each of its steps as short as it goes: all are in the JSON, with their results. A step that
# fails is noted there, too, and in the exit code; without a card nothing is tried.
. "$YOKE_SOURCE/tests/cli/lib.sh"
[ "$(uname -m)" = x86_64 ] || { echo "1..0 # SKIP the fake driver runs kernels on x86-64 only"; exit 0; }
. "$YOKE_SOURCE/tests/fakes/use.sh"

report() { # report FILE BUILD
    "$YOKE_SOURCE/scripts/gpu-report" --build "$2" --dry-run --out "$out/$1"
}

whole() {
    report whole.json "$YOKE_BUILD" && python3 - "$out/whole.json" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
benches = ["gpt2_bf16", "gpt2_fp32", "mlp", "resnet20", "two_cards_rank", "two_cards_run"]
assert sorted(report) == sorted(benches + ["info", "suite"]), sorted(report)
assert all(step["status"] == 0 and step["seconds"] >= 0 and "error" not in step for step in report.values()), report
assert "cuda:0" in json.dumps(report["info"]["result"]), report["info"]
assert " 0 failed" in report["suite"]["output"][0] and not report["suite"]["output"][0].startswith("# 0 passed"), report["suite"]
assert all(report[name]["result"] and isinstance(report[name]["result"], dict) for name in benches), report
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
assert report["suite"] == dict(report["suite"], status=1, output=["# 1 passed, 1 failed", "not ok 2 - that"], error=""), report
assert report["mlp"]["error"] == "out of memory\n" and report["resnet20"]["result"] == {"images": 1}, report
P
}

without_a_card() {
    FAKE_CUDA_DEVICES=0 report none.json "$YOKE_BUILD" 2>"$out/none" && return 1
    grep "no CUDA device here" "$out/none" && [ ! -e "$out/none.json" ]
}

ok "all steps, with their results" whole
ok "a step that fails" failing
ok "without a card" without_a_card
plan
