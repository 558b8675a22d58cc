# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench/kernels and bench/shard, and DeepSpeed's optimizer: reads {name: [kernel, format, sizes ..]} from standard input,
prints {name: least milliseconds}."""
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


def adamw(which, count):
    """An optimizer's step of one parameter with so many elements, in pages of its own: zeros would share one."""
    x = torch.nn.Parameter(torch.full((count,), 1e-3))
    x.grad = torch.full((count,), 1e-3)
    if which == "adamw":
        return torch.optim.AdamW([x], 1e-4, weight_decay=0.01, fused=True).step
    from deepspeed.ops.adam import DeepSpeedCPUAdam
    return DeepSpeedCPUAdam([x], 1e-4, weight_decay=0.01, adamw_mode=True).step


def kernel_of(kernel, kind, sizes):
    if "adamw" in kernel:
        return adamw(kernel, *sizes)
    kind = torch.float32 if kind == "f32" else torch.bfloat16
    return product(kind, *sizes) if kernel == "dot" else convolution(kernel, kind, *sizes)


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
            got[name] = least(kernel_of(kernel, kind, sizes))
    print(json.dumps(got))


if __name__ == "__main__":
    main()
