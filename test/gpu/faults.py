"""What a collector that is missing, stopped, slow, killed or new does to the engine: nothing but losses, and those counted."""

import os
import signal
import statistics
import threading
import time

from rig import Collector, Engine, environment, eventually, resident

KIND, BOUND_MB = "graph.48", 32
NOISE = 0.05  # of the median step time, between phases of one process: its clocks drift by as much


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


def run_for(engine, seconds):
    """Steps back to back; what they took."""
    took, until = [], time.time() + seconds
    while time.time() < until:
        took += engine.do("run", KIND, 50)["took"]
    return took


def outside_steps():
    """Kernels that such an engine launches before its first step, as another process of the same kind shows."""
    with Collector() as collector:
        engine = Engine(environment(collector.socket, KERNHES_SOFTWARE="on", KERNHES_LINGER_MS="5000")).ready()
        engine.stop()
        return collector.session(engine.pid, 10)["kernels"]


def faults(seconds=8, stopped=30):
    """The table's lines. Steps run back to back for so long in each phase; the shim may keep BOUND_MB MiB.

    What the engine launched is counted apart: its graph's kernels times its steps, and what it launches before those. The
    shim must have seen as many, and of the steps' kernels each must have been told, by one collector or another, or be
    counted as lost.
    """
    collector = Collector(reconnect="60s")
    before = outside_steps()
    engine = Engine(environment(collector.socket, KERNHES_SOFTWARE="on", KERNHES_RUN="faults", KERNHES_LINGER_MS="5000",
                                KERNHES_BUFFER_MB=str(BOUND_MB))).ready()
    phases, by_reason, faults = {}, {}, []

    def phase(name, length=seconds):
        phases[name] = {"p50_ms": round(statistics.median(run_for(engine, length)) * 1e3, 3), "rss_mib": resident(engine.pid)}

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
        killed = threading.Timer(seconds / 2, collector.stop, [signal.SIGKILL])  # under load
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
    session = collector.session(engine.pid, 20)
    steps, _, acks = collector.journal({engine.pid})
    collector.__exit__()
    base = phases["connected"]["p50_ms"]
    faults += [f"{name}: {p['p50_ms'] / base:.3f} of connected" for name, p in phases.items() if abs(p["p50_ms"] / base - 1) > NOISE]
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
    if launched != sum(told) + sum(lost):
        faults.append(f"{launched} kernels were launched, {told} told in steps and outside, {lost} counted as lost by the two collectors")
    detail = {"faults": faults, "phases": phases, "steps_run": engine.ran, "steps_told": len(ids), "complete": sum(s["complete"] for s in steps),
              "kernels_a_step": each, "before_steps": before, "launched": launched, "told": told, "lost": lost, "records_lost": by_reason,
              "missing": last["shim_kernels_missing"], "acks": {k: sum(a[k] for a in acks) for k in ("late", "invalid", "duplicate")}}
    return [("collector missing, stopped, slow, killed, restarted, socket removed", not faults, detail)]
