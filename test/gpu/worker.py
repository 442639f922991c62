"""What runs in an engine process of these measurements: `worker.py check|count|turns`. It prints JSON lines."""

import ctypes
import json
import os
import sys
import tempfile
import time

import torch

from decoder import Steps, join_ranks

PREFILLS, EAGER, GRAPHS = (512, 1024, 2048), (1, 48), (1, 8, 48)
KERNEL_NODE = 0  # CU_GRAPH_NODE_TYPE_KERNEL


def say(**line):
    print(json.dumps(line), flush=True)


def all_kinds(steps):
    for tokens in PREFILLS:
        steps.add_prefill(tokens)
    for seqs in EAGER:
        steps.add_eager(seqs)
    for seqs in GRAPHS:
        steps.add_graph(seqs)


def check():
    """Runs rounds of all kinds of steps, launched ahead of the GPU so that it never waits, and says what CUDA events said."""
    steps = Steps(join_ranks())
    all_kinds(steps)
    said = []
    for _ in range(int(sys.argv[2])):
        for kind in steps.kinds:
            # The GPU sleeps (in cycles, 2 per ns) while the step is launched; 1,024 launches at most can wait there.
            graph = kind in steps.graphs
            torch.cuda._sleep(4_000_000 if graph else 60_000_000)
            for _ in range(4 if graph else 1):
                said.append((kind, *steps.timed(kind)))
        torch.cuda.synchronize()
    say(steps=[(kind, seq, before.elapsed_time(after)) for kind, seq, before, after in said])
    if steps.ranks > 1:
        torch.distributed.destroy_process_group()


def graph_kernels(graph):
    """Counts a graph's kernel nodes by asking the driver."""
    cuda, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(graph.raw_cuda_graph())
    count = ctypes.c_size_t()
    assert cuda.cuGraphGetNodes(handle, None, ctypes.byref(count)) == 0
    nodes = (ctypes.c_void_p * count.value)()
    assert cuda.cuGraphGetNodes(handle, nodes, ctypes.byref(count)) == 0
    kinds = []
    for node in nodes:
        kind = ctypes.c_int()
        assert cuda.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)) == 0
        kinds.append(kind.value)
    return kinds.count(KERNEL_NODE)


def profiled_kernels(run):
    """Counts the kernels that a function launches with torch.profiler."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profiler:
        run()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path) as trace:
            return sum(e.get("cat") == "kernel" for e in json.load(trace)["traceEvents"])


def count():
    """Says how many kernels each kind of step has: by torch.profiler, and for graphs by their nodes."""
    steps = Steps(join_ranks())
    all_kinds(steps)
    profiled_kernels(lambda: steps.run("graph.1"))  # the profiler's own start
    for kind in steps.kinds:
        graph = steps.graphs.get(kind)
        say(kind=kind, profiled=profiled_kernels(lambda: steps.run(kind)), nodes=graph and graph_kernels(graph))


def turns():
    """Takes lines `KIND COUNT` and answers each with the seconds that its steps took, each waited for; `end` ends it."""
    steps = Steps(join_ranks())
    profiling = sys.argv[2:] == ["profiler"]
    for seqs in (1, 48):
        steps.add_eager(seqs)
        steps.add_graph(seqs)
    say(ready=os.getpid())
    for line in sys.stdin:
        if line.strip() == "end":
            break
        kind, number = line.split()
        profiler = None
        if profiling:
            profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True)
            profiler.start()
        for _ in range(3):
            steps.run(kind)
        torch.cuda.synchronize()
        took = []
        for _ in range(int(number)):
            began = time.perf_counter()
            steps.run(kind)
            torch.cuda.synchronize()
            took.append(time.perf_counter() - began)
        if profiler:
            profiler.stop()
        say(took=took)


if __name__ == "__main__":
    {"check": check, "count": count, "turns": turns}[sys.argv[1]]()
