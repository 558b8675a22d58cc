#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# yoke inspect over the suites (exit code 0 or 2, one line for a refusal) and yoke tokenize against golden ids.
yoke=$YOKE_BUILD/yoke
data=$YOKE_TEST_DATA
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
n=0
result() { # name, list of faults
    n=$((n + 1))
    if [ -z "$2" ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; echo "$2" | sed 's/^/# /'; fi
}

echo 1..11
if [ ! -d "$data/idx-suite" ]; then
    for i in 1 2 3 4 5 6 7 8 9 10 11; do echo "ok $i # SKIP no test data (YOKE_TEST_DATA)"; done
    exit 0
fi

# judge FILE accept|reject|either WORDS...: runs yoke inspect and prints what is wrong
judge() {
    file=$1 expect=$2
    shift 2
    "$yoke" inspect "$file" "$@" >"$work/out" 2>"$work/err"
    code=$?
    lines=$(wc -l <"$work/err")
    case $expect:$code in
    accept:0 | either:0) [ "$lines" = 0 ] || echo "$file: words on standard error" ;;
    reject:2 | either:2)
        [ "$lines" = 1 ] || echo "$file: $lines lines for a refusal"
        grep -qF "$(basename "$file")" "$work/err" || echo "$file: the refusal does not name the file"
        ;;
    *) echo "$file: expected $expect, exit code $code: $(cat "$work/err")" ;;
    esac
}

suite() { # suite, words
    dir=$1
    shift
    tail -n +2 "$data/$dir/index.tsv" | while IFS='	' read -r file expect rest; do
        case $dir/$file in
        */label*-1*.idx1-ubyte) # sound by themselves; they do not fit the images
            judge "$data/$dir/good/images-20.idx3-ubyte" accept --as "idx"
            "$yoke" inspect "$data/$dir/good/images-20.idx3-ubyte" --as "idx,labels=$data/$dir/$file" >/dev/null 2>&1
            [ $? = 2 ] || echo "$file: the pair was accepted" ;;
        */labels-swapped*)
            judge "$data/$dir/$file" reject --as "idx,labels=$data/$dir/good/images-20.idx3-ubyte" ;;
        *) judge "$data/$dir/$file" "$expect" "$@" ;;
        esac
    done
}
result idx-suite "$(suite idx-suite --as idx)"
result gzip-suite "$(suite gzip-suite --as gzip)"
result csv-suite "$(suite csv-suite --as csv,text=review,label=label,classes=2)"
result safetensors-suite "$(suite safetensors-suite)"
# The reader takes each of them in tests/unit/io/json.c and tree.c: the command takes some.
every=3
grep -q '^#define YK_SANITIZER "none"' "$YOKE_BUILD/config.h" || every=7
[ -z "${YOKE_TEST_LONG-}" ] || every=1
at=0
result json-suite "$(for f in "$data"/json-suite/test_parsing/*.json; do
    at=$((at + 1))
    [ $((at % every)) = 0 ] || continue
    case ${f##*/} in y_*) judge "$f" accept ;; n_*) judge "$f" reject ;; *) judge "$f" either ;; esac
done)"
result 'kinds are guessed' "$(
    for pair in fashion-mnist/t10k-labels-idx1-ubyte.gz=idx cifar10-part/cifar10-test-000-999.bin.gz=cifar10 \
        banking77/test.csv=csv songci/songci.txt.gz=text models/bert-tiniest=safetensors \
        tokenizers/golden/corpus.json=json gzip-suite/good/archive.tar.gz=gzip; do
        "$yoke" inspect "$data/${pair%=*}" --json >"$work/out" 2>&1 || cat "$work/out"
        grep -q "\"kind\":\"${pair#*=}\"" "$work/out" || echo "${pair%=*}: not ${pair#*=}"
    done)"

zcat "$data/tokenizers/golden/squad-questions-a.tsv.gz" >"$work/squad"
cut -f1 "$work/squad" >"$work/questions"
cut -f2 "$work/squad" >"$work/ids"
"$yoke" tokenize --tokenizer "$data/tokenizers/bert-base-uncased" --lowercase --no-special-tokens "$work/questions" >"$work/got" 2>&1
result 'WordPiece ids' "$(cmp "$work/ids" "$work/got" 2>&1)"
result 'template and JSON' "$(printf 'Hello world\n\n' | "$yoke" tokenize --tokenizer "$data/models/bert-tiniest" - --json 2>&1 |
    tr '\n' ' ' | grep -vxF '[101,7592,2088,102] [101,102] ')"
