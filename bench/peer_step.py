#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A whole training step in PyTorch, on the CPU if nothing is said, timed as `yoke bench step` times ours: warm-up steps, then N timed ones.

Prints one JSON object. The same random data as ours, dropout 0, the fused optimizer, the loss read in every step.
"""
import argparse
import json
import resource
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import peer_models


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--model", required=True)
    p.add_argument("--model-config", default="")
    p.add_argument("--precision", default="fp32")
    p.add_argument("--global-batch", type=int, required=True)
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--iterations", type=int, required=True)
    p.add_argument("--compile", action="store_true", help="torch.compile with its defaults")
    p.add_argument("--tuned", action="store_true", help='matmul precision "medium"; the runner sets malloc\'s tunables')
    p.add_argument("--accelerate", action="store_true", help="a DataLoader over 64 batches, all through Accelerator")
    p.add_argument("--ddp", action="store_true", help="DistributedDataParallel over gloo, as torchrun's variables say; rows are split")
    p.add_argument("--fsdp", action="store_true", help="FSDP2 instead: fully_shard of each block and of the rest")
    p.add_argument("--clip", type=float, default=0, help="limit of the gradient's norm; 0: none")
    p.add_argument("--device", default="cpu", help="cuda, xpu .., or auto: what PyTorch has, else the CPU")
    p.add_argument("--init", help="safetensors file to start from; every step's loss is printed, no warm-up")
    a = p.parse_args()
    pairs = [w.split("=", 1) for w in a.model_config.split(",") if w]
    if a.device == "auto":
        a.device = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"
    a.config = {k: int(v) if v.lstrip("-").isdigit() else v for k, v in pairs}
    return a


def optimizer(a, net):
    if a.model in ("gpt2", "bert"):
        return torch.optim.AdamW(net.parameters(), 1e-4, weight_decay=0.01, fused=True)
    return torch.optim.SGD(net.parameters(), 0.01, momentum=0.9 if a.model.startswith("resnet") else 0, fused=True)


def distributed(a, net):
    """The model in DistributedDataParallel, or sharded by FSDP2; its ranks have even parts of the batch."""
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    dist.init_process_group("gloo")
    a.global_batch //= dist.get_world_size()
    if not a.fsdp:
        return torch.nn.parallel.DistributedDataParallel(net)
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    for block in net.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def batches(inputs, labels):
    while True:
        yield (*inputs, labels)


def loaded(a, net, opt, inputs, labels):
    """Model, optimizer and batches through Accelerator; one process, which is asserted."""
    from accelerate import Accelerator
    from torch.utils.data import DataLoader, TensorDataset
    acc = Accelerator(cpu=True, mixed_precision="bf16" if a.precision == "bf16" else "no")
    if acc.num_processes != 1:
        sys.exit(f"accelerate runs {acc.num_processes} processes, this compares one")
    many = TensorDataset(*(x.repeat(64, *[1] * (x.dim() - 1)) for x in (*inputs, labels)))
    net, opt, loader = acc.prepare(net, opt, DataLoader(many, batch_size=a.global_batch, shuffle=True))

    def forever():
        while True:
            yield from loader
    return net, opt, forever(), acc.backward


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    if a.tuned:
        torch.set_float32_matmul_precision("medium")
    torch.manual_seed(0)
    net = peer_models.build(a.model, a.config)
    if a.init:
        peer_models.load(net, a.init)
    if a.ddp or a.fsdp:
        net = distributed(a, net)
    inputs, labels = peer_models.data(a.model, a.config, a.global_batch, a.config.get("seq_len", 1))
    net, inputs, labels = net.to(a.device), [x.to(a.device) for x in inputs], labels.to(a.device)
    opt = optimizer(a, net)
    source, backward = batches(inputs, labels), lambda loss: loss.backward()
    if a.accelerate:
        net, opt, source, backward = loaded(a, net, opt, inputs, labels)
    run = torch.compile(net) if a.compile else net
    times, losses, used = [], [], None
    warm = 0 if a.init else 1 if a.iterations <= 3 else 2 if a.iterations < 100 else 50
    for i in range(a.iterations + warm):
        if i == warm:
            used, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        at = time.perf_counter()
        *x, y = next(source)
        with torch.autocast(a.device, torch.bfloat16, enabled=a.precision == "bf16"):
            loss = F.cross_entropy(run(*x).float().view(y.numel(), -1), y)
        backward(loss)
        if a.clip:
            torch.nn.utils.clip_grad_norm_(net.parameters(), a.clip)
        opt.step()
        opt.zero_grad(set_to_none=True)
        losses.append(loss.item())
        times.append(1e3 * (time.perf_counter() - at))
    wall, end = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    times = times[warm:]
    if a.ddp or a.fsdp:
        torch.distributed.destroy_process_group()
    print(json.dumps({"min_ms": min(times), "median_ms": statistics.median(times), "loss": losses[-1],
                      "user_ms": 1e3 * (end.ru_utime - used.ru_utime) / a.iterations,
                      "sys_ms": 1e3 * (end.ru_stime - used.ru_stime) / a.iterations, "wall_ms": 1e3 * wall / a.iterations,
                      "torch": torch.__version__, "capability": torch.backends.cpu.get_cpu_capability(),
                      "threads": torch.get_num_threads(), "world": 1, "device": a.device,
                      "matmul": torch.get_float32_matmul_precision(), **({"losses": losses} if a.init else {})}))


if __name__ == "__main__":
    main()
