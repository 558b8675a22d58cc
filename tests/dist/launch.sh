#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# yoke launch: what the ranks find in their environment, exit codes, messages, JSON.
yoke=$YOKE_BUILD/yoke
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
echo "1..18"
n=0
check() { # NAME: the last command's status decides
    if [ $? -eq 0 ]; then r=ok; else r="not ok"; sed 's/^/# /' "$tmp/out" "$tmp/err"; fi
    n=$((n + 1))
    echo "$r $n - $1"
}
run() {
    "$yoke" launch "$@" >"$tmp/out" 2>"$tmp/err"
    code=$?
}
if [ ! -x "$yoke" ]; then
    while [ $n -lt 18 ]; do n=$((n + 1)); echo "ok $n # SKIP yoke is not built"; done
    exit 0
fi
two="cpu:0 cpu:0"

run --devices "$two" -- sh -c 'echo "$YOKE_RANK $YOKE_LOCAL_RANK $YOKE_WORLD_SIZE ${YOKE_DEVICES%%:*} ${YOKE_JOB_FD:+fd}"'
[ $code -eq 0 ] && [ "$(sort "$tmp/out")" = "0 0 2 cpu fd
1 1 2 cpu fd" ]
check "each rank finds its number"

run --devices "cpu:0! cpu:0" -- sh -c 'echo "$YOKE_DEVICES"'
[ $code -eq 0 ] && [ "$(LC_ALL=C sort "$tmp/out")" = "cpu:0
cpu:0!" ]
check "a rank that is forced finds it in its device spec"

run --devices "$two" sh -c 'test $YOKE_RANK = 0 && exec sleep 20; exit 3'
[ $code -eq 1 ] && grep -q "^yoke launch: rank 1 (cpu:0.*) ended with exit code 3$" "$tmp/err"
check "a failing rank is named"

run --devices "$two" --json sh -c 'test $YOKE_RANK = 0 && exec sleep 20; exit 2'
[ $code -eq 2 ] && tail -n 1 "$tmp/out" | python3 -c '
import json, sys
j = json.load(sys.stdin)
assert len(j["ranks"]) == 2 and j["exit_code"] == 2 and "exit code 2" in j["error"], j'
check "bad input keeps its exit code; --json"

YOKE_DEVICES="cpu:0" run --json -- true
[ $code -eq 0 ] && grep -q '"exit_code": 0, "error": null' "$tmp/out"
check "devices from the environment"

run --device cpu:0 true
[ $code -eq 2 ] && grep -q "did you mean --devices" "$tmp/err"
check "an unknown option names the nearest"

run --devices "nosuch:0" true
[ $code -eq 2 ] && grep -q "nosuch" "$tmp/err"
check "a word that matches nothing"

run --devices "$two" /nonexistent/program
[ $code -eq 2 ] && grep -q "cannot start '/nonexistent/program'" "$tmp/err"
check "a program that is not there"

run --devices cpu:0
[ $code -eq 2 ]
check "no program"

# ---- Ends ----

# The exit handler waits 4 s for the last messages, which need the lock too. A sanitizer's allocator has locks and handlers of its own.
transports="shm sock"
[ -e "$YOKE_BUILD/.libs/transport_sock.so" ] || transports="shm local"
grep -q '^SANITIZE_CFLAGS = *$' "$YOKE_BUILD/Makefile" || transports=
for t in $transports; do
    YOKE_TRANSPORT=$t YOKE_SHARES=equal timeout -k 5 60 "$yoke" launch --devices "cpu:0! cpu:0!" -- \
        "$YOKE_BUILD/tests/dist/exits" >"$tmp/out" 2>"$tmp/err" || break
done
check "a rank whose signal handler exits, amid the allocator's work, ends"

run --devices "$two cpu:0" -- sh -c 'test $YOKE_RANK != 2 || kill -STOP $$'
[ $code -eq 1 ] && grep -q "^yoke launch: rank 2 (cpu:0.*) was stopped" "$tmp/err"
check "the last rank is stopped after the others have ended"

# One whose output nobody reads: the reader holds the pipe open, and sleeps.
unread() { # SIGNALS WORDS..: they are sent when the pipe is full; whether the launcher has ended 5 s later
    signals=$1
    shift
    rm -f "$tmp/fifo" "$tmp/pid" && mkfifo "$tmp/fifo"
    sleep 60 <"$tmp/fifo" &
    reader=$!
    "$yoke" launch --json --devices "$two" -- "$@" >"$tmp/fifo" 2>&1 &
    launcher=$!
    python3 - "$launcher" "$reader" "$tmp/pid" $signals <<'P'
import fcntl, os, signal, sys, termios, time
launcher, pid = int(sys.argv[1]), sys.argv[3]
pipe = os.open(f"/proc/{sys.argv[2]}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
def pending(): return int(next(line.split()[1] for line in open(f"/proc/{launcher}/status") if line.startswith("ShdPnd")), 16)
def waiting(): return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)
while waiting() < 60000: time.sleep(0.02)
while sys.argv[4] == "rank" and not os.path.exists(pid): time.sleep(0.02)
for name in sys.argv[4:]:
    os.kill(int(open(pid).read()) if name == "rank" else launcher, signal.SIGKILL if name == "rank" else getattr(signal, name))
    time.sleep(0.1)
    while name != "rank" and pending() >> getattr(signal, name) - 1 & 1: time.sleep(0.02) # two that wait for a processor are one
P
    i=0
    while [ $i -lt 50 ] && read -r _ _ state _ 2>/dev/null <"/proc/$launcher/stat" && [ "$state" != Z ]; do i=$((i + 1)); sleep 0.1; done
    kill -9 $reader
    [ $i -lt 50 ] || kill -9 $launcher
    wait $launcher
    code=$?
    [ $i -lt 50 ]
}
# A shell has its commands behind '&' ignore SIGINT: so does this one, and its ranks would.
unread SIGINT yes && [ $code -eq 130 ]
check "SIGINT where nobody reads"
unread "SIGTERM SIGTERM" sh -c 'trap "" TERM; while :; do echo $YOKE_RANK; done' && [ $code -eq 143 ]
check "two signals where nobody reads"
unread rank sh -c 'test $YOKE_RANK = 0 || echo $$ >"$0.new" && mv "$0.new" "$0" 2>/dev/null; exec yes' "$tmp/pid" && [ $code -eq 1 ]
check "a killed rank where nobody reads"

# The one of two that calls exit is named with its code by the one that waits for it, whoever started them.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
exits='import ctypes, os, sys
yoke = ctypes.CDLL(sys.argv[1])
yoke.yk_open.restype = ctypes.c_void_p
job = yoke.yk_open(None, ctypes.c_size_t(0))
libc = ctypes.CDLL(None)
if os.environ["RANK"] == "1": libc.exit(7)
yoke.yk_barrier(ctypes.c_void_p(job))
sys.exit(yoke.yk_close(ctypes.c_void_p(job)))'
for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port YOKE_DEVICES=cpu:0 \
        timeout 60 python3 -c "$exits" "$YOKE_BUILD/.libs/libyoke.so" >"$tmp/out" 2>"$tmp/err$rank" &
done
wait
cat "$tmp/err0" "$tmp/err1" >"$tmp/err"
if grep -q '^SANITIZE_CFLAGS = *$' "$YOKE_BUILD/Makefile"; then
    grep -q "rank 1 .* ended with exit code 7 while rank 0 .* waited for it in" "$tmp/err0"
    check "a rank that calls exit is named with its code"
else
    n=$((n + 1))
    echo "ok $n # SKIP instrumented: the library is not for Python"
fi

# What a rank starts has none of the job's descriptors.
cat >"$tmp/child.py" <<'P'
import ctypes, os, subprocess, sys
yoke = ctypes.CDLL(sys.argv[1])
yoke.yk_open.restype = ctypes.c_void_p
job = yoke.yk_open(None, ctypes.c_size_t(0))
subprocess.run("ls -l /proc/self/fd | sed 's/^/fd /'", shell=True, close_fds=False)
sys.exit(yoke.yk_close(ctypes.c_void_p(job)))
P
if grep -q '^SANITIZE_CFLAGS = *$' "$YOKE_BUILD/Makefile"; then
    run --devices "$two" -- python3 "$tmp/child.py" "$YOKE_BUILD/.libs/libyoke.so"
    one=$code
    printf '#!/bin/sh\nexport YOKE_HOST_ID=$1\nexec sh -c "$2"\n' >"$tmp/ssh" && chmod +x "$tmp/ssh"
    cp "$tmp/out" "$tmp/here"
    YOKE_SSH=$tmp/ssh YOKE_ADDR=127.0.0.1 YOKE_LOG=error run --hosts a,b --devices cpu:0 -- python3 "$tmp/child.py" \
        "$YOKE_BUILD/.libs/libyoke.so"
    cat "$tmp/here" >>"$tmp/out"
    [ $one -eq 0 ] && [ $code -eq 0 ] && [ "$(grep -c 'fd .* -> ' "$tmp/out")" -ge 16 ] &&
        ! grep -E "fd .*(memfd|yoke|socket|eventfd)" "$tmp/out"
    check "what a rank starts has none of the job's descriptors"
else
    n=$((n + 1))
    echo "ok $n # SKIP instrumented: the library is not for Python"
fi

# What ranks log must not go where the job's memory is. libtool's script before a program would be open in that place.
train=$YOKE_BUILD/tests/dist/.libs/fifty
[ -x "$train" ] || train=$YOKE_BUILD/tests/dist/fifty
export YOKE_LOG=debug LD_LIBRARY_PATH="$YOKE_BUILD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
"$yoke" launch --devices "cpu:0! cpu:0!" -- "$train" >"$tmp/out" 2>&-
code=$?
[ $code -eq 0 ] && grep -q "^ranks 2 parameters" "$tmp/out"
check "a closed standard error"

run --devices "cpu:0! cpu:0!" -- sh -c 'exec "$0" 2>&-' "$train"
[ $code -eq 0 ] && grep -q "^ranks 2 parameters" "$tmp/out"
check "ranks that close their standard error"
