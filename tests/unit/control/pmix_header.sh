#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Our prototypes of PMIx against pmix.h, where there is one: PMIX_INCLUDE, a folder, or what pkg-config says (Debian: libpmix-dev).
flags=$(pkg-config --cflags pmix 2>/dev/null)
[ -z "$PMIX_INCLUDE" ] || flags="-I$PMIX_INCLUDE"
file=${TMPDIR:-/tmp}/yoke-pmix-$$.c
echo '#include <pmix.h>' >"$file"
trap 'rm -f "$file"' EXIT
# shellcheck disable=SC2086
if ! ${CC:-cc} $flags -fsyntax-only "$file" 2>/dev/null; then
    echo "1..0 # SKIP no pmix.h here (Debian: libpmix-dev; PMIX_INCLUDE names its folder)"
    exit 0
fi
# shellcheck disable=SC2086
if errors=$(${CC:-cc} -std=gnu11 -Werror $flags -I"$YOKE_SOURCE" -fsyntax-only "$YOKE_SOURCE/tests/unit/control/pmix_header.c" 2>&1); then
    echo "ok 1 - prototypes"
else
    echo "$errors" | sed 's/^/# /'
    echo "not ok 1 - prototypes"
fi
echo "1..1"
