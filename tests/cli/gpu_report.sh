#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# scripts/gpu-report as a whole on the fakes, each of its steps as short as it goes: all are in the JSON, with their results. A step that
# fails is noted there, too, and in the exit code; a signal leaves the steps before it; without a card nothing is tried.
grep -q '^#define YK_SANITIZER "none"' "$YOKE_BUILD/config.h" ||
    { echo "1..0 # SKIP instrumented: the plain build's, as it tests a script"; exit 0; }
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

all_of_sources() {
    report all.json "$YOKE_BUILD" && all_steps all.json
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

# A signal while the suite runs: the steps before it are in the report, and the suite's processes have ended.
ended_by_a_signal() {
    mkdir "$out/slow" && cp "$out/bad/yoke" "$out/slow" && cat >"$out/slow/yoke-cts" <<'P' && chmod +x "$out/slow/yoke-cts" || return 1
#!/bin/sh
echo $$ >"${0%/*}/pid.new" && mv "${0%/*}/pid.new" "${0%/*}/pid"
echo "ok 1 - this"
exec sleep 300
P
    "$YOKE_SOURCE/scripts/gpu-report" --build "$out/slow" --dry-run --out "$out/slow.json" &
    script=$!
    for _ in $(seq 600); do [ ! -s "$out/slow/pid" ] || break; sleep 0.1; done
    kill -TERM "$script"
    wait "$script"
    code=$?
    for _ in $(seq 100); do kill -0 "$(cat "$out/slow/pid")" && sleep 0.1 || break; done # a process that nobody has waited for yet is there
    echo "exit code $code"
    [ $code -eq 143 ] && ! kill -0 "$(cat "$out/slow/pid")" && python3 - "$out/slow.json" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
assert sorted(report) == ["info", "suite"] and report["info"] == dict(report["info"], status=0, result={"images": 1}), report
assert report["suite"]["status"] == 143 and "ended by a signal" in report["suite"]["error"], report
P
}

# What the suite has said before its time is over is counted, and the reason is there; a suite of one process has as long as all need.
suite_at_its_limit() {
    mkdir "$out/late" "$out/late-path" && cp "$out/bad/yoke" "$out/late" && cat >"$out/late/yoke-cts" <<'P' &&
#!/bin/sh
printf 'ok 1 - this\nnot ok 2 - that\nok 3 - third # SKIP unsupported: it\n'
P
        cat >"$out/late-path/timeout" <<'P' && chmod +x "$out/late/yoke-cts" "$out/late-path/timeout" || return 1
#!/bin/sh
shift 3
"$@"
code=$?
case $1 in */yoke-cts) exit 124 ;; esac
exit $code
P
    PATH=$out/late-path:$PATH report late.json "$out/late" && return 1
    python3 - "$out/late.json" <<'P'
import json, sys
suite = json.load(open(sys.argv[1]))["suite"]
assert suite["output"] == ["# 1 passed, 1 failed, 1 unsupported", "not ok 2 - that"], suite
assert suite["status"] == 1 and suite["error"] == "group all: ended after 900 s\n", suite
P
}

without_python() {
    mkdir "$out/few" && ln -s "$(command -v dirname)" "$out/few" || return 1
    (PATH=$out/few && report few.json "$out/bad") 2>"$out/few.err"
    [ $? -eq 2 ] && grep "python3 is needed" "$out/few.err"
}

# Where nvcc cannot compile the kernels, a build without it is measured.
nvcc_that_fails() {
    mkdir -p "$out/tree/scripts" "$out/cores" && cp "$YOKE_SOURCE/scripts/gpu-report" "$out/tree/scripts" &&
        cp -r "$out/bad" "$out/tree/programs" && printf '#!/bin/sh\necho 8\n' >"$out/cores/nproc" &&
        cat >"$out/tree/configure" <<'P' && chmod +x "$out/tree/configure" "$out/cores/nproc" || return 1
#!/bin/sh
case $* in
*--with-nvcc=no) printf 'all:\n\tcp ../programs/* .\n' >Makefile ;;
*) printf 'all:\n\techo "nvcc fatal" >&2; false\n' >Makefile ;;
esac
P
    (unset MAKEFLAGS && PATH=$out/cores:$PATH "$out/tree/scripts/gpu-report" --dry-run --out "$out/tree.json") >"$out/tree.out"
    grep "does not build with nvcc" "$out/tree.out" && python3 - "$out/tree.json" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
assert "nvcc fatal" in report["build_nvcc_auto"]["error"] and report["build_nvcc_no"]["status"] == 0, report
assert report["resnet20"]["status"] == 0, report
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
    report llmc.json "$YOKE_BUILD" --llmc "$out/llmc" --peak 1 && all_steps llmc.json && python3 - "$out/llmc.json" <<'P'
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

[ -z "${YOKE_TEST_LONG-}" ] || ok "all steps, with their results" all_of_sources # the report beside llm.c has them, too
ok "a step that fails" failing
ok "ended by a signal" ended_by_a_signal
ok "a suite at its limit" suite_at_its_limit
ok "without python3" without_python
ok "nvcc that fails" nvcc_that_fails
ok "beside llm.c" beside_llmc
ok "without a card" without_a_card
plan
