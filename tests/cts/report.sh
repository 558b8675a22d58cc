#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# yoke-cts --report: the same bytes in two runs, two folders and two instruction sets; whole or not there, and nothing in it that is not the
# device's. docs/devices.md is made from the reports of tests/cts/reports.
. "$YOKE_SOURCE/tests/cts/lib.sh"
CPU=$YOKE_BUILD/.libs/yoke_cpu.so
GROUPS_RUN=abi,buffer,op,composite,random,errors

# reports FILE PLUGIN [OPTIONS]: one case in ten of each operation and type
reports()
{
    file=$1 plugin=$2
    shift 2
    "$CTS" --plugin "$plugin" --report "$file" --quick --group $GROUPS_RUN "$@" >"$WORK/out" 2>"$WORK/err"
}

YOKE_CPU_ISA=portable reports "$WORK/one.json" "$CPU" && [ -s "$WORK/one.json" ]
result $? "a report of the processor, by the portable kernels"
if [ "$SANITIZER" = none ]; then # bytes are the plain build's
    mkdir "$WORK/elsewhere"
    cp "$CPU" "$WORK/elsewhere/yoke_cpu.so"
    # another set of instructions, folder, name of the folder and time zone
    other=$(YOKE_CPU_ISA=none "$CTS" --plugin "$CPU" --only abi/devices | sed -n 's/.*this machine has portable \([a-z0-9]*\).*/\1/p')
    (cd "$WORK/elsewhere" && TZ=Asia/Tokyo YOKE_CPU_ISA=${other:-portable} reports two.json ./yoke_cpu.so)
    cmp "$WORK/one.json" "$WORK/elsewhere/two.json"
    result $? "in another run and folder, by ${other:-portable} kernels: the same bytes"
fi

python3 - "$WORK/one.json" "$WORK" <<'PY'
import json, re, socket, sys
text = open(sys.argv[1]).read()
report = json.loads(text)
assert list(report)[:3] == ["report", "suite", "suite_abi"] and report["plugin"] == "cpu" and report["result"] == "passed", report
assert report["options"]["seed"] == 1 and report["options"]["quick"] is True and report["failed"] == []
totals = report["totals"]
assert totals["passed"] == sum(g["passed"] for g in report["groups"]) > 300 and totals["failed"] == 0, totals
assert len(report["unsupported"]) == totals["unsupported"]
rows = {(o["test"], o["type"]): o for o in report["operations"]}
assert rows["op/dot", "f32"]["tolerances"] == ["abssum"] and rows["op/dot", "f32"]["passed"] > 0, rows["op/dot", "f32"]
assert "exact" in rows["op/copy", "f32"]["tolerances"] and rows["composite/gelu", "bf16"]["passed"] > 0
for what in ("/", "avx", "portable", "202[0-9]", r"\b[0-9]+:[0-9]+", "MiB", "GiB", re.escape(socket.gethostname()) + r"\b"):
    rest = re.sub(r'"test": "[^"]*"|\n    "[^"]*"|"device": "[^"]*"', "", text)
    assert not re.search(what, rest), (what, re.search(what, rest))
PY
result $? "it holds results and tolerances by operation and type; no path, host, time or size"

# Faults, expected ones, and a process that dies
compile "$WORK/yoke_bad.so" "$YOKE_SOURCE/tests/cts/broken.c" -pthread -DBREAK_SYMBOL
echo 'abi/symbols' >"$WORK/list"
"$CTS" --plugin "$WORK/yoke_bad.so" --group abi --report "$WORK/bad.json" >"$WORK/out"
code=$?
"$CTS" --plugin "$WORK/yoke_bad.so" --group abi --xfail "$WORK/list" --report "$WORK/known.json" >"$WORK/out"
[ $code$? = 10 ] && python3 - "$WORK/bad.json" "$WORK/known.json" <<'PY'
import json, sys
bad, known = (json.load(open(f)) for f in sys.argv[1:])
assert bad["result"] == "failed" and bad["failed"] == ["abi/symbols"] and bad["totals"]["failed"] == 1, bad
assert known["result"] == "passed" and known["failed"] == [] and known["expected_failures"] == ["abi/symbols"], known
PY
result $? "a failure stands in it by name, and one that a list expects apart from the others"
compile "$WORK/yoke_bad.so" "$YOKE_SOURCE/tests/cts/broken.c" -pthread -DBREAK_CRASH
"$CTS" --plugin "$WORK/yoke_bad.so" --group op --quick --report "$WORK/crash.json" >"$WORK/out" 2>"$WORK/err"
[ $? -eq 1 ] && python3 - "$WORK/crash.json" "$WORK/out" <<'PY'
import json, re, sys
report, out = json.load(open(sys.argv[1])), open(sys.argv[2]).read()
assert report["totals"]["failed"] == len(re.findall("^not ok", out, re.M)) == len(report["failed"]) > 1, report["totals"]
assert report["totals"]["not_run"] == int((re.search(r"(\d+) not run$", out, re.M) or [0, 0])[1])
PY
result $? "a plugin that crashes gets a report too"

# Transports
"$CTS" --transport "$YOKE_BUILD/.libs/transport_sock.so" --group abi,order --report "$WORK/sock.json" >"$WORK/out" 2>&1 &&
    "$CTS" --transport "$YOKE_BUILD/.libs/transport_sock.so" --group abi,order --report "$WORK/sock2.json" >"$WORK/out" 2>&1 &&
    cmp "$WORK/sock.json" "$WORK/sock2.json" && grep -q '"transport": "sock"' "$WORK/sock.json" && ! grep -q plugin "$WORK/sock.json"
