"""Whether what the collector was told is what ran: kernels of each step, calls, losses, time."""

import collections
import statistics

from rig import Collector, answers, environment, worker


def launch(ranks, *args, **more):
    """Starts a worker on each rank."""
    processes = []
    for rank in range(ranks):
        group = dict(WORLD_SIZE=str(ranks), RANK=str(rank), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
        processes.append(worker(*args, env=environment(more.get("endpoint"), **more.get("env", {}), **(group if ranks > 1 else {}))))
    return processes


def counted(ranks):
    """Kernels of each kind of step on rank 0, counted without kernhes; a graph's twice."""
    kernels = {}
    for line in [answers(p) for p in launch(ranks, "count")][0]:
        kernels[line["kind"]] = line["profiled"]
        if line["nodes"] is not None and line["nodes"] != line["profiled"]:
            raise RuntimeError(f"{line['kind']}: the profiler saw {line['profiled']} kernels, the graph has {line['nodes']}")
    return kernels


def run(collector, ranks, rounds):
    """Runs the check on so many ranks; for each its pid and what CUDA events said: (kind, seq, ms)."""
    env = {"KERNHES_SOFTWARE": "on", "KERNHES_LINGER_MS": "5000", "KERNHES_RUN": "exact"}
    processes = launch(ranks, "check", rounds, endpoint=collector.socket, env=env)
    return [(p.pid, answers(p)[-1]["steps"]) for p in processes]


def compare(session, steps, events, kernels):
    """The faults of one rank, and a summary."""
    faults, ratios, called, inside = [], collections.defaultdict(list), 0, 0
    by_seq = {step["seq"]: step for step in steps}
    for kind, seq, ms in events:
        step = by_seq.pop(seq, None)
        if step is None or not step["complete"]:
            faults.append(f"{kind} seq {seq}: {step['reason'] if step else 'missing'}")
            continue
        if step["kernels"] != kernels[kind]:
            faults.append(f"{kind} seq {seq}: {step['kernels']} kernels, {kernels[kind]} ran")
        called += step["called"]
        inside += step["kernels"]
        ratios[kind].append(step["wall_ns"] / 1e6 / ms)
    if by_seq:
        faults.append(f"{len(by_seq)} steps too many")
    for name in ("unfulfilled_launches", "late", "invalid", "duplicate", "pending", "missing"):
        if session[name]:
            faults.append(f"{name} {session[name]}")
    if any((session["dropped"] or {}).values()):
        faults.append(f"dropped {session['dropped']}")
    if session["kernels"] != session["in_steps"] + session["outside"]:
        faults.append("kernels are unaccounted for")
    if called < 0.99 * inside:
        faults.append(f"only {called} of {inside} kernels have a call")
    medians = {kind: statistics.median(values) for kind, values in ratios.items()}
    faults += [f"{kind}: wall is {m:.3f} of CUDA events" for kind, m in medians.items() if abs(m - 1) > 0.02]
    return faults, {
        "steps": len(events), "kernels": session["kernels"], "in_steps": session["in_steps"],
        "captured": session["captured_launches"], "with a call": f"{called / max(inside, 1):.2%}",
        "wall / CUDA events": {k: round(m, 4) for k, m in medians.items()},
    }


def exact(ranks, rounds):
    """The table's lines: (what, passed, detail). All ranks run the same kernels."""
    kernels = counted(ranks)
    with Collector() as collector:
        ran = run(collector, ranks, rounds)
        ended = {pid: collector.session(pid, 10) for pid, _ in ran}
        table = []
        for rank, (pid, events) in enumerate(ran):
            if ended[pid] is None:
                table.append((f"exact, rank {rank} of {ranks}", False, "its session did not end"))
                continue
            faults, summary = compare(ended[pid], collector.lines({pid})[0], events, kernels)
            table.append((f"exact, rank {rank} of {ranks}", not faults, {"faults": faults[:5], "of": len(faults), **summary}))
        return table + [(f"kernels a step, counted apart ({ranks} ranks)", True, kernels)]
