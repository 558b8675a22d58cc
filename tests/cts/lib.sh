# SPDX-License-Identifier: Apache-2.0
# Shell functions of the tests that run yoke-cts. YOKE_BUILD and YOKE_SOURCE are set by make check.
CTS=$YOKE_BUILD/yoke-cts
unset MAKEFLAGS MFLAGS MAKELEVEL
NUMBER=0
FAILED=0
SANITIZER=$(sed -n 's/^#define YK_SANITIZER "\(.*\)"/\1/p' "$YOKE_BUILD/config.h")
# What ./check runs of a device that compiles each kernel; ./check --long has YOKE_TEST_LONG set, and runs all cases and the longest sums.
QUICK=--quick
[ -z "${YOKE_TEST_LONG-}" ] || QUICK=--long
# random graphs there: every tenth of these, so three of the 60 that the processor's plugin runs without --quick
FEW="--count 30"
[ -z "${YOKE_TEST_LONG-}" ] || FEW=
LESS= # under ASan one case in ten of every operation and type, for plugins whose operations are tried there by others too
case $SANITIZER in
address) SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined" LESS=--quick ;;
thread) SANITIZE="-fsanitize=thread" ;;
*) SANITIZE= ;;
esac

# result STATUS NAME: one TAP line
result()
{
    NUMBER=$((NUMBER + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $NUMBER - $2"
    else
        echo "not ok $NUMBER - $2"
        FAILED=1
    fi
}

skip_all()
{
    echo "1..0 # SKIP $1"
    exit 0
}

finish()
{
    echo "1..$NUMBER"
    exit $FAILED
}

OPTIMIZE="-O1 -g"

# compile OUT SOURCE [FLAGS]: a plugin of one source file
compile()
{
    out=$1
    src=$2
    shift 2
    echo '{ global: yk_plugin_query; helper; local: *; };' >"$WORK/map"
    # shellcheck disable=SC2086
    ${CC:-gcc} -std=gnu11 $OPTIMIZE -fvisibility=hidden -fPIC -shared $SANITIZE "-DSANITIZER=\"$SANITIZER\"" \
        -I"$YOKE_SOURCE" -I"$YOKE_SOURCE/include" -I"$YOKE_SOURCE/plugins/template" -Wl,--version-script="$WORK/map" -o "$out" "$src" "$@"
}

# leaks_doubted FILE: LeakSanitizer's words in it say nothing of this code. It stops all threads at the end of a process, and when one of a
# driver's ends at that moment, it gives up, or takes that thread's table of thread-local blocks for lost, whose allocation in the
# dynamic loader it knows by a call stack that it does not always get. What is lost each time is found each time.
leaks_doubted()
{
    grep -q 'LeakSanitizer has encountered a fatal error' "$1" && return 0
    grep -q 'LeakSanitizer: detected memory leaks' "$1" && ! grep -qE '^ *#[0-9]+ .*(\.c:[0-9]|[/(](lib)?yoke)' "$1"
}

# run_cts NAME PLUGIN [OPTIONS]: all tests pass; failures are shown. Where leaks are doubted, once more.
run_cts()
{
    name=$1
    shift
    for try in 1 2 3; do
        "$CTS" --plugin "$@" >"$WORK/out" 2>"$WORK/err"
        code=$?
        [ $code -ne 0 ] && leaks_doubted "$WORK/err" || break
        echo "# try $try: leaks that are none of this code, or none that LeakSanitizer could look for"
    done
    grep -A1 '^not ok' "$WORK/out" | head -40 | sed 's/^/# /'
    [ $code -eq 0 ] || tail -5 "$WORK/err" | sed 's/^/# /'
    echo "# $name: $(tail -1 "$WORK/out" | sed 's/^# //')"
    result $code "$name"
}

# validated NAME PLUGIN [OPTIONS]: the same under the validating layer, whose own code a sanitizer sees in cpu.sh and far.sh
validated()
{
    [ "$SANITIZER" = none ] || return 0
    YOKE_LAYERS=validate run_cts "$@"
}

WORK=$(mktemp -d) || exit 1
trap 'rm -rf "$WORK"' EXIT
# For --unsupported: operations of 16 bits but casts, products, convolutions, softmaxes and few more; random graphs have such types, too.
printf '%s\n' 'op/[!cd]*.f16*' 'op/[!cd]*.bf16*' 'composite/[!cs]*.f16*' 'composite/[!cs]*.bf16*' >"$WORK/narrow"
