"""What a collector that is missing, stopped, killed or new does to the engine: nothing but losses, and those counted."""

import os
import signal
import statistics
import time

from cost import turn
from rig import Collector, environment, worker

KIND, BOUND_MB = "graph.48", 32
NOISE = 0.05  # of the median step time, between phases of one process: its clocks drift by as much


def memory(pid):
    """Resident MiB of a process."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) // 1024


def faults(seconds=8):
    """The table's lines. Steps run back to back for so long in each phase; the shim may keep BOUND_MB MiB."""
    collector = Collector()
    env = environment(collector.socket, KERNHES_SOFTWARE="on", KERNHES_RUN="faults", KERNHES_LINGER_MS="5000",
                      KERNHES_BUFFER_MB=str(BOUND_MB))
    engine = worker("turns", env=env, stdin=-1)
    while "ready" not in engine.stdout.readline():
        if engine.poll() is not None:
            raise RuntimeError("the worker did not start")
    phases, ran = {}, 0

    def phase(name):
        nonlocal ran
        took, until = [], time.time() + seconds
        while time.time() < until:
            took += turn(engine, KIND)
            ran += 23  # 3 of a turn's steps are not timed
        phases[name] = {"p50_ms": round(statistics.median(took) * 1e3, 3), "rss_mib": memory(engine.pid)}

    try:
        phase("no collector yet")
        collector.start()
        phase("connected")
        collector.process.send_signal(signal.SIGSTOP)
        phase("stopped (SIGSTOP)")
        collector.process.send_signal(signal.SIGCONT)
        phase("continued")
        collector.stop(signal.SIGKILL)
        phase("killed")
        collector.start()
        phase("restarted")
        os.unlink(collector.socket)
        phase("socket removed")
    finally:
        engine.stdin.close()
        engine.wait(60)
    session = collector.session(engine.pid, 20)
    steps, _ = collector.lines({engine.pid})
    collector.__exit__()
    faults = []
    base = phases["connected"]["p50_ms"]
    faults += [f"{name}: {p['p50_ms'] / base:.3f} of connected" for name, p in phases.items() if abs(p["p50_ms"] / base - 1) > NOISE]
    # What the shim may hold, and what its pool and its queue's fragments may come to.
    grown = max(p["rss_mib"] for p in phases.values()) - phases["no collector yet"]["rss_mib"]
    if grown > BOUND_MB + 32:
        faults.append(f"resident memory grew by {grown} MiB")
    if engine.returncode != 0 or session is None:
        faults.append(f"the engine ended with {engine.returncode}, session {session}")
    ids = [step["id"] for step in steps]
    if len(ids) != len(set(ids)):
        faults.append("a step came twice")
    if len(ids) < ran and session and not session["dropped"]:
        faults.append(f"{ran - len(ids)} steps are missing and nothing was counted as lost")
    detail = {"faults": faults, "phases": phases, "steps_run": ran, "steps_told": len(ids),
              "complete": sum(s["complete"] for s in steps), "dropped": session and session["dropped"]}
    return [("collector missing, stopped, killed, restarted, socket removed", not faults, detail)]
