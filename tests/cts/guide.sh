#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each command of docs/plugin-guide.md and docs/transport-guide.md, in order and in an empty folder, on the installed product alone: the
# build tree is not named, and the source tree cannot be read by a relative path. `man yoke-plugin` shows the first one's reference.
. "$YOKE_SOURCE/tests/cts/lib.sh"
[ "$SANITIZER" = none ] || skip_all "a user's product is not instrumented"
command -v pkg-config >/dev/null || skip_all "no pkg-config here"
make -s -C "$YOKE_BUILD" install DESTDIR="$WORK/staged" >"$WORK/log" 2>&1 ||
    { tail -5 "$WORK/log" | sed 's/^/# /'; result 1 "install"; finish; }
# a product that was moved as a whole from where it was staged, which is not where it was configured for
mv "$(dirname "$(dirname "$(find "$WORK/staged" -name yoke-cts -path '*/bin/*')")")" "$WORK/root" && rm -r "$WORK/staged"
PC=$(find "$WORK/root" -name yoke-plugin.pc)
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
        cd "$WORK/empty" && env -u YOKE_SOURCE -u YOKE_BUILD -u YOKE_PLUGIN_DIR -u YOKE_PLUGINS "PATH=$WORK/root/bin:$PATH" \
            "PKG_CONFIG_PATH=$(dirname "$PC")" "LD_LIBRARY_PATH=$WORK/root/lib" sh "$WORK/run"
    ) >"$WORK/out" 2>"$WORK/err"
    code=$?
    grep -n '^+ done$' "$WORK/out" >/dev/null || { code=1; grep '^+ ' "$WORK/out" | tail -1 | sed 's/^/# it ended at: /'; }
    [ $code -eq 0 ] || { grep '^not ok' "$WORK/out"; tail -5 "$WORK/err"; } | sed 's/^/# /'
    result $code "each command of $1 runs ($(wc -l <"$WORK/commands") commands)"
    [ "$(wc -l <"$WORK/commands")" -ge "$2" ] && ! grep -q '^not ok' "$WORK/out"
    result $? "it has its commands, and the suite passes"
}

# outside: each folder that pkg-config names is there, below the moved tree
outside()
{
    export "PKG_CONFIG_PATH=$(dirname "$PC")"
    for package in yoke yoke-plugin; do
        pkg-config --cflags-only-I --libs-only-L "$package" | tr ' ' '\n' | sed 's/^-[IL]//'
        for variable in prefix exec_prefix libdir includedir; do pkg-config "--variable=$variable" "$package"; done
    done >"$WORK/folders"
    for variable in sdkdir plugindir; do pkg-config "--variable=$variable" yoke-plugin; done >>"$WORK/folders"
    [ "$(grep -c . "$WORK/folders")" -ge 14 ] || echo "pkg-config names few folders"
    root=$(realpath "$WORK/root")
    grep . "$WORK/folders" | while read -r folder; do
        case $(realpath -e "$folder") in "$root" | "$root"/*) ;; *) echo "$folder is not in the moved tree" ;; esac
    done
}
(outside) >"$WORK/out" 2>&1
sed 's/^/# /' "$WORK/out"
[ ! -s "$WORK/out" ]
result $? "pkg-config's folders are those of the moved tree"

# example: a program over the moved library, with its plugins
example()
{
    cd "$WORK/empty" && ${CC:-cc} -std=c11 -Wall -Werror "$(find "$WORK/root" -name own_loop.c)" -o own_loop \
        $(PKG_CONFIG_PATH=$(dirname "$PC") pkg-config --cflags --libs yoke) -lm || return 1
    env -u YOKE_PLUGIN_DIR "LD_LIBRARY_PATH=$WORK/root/lib" YOKE_DEVICES=cpu:0 ./own_loop >said 2>&1 && grep -q accuracy said ||
        { cat said; return 1; }
}
(example) >"$WORK/out" 2>&1
code=$?
[ $code -eq 0 ] || sed 's/^/# /' "$WORK/out"
result $code "an example is built by yoke.pc and runs, over the library and the plugins of the moved tree"

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
if command -v man >/dev/null && man -M "$WORK/root/share/man" yoke-cts >/dev/null 2>&1; then
    man -M "$WORK/root/share/man" yoke-plugin 2>/dev/null | grep -q 'plugin for a new kind of device'
    result $? "man yoke-plugin shows the guide"
fi
finish
