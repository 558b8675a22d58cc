#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Paths, files, names and commands that the pages name are there; and each kind that is not is found.
grep -q '^#define YK_SANITIZER "none"' "$YOKE_BUILD/config.h" ||
    { echo "1..0 # SKIP instrumented: the plain build's, as it runs no code of this one"; exit 0; }
. "$YOKE_SOURCE/tests/golden/lib.sh"
pages=$YOKE_SOURCE/scripts/pages

named() {
    python3 "$pages" --yoke "$YOKE_BUILD/yoke"
}
ok "what the pages name is there" named

# Each option that a plugin's table has, by its whole name in the table of the plugin's page.
options() {
    missing=0
    for page in cpu:cpu-speed cuda:cuda opencl:opencl vulkan:vulkan; do
        plugin=${page%:*} page=docs/${page#*:}.md
        keys=$(cat "$YOKE_SOURCE/backends/$plugin"/*.c | sed -n '/^static const kit_option options\[\]/,/^};/s/^ *{"\([A-Z0-9_]*\)".*/\1/p')
        [ "$(echo "$keys" | wc -w)" -ge 3 ] || { echo "backends/$plugin: no table of options was found"; return 1; }
        for key in $keys; do
            variable=YOKE_$(echo "$plugin" | tr a-z A-Z)_$key
            grep -q "^| \`$variable[=\`]" "$YOKE_SOURCE/$page" || { echo "$page: no $variable"; missing=1; }
        done
    done
    return $missing
}
ok "each option of a plugin stands on its page" options

missing() {
    cat >"$out/bad.md" <<'L'
Here are `core/plan/passes.c`, `passes.c`, `tests/unit/LAYER/NAME.c`, `core/{plan,graph}/`, `yk_step`, `YOKE_LOG`, `yk__engine_*`.
`core/plan/gone.c` `core/{plan,gone}/` `gone.c` `yk_gone()` `YOKE_GONE=1` `yk__gone_*` and core/gone outside of code

```
yoke train --data idx:DIR --gone \
    --model mlp
yoke gone --model mlp
```
L
    python3 "$pages" --yoke "$YOKE_BUILD/yoke" "$out/bad.md" | sed 's/^[^:]*bad.md://' >"$out/found"
    cat >"$out/wanted" <<'L'
2: there is no core/plan/gone.c
2: there is no core/gone/
2: no file of the tree is called gone.c
2: no source has the name yk_gone
2: no source has the name YOKE_GONE
2: no source has the name yk__gone_*
5: yoke train has no option --gone
7: there is no command yoke gone
L
    diff "$out/wanted" "$out/found"
}
ok "what is not there is found" missing
plan
