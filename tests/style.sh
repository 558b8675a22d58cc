#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The house style holds in every source file.
echo "1..1"
cd "$YOKE_SOURCE" || exit 1
if out=$(python3 scripts/style); then
    echo "ok 1 - style"
else
    printf '%s\n' "$out" | sed 's/^/# /'
    echo "not ok 1 - style"
fi
