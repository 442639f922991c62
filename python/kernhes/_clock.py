"""Device time of steps: pairs of CUDA events on a step's stream, queried later and never waited for."""

import collections
import ctypes
import threading

LIBRARY = "libcuda.so.1"
PAIRS = 64  # of one context; a step that finds none free is not measured

_READY, _NOT_READY = 0, 600  # CUDA_SUCCESS, CUDA_ERROR_NOT_READY
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED

_int, _pointer = ctypes.c_int, ctypes.c_void_p


class Failed(Exception):
    """A call of the CUDA driver failed."""


class _Driver:
    """The driver's functions that a clock needs. They keep the GIL: none of them waits for the device."""

    def __init__(self):
        library = ctypes.PyDLL(LIBRARY)
        for name, *arguments in [
            ("cuCtxGetCurrent", ctypes.POINTER(_pointer)), ("cuStreamIsCapturing", _pointer, ctypes.POINTER(_int)),
            ("cuThreadExchangeStreamCaptureMode", ctypes.POINTER(_int)), ("cuEventCreate", ctypes.POINTER(_pointer), ctypes.c_uint),
            ("cuEventRecord", _pointer, _pointer), ("cuEventQuery", _pointer),
            ("cuEventElapsedTime", ctypes.POINTER(ctypes.c_float), _pointer, _pointer),
        ]:
            function = getattr(library, name)
            function.restype, function.argtypes = _int, arguments
            setattr(self, name, function)

    def context(self):
        """The current context, or None."""
        context = _pointer()
        return context.value if self.cuCtxGetCurrent(ctypes.byref(context)) == 0 else None

    def capturing(self, stream):
        """Whether a stream is captured into a graph. What the driver cannot say counts as captured: the legacy stream, say, while
        another one is."""
        status = _int()
        return self.cuStreamIsCapturing(stream, ctypes.byref(status)) != 0 or status.value != 0

    def event(self):
        event = _pointer()
        self.check("cuEventCreate", self.cuEventCreate(ctypes.byref(event), 0))
        return event

    def check(self, what, result):
        if result != 0:
            raise Failed(f"{what} returned {result}")


class _Relaxed:
    """Lets this thread query events while another one captures a graph: in the default mode that would break the capture."""

    def __init__(self, driver):
        self._driver, self._mode = driver, _int()

    def __enter__(self):
        self._mode.value = _RELAXED
        self._driver.check("cuThreadExchangeStreamCaptureMode", self._driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(self._mode)))

    def __exit__(self, *_):
        self._driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(self._mode))


class _Pair:
    """The events of one step: its begin is recorded, its end when pool is told."""
    __slots__ = ("pool", "stream", "begin", "end", "tell")

    def __init__(self, pool, begin, end):
        self.pool, self.begin, self.end = pool, begin, end


class _Pool:
    """The pairs of one context: free ones, and those that run, in the order of their ends."""

    def __init__(self):
        self.made, self.free, self.running, self.polling = 0, [], collections.deque(), threading.Lock()


class Clock:
    """Measures steps. Each call may raise Failed; the clock must not be used after that."""

    def __init__(self):
        """Raises OSError or AttributeError where there is no CUDA driver, or one too old."""
        self._driver = _Driver()
        self._pools = {}

    def begin(self, stream):
        """Records the begin of a step on a stream, an int. None: this step cannot be measured."""
        driver = self._driver
        context = driver.context()
        if context is None or driver.capturing(stream):
            return None
        pool = self._pools.get(context)
        if pool is None:
            pool = self._pools.setdefault(context, _Pool())
        pair = self._pair(pool)
        if pair is None:  # all run: some may have ended since the last step did
            self._poll(pool)
            pair = self._pair(pool)
        if pair is not None:
            pair.stream = stream
            driver.check("cuEventRecord", driver.cuEventRecord(pair.begin, stream))
        return pair

    def _pair(self, pool):
        try:
            return pool.free.pop()
        except IndexError:
            pass
        if pool.made >= PAIRS:
            return None
        pool.made += 1
        with _Relaxed(self._driver):
            return _Pair(pool, self._driver.event(), self._driver.event())

    def end(self, pair, tell):
        """Records the end of a step. tell is called with its ns on the device by a later call, or now with None."""
        driver, pool = self._driver, pair.pool
        if driver.capturing(pair.stream):  # a capture began inside the step
            pool.free.append(pair)
            tell(None)
        else:
            driver.check("cuEventRecord", driver.cuEventRecord(pair.end, pair.stream))
            pair.tell = tell
            pool.running.append(pair)
        self._poll(pool)

    def _poll(self, pool):
        if not pool.running or not pool.polling.acquire(blocking=False):
            return
        try:
            with _Relaxed(self._driver):
                while pool.running and self._done(pool.running[0]):
                    pool.running.popleft()
        finally:
            pool.polling.release()

    def _done(self, pair):
        """Tells the time of a pair whose end the device has passed."""
        driver, result = self._driver, self._driver.cuEventQuery(pair.end)
        if result == _NOT_READY:
            return False
        driver.check("cuEventQuery", result)
        ms = ctypes.c_float()
        driver.check("cuEventElapsedTime", driver.cuEventElapsedTime(ctypes.byref(ms), pair.begin, pair.end))
        pair.tell(max(0, round(ms.value * 1e6)))
        pair.tell = None
        pair.pool.free.append(pair)
        return True
