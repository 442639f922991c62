"""Tells kernhes where steps and calls begin and end, and how long each step ran on the device.

    with kernhes.step("decode", seq=7, seqs=48, tokens=48, kv=96000):
        with kernhes.call("decode.layers.0.attention"):
            ...

Without an injected libkernhes.so ranges go to PyTorch or the nvtx package, else nowhere. Nothing here raises.
"""

from kernhes import _nvtx, _steps

__version__ = "0.1.0"
__all__ = ["call", "step"]


class call:
    """One call of the program: its kernels carry the label. It must be open while a graph is captured, not at replay."""

    __slots__ = ("_label",)

    def __init__(self, label):
        self._label = label

    def __enter__(self):
        _nvtx.ranges().push(self._label)

    def __exit__(self, *_):
        _nvtx.ranges().pop()


def step(program, *, stream=None, requests=None, **values):
    """One step of the program, on this thread and one CUDA stream.

    values: seq (the same on all ranks), seqs, tokens, kv (tokens in the KV cache, of all sequences), and any other of your own.
    With seq and an injected libkernhes.so, the step's time on the device is measured by two CUDA events.
    stream: what the step runs on: an object with cuda_stream, or a CUstream as int. Default: PyTorch's current stream, if it has
    initialised CUDA.
    requests: what is in the step, with KERNHES_REQUESTS=1: an iterable of (id, tokens computed, tokens cached before) or
    (id, tokens, cached, trace id as int).
    """
    text = f"step:{program} " + ",".join(f"{k}={v}" for k, v in values.items())
    seq = values.get("seq")
    return _steps.Step(text, seq if isinstance(seq, int) and seq >= 0 else None, stream=stream, requests=requests)
