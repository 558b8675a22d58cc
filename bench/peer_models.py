# SPDX-License-Identifier: Apache-2.0
"""The models of the benchmarks in plain PyTorch, as their users write them; parameters in the order of Hugging Face's files.

A configuration is a dict of the words of `yoke bench step --model-config`.
"""
import json
import struct

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.attn, self.proj = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ln2, self.fc, self.out = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.attn(self.ln1(x)).split(x.shape[-1], -1)
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, -1))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, c):
        super().__init__()
        vocab, width, layers = c.get("vocab_size", 50257), c.get("n_embd", 768), c.get("n_layer", 12)
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(c.get("n_positions", 1024), width)
        self.blocks = nn.ModuleList(Gpt2Block(width, c.get("n_head", 12)) for _ in range(layers))
        self.ln = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.ln(x) @ self.wte.weight.T


class Bert(nn.Module):
    def __init__(self, c):
        super().__init__()
        vocab, width, inner = c.get("vocab_size", 30522), c.get("hidden_size", 768), c.get("intermediate_size", 3072)
        self.heads = c.get("num_attention_heads", 12)
        self.word, self.pos, self.kind = nn.Embedding(vocab, width), nn.Embedding(512, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "q": nn.Linear(width, width), "k": nn.Linear(width, width), "v": nn.Linear(width, width), "o": nn.Linear(width, width),
            "n1": nn.LayerNorm(width, 1e-12), "i": nn.Linear(width, inner), "d": nn.Linear(inner, width),
            "n2": nn.LayerNorm(width, 1e-12)}) for _ in range(c.get("num_hidden_layers", 12)))
        self.pool, self.cls = nn.Linear(width, width), nn.Linear(width, c.get("num_labels", 2))

    def forward(self, ids, mask):
        b, t = ids.shape
        x = self.norm(self.word(ids) + self.pos(torch.arange(t, device=ids.device)) + self.kind(torch.zeros_like(ids)))
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


class Bottleneck(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        mid = cout // 4
        self.c1, self.b1 = nn.Conv2d(cin, mid, 1, bias=False), nn.BatchNorm2d(mid)
        self.c2, self.b2 = nn.Conv2d(mid, mid, 3, stride, 1, bias=False), nn.BatchNorm2d(mid)
        self.c3, self.b3 = nn.Conv2d(mid, cout, 1, bias=False), nn.BatchNorm2d(cout)
        self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)) if stride != 1 or cin != cout else None

    def forward(self, x):
        y = F.relu(self.b2(self.c2(F.relu(self.b1(self.c1(x))))))
        return F.relu(self.b3(self.c3(y)) + (x if self.down is None else self.down(x)))


class ResNet50(nn.Module):
    def __init__(self, widths, blocks):
        super().__init__()
        self.c, self.b = nn.Conv2d(3, widths[0] // 4, 7, 2, 3, bias=False), nn.BatchNorm2d(widths[0] // 4)
        layers, cin = [], widths[0] // 4
        for i, (w, n) in enumerate(zip(widths, blocks)):
            for j in range(n):
                layers.append(Bottleneck(cin, w, 2 if i and j == 0 else 1))
                cin = w
        self.blocks, self.fc = nn.Sequential(*layers), nn.Linear(cin, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.b(self.c(x))), 3, 2, 1)
        return self.fc(self.blocks(x).mean((2, 3)))


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


def sizes(text):
    return [int(n) for n in str(text).split("+")]


def build(name, c):
    if name == "gpt2":
        return Gpt2(c)
    if name == "bert":
        return Bert(c)
    if name == "resnet50":
        return ResNet50(sizes(c.get("widths", "256+512+1024+2048")), sizes(c.get("blocks_per_stage", "3+4+6+3")))
    if name.startswith("resnet"):
        large = name == "resnet18"
        return ResNet(sizes(c.get("widths", "64+128+256+512" if large else "16+32+64")), 2 if large else 3, large)
    wide = [c.get("input_size", 784), *sizes(c.get("hidden", "512+256")), 10]
    layers = [m for a, b in zip(wide, wide[1:]) for m in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def random_numbers(count):
    """The generator of tools/cmd/cmd_bench.c."""
    state, out = 1, np.empty(count, np.uint32)
    for i in range(count):
        state = (state * 1664525 + 1013904223) & 0xffffffff
        out[i] = state >> 8
    return out


def data(name, c, batch, seq):
    """The batch of `yoke bench step`: inputs of the model and labels, number for number."""
    text = name in ("gpt2", "bert")
    width = seq if text else 1
    side = c.get("image_size", 32)
    shape = (3, side, side) if name.startswith("resnet") else (c.get("input_size", 784),)
    pixels = 0 if text else batch * int(np.prod(shape))
    tokens, rows = batch * width, batch * width if name == "gpt2" else batch
    r = random_numbers(pixels + tokens + rows)
    vocab = c.get("vocab_size", 50257 if name == "gpt2" else 30522)
    classes = vocab if name == "gpt2" else c.get("num_labels", 2 if name == "bert" else 10)
    labels = torch.from_numpy((r[pixels + tokens:] % classes).astype(np.int64))
    ids = torch.from_numpy((r[pixels:pixels + tokens] % vocab).astype(np.int64)).view(batch, width)
    if name == "gpt2":
        return (ids,), labels
    if name == "bert":
        lengths = torch.tensor([seq // 2 + (i * 37) % (seq // 2 + 1) for i in range(batch)])
        return (ids, torch.arange(seq)[None, :] < lengths[:, None]), labels
    return (torch.from_numpy(r[:pixels].astype(np.float32) / 8388608 - 1).view(batch, *shape),), labels


def load(net, path):
    """Weights of a safetensors file, by order; GPT-2's file holds the products' matrices the other way round."""
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        body = f.read()
    names = [n for n in head if n != "__metadata__"]
    mine = net.state_dict()
    if len(names) != len(mine):
        raise SystemExit(f"{path}: {len(names)} tensors, the peer's model has {len(mine)}")
    for name, (key, to) in zip(names, mine.items()):
        a, b = head[name]["data_offsets"]
        v = torch.from_numpy(np.frombuffer(body[a:b], {"F32": np.float32, "I64": np.int64}[head[name]["dtype"]]).copy())
        v = v.view(head[name]["shape"])
        if any(w in name for w in ("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            v = v.T
        if v.shape != to.shape:
            raise SystemExit(f"{path}: {name} is {list(v.shape)}, the peer's {key} is {list(to.shape)}")
        to.copy_(v)
