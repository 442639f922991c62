"""What each state costs: processes that differ in it alone take turns on the GPU, 20 steps at a time."""

import json
import random
import statistics

from rig import BARE, Collector, environment, worker

STEPS = 20  # a turn
LAYERS = "12"  # of 36: some 400 kernels a step, and seven such decoders fit the time and the GPU


def settings(socket):
    """Name, environment and arguments of each process. `bare` comes first: the others are held against it."""
    software = dict(KERNHES_SOFTWARE="on", KERNHES_RUN="cost")
    return {
        "bare": (environment(), ()),
        "bare again": (environment(), ()),
        "a library that does nothing": (environment(CUDA_INJECTION64_PATH=BARE, BARE="idle"), ()),
        "shim, tracing off": (environment(socket), ()),
        "software": (environment(socket, **software), ()),
        "software, no NVTX": (environment(socket, NVTX_INJECTION64_PATH=None, **software), ()),
        "CUPTI, records dropped": (environment(CUDA_INJECTION64_PATH=BARE), ()),
        "torch.profiler": (environment(), ("profiler",)),
    }


def interval(ratios):
    """Median and its 95% interval, by bootstrap over the turns."""
    if len(ratios) < 2:
        return ratios * 3
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(1000))
    return statistics.median(ratios), medians[25], medians[974]


def turn(process, kind):
    process.stdin.write(f"{kind} {STEPS}\n")
    process.stdin.flush()
    for line in process.stdout:
        if line.startswith("{"):
            return json.loads(line)["took"]
    raise RuntimeError("a worker ended")


def measure(processes, kind, rounds):
    """Seconds of all steps by setting, by turn."""
    took = {name: [] for name in processes}
    for i in range(rounds):
        names = [n for n in processes if n != "torch.profiler" or i % 5 == 0]
        random.Random(i).shuffle(names)
        for name in names:
            took[name].append((i, turn(processes[name], kind)))
    return took


def cost(rounds, show, kinds):
    """Shows and returns rows of graph kinds for so many rounds, of others for two fifths {kind, setting, steps, p50, p99 (ms), ratio to bare: median, low, high, and to the bare client of CUPTI}."""
    rows = []
    with Collector() as collector:
        processes = {name: worker("turns", *args, env=dict(env, DECODER_LAYERS=LAYERS), stdin=-1) for name, (env, args) in settings(collector.socket).items()}
        try:
            for process in processes.values():
                while "ready" not in process.stdout.readline():
                    if process.poll() is not None:
                        raise RuntimeError("a worker did not start")
            for kind in kinds:
                some = summary(kind, measure(processes, kind, rounds if kind.startswith("graph") else rounds * 2 // 5))
                show(some)
                rows += some
            metrics = {k: v for k, v in collector.metrics().items() if k.startswith("kern_shim") or "dropped" in k}
        finally:
            for process in processes.values():
                process.stdin.close()
            for process in processes.values():
                process.wait(60)
    return rows, metrics


def summary(kind, took):
    def against(name, base):
        other = {i: statistics.median(steps) for i, steps in took[base]}
        return interval([statistics.median(steps) / other[i] for i, steps in took[name] if i in other])

    rows = []
    for name, turns in took.items():
        steps = sorted(s for _, some in turns for s in some)
        rows.append({
            "kind": kind, "setting": name, "steps": len(steps),
            "p50_ms": statistics.median(steps) * 1e3, "p99_ms": steps[int(len(steps) * 0.99)] * 1e3,
            "to_bare": against(name, "bare"), "to_cupti": against(name, "CUPTI, records dropped"),
        })
    return rows
