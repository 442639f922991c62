"""Whether an engine that runs lets go of CUPTI and takes it back, again and again, and a profiler can have it meanwhile."""

import os
import statistics

from rig import Collector, Engine, environment, resident

KIND, TURN = "graph.1", 60
MIB = 32  # by which memory may grow in the second half of the cycles; the first makes what is kept, and a graph


def mapped(pid):
    """Resident MiB of a process by what is mapped."""
    sizes, name = {}, ""
    with open(f"/proc/{pid}/smaps") as smaps:
        for line in smaps:
            fields = line.split()
            if "-" in fields[0]:
                name = os.path.basename(fields[5]) if len(fields) > 5 else "anonymous"
            elif fields[0] == "Rss:":
                sizes[name] = sizes.get(name, 0) + int(fields[1]) / 1024
    return sizes


def yields(cycles):
    """The table's lines. In each cycle the switch is asked for in the middle of a turn, each way."""
    faults, memory, away = [], [], []
    with Collector() as collector:
        engine = Engine(environment(collector.socket, KERNHES_SOFTWARE="on", KERNHES_RUN="yield", KERNHES_LINGER_MS="5000")).ready()
        each = dict(engine.kernels)

        def has(expected):
            said = collector.engine(engine.pid)
            if said["subscribed"] != expected:
                faults.append(f"cycle {len(memory)}: subscribed {said['subscribed']}, mode {said['mode']}, {said['mode_reason']}")
            return said

        def switch(*how):
            engine.begin("run", KIND, TURN)
            collector.ask("yield", "--run", "yield", *how)
            engine.end()

        traced, at_first = [engine.do("run", KIND, TURN)["took"]], mapped(engine.pid)
        for i in range(cycles):
            switch("--seconds", 600)
            has(False)
            away.append(engine.do("run", KIND, TURN)["took"])
            if i == cycles // 2:  # a graph that nobody saw being made
                each.update(engine.do("add", 16)["kernels"])
            switch("--back")
            has(True)
            traced.append(engine.do("run", KIND, TURN)["took"])
            if "graph.16" in each:
                engine.do("run", "graph.16", 3)
            memory.append(resident(engine.pid))
        grown = {name: round(size - at_first.get(name, 0)) for name, size in mapped(engine.pid).items()}
        buffers = collector.sum("kern_shim_buffers")
        switch("--seconds", 600)
        has(False)
        said = engine.do("profile", KIND, 17)
        seen, ran = said["seen"], said["ran"] * each[KIND]
        if seen != ran:
            faults.append(f"torch.profiler saw {seen} kernels of {ran}")
        back = collector.ask("yield", "--run", "yield", "--back")  # torch.profiler keeps CUPTI once it had it
        engine.do("run", KIND, TURN)
        after = collector.engine(engine.pid)
        code = engine.stop()
        session = collector.session(engine.pid, 20)
        steps, _ = collector.lines({engine.pid})
    if code != 0 or session is None:
        faults.append(f"the engine ended with {code}, session {session}")
    kinds = {f"step:graph seq={{}},seqs={n},tokens={n},kv={512 * n}": kernels for n, kernels in ((int(k[6:]), v) for k, v in each.items())}
    complete = [s for s in steps if s["complete"]]
    wrong = [s for s in complete if s["kernels"] != kinds[s["text"].replace(f"seq={s['seq']}", "seq={}")]]
    if wrong:
        faults.append(f"{len(wrong)} complete steps have another number of kernels: {wrong[:2]}")
    reasons = sorted({s["reason"] for s in steps if not s["complete"]})
    if [r for r in reasons if r not in ("not_traced", "missing_records")]:
        faults.append(f"incomplete steps: {reasons}")
    odd = {k: session[k] for k in ("late", "invalid", "duplicate", "pending") if session and session[k]}
    if odd or (session and any((session["dropped"] or {}).values())):
        faults.append(f"{odd}, {session['dropped']}")
    if memory[-1] > memory[len(memory) * 3 // 5] + MIB:
        faults.append(f"resident memory grew: {memory}")
    labelled = sum(s["called"] for s in complete) / max(sum(s["kernels"] for s in complete), 1)
    return [(f"yield and back, {cycles} times under load", not faults, {
        "faults": faults[:8], "steps_run": engine.ran, "told": len(steps), "complete": len(complete), "incomplete_reasons": reasons,
        "missing": session and session["missing"], "profiler_saw": seen, "back_said": back, "after_profiler": {k: after[k] for k in ("subscribed", "mode", "mode_reason")},
        "p50_ms_traced": [round(statistics.median(t) * 1e3, 4) for t in traced[:3] + traced[-3:]],
        "p50_ms_yielded": [round(statistics.median(t) * 1e3, 4) for t in away[:3] + away[-3:]],
        "rss_mib": memory[:: max(1, len(memory) // 8)], "grown": {k: v for k, v in grown.items() if v}, "buffers_out": buffers, "kernels_in_a_call": round(labelled, 4), "session": session and {k: session[k] for k in ("kernels", "mode", "step_ranges")}})]
