"""Collectives for nccl.py, in an engine process: `collectives.py`. It prints what each step communicates, as JSON.

A communicator of one rank launches a kernel for averages only; what it copies is no kernel. So with one rank only averages are
expected, with more all of it.
"""

import json
import os

import torch
import torch.distributed as dist

COUNT = 1 << 18  # float32: 1 MiB


class Steps:
    """Steps are NVTX ranges; of each it is kept which messages its kernels carry: (group, bytes)."""

    def __init__(self):
        self.said = []

    def run(self, function, *messages):
        torch.cuda.nvtx.range_push(f"step:nccl seq={len(self.said)},tokens=1")
        function()
        torch.cuda.nvtx.range_pop()
        torch.cuda.synchronize()
        self.said.append(messages)


def main():
    rank, ranks, device = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    x, y = torch.ones(COUNT, device="cuda"), torch.empty(ranks * COUNT, device="cuda")
    small = x[:1024]
    average = dist.ReduceOp.AVG
    dist.all_reduce(x, op=average)  # initialises the world
    other = dist.new_group(list(range(ranks)))
    dist.all_reduce(small, op=average, group=other)
    torch.cuda.synchronize()

    steps = Steps()
    steps.run(lambda: dist.all_reduce(x, op=average), ("world", 4 * COUNT))
    steps.run(lambda: dist.all_reduce(small, op=average, group=other), ("other", 4096))
    steps.run(lambda: (dist.all_reduce(small, op=average), dist.all_reduce(x, op=average, group=other)), ("world", 4096), ("other", 4 * COUNT))

    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):
        dist.all_reduce(x, op=average)
        dist.all_reduce(small, op=average, group=other)
    for _ in range(3):
        steps.run(graph.replay, ("world", 4 * COUNT), ("other", 4096))

    several = [("world", 4 * COUNT)] if ranks > 1 else []
    steps.run(lambda: dist.all_gather_into_tensor(y, x), *several)
    steps.run(lambda: dist.broadcast(x, 0), *several)
    if ranks > 1:
        peer = rank ^ 1
        if peer < ranks:
            # Both in one group, so one launch: its bytes are those of the send and the receive.
            pair = lambda: [w.wait() for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, y[:COUNT], peer)])]
            pair()
            torch.cuda.synchronize()
            steps.run(pair, ("any", 8 * COUNT))
    del graph
    print(json.dumps({"steps": steps.said, "rank": rank, "ranks": ranks, "device": device}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
