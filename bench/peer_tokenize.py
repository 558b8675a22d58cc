#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times Hugging Face tokenizers on the lines of a file, one thread: peer_tokenize.py DIR FILE PASSES IDS LOWERCASE"""
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import numpy as np
import tokenizers


def load(folder, lowercase):
    path = os.path.join(folder, "tokenizer.json")
    if os.path.exists(path):
        t = tokenizers.Tokenizer.from_file(path)
        t.no_padding()
        t.no_truncation()
        return t
    return tokenizers.BertWordPieceTokenizer(os.path.join(folder, "vocab.txt"), lowercase=lowercase)._tokenizer


def main():
    folder, file, passes, ids, lowercase = sys.argv[1:6]
    t = load(folder, lowercase == "1")
    with open(file, encoding="utf-8", newline="") as f:
        lines = f.read().split("\n")
    if lines[-1] == "":
        lines.pop()
    seconds = []
    for _ in range(int(passes)):
        at = time.perf_counter()
        got = t.encode_batch_fast(lines)
        seconds.append(time.perf_counter() - at)
    np.array([i for e in got for i in e.ids], np.int32).tofile(ids)
    print(json.dumps({"ids": sum(len(e.ids) for e in got),
                      "first_s": seconds[0], "least_s": min(seconds), "version": tokenizers.__version__}))


if __name__ == "__main__":
    main()