result $? "a transport's report, twice the same"

# Files
no_file()
{
    "$CTS" --plugin "$CPU" --group abi --report "$1" >"$WORK/out" 2>"$WORK/err"
    [ $? -eq 2 ] && grep -q -- "--report.*$2" "$WORK/err" && ! grep -q '^ok' "$WORK/out"
    result $? "$3: exit code 2, before any test"
}
no_file "$WORK/none/r.json" 'folder .* cannot be written: No such file' "a folder that is not there"
no_file "$WORK" 'a folder, a device or a pipe' "a folder"
no_file /dev/null 'a folder, a device or a pipe' "a device"
echo before >"$WORK/kept.json"
"$CTS" --plugin "$CPU" --only 'op/nothing*' --report "$WORK/kept.json" >"$WORK/out" 2>&1
[ $? -eq 2 ] && [ "$(cat "$WORK/kept.json")" = before ]
result $? "where no test is run, the file stays as it was"
if [ -e /dev/full ] && mkdir "$WORK/full" && mount -t tmpfs -o size=4k none "$WORK/full" 2>/dev/null; then
    echo before >"$WORK/full/r.json"
    "$CTS" --plugin "$CPU" --group abi,buffer,queue --quick --report "$WORK/full/r.json" >"$WORK/out" 2>"$WORK/err"
    code=$?
    [ $code -eq 2 ] && grep -q 'yoke-cts: .*r.json' "$WORK/err" && [ "$(cat "$WORK/full/r.json")" = before ] &&
        [ "$(ls "$WORK/full")" = r.json ]
    result $? "a disk that is full: exit code 2, and the file as it was (code $code)"
    umount "$WORK/full"
fi
# Stored reports are of this suite: each group has as many tests as the suite has for the device. The file's options stand in the call.
stored()
{
    name=$1 plugin=$2
    shift 2
    "$CTS" --plugin "$plugin" --list "$@" >"$WORK/list" && python3 - "$YOKE_SOURCE/tests/cts/reports/$name.json" "$WORK/list" <<'PY'
import json, sys
kinds = ("passed", "failed", "unsupported", "expected_failures")
stored = {g["group"]: sum(g[k] for k in kinds) for g in json.load(open(sys.argv[1]))["groups"]}
suite = {name: int(n) for name, n in (line.split() for line in open(sys.argv[2]))}
for name in sorted(set(stored) | set(suite)):
    if name == "offsets": # as many as the free memory allows
        stored[name] = suite[name]
    if stored.get(name) != suite.get(name):
        print(f"# group {name}: the stored report has {stored.get(name)} tests, the suite {suite.get(name)}: run scripts/reports")
sys.exit(stored != suite)
PY
    result $? "tests/cts/reports/$name.json has as many tests in each group as this suite"
}
"$CTS" --plugin "$CPU" --device 1000 --group op --list >"$WORK/list"
[ $? -eq 1 ] && grep -q '^not ok .*device/open' "$WORK/list" && ! grep -q '^op ' "$WORK/list"
result $? "a device that does not open has no numbers of tests"
"$CTS" --plugin "$CPU" --group abi --list --report "$WORK/none.json" >"$WORK/list" 2>"$WORK/err"
[ $? -eq 2 ] && [ ! -e "$WORK/none.json" ] && grep -q -- '--list runs no test' "$WORK/err"
result $? "--list writes no report"
compile "$WORK/yoke_good.so" "$YOKE_SOURCE/plugins/template/template.c"
[ "$SANITIZER" != none ] || stored cpu "$CPU" # numbers are the plain build's
[ "$SANITIZER" != none ] || stored template "$WORK/yoke_good.so" --quick

# The page
page()
{
    python3 "$YOKE_SOURCE/scripts/devices" "$@"
}
page "$YOKE_SOURCE"/tests/cts/reports/*.json | diff "$YOKE_SOURCE/docs/devices.md" - >"$WORK/diff"
[ $? -eq 0 ] || { head -10 "$WORK/diff" | sed 's/^/# /'; false; }
result $? "docs/devices.md is what scripts/devices makes of tests/cts/reports"
page "$WORK/one.json" "$WORK/bad.json" >"$WORK/page" && grep -q '^- template:0: `abi/symbols`$' "$WORK/page" &&
    grep -q '^| op/dot | abssum | .*f32.* | not run |$' "$WORK/page"
result $? "a page of other reports: failures by name, and what was not run"
page "$WORK/sock.json" >"$WORK/page" 2>"$WORK/err"
[ $? -eq 1 ] && [ ! -s "$WORK/page" ] && grep -q 'expected the report of a device' "$WORK/err" && echo '{"report": 0}' >"$WORK/old.json" &&
    ! page "$WORK/old.json" 2>"$WORK/err" && grep -q 'expected a report of form 1, got 0' "$WORK/err"
result $? "a transport's report, and one of another form, are refused"
sed 's/"suite_abi": "2\.[0-9]*"/"suite_abi": "2.2"/' "$WORK/one.json" >"$WORK/minor.json"
page "$WORK/minor.json" >"$WORK/page" 2>"$WORK/err"
[ $? -eq 1 ] && [ ! -s "$WORK/page" ] && grep -q 'minor.json: expected the report of a suite of ABI 2\.[0-9]*, got 2.2' "$WORK/err"
result $? "and so is one of an older minor"
finish
