# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench/kernels: reads {name: [kernel, format, sizes ..]} from standard input, prints {name: least milliseconds}."""
import json
import sys
import time

import torch

BATCH = 128  # as in bench/cpu_kernels.c


def matrix(rows, columns, stored, kind):
    return torch.randn(rows, columns).to(kind) if stored == "N" else torch.randn(columns, rows).to(kind).t()


def product(kind, m, n, k, layout):
    a, b = matrix(m, k, layout[0], kind), matrix(k, n, layout[1], kind)
    return lambda: torch.mm(a, b)


def convolution(which, kind, c, h, o, k, step):
    conv = dict(stride=step, padding=k // 2)
    x, w = torch.randn(BATCH, c, h, h).to(kind), torch.randn(o, c, k, k).to(kind)
    y = torch.nn.functional.conv2d(x, w, **conv)
    if which == "conv":
        return lambda: torch.nn.functional.conv2d(x, w, **conv)
    mask = [which == "conv_dx", which == "conv_dw", False]
    return lambda: torch.ops.aten.convolution_backward(y, x, w, None, [step] * 2, [k // 2] * 2, [1, 1], False, [0, 0], 1, mask)


def least(run):
    run()
    best, end = 1e30, time.perf_counter() + 0.2
    while True:
        begin = time.perf_counter()
        run()
        now = time.perf_counter()
        best = min(best, now - begin)
        if now > end:
            return best * 1e3


def main():
    torch.set_num_threads(int(sys.argv[1]))
    got = {}
    with torch.no_grad():
        for name, (kernel, kind, *sizes) in json.load(sys.stdin).items():
            kind = torch.float32 if kind == "f32" else torch.bfloat16
            got[name] = least(product(kind, *sizes) if kernel == "dot" else convolution(kernel, kind, *sizes))
    print(json.dumps(got))


if __name__ == "__main__":
    main()
