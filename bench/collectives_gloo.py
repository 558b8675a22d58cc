#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of bench/collectives' peer in PyTorch over gloo: as collectives_mpi.c, by the environment that torch.distributed reads.

collectives_gloo.py MOST: all-reduce, reduce-scatter and all-gather of f32 by bytes up to MOST. Gloo has no reduce-scatter of a CPU's
tensors in every version; where it has none there are no rows of it.
"""
import statistics
import sys
import time

import torch
import torch.distributed as dist

LEAST, STEP, BATCHES, BATCH_S = 1024, 4, 5, 0.03  # as sizes.h has them


def operations(world):
    def sizes(n):
        return torch.zeros(n), torch.zeros(n // world)

    def all_reduce(n):
        whole, _ = sizes(n)
        return lambda: dist.all_reduce(whole)

    def reduce_scatter(n):
        whole, part = sizes(n)
        return lambda: dist.reduce_scatter_tensor(part, whole)

    def all_gather(n):
        whole, part = sizes(n)
        return lambda: dist.all_gather_into_tensor(whole, part)

    return {"all-reduce": all_reduce, "reduce-scatter": reduce_scatter, "all-gather": all_gather}


def slowest(call, calls):
    """Seconds a call, of the slowest rank."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    seconds = torch.tensor([(time.perf_counter() - begin) / calls], dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    return seconds.item()


def main():
    most = int(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name, make in operations(dist.get_world_size()).items():
        size = LEAST
        while size <= most:
            call = make(size // 4)
            try:
                slowest(call, 1)
            except RuntimeError:
                break
            calls = min(2000, max(1, int(BATCH_S / slowest(call, 2))))
            seconds = statistics.median(slowest(call, calls) for _ in range(BATCHES))
            if dist.get_rank() == 0:
                print(name, size, f"{seconds:.3e}", flush=True)
            size *= STEP
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
