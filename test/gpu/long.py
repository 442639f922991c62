"""Minutes at full rate: whether memory and latency stay what they were."""

import statistics
import time

from rig import Collector, Engine, environment, resident

KIND = "graph.1"  # the one with the most kernels a second
SLICES = 12
DRIFT = 1.02  # of latency, the last third of the slices to the first
MIB = 16  # by which memory may differ, likewise


def long(seconds):
    """The table's lines: steps back to back for so long, traced; by slice of the time what they took and what memory is in use."""
    faults, slices = [], []
    with Collector() as collector:
        engine = Engine(environment(collector.socket, KERNHES_SOFTWARE="on", KERNHES_RUN="long", KERNHES_LINGER_MS="5000")).ready()
        engine.do("run", KIND, 500)
        for _ in range(SLICES):
            took, until, gpu = [], time.time() + seconds / SLICES, 0
            while time.time() < until:
                said = engine.do("run", KIND, 200)
                took, gpu = took + said["took"], said["gpu_mib"]
            took.sort()
            slices.append({"steps": len(took), "p50_ms": statistics.median(took) * 1e3, "p99_ms": took[len(took) * 99 // 100] * 1e3,
                           "engine_mib": resident(engine.pid), "collector_mib": resident(collector.process.pid), "gpu_mib": gpu})
        metrics = {k.partition("{")[0]: v for k, v in collector.metrics().items() if k.startswith("kern_shim")}
        code = engine.stop()
        session = collector.session(engine.pid, 20)
        steps, _ = collector.lines({engine.pid})
    third = SLICES // 3

    def ends(name):
        return [statistics.median(s[name] for s in some) for some in (slices[:third], slices[-third:])]

    for name in ("p50_ms", "p99_ms"):
        first, last = ends(name)
        if last > first * DRIFT:
            faults.append(f"{name} went from {first:.3f} to {last:.3f}")
    for name in ("engine_mib", "collector_mib", "gpu_mib"):
        first, last = ends(name)
        if last > first + MIB:
            faults.append(f"{name} went from {first} to {last}")
    if code != 0 or session is None:
        return [("minutes at full rate", False, {"faults": [f"the engine ended with {code}, session {session}"], "slices": slices})]
    each = engine.kernels[KIND]
    wrong = [s for s in steps if not s["complete"] or s["kernels"] != each]
    if len(steps) != engine.ran or wrong:
        faults.append(f"{engine.ran} steps ran, {len(steps)} told, {len(wrong)} not complete or not of {each} kernels: {wrong[:1]}")
    odd = {k: session[k] for k in ("late", "invalid", "duplicate", "missing", "pending") if session[k]}
    odd.update({k: n for k, n in (session["dropped"] or {}).items() if n})
    if odd:
        faults.append(f"{odd}")
    return [("minutes at full rate", not faults, {"faults": faults, "kernels": session["kernels"], "a_second": round(engine.ran * each / seconds),
                                                  "slices": slices, "metrics": metrics})]
