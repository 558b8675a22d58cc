#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What bench/startup measures, within what is promised (sizes, memory) or ten times that (times: the machine may be busy).
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_cores 2
if instrumented; then
    echo "1..0 # SKIP instrumented: sizes and times are not those of a user"
    exit 0
fi

holds() { # holds KEY LIMIT
    python3 -c 'import json,sys
got = json.load(open(sys.argv[1]))[sys.argv[2]]
print(sys.argv[2], got, "limit", sys.argv[3])
assert 0 < got <= float(sys.argv[3])' "$out/json" "$1" "$2"
}

ok "it is measured" sh -c '"$1/bench/startup" --build "$2" --rounds 3 --json > "$3/json"' sh "$YOKE_SOURCE" "$YOKE_BUILD" "$out"
ok "yoke info" holds info_ms 200
ok "two ranks to the end of the first step" holds launch_s 3
ok "memory of a rank beside its tensors" holds rss_beside_mib 30
ok "core library and CPU plugin" holds library_kib 2441
plan
