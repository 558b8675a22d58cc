#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Plugins with one fault each, made from the template: the suite finds every one, in the group that looks for it.
. "$YOKE_SOURCE/tests/cts/lib.sh"
BROKEN=$YOKE_SOURCE/tests/cts/broken.c
TIMEOUT=1 # seconds
QUICKLY=
COUNT=0
BEGUN= # functions that have run a fault

# sampled FUNCTION: under a sanitizer one fault in eight, and the first of each function: the suite goes the same ways with each.
sampled()
{
    COUNT=$((COUNT + 1))
    case " $BEGUN " in *" $1 "*) ;; *) BEGUN="$BEGUN $1" && return 0 ;; esac
    [ "$SANITIZER" = none ] || [ $((COUNT % 8)) -eq 1 ]
}

BUILT= # what yoke_bad.so was built of

# built SOURCE FAULT [FLAGS]: the plugin, anew unless the last one has the same fault
built()
{
    [ "$BUILT" != "$1 $2" ] || return 0
    BUILT="$1 $2"
    source=$YOKE_SOURCE/tests/cts/$1.c
    fault=$2
    shift 2
    compile "$WORK/yoke_bad.so" "$source" -pthread "$@" "-DBREAK_$fault" && return 0
    BUILT=
    result 1 "$fault is built"
    return 1
}

