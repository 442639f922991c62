"""Device time of steps: pairs of CUDA events on a step's stream, queried later and never waited for."""

import collections
import ctypes
import threading

LIBRARY = "libcuda.so.1"
PAIRS = 64  # of one context; a step that finds none free is not measured

_NOT_READY = 600  # CUDA_ERROR_NOT_READY
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

    def capturing(self, stream, status):
        """Whether a stream is captured into a graph. What the driver cannot say counts as captured: the legacy stream, say, while
        another one is. status: a c_int that nobody else uses meanwhile."""
        return self.cuStreamIsCapturing(stream, status) != 0 or status.value != 0

    def event(self):
        event = _pointer()
        self.check("cuEventCreate", self.cuEventCreate(ctypes.byref(event), 0))
        return event.value

    def check(self, what, result):
        if result != 0:
            raise Failed(f"{what} returned {result}")


class _Pair:
    """The events of one step on a stream; tell is called with its time."""
    __slots__ = ("pool", "stream", "begin", "end", "tell", "status")

    def __init__(self, pool, begin, end):
        self.pool, self.begin, self.end, self.status = pool, begin, end, _int()


class _Pool:
    """The pairs of one context: free ones, and those that run, in the order of their ends."""

    def __init__(self):
        self.made, self.free, self.running = 0, [], collections.deque()
        self.lock = threading.Lock()  # of what follows
        self.mode, self.ms = _int(), ctypes.c_float()


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
        if context is None:
            return None
        pool = self._pools.get(context) or self._pools.setdefault(context, _Pool())
        pair = self._pair(pool)
        if pair is None:  # all run: some may have ended since the last step did
            self._poll(pool)
            pair = self._pair(pool)
            if pair is None:
                return None
        if driver.capturing(stream, pair.status):
            pool.free.append(pair)
            return None
        pair.stream = stream
        driver.check("cuEventRecord", driver.cuEventRecord(pair.begin, stream))
        return pair

    def _pair(self, pool):
        try:
            return pool.free.pop()
        except IndexError:
            pass
        with pool.lock:
            if pool.made >= PAIRS:
                return None
            pool.made += 1
            return self._relaxed(pool, lambda: _Pair(pool, self._driver.event(), self._driver.event()))

    def end(self, pair, tell):
        """Records the end of a step. tell is called with its ns on the device by a later call, or now with None."""
        driver, pool = self._driver, pair.pool
        if driver.capturing(pair.stream, pair.status):  # a capture began inside the step
            pool.free.append(pair)
            tell(None)
        else:
            driver.check("cuEventRecord", driver.cuEventRecord(pair.end, pair.stream))
            pair.tell = tell
            pool.running.append(pair)
        self._poll(pool)

    def _poll(self, pool):
        """Tells the times of steps that have ended. It waits for nobody: another thread that polls does this one's work too."""
        if pool.running and pool.lock.acquire(blocking=False):
            try:
                self._relaxed(pool, lambda: self._drain(pool))
            finally:
                pool.lock.release()

    def _relaxed(self, pool, do):
        """Calls a function while this thread may query events and another one captures a graph: in the default mode that would
        break the capture. Under the pool's lock."""
        exchange, mode = self._driver.cuThreadExchangeStreamCaptureMode, pool.mode
        mode.value = _RELAXED
        self._driver.check("cuThreadExchangeStreamCaptureMode", exchange(mode))
        try:
            return do()
        finally:
            exchange(mode)

    def _drain(self, pool):
        driver, running, ms = self._driver, pool.running, pool.ms
        while running:
            pair = running[0]
            result = driver.cuEventQuery(pair.end)
            if result == _NOT_READY:
                return
            driver.check("cuEventQuery", result)
            driver.check("cuEventElapsedTime", driver.cuEventElapsedTime(ms, pair.begin, pair.end))
            running.popleft()
            tell, pair.tell = pair.tell, None
            pool.free.append(pair)
            tell(max(0, round(ms.value * 1e6)))
