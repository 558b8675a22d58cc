#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A whole training step in PyTorch on the CPU, timed as `yoke bench step` times ours: 2 warm-up steps, then N steps.

peer_step.py MODEL PRECISION BATCH SEQ_LEN THREADS ITERATIONS [--compile] [--tuned]
Prints one JSON object with min_ms, median_ms, peak_bytes and loss. Random data, dropout 0, the fused optimizer.
"""
import json
import resource
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Gpt2(nn.Module):
    def __init__(self, vocab=50257, width=768, layers=12, heads=12, positions=1024):
        super().__init__()
        self.heads, self.wte, self.wpe = heads, nn.Embedding(vocab, width), nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "ln1": nn.LayerNorm(width), "attn": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width),
            "ln2": nn.LayerNorm(width), "fc": nn.Linear(width, 4 * width), "out": nn.Linear(4 * width, width)}) for _ in range(layers))
        self.ln = nn.LayerNorm(width)

    def forward(self, ids):
        b, t = ids.shape
        x = self.wte(ids) + self.wpe(torch.arange(t))
        for m in self.blocks:
            q, k, v = m["attn"](m["ln1"](x)).split(x.shape[-1], -1)
            q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + m["proj"](y.transpose(1, 2).reshape(b, t, -1))
            x = x + m["out"](F.gelu(m["fc"](m["ln2"](x)), approximate="tanh"))
        return self.ln(x) @ self.wte.weight.T


class Bert(nn.Module):
    def __init__(self, vocab=30522, width=768, layers=12, heads=12, inner=3072, positions=512, classes=2):
        super().__init__()
        self.heads = heads
        self.word, self.pos, self.type = nn.Embedding(vocab, width), nn.Embedding(positions, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "q": nn.Linear(width, width), "k": nn.Linear(width, width), "v": nn.Linear(width, width), "o": nn.Linear(width, width),
            "n1": nn.LayerNorm(width, 1e-12), "i": nn.Linear(width, inner), "d": nn.Linear(inner, width),
            "n2": nn.LayerNorm(width, 1e-12)}) for _ in range(layers))
        self.pool, self.cls = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, ids, mask):
        b, t = ids.shape
        x = self.norm(self.word(ids) + self.pos(torch.arange(t)) + self.type(torch.zeros_like(ids)))
        for m in self.blocks:
            q, k, v = (m[n](x).view(b, t, self.heads, -1).transpose(1, 2) for n in "qkv")
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
            x = m["n1"](x + m["o"](y.transpose(1, 2).reshape(b, t, -1)))
            x = m["n2"](x + m["d"](F.gelu(m["i"](x))))
        return self.cls(torch.tanh(self.pool(x[:, 0])))


class Block(nn.Module):
    def __init__(self, cin, cout, stride, project):
        super().__init__()
        self.stride, self.pad = stride, (cout - cin) // 2
        self.c1, self.b1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
        self.c2, self.b2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout)
        self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)) if project and (
            stride != 1 or cin != cout) else None

    def forward(self, x):
        y = self.b2(self.c2(F.relu(self.b1(self.c1(x)))))
        if self.down is not None:
            s = self.down(x)
        else:
            s = x[:, :, ::self.stride, ::self.stride]
            if self.pad:
                s = F.pad(s, (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(y + s)


class ResNet(nn.Module):
    def __init__(self, widths, blocks, project):
        super().__init__()
        layers, cin = [], widths[0]
        for i, w in enumerate(widths):
            for j in range(blocks):
                layers.append(Block(cin, w, 2 if i and j == 0 else 1, project))
                cin = w
        self.c, self.b = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0])
        self.blocks, self.fc = nn.Sequential(*layers), nn.Linear(cin, 10)

    def forward(self, x):
        return self.fc(self.blocks(F.relu(self.b(self.c(x)))).mean((2, 3)))


def build(name, batch, seq):
    g = torch.Generator().manual_seed(1)
    if name == "gpt2":
        ids = torch.randint(0, 50257, (batch, seq), generator=g)
        labels = torch.randint(0, 50257, (batch, seq), generator=g)
        return Gpt2(), (ids,), labels.view(-1), "adamw"
    if name == "bert":
        ids = torch.randint(0, 30522, (batch, seq), generator=g)
        lengths = torch.tensor([seq // 2 + (i * 37) % (seq // 2 + 1) for i in range(batch)])
        return Bert(), (ids, torch.arange(seq)[None, :] < lengths[:, None]), torch.randint(0, 2, (batch,), generator=g), "adamw"
    if name == "mlp":
        net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
        return net, (torch.randn(batch, 784, generator=g),), torch.randint(0, 10, (batch,), generator=g), "sgd"
    widths, blocks = ([16, 32, 64], 3) if name == "resnet20" else ([64, 128, 256, 512], 2)
    net = ResNet(widths, blocks, name == "resnet18")
    return net, (torch.randn(batch, 3, 32, 32, generator=g),), torch.randint(0, 10, (batch,), generator=g), "sgdm"


def main():
    name, precision, batch, seq, threads, n = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:7])
    torch.set_num_threads(threads)
    if "--tuned" in sys.argv:
        torch.set_float32_matmul_precision("medium")
    torch.manual_seed(0)
    net, inputs, labels, optimizer = build(name, batch, seq)
    if optimizer == "adamw":
        opt = torch.optim.AdamW(net.parameters(), 1e-4, weight_decay=0.01, fused=True)
    else:
        opt = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9 if optimizer == "sgdm" else 0, fused=True)
    run = torch.compile(net) if "--compile" in sys.argv else net
    times = []
    for i in range(n + 2):
        at = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = F.cross_entropy(run(*inputs).float().view(labels.numel(), -1), labels)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        value = loss.item()
        if i > 1:
            times.append(1e3 * (time.perf_counter() - at))
    print(json.dumps({"min_ms": min(times), "median_ms": statistics.median(times), "loss": value,
                      "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                      "torch": torch.__version__, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