# found FAULT TESTS WORDS: the suite, with $QUICKLY, fails and says WORDS. TESTS: a group, or a pattern of names, the fewer the faster
found()
{
    case $2 in */*) tests="--group ${2%%/*} --only $2" ;; *) tests="--group $2" ;; esac
    "$CTS" --plugin "$WORK/yoke_bad.so" $tests $QUICKLY --timeout "$TIMEOUT" >"$WORK/out" 2>"$WORK/err"
    code=$?
    found_words "$@"
}

# found_words FAULT TESTS WORDS: the suite ended with $code, and said WORDS in out and err of $WORK
found_words()
{
    [ $code -eq 1 ] && grep -A1 '^not ok' "$WORK/out" | grep -q "$3"
    found=$?
    [ $found -eq 0 ] || { echo "# exit code $code"; cat "$WORK/out" "$WORK/err" | tail -8 | sed 's/^/# /'; }
    result $found "$1 is found by $2"
}

# broken FAULT TESTS WORDS: the template, compiled with -DBREAK_FAULT; broken_far: the plugin far
broken()
{
    sampled broken || return 0
    built broken "$1" -lm && found "$@"
}

# limited LIMIT TESTS: what is larger than LIMIT is wrong in the plugin compiled last; LIMIT as in broken.c
limited()
{
    sampled limited || return 0
    BROKEN_LIMIT=$1
    export BROKEN_LIMIT
    found "$1" "$2" expected
}

# broken_island FAULT TESTS WORDS: the plugin of both extensions
broken_island()
{
    sampled broken_island || return 0
    built broken_island "$1" "$WORK/queue.o" && found "$@"
}

# broken_wide FAULT TESTS WORDS: the template with a fault of large buffers, long sums, threads, or two opens
broken_wide()
{
    sampled broken_wide || return 0
    built broken_wide "$1" && found "$@"
}

# broken_kinds FAULT TESTS WORDS: the template with a fault of numbers, sizes and shapes that few programs have
broken_kinds()
{
    sampled broken_kinds || return 0
    built broken_kinds "$1" -lm && found "$@"
}

broken_far()
{
    sampled broken_far || return 0
    built broken_far "$1" "$WORK/queue.o" && found "$@"
}

# what every plugin of far.c and island.c has, once
${CC:-gcc} -std=gnu11 -O1 -g -fvisibility=hidden -fPIC $SANITIZE -I"$YOKE_SOURCE" -I"$YOKE_SOURCE/include" -c \
    -o "$WORK/queue.o" "$YOKE_SOURCE/plugins/kit/kit_queue.c" || result 1 "the kit's queues are built"
compile "$WORK/yoke_good.so" "$BROKEN" && run_cts "without a fault" "$WORK/yoke_good.so" --group abi,guard,rebind # queues: template.sh
OPTIMIZE=-O0 # more than a hundred plugins are compiled, and each computes little
# the fault that takes longest, and no processor, meanwhile; it is looked at below
HANG_TESTS='op/*er*.f32.10x7.33'
compile "$WORK/yoke_hang.so" "$BROKEN" -pthread -DBREAK_HANG -lm || result 1 "HANG is built"
"$CTS" --plugin "$WORK/yoke_hang.so" --group op --only "$HANG_TESTS" --timeout "$TIMEOUT" >"$WORK/hang.out" 2>"$WORK/hang.err" &
hanging=$!
broken RESULT 'op/mul*' 'expected'
broken END guard 'lies between values'
broken END 'op/add.f32*' 'lies between values'
# vectors of eight store behind a result what they computed of the memory behind its operands
sed 's/^    int64_t n = \(kit_value_count(value_of(o, o->node->out))\);$/    int64_t n = (\1 + 7) \& ~7;/' \
    "$YOKE_SOURCE/plugins/template/template.c" >"$WORK/eights.c"
! cmp -s "$YOKE_SOURCE/plugins/template/template.c" "$WORK/eights.c"
result $? "the template's loop is rounded up"
compile "$WORK/yoke_bad.so" "$WORK/eights.c" && found "a vector's tail" 'guard/add.f32*' 'lies outside\|lies between values'
BUILT=
broken_wide INTEGERS 'op/add.i32.any' 'expected'
broken_wide INTEGERS 'op/iota.i32.70001' 'expected'
broken_wide AROUND 'guard/add.f32*' 'was written: it lies outside'
broken_kinds EXIT_FINI abi 'the process ended with code 0'
broken_kinds EXIT_UNLOAD abi 'the process ended with code 0'
broken_kinds CAPS_ISA abi 'isa of the device differs between two calls'
broken_kinds CAPS_ALIGN abi 'align of the device differs between two calls'
broken_kinds COUNT abi 'device_count says [0-9]*, and [0-9]* before'
for pattern in abi/caps 'op/add.f32.3x5'; do
    broken_kinds NO_DEVICES "$pattern" 'the plugin has no devices'
done
broken_kinds CONTROL abi 'has a control character'
broken_kinds GARBAGE 'op/dot.f32.0x7x*' 'expected'
broken_kinds LOSES_NAN 'op/*.f32.nan' 'expected -\?nan'
broken_kinds SMALL 'op/*.f32.small' 'expected'
broken_kinds ROOT_ZERO 'op/sqrt.f32.zero' 'is -\?nan, expected 0'
for function in log rsqrt recip; do
    broken_kinds LEAST "op/$function.f32.zero" 'expected -\?inf'
done
broken_kinds SAME 'op/*.f32.same' 'expected'
broken_kinds SAME 'op/dot.f32.same*' 'expected'
broken_kinds SPREAD 'op/copy.f32.spread' 'expected'
broken_kinds FILL_F32 'op/fill.i32*' 'is 16777216, expected 16777217'
broken_kinds TINY_RESULT 'op/mul.f32.tiny' 'is 1e-30, expected'
broken_kinds FLOOR 'op/div.i32.signs' 'expected'
broken_kinds TILE 'op/dot.f32.0x256*' 'expected'
broken_kinds ALMOST_TILE 'op/dot.f32.0x63*' 'expected'
broken_kinds TERMS 'op/dot.f32.accumulate.*x*' 'expected'
broken_kinds DILATION 'op/unfold.f32*' 'expected'
broken_kinds GAPS 'op/fold.f32*' 'expected'
broken_kinds SLOT_24 'guard/add.f32.far' 'expected\|lies outside'
broken_kinds NODES 'op/add.f32.nodes600' 'expected'
for large in exp mul eq select cast fill copy gather scatter_add unfold fold dot; do
    broken_kinds LARGE "op/$large.f32*" 'expected'
done
broken POINT 'queue/points' 'points grow by one\|never reached\|is not reached\|YK_E_ARG'
broken SIZE abi 'its table says .* bytes; expected .*: set size to sizeof(yk_plugin)'
broken SYMBOL abi 'exports more than'
broken VERSION rebind 'new weights'
broken PACKED rebind 'expected'
broken BITS rebind 'YK_CAP_DETERMINISTIC, but run'
broken COMPOSITES 'errors/unclaimed' 'a composite to which claims answers 0; it has to refuse it'
broken ADD_TRANSPOSED 'op/dot*accumulate*' 'expected'
broken ADD_BATCH 'op/dot*accumulate*' 'expected'
broken SCATTER 'op/scatter*accumulate*' 'expected'
broken CLAIM 'composite/relu*accumulate*' 'expected'
broken ROWS 'op/sum*' 'expected\|evaluation'
broken LOWEST 'op/rmax*' 'expected -inf'
broken NAN 'op/cast*nan' 'expected -\?nan'
broken TINY 'op/cast*tiny' 'expected'
broken_wide CLAIM_THREAD 'composite/relu*' 'the same node always gets the same answer'
broken NARROW 'composite/layer_norm*to_*' 'expected'
broken STRIDED 'composite/attention*' 'expected'
broken FLAGS buffer 'buffer_new'
broken SCRATCH_BYTES rebind 'for the same graph'
broken ACCOUNT 'rebind/account' 'another account for an equal program'
broken ACCOUNT_SHORT 'rebind/account' 'behind the size'
broken ACCOUNT_ALIAS 'rebind/account' 'are shared'
broken VALUE_ALIGN abi 'value_align 48'
broken BIND abi 'max_bind'
broken COMPILE_MS abi 'compile_ms'
broken ROW_QUANTUM abi 'row_quantum'
broken PRODUCT_BITS abi 'product_bits 53 is neither 0 nor 8 to 24'
broken F16_BITS 'op/dot.f16*' 'allowed error [0-9.e+-]*$' # product_bits speaks of f32 alone
broken PINS buffer 'host_pin'
broken PRIORITY 'queue/kind.*' 'queue_new'
broken OPS abi 'knows 0 operations'
broken DTYPES abi 'and 3 types'
minor=$(sed -n 's/^#define YK_ABI_MINOR \([0-9]*\)u.*/\1/p' "$YOKE_SOURCE/include/yoke/plugin.h")
broken MINOR abi "says minor $minor, whose tables have at most"
broken RESERVED abi 'the reserved word of the table is 7'
broken CAPS_RESERVED abi 'the reserved word of the capabilities is 5'
broken MEM_FREE abi 'is more than mem_total'
broken MAX_ALLOC abi 'a buffer may have max_alloc, [0-9]* bytes, and the device has mem_total'
broken MEM_CONSTANT 'leak/mem_free' 'mem_free is [0-9]* before and after'
broken UNITS abi 'it has 0 compute units'
broken SIGNAL abi 'device_open changes what signal 15'
broken MASK abi 'device_open changes whether signal 15 is blocked'
broken CORES abi 'device_open changes the cores'
broken LOCALE abi 'device_open changes the locale'
broken QUEUE_CORES abi 'queue_new changes the cores'
[ "$(uname -m)" != x86_64 ] || broken FLUSH abi 'device_open changes whether subnormal numbers count'
broken_far LAST_PROGRAM 'rebind/in_flight' 'expected\|YK_E_ARG'
broken ROUNDING abi 'device_open changes how its caller'
broken DEVICES abi '4294967295'
broken_wide OPEN_TWICE abi 'from a device that is open twice: YK_E_ARG: the device is closed'
broken POLL_ABORT 'queue/abort' 'queue_poll on a queue that was aborted gives YK_OK'
broken RUN_ABORT 'queue/abort' 'queue_run on a queue that was aborted gives YK_OK'
broken EMPTY 'queue/empty' 'buffer_new of 0 bytes'
broken_far PIN_ALIGNED 'queue/pin_anywhere' 'host_pin'
broken_far PIN_END 'queue/pin_anywhere' 'pinned at its begin'
broken USE 'buffer/described' 'buffer_new with use 0x'
broken ARENA 'random/*' 'two arenas'
broken NEG_ZERO 'op/neg.f32.[!4]*' 'is 0, expected -0'
broken ABS_ZERO 'op/abs*' 'is -0, expected 0'
broken CARRY 'op/mul.bf16.33x65' 'expected'
broken CARRY 'op/cast.f32.bf16.edge' 'expected'
broken RANGE 'op/*.f16.range*' 'is -\?65504, expected'
broken MOVE_ZERO 'op/copy.f32.view3' 'expected -0'
QUICKLY=--quick # faults that train wrong in silence: the pattern has all cases of which --quick takes some
broken STATS_ONE 'composite/bn_stats*' 'is -\?nan, expected 0'
broken STATS_MEAN 'composite/bn_stats*' 'expected'
QUICKLY=
broken NORM_EPS 'body/layer_norm*small' 'expected'
broken NORM_EPS 'body/map.small*' 'expected'
broken ADAM_EPS 'body/adam_step.small' 'expected'
broken SKIPS 'op/dot*not_finite*' 'expected -\?nan'
broken OUTPUTS 'composite/map.two_outputs.first_on_a.*' 'expected'
broken OUTPUTS 'composite/map.two_outputs.first_on_b.*' 'expected'
broken OUTPUTS 'composite/map.two_outputs.second_on_a.*' 'expected'
broken OUTPUTS 'composite/map.two_outputs.second_on_b.*' 'expected'
broken COPY_SIZE 'buffer/put_get*' 'what came back'
broken COPY_SIZE 'buffer/device_copy*' 'what came over another buffer'
broken ODD_HOST 'buffer/odd_host' 'from one odd address to another'
OPTIMIZE=-O1 # for a matrix of 4097 x 4097 and a million parameters
if built broken LIMIT; then
    TIMEOUT=60
    limited neg.elements 'op/neg.f32.4097*'
    TIMEOUT=1
    limited add.dimensions 'op/add.f32.8d*'
    limited copy.dimensions 'op/copy.f32.8d'
    limited add.slots 'op/add.f32.slots40'
    limited sum.elements 'op/sum.f32.*'
    limited sum.rows 'op/sum.f32.*'
    limited gather.table 'op/gather.f32.*'
    limited gather.results 'op/gather.f32.*'
    limited scatter.table 'op/scatter_add.f32.*'
    limited scatter.sources 'op/scatter_add.f32.*'
    limited unfold.batch 'op/unfold.f32.*'
    limited unfold.planes 'op/unfold.f32.*'
    limited dot.rows 'op/dot.f32.0x1025*'
    limited dot.columns 'op/dot.f32.*x1025*'
    limited dot.terms 'op/dot.f32.*x8193x*'
    limited dot.batches 'op/dot.f32.65x*'
    limited map.body 'composite/map.largest*'
    limited dot_map.body 'composite/dot_map.largest*'
    limited map_sum.body 'composite/map_sum.largest*'
    limited conv2d.batch 'composite/conv2d.*.f32'
    limited conv2d.planes 'composite/conv2d.*.f32'
    limited max_pool.planes 'composite/max_pool.*.f32'
    limited layer_norm.rows 'composite/layer_norm.*.f32'
    limited layer_norm.columns 'composite/layer_norm.*.f32'
    limited softmax.rows 'composite/softmax.*.f32'
    limited softmax.columns 'composite/softmax.*.f32'
    limited attention.heads 'composite/attention.many_heads.f32'
    limited cross_entropy.rows 'composite/cross_entropy.*.f32'
    limited adam.parameters 'composite/adam_step.*.f32'
    limited adam.million 'composite/adam_step.*.f32'
    limited sgd.parameters 'composite/sgd_step.*.f32'
fi
OPTIMIZE=-O0
broken_far PIN_KEPT 'buffer/pin' 'after the host wrote to it again'
broken_island EXTENSION 'extension/unknown' 'extension("yk.coll") is not NULL'
broken_island COLL 'extension/coll.all_reduce*' 'yk.coll.1: all_reduce over 2 members'
QUICKLY=--quick
broken_island COLL_ROOT 'extension/coll.*.2' 'yk.coll.1: broadcast over 2 members'
broken_island COLL_PART 'extension/coll.*.3' 'yk.coll.1: reduce_scatter over 3 members'
broken_island COLL_GATHER 'extension/coll.*.2' 'yk.coll.1: all_gather over 2 members'
broken_island COLL_ODD 'extension/coll.*.2' 'yk.coll.1: broadcast over 2 members'
QUICKLY=
broken_island COLL_INF 'extension/coll.all_reduce.2' 'expected inf'
broken_island COLL_PAIR 'extension/coll.all_reduce.2' 'element 1020 of 1021'
broken_island COLL_LONG 'extension/coll.all_reduce.2' 'yk.coll.1: all_reduce over 2 members'
broken_island COLL_BITS 'extension/coll.all_reduce.3' 'have other bits'
broken_island SHARE 'extension/share' 'yk.share.1: what is written'
broken PRINT rebind 'prints to standard output: "compiling"'
case $SANITIZER in
none)
    broken LEAK_PROGRAM leak 'keeps .* bytes'
    broken LEAK_BUFFER leak 'keeps .* bytes'
    broken LEAK_QUEUE leak 'keeps .* bytes'
    broken LEAK_RUN leak 'keeps .* bytes'
    broken LEAK_FILE leak 'keeps .* open files'
    broken LEAK_MEMORY leak 'keeps .* KiB of mapped memory'
    broken LEAK_THREAD leak 'keeps .* threads'
    broken LEAK_FINI abi 'fini leaves threads'
    broken LEAK_DEVICE leak "keeps .* KiB of the device's memory"
    broken_far WAITS 'queue/*_waits' 'one is late'
    broken_far LAST_WAIT 'queue/*_waits' 'the last one is late'
    broken_far COPY_WAITS 'queue/*_after_run' 'waits for'
    broken_far EMPTY_WAITS 'queue/point_is_true' 'a copy of 0 bytes that waits for point'
    broken_far OWN_WAIT 'queue/*_waits' 'the last one is late'
    broken_far FIRST_WAIT 'queue/two_waits' 'the last one is late'
    broken_far EIGHT_WAITS 'queue/many_waits' 'the last one is late'
    broken_far KEPT_WAITS 'queue/*_waits' 'killed by signal\|did not end\|not reached'
    broken_far KEPT_SLOTS 'queue/*_after_run' 'killed by signal'
    broken_far KEPT_COPY_WAITS 'queue/*_after_run' 'killed by signal\|did not end\|not reached'
    broken_far WAIT_OK 'queue/wait_short' 'a wait .* says is done'
    broken_far WAIT_LONG 'queue/wait_short' 'a wait of 1 ms returned after'
    broken_far POLL 'queue/poll_is_true' 'that poll says is done'
    broken_far STAGE 'queue/copies_overlapped' 'while another queue copied'
    broken_far SHARED_PACK 'queue/side_by_side' 'two queues at a time'
    broken_far DEVICE_WAITS 'queue/two_devices' 'waits for a queue of another device\|from one device to another' # by what comes first
    broken_far DEVICE_COPY 'queue/two_devices' 'from one device to another'
    broken_far DEVICE_OFFSET 'queue/two_devices' 'from one device to another'
    broken_far SLOT_COUNT 'errors/a_slot_too_few' 'expected YK_E_ARG'
    broken_far SLOT_MORE 'errors/a_slot_too_many' 'expected YK_E_ARG'
    broken_far SLOT_BYTES 'errors/a_slot_too_short' 'expected YK_E_ARG'
    broken_far EARLY 'queue/*_after_run' 'expected'
    broken_far SCRATCH 'queue/side_by_side' 'two queues at a time'
    broken_far ABORT 'queue/abort' 'that was aborted gives YK_OK'
    broken_far SPAN_ABORT 'queue/abort' 'queue_span on a queue that was aborted gives YK_OK'
    broken_far ABORT_STATUS 'queue/abort' 'expected YK_E_DEVICE_LOST\|expected its reason, YK_E_DEVICE_LOST'
    broken_island COLL_WAITS 'extension/coll.all_reduce.2.waits' 'yk.coll.1: all_reduce over 2 members'
    broken_island COLL_ABORT 'extension/coll.abort' 'yk.coll.1: after abort'
    TIMEOUT=10 # what makes a device busy takes seconds of a busy machine; none of these faults hangs
    broken_far ABORT_LATE 'queue/abort_busy' 'a wait returned .* after queue_abort'
    broken_far ABORT_LATE 'queue/abort_waiting' 'what the queue waited for was still at work'
    broken_far ABORT_RUNS 'queue/abort_busy' 'is made after queue_free'
    broken_far ABORT_RUNS 'queue/abort_waiting' 'is made after queue_free'
    TIMEOUT=20 # longer than the run, which this fault waits for
    broken_far ENDLESS 'queue/abort_endless' 'queue_free of an aborted queue took'
    TIMEOUT=1
    broken_far DEPENDENT 'queue/abort_dependent' 'a queue went on although what it waited for was aborted'
    TIMEOUT=1
    broken_far LEAK_PIN 'leak/pin' 'keeps .* bytes'
    TIMEOUT=10
    broken_far SPAN_ZERO 'queue/span_length' 'has a span of 0.000000 s'
    broken_far SPAN_CLOCK 'queue/span_clock' 'the spans of a device have one clock'
    broken_far WAIT_ONE 'queue/waits_overlapped' 'a wait for a done point returned 3 times only'
    broken_far SPAN_UNIT 'queue/span_length' 'a span is the time of the work in ns'
    TIMEOUT=1
    broken_far SPANS_FEW 'queue/spans_kept' 'queue_span of one of the last 63 points'
    broken_wide COPY_32 'offsets/copy' 'of a buffer of 5 GiB'
    broken_wide LENGTH_32 'offsets/length --long' 'the end of a copy of 4 GiB'
    broken_wide SLOT_32 'offsets/slot' 'a slot at 5 GiB of its buffer'
    broken_wide VALUE_32 'offsets/value' 'a value at 5 GiB of its slot'
    broken_wide ROW_32 'offsets/gather' 'rows looked up at 5, 1 and 3 GiB'
    broken_wide LONG_SUMS 'long/sum.f32.1d*' 'YK_CAP_LONG_SUMS (plugin.h) promises this bound'
    broken_far SPAN 'queue/span' 'YK_E_ARG\|no time at all\|is said to be'
    broken CRASH 'op/[dgs]*[a-z].*f32*' 'killed by signal 11'
    passed=$(grep -c '^ok.* - op/\(dot\|scatter_add\)\.' "$WORK/out")
    [ "$passed" -gt 20 ]
    result $? "the tests behind a crash are run"
    again=$(sed -n 's/^# .* killed by signal 11 .* in this test (seed 1); again: gdb .* --args yoke-cts //p' "$WORK/out" | head -1)
    name=$(printf %s "$again" | sed "s/.*--only '\(.*\)' --seed.*/\1/")
    eval "\"$CTS\" $again" >"$WORK/out" 2>"$WORK/err"
    [ -n "$again" ] && [ "$(grep '^not ok' "$WORK/out")" = "not ok 1 - $name" ] && grep -q 'killed by signal 11' "$WORK/out" &&
        grep -q '^1\.\.1$' "$WORK/out"
    result $? "the command of a crash runs that test again"
    ;;
