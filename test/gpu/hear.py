"""A collector that only listens: it says where steps are pushed, orders windows, and holds what a window brought against what ran.

It decodes the wire (internal/wire/WIRE.md) by itself, so that it checks the shim and not the receiver.
"""

import collections
import os
import socket
import struct
import threading
import time

MAGIC = 0x315345484E52454B
HELLO, INFO, STRINGS, EVENTS, KERNELS, COPIES, FLUSHED, LOST, STATS, BYE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 13
WELCOME, ACK, CONTROL = 64, 65, 66
PUSH, POP, LAUNCH, CAPTURED, CLONED, ON, OFF = 1, 2, 5, 6, 8, 14, 15
WINDOW, YIELD, RESUME, PLACE = 1, 2, 3, 4
CUT = ", cut by the window's end"  # of a thread that was not held then
STAT = {22: "windows", 23: "left", 24: "missed", 25: "holds", 26: "held_ns", 27: "holds_failed", 28: "finalize_ns"}


class Window:
    """What happened between TRACING_ON and TRACING_OFF, and the records that came of it."""

    def __init__(self, id, on):
        self.id, self.on, self.off, self.reason = id, on, None, None
        self.launches = {}  # correlation id: [graph launch, step, kernels]
        self.steps = {}  # (thread, time of push): [text, time of pop, kernels]
        self.strange = 0  # records whose launch was not heard
        self.zero = self.labelled = self.kernels = 0


class Session(threading.Thread):
    """One process that is heard. `done`: windows that are over, with their faults counted."""

    def __init__(self, connection):
        super().__init__(daemon=True)
        self.connection, self.lock = connection, threading.Lock()
        self.info, self.texts, self.stats, self.lost = {}, {}, {}, collections.Counter()
        self.clones, self.open, self.window, self.late = set(), {}, None, None
        self.done, self.faults, self.whole, self.launched, self.strange = [], [], 0, 0, 0
        self.steps, self.kernels, self.labelled, self.zero, self.states, self.over = 0, 0, 0, 0, [], False
        self.eager = collections.Counter()

    def run(self):
        try:
            while True:
                length, kind, _, number = struct.unpack("<IHHQ", self._read(16))
                body = self._read(length)
                if kind == HELLO:  # before anything is said to a session that is known
                    self._say(WELCOME, struct.pack("<QHHIQQ", MAGIC, 1, 0, 0, 0, 0))
                with self.lock:
                    self._frame(kind, body)
                if kind != HELLO and number:
                    self._say(ACK, struct.pack("<Q", number))
        except (OSError, EOFError):
            pass
        with self.lock:
            self._end_window()
            self.over = True

    def _read(self, size):
        parts = bytearray()
        while len(parts) < size:
            got = self.connection.recv(min(size - len(parts), 1 << 20))
            if not got:
                raise EOFError
            parts += got
        return parts

    def _say(self, kind, body):
        self.connection.sendall(struct.pack("<IHHQ", len(body), kind, 0, 0) + body)

    def control(self, command, *arguments):
        self._say(CONTROL, struct.pack("<II4Q", command, 0, *(list(arguments) + [0] * 4)[:4]))

    def place(self, domain=0, thread=0, depth=1):
        self.control(PLACE, domain, thread, depth)

    def order(self, id, start, seconds):
        """Orders a window: start in seconds from now."""
        begin = time.time_ns() + int(start * 1e9)
        self.control(WINDOW, begin, begin + int(seconds * 1e9), id)

    def _frame(self, kind, body):
        if kind in (HELLO, INFO):
            self._pairs(body, 24 if kind == HELLO else 0)
        elif kind == STRINGS:
            at = 0
            while at < len(body):
                id, size = struct.unpack_from("<II", body, at)
                self.texts[id] = bytes(body[at + 8 : at + 8 + size]).decode(errors="replace")
                at += 8 + (size + 7 & ~7)
        elif kind == EVENTS:
            at = 0
            while at < len(body):
                event, size, thread, when = struct.unpack_from("<HHIQ", body, at)
                self._event(event, thread, when, body, at, size)
                at += size
        elif kind == KERNELS:
            self._kernels(body)
        elif kind == STATS:
            for at in range(0, len(body), 16):
                key, _, value = struct.unpack_from("<IIQ", body, at)
                if key in STAT:
                    self.stats[STAT[key]] = value
        elif kind == LOST:
            reason, what, count = struct.unpack_from("<IIQ", body)
            self.lost[reason] += count

    def _pairs(self, body, at):
        while at < len(body):
            key, _, value = struct.unpack_from("<HHI", body, at)
            at += 8
            self.info[bytes(body[at : at + key]).decode()] = bytes(body[at + key : at + key + value]).decode(errors="replace")
            at += key + value
        state = (self.info.get("mode"), self.info.get("window_state"), self.info.get("mode_reason"))
        if not self.states or self.states[-1] != state:
            self.states = self.states[-20:] + [state]

    def _event(self, event, thread, when, body, at, size):
        window = self.window
        if event == PUSH:
            domain, text, length, depth = struct.unpack_from("<IIII", body, at + 16)
            said = self.texts.get(text, "") if text else bytes(body[at + 32 : at + 32 + length]).decode(errors="replace")
            if domain == 0 and said.startswith("step:"):
                self.steps += 1
                self.open[thread] = (thread, when)
                if window:
                    window.steps[thread, when] = [said, None, 0]
        elif event == POP:
            domain, depth = struct.unpack_from("<II", body, at + 16)
            if domain == 0 and depth == 0:
                step = self.open.pop(thread, None)
                if window and step in window.steps:
                    window.steps[step][1] = when
        elif event == LAUNCH and window:
            correlation, flags = struct.unpack_from("<II", body, at + 16)
            window.launches[correlation] = [flags & 1, self.open.get(thread), 0]
        elif event == CAPTURED and window:
            window.launches.pop(struct.unpack_from("<I", body, at + 16)[0], None)
        elif event == CLONED:
            self.clones.add(struct.unpack_from("<Q", body, at + 24)[0])
        elif event == ON:
            self._end_window()
            self.window = Window(struct.unpack_from("<Q", body, at + 16)[0], when)
        elif event == OFF:
            if window:
                window.off, window.reason = when, struct.unpack_from("<I", body, at + 24)[0]
                self.late, self.window = window, None

    def _kernels(self, body):
        window = self.window or self.late
        words, longs = memoryview(bytes(body)).cast("I"), memoryview(bytes(body)).cast("Q")
        if not window:
            self.strange += len(body) // 64
            return
        for correlation, count in collections.Counter(words[6::16].tolist()).items():
            launch = window.launches.get(correlation)
            if launch is None:
                window.strange += count
            else:
                launch[2] += count
        starts, ends, nodes = longs[0::8].tolist(), longs[1::8].tolist(), longs[2::8].tolist()
        window.kernels += len(starts)
        window.zero += sum(s == 0 or e < s for s, e in zip(starts, ends))
        window.labelled += sum(n in self.clones for n in nodes)

    def _end_window(self):
        """Holds the last window against what it should have brought. A step says how many kernels it has: n=…"""
        window, self.late = self.window or self.late, None
        self.window = None
        if not window:
            return
        wrong = []
        for graph, step, count in window.launches.values():
            if step in window.steps:
                window.steps[step][2] += count
            if not graph and count != 1:
                wrong.append(f"a kernel launch has {count} records")
            if graph and count == 0:
                wrong.append("a graph launch has no record")
            self.launched += graph
        for text, popped, count in window.steps.values():
            n = next((int(x[2:]) for x in text.replace(" ", ",").split(",") if x.startswith("n=")), None)
            if popped is None and window.off is None:
                continue  # the process ended in it
            if n is not None and count != n:
                wrong.append(f"{text}: {count} kernels" + (CUT if popped is None else ""))
            if n is None:
                self.eager[count] += 1
            self.whole += n is not None and count == n
        if window.off is None:
            wrong = [w for w in wrong if "record" not in w]
        if window.zero:
            wrong.append(f"{window.zero} kernels without times")
        if wrong:
            self.faults.append((window.id, window.reason, len(wrong), wrong[:3]))
        self.kernels += window.kernels
        self.labelled += window.labelled
        self.zero += window.zero
        self.strange += window.strange
        self.done.append((window.id, window.on, window.off, window.reason, len(window.steps)))

    def state(self):
        with self.lock:
            return self.info.get("mode"), self.info.get("window_state"), self.info.get("mode_reason")

    def counted(self):
        """How many windows have ended, as their TRACING_OFF came."""
        with self.lock:
            return len(self.done) + (self.late is not None)

    def summary(self):
        with self.lock:
            held = self.stats.get("held_ns", 0) / max(self.stats.get("holds", 0), 1) / 1e6
            finalize = self.stats.get("finalize_ns", 0) / max(self.stats.get("windows", 0), 1) / 1e6
            return {"windows": len(self.done), "steps": self.steps, "whole_steps_in_windows": self.whole, "kernels": self.kernels,
                    "labelled": round(self.labelled / self.kernels, 4) if self.kernels else None, "zero": self.zero, "strange": self.strange,
                    "faults": self.faults[:4], "of": len(self.faults), "eager": dict(self.eager.most_common(4)), "lost": dict(self.lost),
                    "held_ms": round(held, 2), "finalize_ms": round(finalize, 2), **self.stats, "state": self.states[-1:] and self.states[-1]}


