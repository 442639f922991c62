"""What runs in an engine process of these measurements: `worker.py check|count|turns`. It prints JSON lines."""

import contextlib
import ctypes
import faulthandler
import gc
import json
import os
import sys
import tempfile
import time

import torch

from decoder import Steps, join_ranks, leave_ranks

PREFILLS, EAGER, GRAPHS = (512, 1024, 2048), (1, 48), (1, 8, 48)
WARM = 3  # steps of a turn that are not timed
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
    leave_ranks(steps)


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


@contextlib.contextmanager
def profiled():
    """torch.profiler around what is in it."""
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True)
    profiler.start()
    try:
        yield profiler
    finally:
        profiler.stop()


def profiled_kernels(run):
    """Counts the kernels that a function launches with torch.profiler."""
    with profiled() as profiler:
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
        nodes = graph_kernels(steps.graphs[kind]) if kind in steps.graphs else None
        say(kind=kind, profiled=profiled_kernels(lambda: steps.run(kind)), nodes=nodes)
    leave_ranks(steps)


def turns():
    """Takes lines from stdin and answers each with one of JSON; the end of stdin ends it.

    `run KIND COUNT`: the seconds that each step took, waited for. `profile KIND COUNT`: the same with torch.profiler, and
    how many kernels that saw. `add SEQS`: makes one more graph. The first line says the kernels of each graph.
    """
    gc.disable()
    steps = Steps(join_ranks())
    profiling = sys.argv[2:] == ["profiler"]

    def kernels():
        return {kind: graph_kernels(graph) for kind, graph in steps.graphs.items()}

    def run(kind, number):
        for _ in range(WARM):
            steps.run(kind)
        torch.cuda.synchronize()
        took = []
        for _ in range(number):
            began = time.perf_counter()
            steps.run(kind)
            torch.cuda.synchronize()
            took.append(time.perf_counter() - began)
        return took

    for seqs in (1, 48):
        steps.add_eager(seqs)
        steps.add_graph(seqs)
    torch.cuda.synchronize()
    if "CPUS" in os.environ:  # of this thread alone; it is the one that launches
        os.sched_setaffinity(0, [int(cpu) for cpu in os.environ["CPUS"].split(",")])
    say(kernels=kernels())
    for line in sys.stdin:
        command, *args = line.split()
        if command == "add":
            steps.add_graph(int(args[0]))
            say(kernels=kernels())
            continue
        kind, number = args[0], int(args[1])
        if command == "profile":
            took = []
            seen = profiled_kernels(lambda: took.extend(run(kind, number)))
            say(took=took, ran=WARM + number, seen=seen)
        else:
            with profiled() if profiling else contextlib.nullcontext():
                took = run(kind, number)
            free, whole = torch.cuda.mem_get_info()
            say(took=took, ran=WARM + number, gpu_mib=(whole - free) >> 20)


if __name__ == "__main__":
    if sys.argv[1] != "turns":
        faulthandler.dump_traceback_later(int(os.environ.get("PATIENCE", "90")), exit=True)  # a hang says where it is
    {"check": check, "count": count, "turns": turns}[sys.argv[1]]()
