#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/sharding.md does as it says: its commands, DeepSpeed files of stages 2 and 3, a checkpoint from stage to stage, needs of whole
# gradients; bench/shard runs, and yoke bench step as it needs.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
small_images "$out/images"

page() { # the blocks of commands, in order, with `yoke` the one of this build
    IMAGES=$out/images OUT=$out
    export IMAGES OUT
    sed -n '/^```sh$/,/^```$/p' "$YOKE_SOURCE/docs/sharding.md" |
        sed -e '/^```/d' -e "s/^\(YOKE_[A-Z_]*=[a-z0-9]* \)\{0,1\}yoke /\1\"\$YOKE\" /" >"$out/page.sh"
    [ "$(grep -c '"$YOKE"' "$out/page.sh")" = 19 ] || { cat "$out/page.sh"; return 1; }
    YOKE=$yoke sh -e "$out/page.sh" >"$out/said" 2>"$out/err" || { cat "$out/err"; return 1; }
}
ok "the commands of docs/sharding.md" page

two() { # two OUT OPTION...
    to=$1
    shift
    mlp "$to" --devices "cpu:0! cpu:0!" --shares equal "$@" >"$to.out" 2>"$to.err" || { cat "$to.err"; return 1; }
}
same() { cmp "$out/$1/model.safetensors" "$out/$2/model.safetensors"; }

stage_of_file() {
    two "$out/whole" --max-grad-norm 1 || return 1
    for stage in 2 3; do
        printf '{"zero_optimization": {"stage": %s, "reduce_bucket_size": 16384}, "gradient_clipping": 1.0}' $stage >"$out/file.json"
        two "$out/stage$stage" --deepspeed "$out/file.json" && same whole "stage$stage" || return 1
    done
    grep -q 'read one copy of the parameters of their host: nothing is left to slice' "$out/stage3.err"
}
ok "a DeepSpeed file of stage 2 or 3 trains, with the bits of stage 1" stage_of_file

stages() { # each way
    two "$out/a" --shard state --max-grad-norm 1 --max-steps 30 --save-steps 10 && same whole a || return 1
    for at in 10 20; do
        mkdir "$out/b$at" && cp -r "$out/a/checkpoint-$at" "$out/b$at" || return 1
        [ $at = 10 ] && stage=gradients || stage=zero1
        two "$out/b$at" --shard $stage --max-grad-norm 1 --resume-from-checkpoint last && same whole "b$at" || return 1
    done
}
ok "a run goes on in the other stage" stages

refused() { # refused TEXT COMMAND...: with exit code 2
    text=$1
    shift
    "$@" >"$out/stdout" 2>"$out/err"
    [ $? = 2 ] && grep -q -e "$text" "$out/err" || { cat "$out/err"; return 1; }
}
whole_only() {
    set -- mlp "$out/none" --devices "cpu:0! cpu:0!" --shard gradients
    refused 'gradients in slices (shard "gradients") with LocalSGD' "$@" --local-sgd-steps 4 &&
        refused 'YOKE_WIRE=int8 keeps an error of each gradient on each rank, and --shard gradients has gradients in slices' \
            env YOKE_WIRE=int8 "$yoke" train --model mlp --data "idx:$out/images" --output-dir "$out/none" \
            --devices "cpu:0! cpu:0!" --shard gradients
}
ok "what needs whole gradients is refused" whole_only

bench() { # each variant runs with its options
    mkdir "$out/drive" && "$YOKE_SOURCE/bench/shard" --build "$YOKE_BUILD" --disk "$out/drive" --quick --json >"$out/table" || return 1
    [ -z "$(ls -A "$out/drive")" ] && python3 - "$out/table" <<'P' || return 1
import json, sys
rows = {r["name"]: r for r in map(json.loads, open(sys.argv[1]))}
assert len(rows) == 6 and all(r["ratio"] > 0 and r["base_ms"] > 0 and r["variant_ms"] > 0 for r in rows.values()), rows
disk = rows["state on a disk"]  # of one rank, so shares change nothing: so small a state is less than the blocks on their way
assert disk["variant_bytes"] > disk["base_bytes"] > 0, disk
P
    refused 'shard whole: expected state, gradients or params' "$yoke" bench step --shard whole
}
plainly "bench/shard" bench
peers_absent() { # rows beside peers are left out by name
    "$YOKE_SOURCE/bench/shard" --build "$YOKE_BUILD" --quick --json --only B4 >"$out/table" 2>"$out/err" || return 1
    [ ! -s "$out/table" ] && grep -qx 'B4: left out, there is no --peer' "$out/err"
}
ok "bench/shard without peers" peers_absent

timed() { # timed NORM: a step of two ranks, with losses
    "$yoke" bench step --model mlp --model-config hidden=64 --global-batch 8 --devices "cpu:0! cpu:0!" --iterations 3 --max-grad-norm "$1" \
        --save-init "$out/init" --json
}
clips() { # a gradient of almost no length changes nothing; processor time is that of all ranks
    { timed 0 && timed 1e-6; } >"$out/steps" || return 1
    refused 'max-grad-norm' timed -1 && python3 - "$out/steps" <<'P'
import json, sys
whole, clipped = map(json.loads, open(sys.argv[1]))
moved = [abs(r["losses"][-1] - r["losses"][0]) for r in (whole, clipped)]
assert moved[0] > 1e-3 and moved[1] < 1e-5, (whole, clipped)
assert all(r["cpu_ms"] > r["user_ms"] + r["sys_ms"] for r in (whole, clipped)), (whole, clipped)
P
}
ok "yoke bench step clips, and counts processor time of all ranks" clips
plan