# A tokenizer's files have the same ids with a byte order mark and with the line ends of other systems.
marked() { # marked MODEL FILE...: the ids of a text, with these files alone
    model=$1
    shift
    printf 'Hello world, it is\nfine\n' >"$work/said"
    mkdir -p "$work/plain" "$work/marked"
    for end in '\n' '\r\n' '\r'; do
        rm -f "$work/plain"/* "$work/marked"/*
        for f in "$@"; do
            cp "$data/models/$model/$f" "$work/plain/$f"
            END=$end python3 - "$work/plain/$f" "$work/marked/$f" <<'P'
import os, sys
end = os.environ["END"].encode().decode("unicode_escape").encode()
open(sys.argv[2], "wb").write(b"\xef\xbb\xbf" + open(sys.argv[1], "rb").read().replace(b"\n", end))
P
        done
        "$yoke" tokenize --tokenizer "$work/plain" "$work/said" >"$work/one" 2>&1
        "$yoke" tokenize --tokenizer "$work/marked" "$work/said" >"$work/two" 2>&1
        grep -q '[0-9] [0-9]' "$work/one" || echo "$model: no ids"
        cmp "$work/one" "$work/two" 2>&1
    done
}
result 'marks and carriage returns in files of tokenizers' "$(
    marked fake-gpt2 merges.txt vocab.json tokenizer_config.json
    marked bert-tiniest vocab.txt tokenizer_config.json
    marked bert-tiniest tokenizer.json tokenizer_config.json)"
printf 'caf\303\251\n\nx' >"$work/text"
result 'a token file' "$(
    "$yoke" tokenize --tokenizer bytes --output "$work/t.bin" "$work/text" 2>&1
    printf 'YKTOKENS\001\0\0\0\002\0\0\0\010\0\0\0\0\0\0\0\0\001\0\0\0\0\0\0c\0a\0f\0\303\0\251\0\n\0\n\0x\0' >"$work/expected.bin"
    cmp "$work/t.bin" "$work/expected.bin" 2>&1
    "$yoke" inspect "$work/t.bin" --json >"$work/out" 2>&1 || cat "$work/out"
    "$yoke" tokenize --tokenizer bytes --output "$work/t.bin" --json "$work/text" >/dev/null 2>&1; [ $? = 2 ] || echo "--json was taken")"
result usage "$(
    "$yoke" tokenize "$work/questions" >/dev/null 2>&1; [ $? = 2 ] || echo "no tokenizer: not 2"
    "$yoke" tokenize --tokenizer /nonexistent "$work/questions" >/dev/null 2>&1; [ $? = 2 ] || echo "bad folder: not 2"
    "$yoke" inspect /nonexistent >/dev/null 2>&1; [ $? = 2 ] || echo "no file: not 2"
    python3 - "$work/evil.safetensors" <<'P'
import json, struct, sys
tensor = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
head = {"__metadata__": {"a\x1b[2J": "b\x1b]0;x\x07"}, "w\x1b]0;owned\x07\u009b31m": tensor}
head = json.dumps(head, ensure_ascii=False).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + b"\0\0\0\0")
P
    "$yoke" inspect "$work/evil.safetensors" >"$work/listing" || echo "a file with odd names is refused"
    grep -q 'w?]0;owned???31m F32' "$work/listing" || echo "names are not listed"
    "$yoke" inspect "$work/evil.safetensors" --json >>"$work/listing" || echo "no JSON of odd names"
    LC_ALL=C grep -q "$(printf '[\033\007]')" "$work/listing" && echo "control characters reach the terminal"
    LC_ALL=C grep -q "$(printf '\302\233')" "$work/listing" && echo "C1 characters reach the terminal"
    "$yoke" inspect "$work/questions" --as txet 2>&1 | grep -q "did you mean 'text'" || echo "no nearest kind"
    "$yoke" inspect --jsno 2>&1 | grep -q -- --json || echo "no nearest option")"
