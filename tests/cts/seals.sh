#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Messages of a transport from outside bear checksums and numbers: two ranks train over one with a fault, and the job says what the
# transport did, with both ranks and its name. Without a fault, or with one that harms nothing, the bits are those of memory in common.
. "$YOKE_SOURCE/tests/cts/lib.sh"
LOOPBACK=$YOKE_BUILD/tests/cts/.libs/transport_loopback.so
YOKE_PLUGIN_DIR=$YOKE_BUILD/.libs
YOKE_LOG=error
export YOKE_PLUGIN_DIR YOKE_LOG
awk 'BEGIN { print "text,label"; for (i = 0; i < 64; i++) print (i % 2 ? "good day " i ",1" : "bad night " i ",0") }' >"$WORK/rows.csv"

# train TRANSPORT [VARIABLE=VALUE...]: its output is in $WORK/out, its exit code in $code, its parameters in $bits
train()
{
    transport=$1
    shift
    rm -rf "$WORK/model"
    env "YOKE_TRANSPORT=$transport" "$@" timeout -k 5 100 "$YOKE_BUILD/yoke" train --model bert --model-config \
        hidden_size=32,num_hidden_layers=1,num_attention_heads=2,intermediate_size=64 --tokenizer bytes --max-length 16 --data \
        "csv:$WORK/rows.csv" --global-batch 16 --max-steps 8 --devices "cpu:0 cpu:0" --shares equal --output-dir "$WORK/model" \
        >"$WORK/out" 2>&1
    code=$?
    bits=$(sed -n 's/^parameters \([0-9a-f]*\),.*/\1/p' "$WORK/out")
}

# shown STATUS NAME
shown()
{
    [ "$1" -eq 0 ] || { echo "# exit code $code"; tail -4 "$WORK/out" | sed 's/^/# /'; }
    result "$1" "$2"
}

# found WORDS NAME: the job ended with an error that names the transport and has these words
found()
{
    [ $code -eq 1 ] && grep 'transport loopback: ' "$WORK/out" | grep -q "$1" && ! grep -q 'calls differ' "$WORK/out"
    shown $? "$2"
}

train shm
memory=$bits
[ $code -eq 0 ] && [ -n "$memory" ]
shown $? "two ranks train"
train "$LOOPBACK"
[ $code -eq 0 ] && [ "$bits" = "$memory" ]
shown $? "a transport from outside gives the bits of memory in common"
train "$LOOPBACK" YOKE_TEST_FAULT=RARE_BIT YOKE_TEST_FAULT_AT=4
found 'rank [01] (.*message [0-9]* of rank [01] ([0-9]* bytes) came with other bytes than were sent' "a flipped bit is an error"
train "$LOOPBACK" YOKE_TEST_FAULT=RARE_BIT YOKE_TEST_FAULT_AT=4 YOKE_MESSAGE_CHECK=off
! grep -q 'came with other bytes' "$WORK/out" && [ "$bits" != "$memory" ]
shown $? "YOKE_MESSAGE_CHECK=off: nobody looks, and the training is another"
for at in 50 53; do
    train "$LOOPBACK" YOKE_TEST_FAULT=LOSE YOKE_TEST_FAULT_AT=$at YOKE_STUCK_MS=8000
    found "message $((at + 1)) of rank [01] to rank [01], .* is lost: rank [01] sent it" "a lost message is an error (message $at)"
done
for fault in DUPLICATE REORDER; do
    train "$LOOPBACK" YOKE_TEST_FAULT=$fault YOKE_TEST_FAULT_AT=50
    [ $code -eq 0 ] && [ "$bits" = "$memory" ]
    shown $? "$fault of one message among other tags harms nothing"
done
if [ -e "$YOKE_PLUGIN_DIR/transport_sock.so" ]; then
    train sock YOKE_MESSAGE_CHECK=on
    [ $code -eq 0 ] && [ "$bits" = "$memory" ]
    shown $? "YOKE_MESSAGE_CHECK=on: those of sock, too"
fi
finish
