"""Windows on the mock driver, whose CUPTI ends the process at what kills on a GPU: the engine in plain C, and what happens to it in a window.

  windows.py ENGINE SHIM MOCKS

MOCKS is the folder of the mock's libcuda.so.1 and libcupti.so.13. Each case takes a second or two.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "test", "gpu"))
from hear import CUT, RESUME, YIELD, Hearer, windows

NODES, SECOND, LONG = 24, 1_000_000_000, 30
SANITIZED = ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")


class Engine:
    """An engine that runs until it is told to end, and the collector that hears it."""

    def __init__(self, folder, *what, seconds=LONG, **more):
        engine, shim, mocks = sys.argv[1:4]
        self.hearer = Hearer(folder)
        env = {k: os.environ[k] for k in SANITIZED if k in os.environ}
        env.update(LD_LIBRARY_PATH=mocks, CUDA_INJECTION64_PATH=shim, NVTX_INJECTION64_PATH=shim, KERNHES_ENDPOINT="unix://" + self.hearer.path,
                   KERNHES_CUPTI=os.path.join(mocks, "libcupti.so.13"), KERNHES_SOFTWARE="windows", KERNHES_SETTLE_STEPS="20", KERNHES_LINGER_MS="500", **more)
        self.process = Engine.last = subprocess.Popen([engine, str(seconds), f"nodes={NODES}", "ns=40000", *what], env=env, stdout=subprocess.DEVNULL)
        self.session = self.hear()

    def hear(self):
        session = self.hearer.session(self.process.pid, 20)
        assert session is not None, "no session"
        session.place()
        return session

    def alive(self):
        return self.process.poll() is None

    def until(self, holds, what, seconds=20):
        """Waits until something holds of the session."""
        end = time.time() + seconds
        while not holds():
            assert self.alive(), f"the engine ended with {self.process.returncode}: {what}"
            assert time.time() < end, f"not {what}: {self.session.summary()}"
            time.sleep(0.002)

    def detached(self):
        self.until(lambda: self.session.state()[:2] == ("windows", "detached"), "detached")

    def some(self, count):
        """Orders windows until so many have come. On a busy machine the shim may look at an order too late: it is missed then."""
        self.detached()
        until = self.session.counted() + count
        end = time.time() + 20
        while self.session.counted() < until:
            windows(self.session, self.alive, 1, 0.04, 0.005, end)
            self.detached()
            assert time.time() < end, self.session.summary()

    def in_window(self, id, seconds):
        """Opens a window, and gives back control in it; on a busy machine it may be over by then. An order that was missed is given again."""
        self.detached()
        before, again = self.session.counted(), 0

        def begun():
            nonlocal again
            if time.time() > again:
                again = time.time() + seconds + 1
                self.session.order(id, 0, seconds)
            window = self.session.window
            return self.session.counted() > before or window is not None and window.steps

        self.until(begun, f"window {id} open")

    def end(self, *cut, code=-signal.SIGTERM):
        """Ends the engine, and holds its windows against what ran. Of those that were cut kernels may miss, and are counted."""
        self.process.terminate()
        got = self.process.wait(30)
        assert got == code, f"the engine ended with {got}"
        self.session.join(10)
        summary = self.session.summary()
        # On a busy machine another thread comes to its edge too late now and then: the hold fails, and its step is cut.
        faults = [f for f in self.session.faults if f[0] not in cut and not all(wrong.endswith(CUT) for wrong in f[3])]
        assert not faults and (cut or not summary["lost"]), summary
        self.hearer.close()
        return summary


def test_two_threads(folder):
    engine = Engine(folder, "steps=2")
    engine.some(6)
    summary = engine.end()
    assert summary["whole_steps_in_windows"] > 6 and summary["labelled"] == 1, summary


def test_yield_in_a_window(folder):
    engine = Engine(folder, "ahead")
    engine.some(1)
    engine.in_window(1000, 20)
    engine.session.control(YIELD, 3600 * SECOND)
    engine.until(lambda: engine.session.state()[0] == "off", "yielded")
    engine.session.order(1001, 0, 0.05)
    time.sleep(0.1)  # its time goes by
    engine.session.control(RESUME)
    engine.some(2)
    assert 1001 not in [w[0] for w in engine.session.done], "a window opened while CUPTI was yielded"
    engine.end()


def test_the_engine_is_stopped_in_a_window(folder):
    engine = Engine(folder)
    engine.in_window(1, 0.3)
    engine.process.send_signal(signal.SIGSTOP)
    time.sleep(0.5)  # past the window's end
    engine.process.send_signal(signal.SIGCONT)
    engine.some(2)
    engine.end()


def test_the_collector_is_killed_in_a_window(folder):
    """The shim closes the window at its time without a collector; the next collector finds it left."""
    engine = Engine(folder)
    engine.in_window(1, 0.5)
    old = engine.session
    engine.hearer.cut()
    old.join(10)
    engine.hearer.again()
    engine.session = engine.hear()
    engine.some(2)
    assert engine.session is not old
    engine.end(1)


def test_kernels_that_are_lost_in_silence_are_missed(folder):
    """A warm-up has an end in each attachment: the first kernels of every window come."""
    engine = Engine(folder, KERNHES_MOCK_FAULT=f"warm-up={4 * NODES}")
    for window in (1, 2):
        engine.in_window(window, 0.1)
        engine.until(lambda: engine.session.counted() == window, "the window over")
    engine.detached()
    summary = engine.end(1, 2)
    assert summary["kernels"] == 2 * 4 * NODES and summary["whole_steps_in_windows"] == 2 * 4, summary
    assert [f[0] for f in engine.session.faults] == [1, 2], summary


def test_exit_at_an_edge(folder):
    """Threads may stand at an edge or in a window when the engine exits: it waits for none of them."""
    for closing in (False, True):
        engine = Engine(folder, "abrupt", "steps=2")
        engine.in_window(1, 0.05)
        if closing:
            engine.until(lambda: engine.session.counted() == 1, "window 1 over")
        engine.end(1, code=0)


def test_fork_at_an_edge(folder):
    engine = Engine(folder, "forks")
    engine.some(4)
    engine.end()


if __name__ == "__main__":
    for name, case in [(n, f) for n, f in globals().items() if n.startswith("test_")]:
        print("windows:", name[5:].replace("_", " "), flush=True)
        with tempfile.TemporaryDirectory(prefix="kernhes-windows-") as folder:
            try:
                case(folder)
            finally:
                Engine.last.kill()
