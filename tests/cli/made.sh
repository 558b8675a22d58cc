# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by tests of yoke train that need no data folder: images that are made, a short training, TAP.
yoke=$YOKE_BUILD/yoke
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
n=0

check() { # NAME: the last command's status decides; code, and the files out and err, are shown where it failed
    if [ $? -eq 0 ]; then r=ok; else r="not ok"; echo "# exit code $code"; sed 's/^/# /' "$tmp/out" "$tmp/err"; fi
    n=$((n + 1))
    echo "$r $n - $1"
}

skip() { # WHY NUMBER
    for i in $(seq "$2"); do n=$((n + 1)); echo "ok $n # SKIP $1"; done
}

plan() { # NUMBER: of checks; all are skipped where there is no yoke
    echo "1..$1"
    [ -x "$yoke" ] && return
    skip "yoke is not built" "$1"
    exit 0
}

mkdir "$tmp/images" && python3 - "$tmp/images" <<'P'
import sys
for part in ("train", "t10k"):
    with open(f"{sys.argv[1]}/{part}-images-idx3-ubyte", "wb") as f:
        f.write(bytes.fromhex("00000803") + b"".join(n.to_bytes(4, "big") for n in (64, 8, 8)))
        f.write(bytes(i * 7 % 256 for i in range(64 * 64)))
    with open(f"{sys.argv[1]}/{part}-labels-idx1-ubyte", "wb") as f:
        f.write(bytes.fromhex("00000801") + (64).to_bytes(4, "big") + bytes(i % 10 for i in range(64)))
P

train() { # BEFORE...: yoke train behind these words; `hidden` is the model's size
    rm -rf "$tmp/model"
    timeout 60 "$@" "$yoke" train --model mlp --model-config hidden="$hidden" --data "idx:$tmp/images" --global-batch 8 \
        --max-steps 2 --overwrite-output-dir --output-dir "$tmp/model" >"$tmp/out" 2>"$tmp/err"
    code=$?
}
