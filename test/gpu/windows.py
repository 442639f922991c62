"""Windows on a GPU: whether leaving CUPTI at steps' boundaries keeps the process, brings every kernel of every window, and costs nothing outside.

WINDOWS (200): windows of each PyTorch load. PROCESSES (8), CLOSES (50): of the engine in plain C. LOADS, PARTS: which. All takes
some eight minutes.
"""

import array
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from hear import Hearer, RESUME, YIELD, windows as order
from rig import BIN, HERE, SHIM, environment

LENGTH, GAP = float(os.environ.get("LENGTH", "0.04")), 0.01
ENGINE = os.path.join(BIN, "engine")
# CUPTI for the engine in plain C, which brings none.
CUPTI = os.environ.get("CUPTI") or next((path for root in sys.path for path in glob.glob(root + "/nvidia/**/libcupti.so.13", recursive=True)), None)


def bound(faults, tries):
    """The 95% bound of a probability: by the rule of three where there was no fault."""
    return round(3 / tries, 5) if not faults else None


def say(what, passed, detail):
    print(f"{'ok  ' if passed else 'FAIL'} {what}: {json.dumps(detail)}", flush=True)
    return what, passed, detail


def settings(path, preload=False, **more):
    env = environment(path, KERNHES_SOFTWARE="windows", KERNHES_LINGER_MS="2000", KERNHES_CUPTI=CUPTI, **more)
    if preload:
        env["LD_PRELOAD"] = SHIM
        del env["CUDA_INJECTION64_PATH"], env["NVTX_INJECTION64_PATH"]
    return env


def steps_outside(path, windows, bare_until):
    """Medians, ms, of bare steps (first and second half), of steps outside windows, and of steps in windows; how many, and the longest ones."""
    times = array.array("Q")
    with open(path, "rb") as f:
        times.frombytes(f.read())
    bare, outside, inside, edges, at = [], [], [], [], 0
    spans = [(on, off) for _, on, off, _, _ in windows if off]
    for began, ended in zip(times, times[1:]):
        while at < len(spans) and spans[at][1] + 30_000_000 < began:
            at += 1
        near = at < len(spans) and ended > spans[at][0] - 30_000_000
        if ended <= bare_until:
            bare.append(ended - began)
        elif began < bare_until or not spans or began < spans[0][0]:
            continue
        elif not near:
            outside.append(ended - began)
        elif began >= spans[at][0] and ended <= spans[at][1]:
            inside.append(ended - began)
        else:
            edges.append(ended - began)

    def median(some):
        return round(statistics.median(some) / 1e6, 4) if some else None

    half = len(bare) // 2
    said = {"bare_ms": median(bare), "bare_halves": [median(bare[: half]), median(bare[half:])], "outside_ms": median(outside), "inside_ms": median(inside),
            "steps": [len(bare), len(outside), len(inside)], "longest_edge_ms": round(max(edges, default=0) / 1e6, 2)}
    if bare and outside:
        said["outside_to_bare"] = round(statistics.median(outside) / statistics.median(bare), 4)
        said["halves"] = round(statistics.median(bare[half:]) / statistics.median(bare[:half]), 4)
    return said


