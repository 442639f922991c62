"""What a collector that is missing, stopped, slow, killed or new does to the engine: nothing but losses, and those counted."""

import os
import signal
import statistics
import threading
import time

from cost import interval
from rig import Collector, Engine, environment, eventually, resident

KIND, BOUND_MB = "graph.48", 16
NOISE = 0.02  # more of the ratio between two processes than when all is well


class Slow:
    """Lets a process run for a twentieth of the time."""

    def __init__(self, process):
        self.process, self.over = process, threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while not self.over.is_set():
            for how, seconds in ((signal.SIGSTOP, 0.19), (signal.SIGCONT, 0.01)):
                self.process.send_signal(how)
                time.sleep(seconds)

    def end(self):
        self.over.set()
        self.thread.join()


def side_by_side(engine, other, seconds):
    """Steps back to back, in turns with another engine; its median step in ms, and the ratio to the other's: median, low, high."""
    medians, until = [], time.time() + seconds
    while time.time() < until:
        took = {}
        for e in (engine, other) if len(medians) % 2 else (other, engine):
            took[e] = statistics.median(e.do("run", KIND, 25)["took"])
        medians.append((took[engine], took[other]))
    return round(statistics.median(m for m, _ in medians) * 1e3, 3), [round(x, 4) for x in interval([m / o for m, o in medians])]


def outside_steps():
    """Kernels that such an engine launches before its first step, as another process of the same kind shows."""
    with Collector() as collector:
        engine = Engine(environment(collector.socket, KERNHES_SOFTWARE="on", KERNHES_LINGER_MS="5000")).ready()
        engine.stop()
        return collector.session(engine.pid, 10)["kernels"]


def faults(seconds=7, stopped=30):
    """The table's lines. Steps run back to back for so long in each phase; the shim may keep BOUND_MB MiB. Another engine,
    whose collector is well, takes turns with this one.

    What the engine launched is counted apart: its graph's kernels times its steps, and what it launches before those. The
    shim must have seen as many, and each must have been told, by one collector or another, or be counted as lost. What the
    killed collector told of and did not acknowledge may be both: the shim had to drop it, and cannot know.
    """
    collector, well = Collector(reconnect="60s"), Collector().start()
    software = dict(KERNHES_SOFTWARE="on", KERNHES_LINGER_MS="5000")
    engine = Engine(environment(collector.socket, KERNHES_RUN="faults", KERNHES_BUFFER_MB=str(BOUND_MB), **software))
    other = Engine(environment(well.socket, **software))
    before = outside_steps()
    engine.ready(), other.ready()
    phases, by_reason, faults, double = {}, {}, [], 0

    def phase(name, length=seconds):
        p50, ratio = side_by_side(engine, other, length)
        phases[name] = {"p50_ms": p50, "to_other": ratio, "rss_mib": resident(engine.pid)}

    def kill():
        nonlocal double
        collector.stop(signal.SIGKILL)
        steps, _, acks = collector.journal()
        acknowledged = max(ack["frame"] for ack in acks)
        double = sum(step["kernels"] for step in steps if step["frame"] > acknowledged)

    def settle():
        """Waits until the collector is done with what it has; its books."""
        if not eventually(lambda: collector.engine(engine.pid)["open_frames"] == 0, 20):
            faults.append(f"the collector is not done with what it has: {collector.engine(engine.pid)['held_by']}")
        time.sleep(2.5)  # the shim says once a second what it saw
        said = collector.engine(engine.pid)
        by_reason.update({k: by_reason.get(k, 0) + n for k, n in said["lost"].items()})
        rank = said["ranks"][0]
        if any(rank["residue"].values()):
            faults.append(f"residues: {rank['residue']}")
        return rank["books"]

    try:
        phase("no collector yet")
        collector.start()
        phase("connected")
        collector.process.send_signal(signal.SIGSTOP)
        phase("stopped (SIGSTOP)", stopped)
        collector.process.send_signal(signal.SIGCONT)
        phase("continued")
        slow = Slow(collector.process)
        phase("slow: runs a twentieth of the time", 2 * seconds)
        slow.end()
        phase("as fast as before")
        first = settle()
        killed = threading.Timer(seconds / 2, kill)  # under load
        killed.start()
        phase("killed")
        killed.join()
        collector.start()
        phase("restarted")
        os.unlink(collector.socket)
        phase("socket removed")
        last = settle()
    finally:
        code = engine.stop()
        other.stop()
        well.__exit__()
    session = collector.session(engine.pid, 20)
    steps, _, acks = collector.journal({engine.pid})
    collector.__exit__()
    # The ratio also rises if the other engine becomes faster, and the time if the GPU's clock falls: a cost shows in both.
    base, well_ms = phases["connected"]["to_other"][2], phases["connected"]["p50_ms"]
    faults += [f"{name}: at least {p['to_other'][1]:.3f} of the other, connected at most {base:.3f}" for name, p in phases.items()
               if p["to_other"][1] > base + NOISE and p["p50_ms"] > well_ms]
    # What the shim may hold, and what its pool and its queue's fragments may come to.
    grown = max(p["rss_mib"] for p in phases.values()) - phases["no collector yet"]["rss_mib"]
    if grown > BOUND_MB + 32:
        faults.append(f"resident memory grew by {grown} MiB")
    if code != 0 or session is None:
        faults.append(f"the engine ended with {code}, session {session}")
    ids = [step["id"] for step in steps]
    if len(ids) != len(set(ids)):
        faults.append("a step came twice")
    each = engine.kernels[KIND]
    launched = before + engine.ran * each
    if last["shim_kernels"] != launched:
        faults.append(f"the shim saw {last['shim_kernels']} kernels, {launched} were launched")
    told = sum(step["kernels"] for step in steps), sum(ack["outside"] for ack in acks)
    lost = [b["shim_kernels_lost"] for b in (first, last)]
    if not 0 <= sum(told) + sum(lost) - launched <= double:
        faults.append(f"{launched} kernels were launched, {told} told in steps and outside, {lost} counted as lost by the two collectors, {double} maybe both")
    detail = {"faults": faults, "phases": phases, "steps_run": engine.ran, "steps_told": len(ids), "complete": sum(s["complete"] for s in steps),
              "kernels_a_step": each, "before_steps": before, "launched": launched, "told": told, "lost": lost, "maybe_both": double, "records_lost": by_reason,
              "missing": last["shim_kernels_missing"], "acks": {k: sum(a[k] for a in acks) for k in ("late", "invalid", "duplicate")}}
    return [("collector missing, stopped, slow, killed, restarted, socket removed", not faults, detail)]
