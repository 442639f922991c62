"""Whether what NCCL says in NVTX payloads comes out right: who the process is, group and bytes of each kernel that communicates,
and no range that stays open."""

import os
import subprocess
import sys

from rig import HERE, Collector, answers, environment

# With one rank NCCL has one kernel of its own, which has no word of communication in its name.
TABLE = "comm\tpath\toneRankReduce\n"


def launch(collector, ranks):
    for rank in range(ranks):
        env = environment(collector.socket, KERNHES_SOFTWARE="on", KERNHES_LINGER_MS="5000", KERNHES_RUN=None, WORLD_SIZE=str(ranks),
                          RANK=str(rank), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT="29513")
        yield subprocess.Popen([sys.executable, os.path.join(HERE, "collectives.py")], env=env, text=True, stdout=subprocess.PIPE)


def compare(said, session, steps):
    """The faults of one rank."""
    told = session.get("nccl")
    if told is None:
        return ["the collector heard no payload"]
    faults = [f"{name} is {told[name]}, NCCL has {said[name]}" for name in ("rank", "ranks", "device") if told[name] != said[name]]
    if told["comm"] == "0" * 16:
        faults.append("the world communicator's id is not known")
    faults += [f"{told[name]} {what}" for name, what in (("open", "ranges of NCCL are open at the end"), ("unread", "payloads have no schema")) if told[name]]
    world = "nccl:" + told["comm"]
    by_seq = {step["seq"]: step for step in steps}
    for seq, messages in enumerate(said["steps"]):
        if seq not in by_seq:
            if messages:  # a step without kernels is not told
                faults.append(f"step {seq} is missing")
            continue
        got = [(m["group"], m["bytes"]) for m in by_seq[seq].get("messages", []) for _ in range(m["kernels"])]
        if len(got) != len(messages):
            faults.append(f"step {seq}: {got}, wanted {messages}")
            continue
        for (group, size), (which, bytes_) in zip(got, messages):
            right = {"world": group == world, "other": group not in ("", world), "any": group != ""}[which]
            if not right or size != bytes_:
                faults.append(f"step {seq}: {group} {size}, wanted {which} {bytes_}")
    return faults


def nccl(ranks):
    """The table's lines: (what, passed, detail)."""
    with Collector(table=TABLE) as collector:
        processes = list(launch(collector, ranks))
        said = {p.pid: answers(p)[-1] for p in processes}
        sessions = {pid: collector.session(pid, 10) for pid in said}
        lines, comms = [], set()
        for pid, one in said.items():
            if sessions[pid] is None:
                lines.append((f"nccl, rank {one['rank']} of {ranks}", False, "its session did not end"))
                continue
            faults = compare(one, sessions[pid], collector.lines({pid})[0])
            told = sessions[pid].get("nccl") or {}
            comms.add(told.get("comm"))
            lines.append((f"nccl, rank {one['rank']} of {ranks}", not faults, {"faults": faults[:8], "of": len(faults), "steps": len(one["steps"]), **told}))
        return lines + [("nccl: all ranks have one world", len(comms) == 1, sorted(map(str, comms)))]
