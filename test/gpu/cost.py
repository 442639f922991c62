"""What each state costs: processes that differ in it alone take turns on the GPU, 20 steps at a time."""

import random
import re
import statistics

from rig import BARE, Collector, Engine, environment

STEPS = 20  # of a turn
SLOW = {"torch.profiler": 10}  # takes a turn of so many times the steps each so many rounds: it is slow to start and to stop
BARE_ONE, DROPPING, YIELDED = "bare", "CUPTI, records dropped", "software, yielded"
# Decoders small enough that all of them fit the GPU and the time: some 200 kernels a step of a graph, 130 of an eager one.
# They launch from the same few cores, one at a time: a step that the CPU launches takes as long as its core lets it.
SMALL = dict(DECODER_LAYERS="6", DECODER_EAGER_LAYERS="4", CPUS="4,5,6,7")
ONCE = ("shim, HES refused", YIELDED, "torch.profiler")  # the others have two processes, which take a setting's turns in turn:
# processes of one setting differ, too


def settings(socket):
    """Name, environment and arguments of the processes of each setting."""
    software = dict(KERNHES_SOFTWARE="on", KERNHES_RUN="software")
    return {
        BARE_ONE: (environment(), ()),
        "bare again": (environment(), ()),
        "shim, tracing off": (environment(socket), ()),
        "shim, HES refused": (environment(socket, KERNHES_HES="on"), ()),
        YIELDED: (environment(socket, **dict(software, KERNHES_RUN="yielded")), ()),
        "software": (environment(socket, **software), ()),
        "software, no NVTX": (environment(socket, NVTX_INJECTION64_PATH=None, **dict(software, KERNHES_RUN="no-nvtx")), ()),
        DROPPING: (environment(CUDA_INJECTION64_PATH=BARE), ()),
        "the same, launches called back": (environment(CUDA_INJECTION64_PATH=BARE, BARE="launches"), ()),
        "torch.profiler": (environment(), ("profiler",)),
    }


def interval(ratios):
    """Median and its 95% interval, by bootstrap over the turns."""
    if len(ratios) < 2:
        return ratios * 3
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(1000))
    return statistics.median(ratios), medians[25], medians[974]


def measure(engines, kind, rounds):
    """Seconds of all steps by setting, by round."""
    took = {name: [] for name in engines}
    for i in range(rounds):
        names = [n for n in engines if i % SLOW.get(n, 1) == 0]
        random.Random(i).shuffle(names)
        for name in names:
            engine = engines[name][i % len(engines[name])]
            took[name].append((i, engine.do("run", kind, STEPS * SLOW.get(name, 1))["took"]))
    return took


def cost(rounds, show, kinds):
    """Shows and returns rows {kind, setting, steps, p50 and p99 of a step (ms) and p99 of a graph's node (µs), ratio to bare: median, low, high,
    and to the bare client of CUPTI}; and what the shim says of itself in the setting `software`."""
    rows = []
    with Collector() as collector:
        engines = {name: [Engine(dict(env, **SMALL), *args) for _ in range(1 if name in ONCE else 2)]
                   for name, (env, args) in settings(collector.socket).items()}
        every = [e for some in engines.values() for e in some]
        try:
            for engine in every:
                engine.ready()
            said = collector.ask("yield", "--run", "yielded", "--seconds", 3600)
            if collector.engine(engines[YIELDED][0].pid)["subscribed"]:
                raise RuntimeError("it does not yield: " + said)
            for kind in kinds:
                some = summary(kind, measure(engines, kind, rounds), engines[BARE_ONE][0].kernels.get(kind))
                show(some)
                rows += some
            metrics = {}
            for line, value in collector.metrics().items():
                if line.startswith(("kern_shim", "kern_trace_cost")) and re.search('run="software["#]', line):
                    name = line.partition("{")[0] + (line[line.index('source="'):].split('"')[1] if 'source="' in line else "")
                    metrics[name] = metrics.get(name, 0) + value
        finally:
            for engine in every:
                engine.stop()
    return rows, metrics


def summary(kind, took, nodes):
    def against(name, base):
        other = {i: statistics.median(steps) for i, steps in took[base]}
        return interval([statistics.median(steps) / other[i] for i, steps in took[name] if i in other])

    rows = []
    for name, turns in took.items():
        steps = sorted(s for _, some in turns for s in some)
        p99 = steps[int(len(steps) * 0.99)]
        rows.append({
            "kind": kind, "setting": name, "steps": len(steps), "nodes": nodes,
            "p50_ms": statistics.median(steps) * 1e3, "p99_ms": p99 * 1e3, "p99_node_us": nodes and p99 * 1e6 / nodes,
            "to_bare": against(name, BARE_ONE), "to_cupti": against(name, DROPPING),
        })
    return rows
