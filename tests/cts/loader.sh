#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the loader refuses, and its words.
. "$YOKE_SOURCE/tests/cts/lib.sh"
LOADER=$YOKE_SOURCE/tests/cts/loader.c
chmod 755 "$WORK"

# refused NAME FILE WORDS
refused()
{
    "$CTS" --plugin "$2" --only abi/load --group abi >"$WORK/out" 2>&1
    code=$?
    [ $code -eq 1 ] && grep -q "$3" "$WORK/out"
    found=$?
    [ $found -eq 0 ] || sed 's/^/# /' "$WORK/out"
    result $found "refused: $1"
}

compile "$WORK/yoke_good.so" "$LOADER" && "$CTS" --plugin "$WORK/yoke_good.so" --group abi --only abi/load >"$WORK/out"
result $? "a good plugin is loaded"
cp "$WORK/yoke_good.so" "$WORK/yoke_open.so" && chmod 777 "$WORK/yoke_open.so"
refused "a file others can write" "$WORK/yoke_open.so" 'others can write this file (mode 777'
mkdir "$WORK/open" && cp "$WORK/yoke_good.so" "$WORK/open" && chmod 777 "$WORK/open"
refused "a folder others can write" "$WORK/open/yoke_good.so" 'others can write its folder'
ln -s "$WORK/open/yoke_good.so" "$WORK/yoke_link.so"
refused "a link into such a folder" "$WORK/yoke_link.so" 'others can write its folder'
echo 'int x;' >"$WORK/yoke_text.so"
refused "not ELF" "$WORK/yoke_text.so" 'invalid ELF header\|file too short'
printf '#include <stddef.h>\nint something(void);\nint something(void) { return 0; }\n' >"$WORK/empty.c"
compile "$WORK/yoke_empty.so" "$WORK/empty.c"
refused "no entry point" "$WORK/yoke_empty.so" 'no symbol yk_plugin_query'
compile "$WORK/yoke_undefined.so" "$LOADER" -DUNDEFINED
refused "an undefined symbol" "$WORK/yoke_undefined.so" 'undefined symbol: missing_function'

# variant WHAT FLAGS WORDS
variant()
{
    compile "$WORK/yoke_bad.so" "$LOADER" $2 || { result 1 "$1 is built"; return; }
    refused "$1" "$WORK/yoke_bad.so" "$3"
}
variant "another major" -DABI=7 'ABI major 7, this host has 2'
variant "a plugin that serves no major of ours" -DREFUSES 'cannot serve ABI major 2'
variant "a short table" -DSIZE=64 'its table says 64 bytes'
variant "a size that is none" -DSIZE=77777777 'its table says 77777777 bytes'
variant "a foreign sanitizer" -DFOREIGN 'built with sanitizer'
variant "a missing function" -DLACKS=queue_run 'its table lacks queue_run'
variant "a bad name" -DBAD_NAME 'its name'
variant "a failing start" -DFAILS 'the driver is too old'
compile "$WORK/yoke_new.so" "$LOADER" -DLONGER && "$CTS" --plugin "$WORK/yoke_new.so" --group abi --only abi/load >"$WORK/out"
result $? "a newer plugin with a longer table is loaded"

YOKE_PLUGIN_DIR=$WORK
export YOKE_PLUGIN_DIR
refused "a name that is not there" goood 'there is no plugin "goood" (did you mean good?)'
finish
