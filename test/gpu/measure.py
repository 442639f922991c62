"""Checks and measures kernhes on this machine's GPUs and prints a table. `measure.py [PART...]`: see scripts/gpu."""

import json
import os
import subprocess
import sys
import time

import torch

import rig


def machine():
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpus = subprocess.run(query, capture_output=True, text=True).stdout.strip().splitlines()
    code = "import torch, ctypes; v = ctypes.c_uint32(); ctypes.CDLL('libcupti.so.13').cuptiGetVersion(ctypes.byref(v)); print(v.value)"
    version = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
    return {"gpus": gpus, "torch": torch.__version__, "cupti": version, "date": time.strftime("%Y-%m-%d")}


def show(table):
    for what, passed, detail in table:
        print(f"{'ok  ' if passed else 'FAIL'} {what}: {json.dumps(detail)}", flush=True)


def show_cost(rows):
    print("| step | setting | steps | p50 ms | p99 ms | p99 a node µs | to bare (95%) | to dropping (95%) |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    for r in rows:
        shown = [f"{x[0]:.3f} ({x[1]:.3f} to {x[2]:.3f})" for x in (r["to_bare"], r["to_cupti"])]
        node = f"{r['p99_node_us']:.2f}" if r["nodes"] else ""
        print(f"| {r['kind']} | {r['setting']} | {r['steps']:,} | {r['p50_ms']:.2f} | {r['p99_ms']:.2f} | {node} | {shown[0]} | {shown[1]} |", flush=True)


def part(name):
    began = time.time()
    tables = []
    if name == "exact":
        from exact import exact
        for ranks in [int(x) for x in os.environ["RANKS"].split()] if "RANKS" in os.environ else [1, 2]:
            if ranks <= torch.cuda.device_count():
                some = exact(ranks, 10)
                show(some)
                tables += some
    elif name == "nccl":
        from nccl import nccl
        tables = nccl(int(os.environ.get("RANKS", min(2, torch.cuda.device_count()))))
        show(tables)
    elif name == "guests":
        from guests import guests
        tables = guests()
        show(tables)
    elif name == "cost":
        from cost import cost
        rows, metrics = cost(int(os.environ.get("ROUNDS", "100")), show_cost,
                             os.environ.get("KINDS", "graph.1 graph.48 eager.1 eager.48").split())
        print(json.dumps(metrics), flush=True)
        tables = [{"cost": rows, "metrics": metrics}]
    elif name == "faults":
        from faults import faults
        tables = faults()
        show(tables)
    elif name == "long":
        from long import long
        tables = long(float(os.environ.get("SECONDS_LONG", "240")))
        show(tables)
    elif name == "yield":
        from yields import yields
        tables = yields(int(os.environ.get("CYCLES", "20")))
        show(tables)
    elif name == "hooks":
        from hooks import hooks
        tables = hooks()
    elif name == "windows":
        from windows import windows
        tables = windows()
    print(f"# {name}: {time.time() - began:.0f} s", flush=True)
    return tables


def main():
    if sys.argv[1:] != ["windows"]:
        rig.unpack_collector()
    result, failed = {"machine": machine()}, []
    print("#", json.dumps(result["machine"]), flush=True)
    for name in sys.argv[1:] or ["exact", "nccl", "guests", "yield", "faults", "cost"]:
        try:
            result[name] = part(name)
            failed += [line[0] for line in result[name] if isinstance(line, tuple) and not line[1]]
        except Exception as e:  # one part's fault must not hide the others' figures
            print(f"FAIL {name}: {type(e).__name__}: {e}", flush=True)
            result[name] = repr(e)
            failed.append(name)
    if "OUT" in os.environ:
        with open(os.environ["OUT"] + "/gpu.json", "w") as f:
            json.dump(result, f, indent=1)
    if failed:
        sys.exit(f"{len(failed)} failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