class Hearer:
    """Listens on a socket of its own; sessions come by process id."""

    def __init__(self, folder):
        self.path = os.path.join(folder, f"hear-{os.getpid()}.sock")
        self.sessions, self.came = [], threading.Condition()
        self._listen()

    def _listen(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            session = Session(connection)
            session.start()
            with self.came:
                self.sessions.append(session)
                self.came.notify_all()

    def session(self, pid, seconds=60):
        """Waits for a process to say HELLO; None: it does not."""
        until = time.time() + seconds
        while time.time() < until:
            with self.came:
                for session in reversed(self.sessions):
                    if session.info.get("pid") == str(pid):
                        return session
                self.came.wait(0.1)
        return None

    def cut(self):
        """Ends all connections at once and takes no more, as a killed collector does: frames that it has not acknowledged stay so."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.came:
            for session in self.sessions:
                session.connection.shutdown(socket.SHUT_RDWR)
            self.sessions = []

    def again(self):
        """Listens as a new collector at the same place, after cut."""
        os.unlink(self.path)
        self._listen()

    def close(self):
        self.listener.close()
        os.unlink(self.path)


def windows(session, alive, count, length, gap, until):
    """Orders windows one after the other, until so many came or the time is over; it gives how many were ordered."""
    ordered = 0
    while ordered < count and time.time() < until and alive():
        if session.state()[:2] != ("windows", "detached"):
            time.sleep(0.002)
            continue
        before = session.counted()
        ordered += 1
        session.order(ordered, gap, length)
        end = time.time() + gap + length + 1.2  # one that came too late is missed
        while session.counted() == before and time.time() < end and alive():
            time.sleep(0.002)
    return ordered
