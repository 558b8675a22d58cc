# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by the shell tests: TAP lines, the test data, the yoke program.
yoke=$YOKE_BUILD/yoke
data=$YOKE_TEST_DATA
[ -d "$data" ] || data=/usr/share/datasets # Debian's Fashion-MNIST, which many tests do with
export YOKE_CONFIG_FILE=none # not what the user of this machine has set
n=0
out=$(mktemp -d "${TMPDIR:-/tmp}/yoke-test.XXXXXX")
trap 'rm -rf "$out"' EXIT

need_data() { # need_data FOLDER...: skips the whole program where one is absent
    for d in "$@"; do
        [ -e "$data/$d" ] && continue
        echo "1..0 # SKIP no $d in YOKE_TEST_DATA ($data)"
        exit 0
    done
}

need_opencl() {
    # LeakSanitizer gives up where a driver's thread ends beside it; tests/cts/opencl.sh looks for leaks
    export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
    "$yoke" info --kinds 2>/dev/null | grep -q '^opencl$' && return
    echo "1..0 # SKIP no OpenCL device here"
    exit 0
}

need_cores() { # need_cores N
    [ "$(nproc)" -ge "$1" ] && return
    echo "1..0 # SKIP needs $1 cores"
    exit 0
}

instrumented() { # built with a sanitizer
    ! grep -q '^SANITIZE_CFLAGS = *$' "$YOKE_BUILD/Makefile"
}

ok() { # ok NAME COMMAND...: passes if the command does; its output is shown when not
    name=$1
    shift
    n=$((n + 1))
    if "$@" >"$out/log" 2>&1; then
        echo "ok $n - $name"
    else
        code=$?
        sed 's/^/# /' "$out/log" | tail -n 40
        echo "# exit code $code"
        echo "not ok $n - $name"
    fi
}

plainly() { # plainly NAME COMMAND...: as ok, in a build without a sanitizer; there, cases beside it run the same code
    instrumented || ok "$@"
}

ends_of() { # ends_of WORD...: all; the last where a sanitizer looks at code that is the same for each, without YOKE_TEST_LONG
    instrumented && [ -z "${YOKE_TEST_LONG-}" ] && [ $# -gt 2 ] || { echo "$@"; return; }
    shift $(($# - 1))
    echo "$1"
}

skip() { # skip NAME REASON
    n=$((n + 1))
    echo "ok $n - $1 # SKIP $2"
}

plan() {
    echo "1..$n"
}

field() { # field KEY FILE: a number of the last JSON line
    tail -n 1 "$2" | python3 -c "import json,sys; print(json.loads(sys.stdin.read())['$1'])"
}

at_least() { # at_least VALUE LIMIT
    python3 -c "import sys; sys.exit(not float('$1') >= float('$2'))" || { echo "$1 is below $2"; return 1; }
}
