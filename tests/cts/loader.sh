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
refused "a file others can write" "$WORK/yoke_open.so" 'other users can write this file (mode 777'
mkdir "$WORK/open" && cp "$WORK/yoke_good.so" "$WORK/open" && chmod 777 "$WORK/open"
refused "a folder others can write" "$WORK/open/yoke_good.so" 'other users can write its folder'
ln -s "$WORK/open/yoke_good.so" "$WORK/yoke_link.so"
refused "a link into such a folder" "$WORK/yoke_link.so" 'other users can write its folder'
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
variant "another major" -DSET=abi=7 'ABI major 7, this host has 2'
variant "a plugin that serves no major of ours" -DREFUSES 'cannot serve ABI major 2'
variant "a short table" -DSET=size=64 \
    'its table says 64 bytes; expected [0-9]* to 65536, a multiple of 8: set size to sizeof(yk_plugin), and rebuild it'
variant "a size that is none" -DSET=size=77777777 'its table says 77777777 bytes'
variant "a foreign sanitizer" -DSET='sanitizer="memory"' 'built with sanitizer'
variant "a missing function" -DSET=queue_run=NULL 'its table lacks queue_run: expected a function, got NULL: fill that member'
variant "a bad name" -DSET='name="Bad-Name"' 'its name'
variant "a failing start" -DSET=init=failing_init 'the driver is too old'
compile "$WORK/yoke_new.so" "$LOADER" -DLONGER && "$CTS" --plugin "$WORK/yoke_new.so" --group abi --only abi/load >"$WORK/out"
result $? "a newer plugin with a longer table is loaded"

YOKE_PLUGIN_DIR=$WORK
export YOKE_PLUGIN_DIR
refused "a name that is not there" goood 'there is no plugin "goood" (did you mean good?)'
# ---- Among others, and by the commands that people use: a folder with a good plugin, and one that is not -------------------------

FOLDER=$WORK/folder
YOKE=$YOKE_BUILD/yoke
mkdir "$FOLDER"
compile "$FOLDER/yoke_template.so" "$LOADER"
YOKE_PLUGIN_DIR=$FOLDER
# said NAME CODE WORDS COMMAND...: ends with this code, and says these words
said()
{
    name=$1 expected=$2 words=$3
    shift 3
    timeout 60 "$@" >"$WORK/out" 2>&1 </dev/null
    code=$?
    [ $code -eq "$expected" ] && grep -q "$words" "$WORK/out"
    found=$?
    [ $found -eq 0 ] || { echo "# exit code $code"; sed 's/^/# /' "$WORK/out"; }
    result $found "$name"
}
# beside FLAGS: such a plugin is the other one in the folder
beside()
{
    compile "$FOLDER/yoke_other.so" "$LOADER" -DCALLED='"other"' "$@"
}

ln -s "$WORK/nowhere" "$FOLDER/yoke_other.so"
said "a link to nothing hides no other plugin" 0 'other .*not used.*No such file' "$YOKE" plugin list
said "nor does it keep a job from starting" 0 ' 0 failed' "$YOKE" test --devices template:0
rm "$FOLDER/yoke_other.so" && mkdir "$FOLDER/yoke_other.so"
said "nor does a folder called like one" 0 'other .*not used.*expected a file, got another kind' "$YOKE" plugin list
rmdir "$FOLDER/yoke_other.so"
compile "$FOLDER/yoke_other.so" "$LOADER"
said "one whose file is called otherwise" 0 'other .*not used.*it is called "template": expected a file yoke_template.so' \
    "$YOKE" plugin list
YOKE_PLUGINS="template $FOLDER/yoke_other.so"
export YOKE_PLUGINS
said "a plugin that is named twice, by a name that another of the folder has" 2 \
    'YOKE_PLUGINS: ".*yoke_other.so" is plugin "template" (.*yoke_other.so), which it names before' "$YOKE" plugin list
compile "$WORK/yoke_more.so" "$LOADER"
YOKE_PLUGINS="$FOLDER/yoke_other.so $WORK/yoke_more.so"
said "two plugins of one name" 2 'it is called "template", as another plugin is (.*yoke_other.so)' "$YOKE" plugin list
unset YOKE_PLUGINS
beside -DSET=device_count=wrong_count
said "nor a driver that is too old" 0 'other .* 0 devices.*the driver is too old' "$YOKE" plugin list
said "which is told to who asks for it" 1 'other: counting its devices: the driver is too old' "$YOKE" test --devices other:0
beside -DSET=device_count=wrong_count -DCOUNT=4000000000u
said "more devices than there can be" 0 'it says that it has 4000000000 devices; expected at most 4096' "$YOKE" plugin list
beside -DSET=device_caps=no_caps
said "a device that cannot be asked is listed with its reason" 0 'other:0  cannot be used: .*the device is asleep' "$YOKE" info
said "in JSON too" 0 '"spec": "other:0", "error": ".*the device is asleep"' "$YOKE" info --json
beside -DSET=device_caps=odd_texts
said "texts of a device can be printed" 0 'other:0  ?????.*, a??b, 1 units' "$YOKE" info
beside -DSET=init=dying_init
said "one that ends the process is named" 1 'yoke info: other, or its driver, ended the process by signal 9' "$YOKE" info
said "by a job that looks for devices" 1 'selecting devices: other, or its driver, ended the process by signal 9' \
    "$YOKE" test --devices "template:0 other:0"
beside -DSET=init=exiting_init
said "one that calls exit is named" 1 'yoke info: other, or its driver, ended the process by calling exit' "$YOKE" info
beside -DSET=queue_run=exiting_run
said "exit in the middle of a command is no success" 1 'ended by a call of exit, in a driver or another library' \
    "$YOKE" test --devices other:0
beside -DSET=init=hanging_init
YOKE_JOIN_MS=1500
export YOKE_JOIN_MS
said "one that hangs is named" 1 'yoke info: other has not answered for 1.5 s (YOKE_JOIN_MS)' "$YOKE" info
unset YOKE_JOIN_MS
beside -DSET=buffer_new=no_buffer
said "a buffer that is none" 1 'it answers YK_OK and gives nothing' "$YOKE" test --devices other:0
YOKE_LAYERS=validate
export YOKE_LAYERS
said "the same under the validating layer" 1 'it answers YK_OK and gives nothing' "$YOKE" test --devices other:0
finish
