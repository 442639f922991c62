"""Counts the CUDA graphs that PyTorch replays, so that a step can say how many were in it."""

import inspect
import sys

from kernhes._marks import GRAPHS_UNKNOWN

_watched, _count = None, 0


def watch():
    """Counts from now on, where torch.cuda.CUDAGraph.replay is as known. Engines' hooks call it; kernhes.step alone does not."""
    global _watched
    torch = sys.modules.get("torch")
    graph = getattr(getattr(torch, "cuda", None), "CUDAGraph", None)
    if _watched is not None or graph is None or not _known(graph.replay):
        return
    _watched = original = graph.replay

    def replay(self):
        global _count
        _count += 1
        return original(self)

    replay.__doc__ = original.__doc__
    graph.replay = replay


def _known(replay):
    try:
        return list(inspect.signature(replay).parameters) == ["self"]
    except (TypeError, ValueError):  # it is no Python function
        return False


def replays():
    """How many were replayed so far; None: nobody counts."""
    return None if _watched is None else _count


def since(before):
    """How many were replayed since replays() was before."""
    return GRAPHS_UNKNOWN if before is None or _watched is None else min(_count - before, GRAPHS_UNKNOWN - 1)
