"""One step: its range, its time on the device, and what is in it. Nothing here raises: what fails is off from then on."""

import functools
import logging
import os
import sys

from kernhes import _clock, _graphs, _marks, _nvtx, _requests

_log = logging.getLogger("kernhes")


class _Parts:
    """What a process sends beside ranges, each made at its first use. False: it is off."""
    marks = clock = requests = None


def _off(part, why):
    """Turns a part off. Says why, once."""
    if getattr(_Parts, part) is not False:
        setattr(_Parts, part, False)
        _log.warning("kernhes: %s: off: %s", {"marks": "marks", "clock": "device time", "requests": "requests"}[part], why)


def _part(name, enabled, make):
    """The part of that name, or False."""
    part = getattr(_Parts, name)
    if part is None:
        try:
            part = make() if enabled() else False
            setattr(_Parts, name, part)
        except Exception as e:
            _off(name, e)
            return False
    return part


def _marks_of_process():
    return _part("marks", lambda: _nvtx.injected() is not None, lambda: _marks.Marks(_nvtx.injected()))


def _clock_of_process():
    return _part("clock", lambda: os.environ.get("KERNHES_DEVICE_TIME", "1") != "0", _clock.Clock)


def _requests_of_process():
    return _part("requests", wants_requests, lambda: _requests.Requests(_Parts.marks))


def wants_requests():
    """Whether the user asked for the requests of each step."""
    return os.environ.get("KERNHES_REQUESTS", "0") == "1"


def _handle(stream):
    """A stream as an int, or None: there is no CUDA."""
    if stream is not None:
        return getattr(stream, "cuda_stream", stream)
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return torch.cuda.current_stream().cuda_stream


class Step:
    """A step of this thread, as a context manager. seq None: nothing but its range is sent.

    counts: FPM's sum_prefill_tokens, sum_prefill_kv_tokens, sum_decode_kv_tokens, num_prefill_requests, num_decode_requests; or None.
    """

    __slots__ = ("_text", "_seq", "_counts", "_stream", "_requests", "_pushed", "_pair", "_replays")

    def __init__(self, text, seq, *, counts=None, stream=None, requests=None):
        self._text, self._seq, self._counts, self._stream, self._requests = text, seq, counts, stream, requests

    def __enter__(self):
        self._pushed, self._pair = False, None
        try:
            _nvtx.ranges().push(self._text)
            self._pushed = True
        except Exception:
            pass
        if self._seq is not None and (_Parts.marks or _marks_of_process()):
            self._replays = _graphs.replays()
            self._begin()
        else:
            self._seq = None
        return self

    def __exit__(self, *_):
        if self._seq is not None:
            self._end()
            if self._requests is not None:
                self._list()
        if self._pushed:
            try:
                _nvtx.ranges().pop()
            except Exception:
                pass

    def _begin(self):
        try:
            handle = _handle(self._stream)
            if handle is not None:
                clock = _Parts.clock or _clock_of_process()
                self._pair = clock.begin(handle) if clock else None
        except Exception as e:
            _off("clock", e)

    def _end(self):
        tell = functools.partial(_tell, self._seq, self._counts, _graphs.since(self._replays))
        if self._pair is None or not _Parts.clock:
            if _Parts.clock or self._counts is not None:
                tell(None)
            return
        try:
            _Parts.clock.end(self._pair, tell)
        except Exception as e:
            _off("clock", e)
            tell(None)

    def _list(self):
        try:
            requests = _requests_of_process()
            if requests:
                requests.tell(self._seq, self._requests)
        except Exception as e:
            _off("requests", e)


def _tell(seq, counts, graphs, device_ns):
    if _Parts.marks:
        try:
            _Parts.marks.step_device(seq, device_ns, counts, graphs)
        except Exception as e:
            _off("marks", e)
