"""Marks with payloads: what kernhes's hooks say beside ranges. Layouts: internal/wire/WIRE.md, "Payloads of the hooks"."""

import ctypes
import struct

from kernhes import _nvtx

DOMAIN = "kernhes"
STEP_DEVICE, REQUEST, STEP_REQUESTS, STEP_REQUEST = (0x1000000 + n for n in (1, 2, 3, 4))  # NVTX's static schema ids

UNMEASURED, NO_BATCH = 1, 2  # flags of STEP_DEVICE
GRAPHS_UNKNOWN = 0xFFFFFFFF
NO_COUNTS = (0, 0, 0, 0, 0)

ID_BYTES = 256  # of a request's id; longer ones are cut
REQUESTS_A_MARK = 40  # the shim sends 512 bytes of a payload

_STEP_DEVICE = struct.Struct("<QQQQQIIII")
_REQUEST = struct.Struct("<IIQQ")

_CHAR, _UINT32, _UINT64 = 1, 16, 18  # NVTX's entry types
_STATIC, _DYNAMIC = 1, 2  # its schema types
_FIXED, _BY_INDEX = 1 << 4, 3 << 4  # its flags of arrays: detail is the length, or the index of the entry that has it
_NAME, _TYPE, _ENTRIES, _COUNT, _SIZE, _ID = (1 << n for n in (1, 2, 4, 5, 6, 8))

# Name, id, size in bytes (0: it varies), and entries: name, type, offset, flags, detail.
_SCHEMAS = [
    ("kernhes.step_device.v1", STEP_DEVICE, 56, [
        ("seq", _UINT64, 0), ("device_ns", _UINT64, 8), ("sum_prefill_tokens", _UINT64, 16), ("sum_prefill_kv_tokens", _UINT64, 24),
        ("sum_decode_kv_tokens", _UINT64, 32), ("num_prefill_requests", _UINT32, 40), ("num_decode_requests", _UINT32, 44),
        ("graphs", _UINT32, 48), ("flags", _UINT32, 52)]),
    ("kernhes.request.v1", REQUEST, 24 + ID_BYTES, [
        ("request", _UINT32, 0), ("id_bytes", _UINT32, 4), ("trace_id_high", _UINT64, 8), ("trace_id_low", _UINT64, 16),
        ("id", _CHAR, 24, _FIXED, ID_BYTES)]),
    ("kernhes.step_request.v1", STEP_REQUEST, 12, [("request", _UINT32, 0), ("tokens", _UINT32, 4), ("cached", _UINT32, 8)]),
    ("kernhes.step_requests.v1", STEP_REQUESTS, 0, [
        ("seq", _UINT64, 0), ("total", _UINT32, 8), ("first", _UINT32, 12), ("count", _UINT32, 16), ("reserved", _UINT32, 20),
        ("requests", STEP_REQUEST, 24, _BY_INDEX, 3)]),
]


def _entry(name, type, offset, flags=0, detail=0):
    return _nvtx.Entry(flags=flags, type=type, name=name.encode(), detail=detail, offset=offset)


def _schema(name, number, size, entries):
    given = _NAME | _TYPE | _ENTRIES | _COUNT | _ID | (_SIZE if size else 0)
    array = (_nvtx.Entry * len(entries))(*(_entry(*e) for e in entries))
    return _nvtx.Schema(fields=given, name=name.encode(), type=_STATIC if size else _DYNAMIC, entries=array, count=len(entries),
                        static_size=size, id=number)


class Marks:
    """Sends marks through an Injected."""

    def __init__(self, injected):
        self._injected, self._domain = injected, injected.domain(DOMAIN)
        self._schemas = [_schema(*s) for s in _SCHEMAS]
        for schema in self._schemas:
            injected.register(self._domain, schema)

    def step_device(self, seq, device_ns, counts, graphs):
        """One step has run. device_ns None: it was not measured. counts None: nobody says what was in it."""
        flags = (UNMEASURED if device_ns is None else 0) | (NO_BATCH if counts is None else 0)
        data = _STEP_DEVICE.pack(seq, device_ns or 0, *(counts or NO_COUNTS), graphs, flags)
        self._injected.mark(self._domain, STEP_DEVICE, data)

    def request(self, number, name, trace):
        """From here on a number stands for a request. trace: its trace id, or 0."""
        data = name.encode("utf-8", "replace")[:ID_BYTES]
        head = _REQUEST.pack(number, len(data), trace >> 64 & 0xFFFFFFFFFFFFFFFF, trace & 0xFFFFFFFFFFFFFFFF)
        self._injected.mark(self._domain, REQUEST, head + data)

    def step_requests(self, seq, rows):
        """What is in a step: number, tokens, cached of each request, end to end. A step without requests sends one empty mark."""
        total = len(rows) // 3
        for first in range(0, total or 1, REQUESTS_A_MARK):
            some = rows[3 * first:3 * (first + REQUESTS_A_MARK)]
            data = struct.pack(f"<QIIII{len(some)}I", seq, total, first, len(some) // 3, 0, *some)
            self._injected.mark(self._domain, STEP_REQUESTS, data)
