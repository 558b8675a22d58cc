#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The curves on two and three CPU ranks: uneven splits, an idle rank, rows in any order. A sanitizer has the uneven splits of the curves.
. "$YOKE_SOURCE/tests/golden/lib.sh"
need_data golden
plainly "curves on two ranks" "$yoke" test --golden "$data/golden" --only curves/ --devices "cpu:0! cpu:0!"
uneven() { # uneven TRANSPORT: none of the splits is left out
    YOKE_TRANSPORT=$1 "$yoke" test --golden "$data/golden" --only uneven --devices "cpu:0! cpu:0! cpu:0!" >"$out/uneven"
    code=$?
    cat "$out/uneven"
    [ $code -eq 0 ] && grep -qE '^([4-9]|[1-9][0-9]+) passed, 0 failed, 0 unsupported$' "$out/uneven"
}
for transport in shm sock ofi; do
    if [ $transport = sock ] && instrumented; then
        skip "uneven splits on three ranks over $transport" "instrumented: tests/dist trains over it"
    elif [ $transport = shm ] || [ -e "$YOKE_PLUGIN_DIR/transport_$transport.so" ]; then
        ok "uneven splits on three ranks over $transport" uneven $transport
    else
        skip "uneven splits on three ranks over $transport" "that transport is not built"
    fi
done
ok "holes and ranks.json on three ranks" "$yoke" test --golden "$data/golden" --only holes --devices "cpu:0! cpu:0! cpu:0!"
ok "yoke test on three ranks" "$yoke" test --devices "cpu:0! cpu:0! cpu:0!"
plainly "loader laws on two ranks" "$yoke" test --golden "$data/golden" --only loader/ --devices "cpu:0! cpu:0!"
plainly "loader laws on three ranks" "$yoke" test --golden "$data/golden" --only loader/ --devices "cpu:0! cpu:0! cpu:0!"
ok "loader laws on four ranks" "$yoke" test --golden "$data/golden" --only loader/ --devices "cpu:0! cpu:0! cpu:0! cpu:0!"
plan