esac
wait "$hanging"
code=$?
mv "$WORK/hang.out" "$WORK/out"
mv "$WORK/hang.err" "$WORK/err"
found_words HANG "$HANG_TESTS" 'did not end within 12 s (twice --timeout and 10 s) and was killed'
grep -q '^not ok.*op/gather' "$WORK/out" && grep -q '^ok.*op/scatter_add' "$WORK/out"
result $? "the tests behind a hang are run"
grep -q '^yoke-cts: after [0-9]* s: group op has ended, [0-9]* passed, [1-9][0-9]* failed; groups left: 0$' "$WORK/err"
result $? "a run of more than 10 s says when a group ends"

compile "$WORK/yoke_old.so" "$BROKEN" -pthread -DOLDER
run_cts "a plugin of an older minor, without what may be left out" "$WORK/yoke_old.so" --group abi,queue,composite,guard,rebind,leak
"$CTS" --plugin "$WORK/yoke_old.so" --only 'composite/relu.*' | grep -c 'SKIP unsupported: not claimed' | grep -qv '^0$'
result $? "what it does not know is not sent to it"
"$CTS" --plugin "$WORK/yoke_good.so" --only 'op/nothing*' >"$WORK/out" 2>&1
[ $? -eq 2 ] && grep -q "no test of these groups matches --only" "$WORK/out"
result $? "a pattern that matches nothing is an error"
"$CTS" --plugin "$WORK/yoke_good.so" --group op --only 'op/relu*' >"$WORK/out" 2>&1
[ $? -eq 2 ] && grep -q "matches --only 'op/relu\*'; groups composite, body have such tests" "$WORK/out"
result $? "and names the groups that have such a test"
"$CTS" --plugin "$WORK/yoke_good.so" --group abi >"$WORK/out" 2>"$WORK/err"
alone=0
for name in $(sed -n 's/^ok [0-9]* - \([^ ]*\).*/\1/p' "$WORK/out"); do
    "$CTS" --plugin "$WORK/yoke_good.so" --group abi --only "$name" 2>"$WORK/err" | grep -q '^1\.\.1$' && alone=$((alone + 1)) ||
        echo "# --only $name: $(cat "$WORK/err")"
