"""Through the real shim: marks of the hooks as they come to a collector. CUPTI is the mock's; KERNHES_SHIM and KERNHES_MOCK_CUPTI
name the built libraries."""

import os
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

SHIM, CUPTI = os.environ.get("KERNHES_SHIM", ""), os.environ.get("KERNHES_MOCK_CUPTI", "")

# An engine: cuInit, a context, then two steps. Times on the device come from a clock that the test sets.
ENGINE = '''
import ctypes, os

class Control(ctypes.Structure):
    _fields_ = [(name, ctypes.CFUNCTYPE(None, *arguments)) for name, *arguments in
                [("start", ctypes.c_bool), ("driver_initialised",), ("context_created", ctypes.c_uint32, ctypes.c_uint32)]]

control = Control.in_dll(ctypes.CDLL(os.environ["KERNHES_CUPTI"]), "kernhes_mock")
control.start(False)
ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"]).InitializeInjection()
control.driver_initialised()
control.context_created(1, 0)

import kernhes
from kernhes import _steps

class Clock:
    def begin(self, stream):
        return stream
    def end(self, pair, tell):
        tell(pair * 1000)

_steps._Parts.clock = Clock()
with kernhes.step("decode", seq=7, seqs=2, stream=123, requests=[("cmpl-a", 1, 640), ("cmpl-b", 1, 88, 1 << 64 | 2)]):
    pass
with kernhes.step("decode", seq=8, stream=456):
    pass
'''


class Collector:
    """Takes one session and keeps the bodies of its EVENTS frames."""

    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(1)
        self.listener.settimeout(60)

    def events(self):
        connection, _ = self.listener.accept()
        connection.settimeout(60)
        with connection, connection.makefile("rb") as stream:
            kind = None
            while kind != 13:  # BYE
                length, kind, _, number = struct.unpack("<IHHQ", stream.read(16))
                body = stream.read(length)
                if kind == 1:  # HELLO
                    magic, version = struct.unpack_from("<QH", body)
                    self.say(connection, 64, struct.pack("<QHHIQQ", magic, version, 0, 0, 0, 0))
                if number:
                    self.say(connection, 65, struct.pack("<Q", number))
                if kind == 4:
                    yield from self.split(body)

    @staticmethod
    def say(connection, kind, body):
        connection.sendall(struct.pack("<IHHQ", len(body), kind, 0, 0) + body)

    @staticmethod
    def split(body):
        while body:
            kind, length = struct.unpack_from("<HH", body)
            yield kind, body[:length]
            body = body[length:]


class Wire(unittest.TestCase):
    def test_marks_reach_the_collector(self):
        with tempfile.TemporaryDirectory() as folder:
            collector = Collector(os.path.join(folder, "k.sock"))
            environ = {**os.environ, "KERNHES_ENDPOINT": f"unix://{folder}/k.sock", "NVTX_INJECTION64_PATH": SHIM, "KERNHES_CUPTI": CUPTI,
                       "KERNHES_SOFTWARE": "on", "KERNHES_REQUESTS": "1", "KERNHES_LINGER_MS": "30000"}
            engine = subprocess.Popen([sys.executable, "-c", ENGINE], env=environ)
            events = list(collector.events())
            self.assertEqual(engine.wait(60), 0)
            collector.listener.close()
        domains = {e[24:24 + struct.unpack_from("<I", e, 20)[0]]: struct.unpack_from("<I", e, 16)[0] for kind, e in events if kind == 11}
        domain = domains[b"kernhes"]
        schemas, payloads = {}, []
        for kind, e in events:
            if kind == 12 and struct.unpack_from("<I", e, 24)[0] == domain:
                number, _, size, _, length, count, form = struct.unpack_from("<QIIIIII", e, 16)
                schemas[number] = (size, count, form, self.names(e[48:48 + length]))
            elif kind == 13:
                where, _, number, length, size, site = struct.unpack_from("<IIQIII", e, 24)
                self.assertEqual((where, site, length), (domain, 0, size))
                payloads.append((number, e[56:56 + length]))
        self.assertEqual(schemas, {
            16777217: (56, 9, 1, ["seq", "device_ns", "sum_prefill_tokens", "sum_prefill_kv_tokens", "sum_decode_kv_tokens",
                                  "num_prefill_requests", "num_decode_requests", "graphs", "flags"]),
            16777218: (280, 5, 1, ["request", "id_bytes", "trace_id_high", "trace_id_low", "id"]),
            16777219: (0, 6, 2, ["seq", "total", "first", "count", "reserved", "requests"]),
            16777220: (12, 3, 1, ["request", "tokens", "cached"])})
        self.assertEqual(payloads, [
            (16777217, struct.pack("<5Q4I", 7, 123000, 0, 0, 0, 0, 0, 0xFFFFFFFF, 2)),
            (16777218, struct.pack("<IIQQ", 1, 6, 0, 0) + b"cmpl-a"), (16777218, struct.pack("<IIQQ", 2, 6, 1, 2) + b"cmpl-b"),
            (16777219, struct.pack("<QIIII", 7, 2, 0, 2, 0) + struct.pack("<6I", 1, 1, 640, 2, 1, 88)),
            (16777217, struct.pack("<5Q4I", 8, 456000, 0, 0, 0, 0, 0, 0xFFFFFFFF, 2))])
        texts = [e[32:32 + struct.unpack_from("<I", e, 24)[0]] for kind, e in events if kind == 1]
        self.assertEqual(texts, [b"step:decode seq=7,seqs=2", b"step:decode seq=8"])

    @staticmethod
    def names(entries):
        found = []
        while entries:
            length, = struct.unpack_from("<I", entries, 32)
            found.append(entries[40:40 + length].decode())
            entries = entries[40 + length + 7 & ~7:]
        return found


if __name__ == "__main__":
    unittest.main()