def pytorch(hearer, load, how, count, seconds):
    """One engine process in PyTorch, with `count` windows."""
    times = tempfile.mktemp(prefix="kernhes-times-")
    env = settings(hearer.path, KERNHES_RUN=load, PATIENCE=str(int(seconds + 60)))
    process = subprocess.Popen([sys.executable, os.path.join(HERE, "windows_engine.py"), load, times, "4", how], env=env, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    ready = json.loads(process.stdout.readline() or "{}")
    session = hearer.session(process.pid, 30)
    if session is None:
        process.kill()
        return say(f"{load}, {how}", False, "no session")
    session.place()
    until = time.time() + seconds
    ordered = order(session, lambda: process.poll() is None, count, LENGTH, GAP, until)
    time.sleep(0.2)
    state = session.state()
    process.stdin.close()
    try:
        out, code = process.stdout.read(), process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        out, code = "", "hung"
    session.join(5)
    summary = session.summary()
    detail = {"exit": code, "ordered": ordered, **summary, "at_end": state}
    if os.path.exists(times):
        detail.update(steps_outside(times, session.done, ready.get("bare_until", 0)))
        os.unlink(times)
    said = re.findall(r"\{.*\}", out)
    detail["engine"] = json.loads(said[-1]) if said else None
    good = code == 0 and not summary["faults"] and (load == "hostcb" or summary["windows"] >= ordered * 0.9 > 0)
    if "outside_to_bare" in detail and load in ("ahead", "wait"):
        noise = abs(detail["halves"] - 1)
        good = good and detail["outside_to_bare"] <= 1 + noise + 0.003
    return say(f"{load}, ranges by {how}: {summary['windows']} windows", good, detail)


def plain(hearer, seconds, closes, *what, preload=False, **more):
    """One process of the engine in plain C; its summary."""
    process = subprocess.Popen([ENGINE, str(seconds), *what], env=settings(hearer.path, preload, **more), text=True, stdout=subprocess.PIPE)
    session, until = hearer.session(process.pid, 20), time.time() + seconds
    if session is None:
        process.kill()
        return {"exit": "no session", "windows": 0, "faults": [], "ordered": 0}
    session.place()
    ordered = order(session, lambda: process.poll() is None, closes, 0.02, 0.005, until - 0.3)
    state = session.state()
    try:
        out, code = process.stdout.read(), process.wait(seconds + 30)
    except subprocess.TimeoutExpired:
        process.kill()
        out, code = "", "hung"
    session.join(5)
    lines = re.findall(r"\{.*\}", out)
    return {"exit": code, "ordered": ordered, **session.summary(), "at_end": state, "engine": json.loads(lines[-1]) if lines else None}


def several(hearer, name, processes, seconds, closes, *what, must=True, may_end=False, preload=False, **more):
    """Processes of one kind, one after the other: together they say how many closes went without a fault. may_end: that one is lost is
    what is to be found out."""
    results = []
    for _ in range(processes):
        results.append(plain(hearer, seconds, closes, *what, preload=preload, **more))
        if results[-1]["exit"] != 0:
            print("#", name, json.dumps(results[-1]), flush=True)
        if len([r for r in results if r["exit"] != 0]) >= 3:
            break  # it is clear enough
    total = sum(r["windows"] for r in results)
    dead = [r["exit"] for r in results if r["exit"] != 0]
    faults = [f for r in results for f in r["faults"]]
    engines = [r["engine"] for r in results if r.get("engine")]
    detail = {"processes": len(results), "windows": total, "dead": dead, "faults": faults[:3], "of": len(faults),
              "whole_steps": sum(r.get("whole_steps_in_windows", 0) for r in results), "steps": sum(e["steps"] for e in engines),
              "captures": sum(e["captures"] for e in engines), "invalidated": sum(e["invalidated"] for e in engines),
              "holds_failed": sum(r.get("holds_failed", 0) for r in results), "held_ms": [r.get("held_ms") for r in results][:3],
              "finalize_ms": [r.get("finalize_ms") for r in results][:3], "labelled": [r.get("labelled") for r in results][:3],
              "states": sorted({str(r.get("at_end")) for r in results})[:3], "bound_95": bound(len(dead), max(total, 1))}
    good = may_end or not dead and not faults and detail["invalidated"] == 0 and (total > 0 or not must)
    return say(f"{name}: {len(results)} processes", good, detail)


def cost(hearer):
    """Step times of the plain engine: bare, with windows, bare again, in processes that take turns."""
    took = {"bare": [], "again": [], "outside": []}
    for turn in range(int(os.environ.get("TURNS", "3"))):
        for name in ("bare", "outside", "again"):
            times = tempfile.mktemp(prefix="kernhes-times-")
            if name == "outside":
                process = subprocess.Popen([ENGINE, "4", "ahead", "ns=7000"], env=settings(hearer.path, ENGINE_TIMES=times), text=True, stdout=subprocess.DEVNULL)
                session = hearer.session(process.pid, 20)
                session.place()
                order(session, lambda: process.poll() is None, 20, 0.02, 0.1, time.time() + 3)
            else:
                process = subprocess.Popen([ENGINE, "4", "ahead", "ns=7000"], env=environment(ENGINE_TIMES=times), text=True, stdout=subprocess.DEVNULL)
            process.wait(30)
            if name == "outside":
                session.join(5)
                took[name].append(steps_outside(times, session.done, 0)["outside_ms"])
            else:
                with open(times, "rb") as f:
                    all_times = array.array("Q", f.read())
                took[name].append(round(statistics.median(b - a for a, b in zip(all_times[500:], all_times[501:])) / 1e6, 4))
            os.unlink(times)
    bare = statistics.median(took["bare"])
    ratio, again = statistics.median(took["outside"]) / bare, statistics.median(took["again"]) / bare
    return say("plain engine, step outside windows to bare", ratio <= max(again, 1) + 0.003, {"ratio": round(ratio, 4), "again": round(again, 4), **took})


def unheld(hearer, count=4):
    """Processes whose steps have no known place: after a minute CUPTI is left without an edge, under load; nothing was ever recorded."""
    processes = [subprocess.Popen([ENGINE, "70", "ahead", "side", "eager"], env=settings(hearer.path), text=True, stdout=subprocess.DEVNULL) for _ in range(count)]
    sessions = [hearer.session(p.pid, 20) for p in processes]
    codes = [p.wait(90) for p in processes]
    states = [s and s.states for s in sessions]
    good = not any(codes) and all(s and any(state[1] == "detached" for state in s) for s in states)
    return say("no place of steps: left after a minute, not held", good, {"exit": codes, "states": [s and s[-2:] for s in states]})


def yielding(hearer):
    """A yield in an open window, and back: then windows go on."""
    process = subprocess.Popen([ENGINE, "9", "ahead"], env=settings(hearer.path), text=True, stdout=subprocess.PIPE)
    session = hearer.session(process.pid, 20)
    session.place()
    alive = lambda: process.poll() is None
    first = order(session, alive, 3, 0.02, 0.005, time.time() + 3)
    session.order(1000, 0.0, 1.0)
    time.sleep(0.3)
    session.control(YIELD, 3_600_000_000_000)
    time.sleep(0.8)
    yielded = session.state()
    session.order(1001, 0.0, 0.1)
    time.sleep(0.3)
    blocked = session.counted()
    session.control(RESUME)
    time.sleep(1.0)
    back = session.state()
    after = order(session, alive, 5, 0.02, 0.005, time.time() + 2)
    out, code = process.stdout.read(), process.wait(30)
    session.join(5)
    summary = session.summary()
    cut = [f for f in summary["faults"] if f[0] != 1000]  # the window that was yielded is cut
    good = code == 0 and yielded[0] == "off" and back[:2] == ("windows", "detached") and after > 0 and not cut and summary["windows"] > blocked
    return say("yield in a window, and back", good, {"exit": code, "first": first, "yielded": yielded, "back": back, "after": after, **summary})


def windows():
    """The table's lines; each is printed as it comes."""
    table, folder = [], tempfile.mkdtemp(prefix="kernhes-windows-")
    hearer = Hearer(folder)
    count, processes, closes = (int(os.environ.get(k, v)) for k, v in (("WINDOWS", "200"), ("PROCESSES", "8"), ("CLOSES", "50")))
    parts = os.environ.get("PARTS", "first loads two wrapper late captures placeless yield busy cost unheld").split()
    few = max(2, processes // 4)
    if "first" in parts:
        table.append(several(hearer, "one thread", 2, 5, closes, "ahead"))
    if "loads" in parts:
        each = count * (LENGTH + 0.04) + 20
        for load, how in (("ahead", "torch"), ("wait", "cdll"), ("eager", "torch"), ("mixed", "torch")):
            if load in os.environ.get("LOADS", load).split():
                table.append(pytorch(hearer, load, how, count, each))
        table.append(pytorch(hearer, "hostcb", "torch", 20, 8))
    if "two" in parts:
        table.append(several(hearer, "two threads that replay graphs, both at edges", processes, 4.5, closes, "ahead", "steps=2"))
    if "wrapper" in parts:
        table.append(several(hearer, "preloaded: beside them one that comes to no edge", few, 4.5, closes, "ahead", "side", preload=True))
    if "late" in parts:
        table.append(several(hearer, "preloaded: threads whose first graph launch comes at any time", few, 4.5, closes, "ahead", "late", preload=True))
        table.append(several(hearer, "not preloaded, the same, each 1 to 30 ms (the risk that remains)", few, 4.5, closes, "ahead", "late", may_end=True))
    if "captures" in parts:
        for mode, name in enumerate(("global", "thread-local", "relaxed")):
            table.append(several(hearer, f"preloaded: a thread of {name} captures", 2, 4.5, closes, "ahead", f"capture={mode}", preload=True, KERNHES_SETTLE_STEPS="1"))
        table.append(several(hearer, "steps that are captured with their ranges", 2, 4.5, closes, "ahead", "own", KERNHES_SETTLE_STEPS="10"))
    if "placeless" in parts:
        table.append(several(hearer, "a graph thread at no edge, not preloaded: never left, no window", 2, 4, closes, "ahead", "side", must=False))
    if "yield" in parts:
        table.append(yielding(hearer))
    if "busy" in parts:
        table.append(several(hearer, "a kernel of two seconds, again and again: held 50 ms at most", 1, 8, closes, "ahead", "busy", must=False))
    if "unheld" in parts:
        table.append(unheld(hearer))
    if "cost" in parts:
        table.append(cost(hearer))
    hearer.close()
    return table


if __name__ == "__main__":
    sys.exit(any(not passed for _, passed, _ in windows()))
