# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by the tests of the commands: a small folder of real images, a short training.
. "$YOKE_SOURCE/tests/golden/lib.sh"

small_images() { # small_images DIR: the first 640 and 200 images of Fashion-MNIST, as plain IDX files
    mkdir -p "$1" && python3 - "$data/fashion-mnist" "$1" <<'P'
import gzip, sys
for part, rows in (("train", 640), ("t10k", 200)):
    for kind, head, row in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
        name = f"/{part}-{kind}-ubyte"
        with gzip.open(sys.argv[1] + name + ".gz") as f:
            b = f.read(head + rows * row)
        with open(sys.argv[2] + name, "wb") as f:
            f.write(b[:4] + rows.to_bytes(4, "big") + b[8:])
P
}

mlp() { # mlp OUT ARGUMENTS...: 30 steps, 1.5 epochs of 20. With instead=exec it replaces the shell: $! is its own id
    to=$1
    shift
    ${instead-} "$yoke" train --model mlp --model-config hidden=32 --data "idx:$out/images" --global-batch 32 --max-steps 30 \
        --learning-rate 1e-3 --warmup-steps 5 --logging-steps 1 --overwrite-output-dir --output-dir "$to" "$@"
}

valid_json() { # valid_json FILE: each line is an object, and no number is other than JSON allows
    python3 -c 'import json,sys
def bad(x): raise ValueError(x)
for line in open(sys.argv[1]): assert isinstance(json.loads(line, parse_constant=bad), dict)' "$1"
}

rank_pid() { # rank_pid RANK TEXT: the process of this rank whose command line has the text; not a child that it forked just now
    found=" "
    for process in /proc/[0-9]*; do
        tr '\0' '\n' 2>/dev/null <"$process/environ" | grep -qx "YOKE_RANK=$1" &&
            tr '\0' ' ' 2>/dev/null <"$process/cmdline" | grep -qF -e "$2" && found="$found${process#/proc/} "
    done
    for process in $found; do
        parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$process/status" 2>/dev/null)
        case $found in *" ${parent:-none} "*) ;; *) [ -z "$parent" ] || echo "$process" ;; esac
    done
}

heard() { # heard PID: until the process has taken SIGINT, SIGUSR1 and SIGTERM, as two that wait for a processor together are one; a minute
    i=0
    until [ $((0x$(sed -n 's/^ShdPnd:[[:space:]]*//p' "/proc/$1/status") & 0x4202)) = 0 ]; do
        i=$((i + 1))
        [ $i -lt 3000 ] && kill -0 "$1" || return 1
        sleep 0.02
    done
}
