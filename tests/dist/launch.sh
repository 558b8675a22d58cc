#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# yoke launch: what the ranks find in their environment, exit codes, messages, JSON.
yoke=$YOKE_BUILD/yoke
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
echo "1..25"
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
    while [ $n -lt 25 ]; do n=$((n + 1)); echo "ok $n # SKIP yoke is not built"; done
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

run --devices "./nosuch.so" true
[ $code -eq 2 ] && grep -q "./nosuch.so: No such file" "$tmp/err"
check "a file of a plugin that is not there"

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
left=0
for t in $transports; do
    YOKE_TRANSPORT=$t YOKE_SHARES=equal timeout -k 5 60 "$yoke" launch --devices "cpu:0! cpu:0!" -- \
        "$YOKE_BUILD/tests/dist/exits" >"$tmp/out" 2>"$tmp/err" || { left=1; break; }
done
[ $left -eq 0 ]
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

# ---- Who starts it ----

export YOKE_LOG=error

# A terminal whose session's leader is the launcher itself, as in tmux or behind ssh -t, or a shell with job control. The ranks print on.
cat >"$tmp/terminal.py" <<'P'
import os, pty, signal, sys, time
leader, command = sys.argv[1] == "leader", sys.argv[2:]
for ignored in signal.SIGINT, signal.SIGTSTP: signal.signal(ignored, signal.SIG_DFL) # as behind '&'
pid, fd = pty.fork()
if pid == 0:
    if leader: os.execv(command[0], command)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    try: os.setpgid(job, job)
    except PermissionError: pass # the job has done it, and runs its program
    os.tcsetpgrp(0, job or os.getpid())
    if job == 0: os.execv(command[0], command)
    print("stopped" if os.WIFSTOPPED(os.waitpid(job, os.WUNTRACED)[1]) else "ended", flush=True)
    time.sleep(2)
    print("continued", flush=True)
    os.tcsetpgrp(0, job)
    os.kill(-job, signal.SIGCONT)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]))
said = b""
def more():
    global said
    try: part = os.read(fd, 65536)
    except OSError: part = b""
    if not part: sys.exit("it ended: " + said.decode())
    said += part
def after(words): return said[said.rfind(words):].count(b"on\r\n") if words in said else 0
signal.alarm(60)
while said.count(b"on\r\n") < 4: more()
os.write(fd, b"\x1a")
while b"^Z" not in said if leader else b"continued" not in said: more()
still = said[said.rfind(b"stopped"):].count(b"on\r\n")
while after(b"^Z" if leader else b"continued") < 10: more()
os.write(fd, b"\x03")
try:
    while True: more()
except SystemExit: pass
print(said.decode(), "still", still)
sys.exit(1 if not leader and still > 4 else os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
P
ctrl_z() { # leader|shell
    python3 "$tmp/terminal.py" "$1" "$yoke" launch --devices "$two" -- sh -c 'while :; do echo on; sleep 0.1; done' >"$tmp/out" 2>"$tmp/err"
    code=$?
    [ $code -eq 130 ]
}
ctrl_z shell
check "Ctrl-Z stops the job under a shell, and fg goes on"
ctrl_z leader
check "Ctrl-Z is for nothing where no shell could go on"

# Signals that the parent blocks are blocked in its children.
python3 - "$tmp/up" "$yoke" launch --devices "$two" -- sh -c 'echo >"$0.$YOKE_RANK"; exec sleep 60' "$tmp/up" >"$tmp/out" 2>"$tmp/err" <<'P'
import os, signal, subprocess, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD})
job = subprocess.Popen(sys.argv[2:])
until = time.monotonic() + 60
while not (os.path.exists(sys.argv[1] + ".0") and os.path.exists(sys.argv[1] + ".1")):
    if job.poll() is not None or time.monotonic() > until: job.kill(); sys.exit("the ranks did not start")
    time.sleep(0.05)
job.send_signal(signal.SIGTERM)
begun = time.monotonic()
try: code = job.wait(60)
except subprocess.TimeoutExpired: job.kill()
sys.exit(0 if code == 143 and time.monotonic() - begun < 5 else 1)
P
code=$?
[ $code -eq 0 ]
check "a signal that its parent blocks reaches the ranks"

# As process 1 of a container does, a subreaper inherits what a rank leaves behind.
cat >"$tmp/leaves.py" <<'P'
import os, sys, time
if os.environ["YOKE_RANK"] == "1": sys.exit(0)
for i in range(5):
    if os.fork() == 0:
        if os.fork() == 0: time.sleep(0.2)
        os._exit(0)
    os.wait()
def dead():
    n = 0
    for p in filter(str.isdigit, os.listdir("/proc")):
        try: fields = open(f"/proc/{p}/stat").read().rpartition(")")[2].split()
        except OSError: continue
        n += fields[0] == "Z" and int(fields[1]) == os.getppid()
    return n
time.sleep(1)
until = time.monotonic() + 5
while dead() and time.monotonic() < until: time.sleep(0.1)
sys.exit(dead())
P
python3 -c 'import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
os.execv(sys.argv[1], sys.argv[1:])' "$yoke" launch --devices "$two" -- python3 "$tmp/leaves.py" >"$tmp/out" 2>"$tmp/err"
code=$?
[ $code -eq 0 ]
check "what a running rank leaves behind in its group is reaped"

# Process 1 gets no signal with the default action. Its input is a pipe that stays open and empty.
caught() { # PID: it has its handler of SIGTERM
    mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
    [ -n "$mask" ] && [ $((0x$mask >> 14 & 1)) -eq 1 ]
}
trains() { # it has taken steps
    cat "$tmp/out" "$tmp/err" | grep -q "^step"
}
ends_process1() { # READY COMMAND..: SIGTERM ends it once it is ready
    ready=$1
    shift
    : >"$tmp/out"
    unshare -rpf --mount-proc "$yoke" "$@" <>"$tmp/pipe" >"$tmp/out" 2>"$tmp/err" &
    job=$!
    i=0
    until { first=$(pgrep -P $job) && $ready "$first"; } || [ $i -ge 600 ] || ! kill -0 $job 2>/dev/null; do
        i=$((i + 1))
        sleep 0.1
    done
    kill -TERM "$first"
    timeout 10 tail -s 0.1 -f /dev/null --pid=$job || kill -9 "$(pgrep -P $job)"
    wait $job
    code=$?
    [ $code -eq 143 ]
}
if unshare -rpf --mount-proc true 2>/dev/null; then
    mkfifo "$tmp/pipe"
    ends_process1 caught tokenize --tokenizer bytes -
    check "SIGTERM ends a command that is process 1"
    seq 1 400 >"$tmp/text"
    ends_process1 trains train --no-enable-jit-checkpoint --devices cpu:0 --model gpt2 --data "text:$tmp/text" --tokenizer bytes \
        --seq-len 8 --model-config n_layer=1,n_embd=8,n_head=1,vocab_size=256,n_positions=8,seq_len=8 --global-batch 4 --eval-strategy no \
        --max-steps 1000000000 --logging-steps 1 --output-dir "$tmp/trained"
    check "SIGTERM ends a training that saves nothing for it, as process 1"
else
    n=$((n + 2))
    echo "ok $((n - 1)) # SKIP a namespace of processes is forbidden here"
    echo "ok $n # SKIP a namespace of processes is forbidden here"
fi
