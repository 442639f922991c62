"""The Python package on a real GPU: the device time of steps beside that of their kernels, and what a step costs the engine's thread.

`hooks.py [accuracy | cost]`: a process of its own, since torch.profiler and the shim cannot both have CUPTI. hooks() runs both.
"""

import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LAYERS = "12"


def load():
    """PyTorch, the package, and steps that run graph and eager decode."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))
    import torch
    import decoder
    import kernhes
    steps = decoder.Steps()
    steps.add_graph(1)
    steps.add_eager(1)
    return torch, kernhes, steps


def quantiles(values):
    ordered = sorted(values)
    return {"p50": statistics.median(ordered), "p99": ordered[int(len(ordered) * 0.99)], "n": len(ordered)}


def accuracy():
    """Runs steps ahead of the device under torch.profiler. For each kind: event time less first start to last end, µs, and their ratio."""
    torch, kernhes, steps = load()
    from kernhes import _steps
    measured = {}
    _steps._tell = lambda seq, counts, graphs, ns: measured.__setitem__(seq, ns)
    rows = {}
    for kind, (_, run) in steps.kinds.items():
        measured.clear()
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            for seq in range(200):
                with kernhes.step("decode", seq=seq):
                    run()
            torch.cuda.synchronize()
        for seq in range(200, 202):  # the last ones are told by later steps
            with kernhes.step("decode", seq=seq):
                pass
            torch.cuda.synchronize()
        kernels = sorted((e.start_ns(), e.start_ns() + e.duration_ns()) for e in profiler.profiler.kineto_results.events()
                         if e.device_type() == torch.profiler.DeviceType.CUDA)
        each, rest = divmod(len(kernels), 200)
        assert rest == 0 and each > 0, (kind, len(kernels))
        spans = [max(end for _, end in kernels[i:i + each]) - kernels[i][0] for i in range(0, len(kernels), each)]
        told = [measured[seq] for seq in range(200)]
        rows[kind] = {"kernels": each, "step_us": statistics.median(spans) / 1e3,
                      "difference_us": quantiles([(t - s) / 1e3 for t, s in zip(told[1:], spans[1:])]),
                      "ratio": quantiles([t / s for t, s in zip(told[1:], spans[1:])])}
    return rows


def thread_us(body, n=20000):
    """µs that a call takes, the median of ten rounds."""
    rounds = []
    for _ in range(10):
        began = time.perf_counter()
        for i in range(n // 10):
            body(i)
        rounds.append((time.perf_counter() - began) / (n // 10) * 1e6)
    return statistics.median(rounds)


def scheduled(seqs):
    """A decode step of vLLM, as its scheduler puts it out."""
    from types import SimpleNamespace as Some
    names = [f"cmpl-00000000000000000000000000{i:06}-0" for i in range(seqs)]
    cached = Some(req_ids=names, num_computed_tokens=[4000 + i for i in range(seqs)], num_output_tokens=[7] * seqs)
    return Some(scheduled_new_reqs=[], scheduled_cached_reqs=cached, num_scheduled_tokens=dict.fromkeys(names, 1), total_num_scheduled_tokens=seqs)


def cost():
    """µs of the engine's thread for a step, by what is on; and steps with the hook beside steps without it, taken in turns."""
    torch, kernhes, steps = load()
    from types import SimpleNamespace as Some
    from kernhes import _steps, vllm
    rows = {}

    def step(i):
        with kernhes.step("decode", seq=i, seqs=48, tokens=48, kv=96000):
            pass

    def pushed(i):
        torch.cuda.nvtx.range_push(f"step:decode seq={i},seqs=48,tokens=48,kv=96000")
        torch.cuda.nvtx.range_pop()

    rows["torch.cuda.nvtx alone"] = thread_us(pushed)
    rows["kernhes.step"] = thread_us(step)
    worker = Some(rank=0, vllm_config=Some(parallel_config=Some(world_size=1)), model_runner=None)
    for seqs in (1, 256):
        output = scheduled(seqs)

        for requests, what in [("0", ""), ("1", ", with requests")]:
            os.environ["KERNHES_REQUESTS"] = requests
            hook = vllm._Vllm()

            def engine(i):
                with hook.guard(hook.scheduled, worker, output):
                    pass

            rows[f"vLLM's hook, {seqs} sequences{what}"] = thread_us(engine)
    clock, _steps._Parts.clock = _steps._Parts.clock, False
    rows["kernhes.step without device time"] = thread_us(step)
    _steps._Parts.clock = clock
    ratios = {}
    for kind, (_, run) in steps.kinds.items():
        taken = {True: [], False: []}
        for turn in range(80):
            hooked = turn % 2 == 0
            torch.cuda.synchronize()
            began = time.perf_counter()
            for seq in range(50):
                if hooked:
                    with kernhes.step("decode", seq=seq, seqs=1, tokens=1, kv=512):
                        run()
                else:
                    run()
            torch.cuda.synchronize()
            taken[hooked].append((time.perf_counter() - began) / 50 * 1e3)
        pairs = sorted(a / b for a, b in zip(taken[True], taken[False]))
        ratios[kind] = {"ms": statistics.median(taken[False]), "hooked_to_bare": statistics.median(pairs), "quarters": [pairs[10], pairs[30]]}
    return {"thread_us": rows, "steps": ratios}


def hooks():
    """Both, with the shim; cost with it off, as it is on GPUs without HES, and with software tracing."""
    import rig
    answers = {}
    with_nvtx = rig.environment(NVTX_INJECTION64_PATH=rig.SHIM, DECODER_LAYERS=LAYERS)
    for name, part, environ in [
        ("accuracy", "accuracy", with_nvtx),
        ("cost", "cost", rig.environment("/nowhere/k.sock", DECODER_LAYERS=LAYERS)),
        ("cost, traced", "cost", rig.environment("/nowhere/k.sock", DECODER_LAYERS=LAYERS, KERNHES_SOFTWARE="on", KERNHES_LINGER_MS="0")),
    ]:
        done = subprocess.run([sys.executable, os.path.join(HERE, "hooks.py"), part], env=environ, capture_output=True, text=True, cwd=HERE)
        answers[name] = json.loads(done.stdout) if done.returncode == 0 else done.stderr[-3000:]
        print(name, json.dumps(answers[name], indent=1), flush=True)
    return answers


if __name__ == "__main__":
    print(json.dumps({"accuracy": accuracy, "cost": cost}[sys.argv[1]]()))
