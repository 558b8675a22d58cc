#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The curves on two and three CPU ranks: uneven splits, an idle rank, rows in any order.
. "$YOKE_SOURCE/tests/golden/lib.sh"
need_data golden
ok "curves on two ranks" "$yoke" test --golden "$data/golden" --only curves/ --devices "cpu:0! cpu:0!"
ok "uneven splits on three ranks" "$yoke" test --golden "$data/golden" --only uneven --devices "cpu:0! cpu:0! cpu:0!"
ok "holes and ranks.json on three ranks" "$yoke" test --golden "$data/golden" --only holes --devices "cpu:0! cpu:0! cpu:0!"
ok "yoke test on three ranks" "$yoke" test --devices "cpu:0! cpu:0! cpu:0!"
ok "loader laws on two ranks" "$yoke" test --golden "$data/golden" --only loader/ --devices "cpu:0! cpu:0!"
ok "loader laws on three ranks" "$yoke" test --golden "$data/golden" --only loader/ --devices "cpu:0! cpu:0! cpu:0!"
ok "loader laws on four ranks" "$yoke" test --golden "$data/golden" --only loader/ --devices "cpu:0! cpu:0! cpu:0! cpu:0!"
plan