done
grep -q "^1\.\.$alone$" "$WORK/out"
result $? "each test of the group abi runs alone, by the name that the suite prints"
for only in 'guard/add.f32*:1' '[g]uard/add.f32*:[1-9][0-9]'; do # the device is opened for each group that may have such a test
    YOKE_LAYERS=trace "$CTS" --plugin "$WORK/yoke_good.so" --only "${only%:*}" 2>&1 | grep -c device_open | grep -qx "${only#*:}"
    result $? "--only '${only%:*}' opens the device ${only#*:} times"
done

# The lists: an expected failure is none, and one that passes is one with --verify.
compile "$WORK/yoke_bad.so" "$BROKEN" -DBREAK_SYMBOL
printf '\357\273\277abi/symbols \t# a helper leaks out\r\nnothing/else\r\n' >"$WORK/list" # as other systems write texts
"$CTS" --plugin "$WORK/yoke_bad.so" --group abi --xfail "$WORK/list" >"$WORK/out"
result $? "an expected failure does not fail the run"
printf 'abi/symbols\r\n' >"$WORK/list"
"$CTS" --plugin "$WORK/yoke_bad.so" --group abi --unsupported "$WORK/list" | grep -q '1 unsupported'
result $? "a listed test is not run"
compile "$WORK/yoke_good.so" "$BROKEN"
"$CTS" --plugin "$WORK/yoke_good.so" --group abi --xfail "$WORK/list" --verify >"$WORK/out"
[ $? -eq 1 ]
result $? "with --verify an expected failure that passes fails the run"
"$CTS" --plugin "$WORK/yoke_good.so" --group abi,buffer --json | python3 -c '
import json, sys
lines = [json.loads(l) for l in sys.stdin]
assert lines[-1]["failed"] == 0 and lines[-1]["passed"] + lines[-1]["unsupported"] == len(lines) - 1 > 5, lines[-1]'
result $? "--json is JSON, line by line"
"$CTS" --plugin "$WORK/none.so" 2>"$WORK/err"
[ $? -eq 2 ]
result $? "a file that is not there: exit code 2"
"$CTS" --plugin "$WORK/yoke_good.so" --group quue 2>"$WORK/err"
[ $? -eq 2 ] && grep -q 'did you mean queue' "$WORK/err"
result $? "an unknown group names the nearest"
finish
