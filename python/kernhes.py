"""Tells kernhes where steps and calls begin and end, by NVTX: through PyTorch or the nvtx package, else not at all.

    with kernhes.step("decode", seq=7, seqs=48, tokens=48, kv=96000):
        with kernhes.call("decode.layers.0.attention"):
            ...
"""

import contextlib

try:
    from torch.cuda.nvtx import range_pop as _pop, range_push as _push
    _push("kernhes"), _pop()  # a PyTorch without CUDA has them, and they raise
except Exception:
    try:
        from nvtx import pop_range as _pop, push_range as _push
    except Exception:
        _push, _pop = (lambda text: None), (lambda: None)


@contextlib.contextmanager
def call(label):
    """One call of the program: its kernels carry the label. It must be open while a graph is captured, not at replay."""
    _push(label)
    try:
        yield
    finally:
        _pop()


def step(program, **values):
    """One step. values: seq (the same on all ranks), seqs, tokens, kv (of all sequences), and any other of your own."""
    return call(f"step:{program} " + ",".join(f"{k}={v}" for k, v in values.items()))
