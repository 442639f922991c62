"""An engine in PyTorch for windows: `windows_engine.py LOAD TIMES BARE RANGES`. It runs until its stdin closes.

LOAD: ahead (a graph, three steps ahead), wait (the same, each waited for), eager, mixed (graphs made before, between and in windows,
eager steps, and beside them threads of copies, queries, memsets, host callbacks and eager kernels), hostcb (as ahead, with host
callbacks that need the GIL). TIMES: a file for the unix ns at which each step began. BARE: seconds of the same steps without any range
before the first one. RANGES: torch (it keeps the GIL), cdll (it lets go of it).
"""

import array
import ctypes
import faulthandler
import json
import os
import sys
import threading
import time

import torch
import torch.nn.functional as F

from rig import STEPS_LIBRARY
from worker import graph_kernels

load, times_path, bare_seconds, how = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
H, D, L = 2048, 4096, 24
ended = threading.Event()


def weight(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02


if how == "torch":
    push, pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
else:
    library = ctypes.CDLL(STEPS_LIBRARY)
    push, pop = (lambda text: library.steps_push(text.encode())), library.steps_pop

layers = [(weight(H, H), weight(H, 2 * D), weight(D, H)) for _ in range(L)]
one = torch.ones(H, device="cuda", dtype=torch.bfloat16)


length = ctypes.CDLL(None).strlen


def nothing(text):
    """What a range costs without a tool: a call of C with the text."""
    length(text.encode())


def forward(x, ranges=False):
    for i, (a, g, d) in enumerate(layers):
        if ranges:
            push(f"layer.{i}")
        x = x + F.rms_norm(x, (H,), one) @ a
        h = F.rms_norm(x, (H,), one) @ g
        p, q = h.chunk(2, -1)
        x = x + (F.silu(p) * q) @ d
        if ranges:
            pop()
    return x


def capture(tokens, ranges):
    """A graph and its number of kernels."""
    x, side = weight(tokens, H), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        forward(x), forward(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    # Other threads go on with calls that a global capture forbids.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        y = forward(x, ranges)
    graph.instantiate()
    return graph, graph_kernels(graph), (x, y)


def copies():
    stream, event = torch.cuda.Stream(), torch.cuda.Event()
    a, b = torch.empty(1 << 20, device="cuda"), torch.empty(1 << 20, pin_memory=True)
    cuda, nothing = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None).free
    with torch.cuda.stream(stream):
        while not ended.is_set():
            b.copy_(a, non_blocking=True)
            assert cuda.cuLaunchHostFunc(ctypes.c_void_p(stream.cuda_stream), nothing, None) == 0
            event.record(stream)
            while not event.query():
                time.sleep(0.0002)
            a.zero_()
            torch.cuda.mem_get_info()


def eagerly():
    x = weight(64, H)
    with torch.cuda.stream(torch.cuda.Stream()) as _, torch.no_grad():
        while not ended.is_set():
            for _ in range(20):
                x = torch.tanh(x @ layers[0][0])
            torch.cuda.current_stream().synchronize()


def main():
    if os.environ.get("PATIENCE"):
        faulthandler.dump_traceback_later(int(os.environ["PATIENCE"]), exit=True)
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    times, bare_until = array.array("Q"), 0
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
    cuda = ctypes.CDLL("libcuda.so.1")
    with torch.no_grad():
        before, x = capture(2, False), weight(1, H)  # the same work as that of the graph that is heard
        graphs, events, stream = [before], [torch.cuda.Event() for _ in range(4)], torch.cuda.Stream()
        threads = [threading.Thread(target=f) for f in ((copies, eagerly) if load == "mixed" else ())]
        begun, bare, i, made = time.time(), bare_seconds > 0, 0, 0
        with torch.cuda.stream(stream):
            while not ended.is_set():
                if bare and time.time() - begun > bare_seconds:
                    torch.cuda.synchronize()
                    bare, bare_until = False, time.time_ns()
                if not bare and made == 0:
                    push("engine"), pop()  # the first range: captures are heard from here on
                    graphs.append(capture(2, True))
                    made = 1
                    [t.start() for t in threads]
                    print(json.dumps({"ready": True, "bare_until": bare_until}), flush=True)
                if not bare and load == "mixed" and i % 700 == 699:
                    graphs = graphs[:2] + [capture(3, True)]
                    made += 1
                graph, kernels, _ = graphs[i % len(graphs)] if load == "mixed" else graphs[-1] if not bare else before
                eager = load == "eager" or (load == "mixed" and i % 5 == 4)
                times.append(time.time_ns())
                text = f"step:{'eager' if eager else 'graph'} seq={i}" + ("" if eager else f",n={kernels}")
                if bare:
                    nothing(text)  # what Python takes for a range is not the shim's
                else:
                    push(text)
                if eager:
                    forward(x)
                else:
                    graph.replay()
                if load == "hostcb" and not bare:
                    assert cuda.cuLaunchHostFunc(ctypes.c_void_p(stream.cuda_stream), callback, None) == 0
                if bare:
                    nothing("")
                else:
                    pop()
                events[i % 4].record(stream)
                if load == "wait":
                    stream.synchronize()
                elif i >= 3:
                    events[(i + 1) % 4].synchronize()
                i += 1
        ended.set()
        [t.join() for t in threads if t.is_alive()]
        torch.cuda.synchronize()
    with open(times_path, "wb") as f:
        times.tofile(f)
    print(json.dumps({"steps": i, "made": made, "rss_kb": int(open("/proc/self/statm").read().split()[1]) * 4}), flush=True)
    os._exit(0) if os.environ.get("ABRUPT") else None


main()
