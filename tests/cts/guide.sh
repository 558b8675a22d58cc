#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each command of docs/plugin-guide.md and docs/transport-guide.md, in order and in an empty folder, on the installed product alone: the
# build tree is not named, and the source tree cannot be read by a relative path. `man yoke-plugin` shows the first one's reference.
. "$YOKE_SOURCE/tests/cts/lib.sh"
[ "$SANITIZER" = none ] || skip_all "a user's product is not instrumented"
command -v pkg-config >/dev/null || skip_all "no pkg-config here"
make -s -C "$YOKE_BUILD" install DESTDIR="$WORK/root" >"$WORK/log" 2>&1 ||
    { tail -5 "$WORK/log" | sed 's/^/# /'; result 1 "install"; finish; }
PC=$(find "$WORK/root" -name yoke-plugin.pc)
PREFIX=$(sed -n 's/^prefix=//p' "$PC")
# a product that was moved as a whole: its own description has the new place
sed "s,^prefix=.*,prefix=$WORK/root$PREFIX," "$PC" >"$WORK/pc" && cp "$WORK/pc" "$PC"
mkdir "$WORK/empty" && chmod 755 "$WORK" "$WORK/empty"

# follow PAGE LEAST: runs the page's commands, at least so many, in the empty folder
follow()
{
    page=$(find "$WORK/root" -name "$1")
    [ -n "$page" ]
    result $? "$1 is installed"
    # "# STEP": one line for each command of the guide's sh blocks
    sed -n '/^```sh$/,/^```$/{/^```/d;p;}' "$page" >"$WORK/commands"
    {
        echo "set -e"
        while IFS= read -r line; do
            printf 'echo %s\n%s\n' "'+ $(printf %s "$line" | sed "s/'/'\\\\''/g")'" "$line"
        done <"$WORK/commands"
        echo "echo + done"
    } >"$WORK/run"
    (
        cd "$WORK/empty" && env -u YOKE_SOURCE -u YOKE_BUILD -u YOKE_PLUGIN_DIR -u YOKE_PLUGINS "PATH=$WORK/root$PREFIX/bin:$PATH" \
            "PKG_CONFIG_PATH=$(dirname "$PC")" "LD_LIBRARY_PATH=$WORK/root$PREFIX/lib" sh "$WORK/run"
    ) >"$WORK/out" 2>"$WORK/err"
    code=$?
    grep -n '^+ done$' "$WORK/out" >/dev/null || { code=1; grep '^+ ' "$WORK/out" | tail -1 | sed 's/^/# it ended at: /'; }
    [ $code -eq 0 ] || { grep '^not ok' "$WORK/out"; tail -5 "$WORK/err"; } | sed 's/^/# /'
    result $code "each command of $1 runs ($(wc -l <"$WORK/commands") commands)"
    [ "$(wc -l <"$WORK/commands")" -ge "$2" ] && ! grep -q '^not ok' "$WORK/out"
    result $? "it has its commands, and the suite passes"
}

follow plugin-guide.md 20
grep -q '"report":\|"plugin"' "$WORK/empty/mine/verdict.json"
result $? "the suite's verdict is written"
for way in alone mixed; do
    [ -s "$WORK/empty/mine/$way/model.safetensors" ]
    result $? "a model is trained ($way)"
done
follow transport-guide.md 15
[ -s "$WORK/empty/link/named/model.safetensors" ]
result $? "two ranks train over the transport"
if command -v man >/dev/null && man -M "$WORK/root$PREFIX/share/man" yoke-cts >/dev/null 2>&1; then
    man -M "$WORK/root$PREFIX/share/man" yoke-plugin 2>/dev/null | grep -q 'plugin for a new kind of device'
    result $? "man yoke-plugin shows the guide"
fi
finish
