"""Ranges and marks. An injected libkernhes.so is called directly, as an image of NVTX would; without it PyTorch or the nvtx package
push ranges, and there are no marks."""

import ctypes
import os

_CORE, _CORE2, _CALLBACKS, _PAYLOAD = 1, 5, 1, 2
_SLOTS, _PAYLOAD_SLOTS = 16, 63
_PUSH, _POP, _CREATE = 9, 11, 12  # RangePushA and RangePop of CORE, DomainCreateA of CORE2
_REGISTER, _MARK = 0, 2  # slots of the payload extension
_VERSION, _COMPATIBLE = 3, 259

_size, _pointer = ctypes.c_size_t, ctypes.c_void_p


class _Callbacks(ctypes.Structure):
    _fields_ = [("size", _size), ("module_table", _pointer)]


class _Segment(ctypes.Structure):
    _fields_ = [("id", _size), ("slots", _size), ("functions", ctypes.POINTER(_pointer))]


class _Module(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint16), ("size", ctypes.c_uint16), ("module", ctypes.c_uint16), ("compatible", ctypes.c_uint16),
                ("segments_count", _size), ("segments", ctypes.POINTER(_Segment)), ("export_table", _pointer), ("types", _pointer)]


class Entry(ctypes.Structure):
    """nvtxPayloadSchemaEntry_t"""
    _fields_ = [("flags", ctypes.c_uint64), ("type", ctypes.c_uint64), ("name", ctypes.c_char_p), ("description", ctypes.c_char_p),
                ("detail", ctypes.c_uint64), ("offset", ctypes.c_uint64), ("semantics", _pointer), ("reserved", _pointer)]


class Schema(ctypes.Structure):
    """nvtxPayloadSchemaAttr_t"""
    _fields_ = [("fields", ctypes.c_uint64), ("name", ctypes.c_char_p), ("type", ctypes.c_uint64), ("flags", ctypes.c_uint64),
                ("entries", ctypes.POINTER(Entry)), ("count", _size), ("static_size", _size), ("pack", _size), ("id", ctypes.c_uint64)]


class _Payload(ctypes.Structure):
    _fields_ = [("schema", ctypes.c_uint64), ("size", _size), ("bytes", ctypes.c_char_p)]


# Sizes and alignments of NVTX's entry types 1 to 27 on 64-bit Linux; first the length of the table and of its entries.
_WIDTHS = [1, 1, 2, 2, 4, 4, 8, 8, 8, 8, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 16, 8, 8, 4, 1, 2, 4]
_TYPES = (ctypes.c_uint16 * 56)(28, 4, *(w for width in _WIDTHS for w in (width, width)))

_GetTable = ctypes.CFUNCTYPE(_pointer, ctypes.c_uint32)
_ModuleTable = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(_pointer), ctypes.POINTER(ctypes.c_uint))
# These keep the GIL: they take less time than to give it back, and never wait.
_PushA = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_char_p)
_Pop = ctypes.PYFUNCTYPE(ctypes.c_int)
_CreateA = ctypes.PYFUNCTYPE(_pointer, ctypes.c_char_p)
_Register = ctypes.PYFUNCTYPE(ctypes.c_uint64, _pointer, ctypes.POINTER(Schema))
_Mark = ctypes.PYFUNCTYPE(None, _pointer, ctypes.POINTER(_Payload), _size)


class Injected:
    """An injection library, initialised as by an image of NVTX that has no code but this. It is never unloaded."""

    def __init__(self, path):
        """Raises OSError or AttributeError where path is no such library."""
        library = ctypes.CDLL(path)
        self._functions = {module: (_pointer * _SLOTS)() for module in (_CORE, _CORE2)}
        self._slots = {module: (_pointer * _SLOTS)(None, *(ctypes.addressof(f) + 8 * i for i in range(1, _SLOTS)))
                       for module, f in self._functions.items()}
        self._module_table = _ModuleTable(self._give_table)
        self._callbacks = _Callbacks(ctypes.sizeof(_Callbacks), ctypes.cast(self._module_table, _pointer))
        self._get_table = _GetTable(lambda number: ctypes.addressof(self._callbacks) if number == _CALLBACKS else None)
        if library.InitializeInjectionNvtx2(self._get_table) != 1:
            raise OSError(f"{path} did not initialise")
        self._push = _PushA(self._function(_CORE, _PUSH))
        self.pop = _Pop(self._function(_CORE, _POP))
        self._payloads = (_pointer * _PAYLOAD_SLOTS)()
        self._segment = _Segment(0, _PAYLOAD_SLOTS, self._payloads)
        self._module = _Module(_VERSION, ctypes.sizeof(_Module), _PAYLOAD, _COMPATIBLE, 1, ctypes.pointer(self._segment),
                               None, ctypes.addressof(_TYPES))
        if library.InitializeInjectionNvtxExtension(ctypes.byref(self._module)) != 1 or not self._payloads[_MARK]:
            raise OSError(f"{path} takes no payloads")
        self._register, self._mark = _Register(self._payloads[_REGISTER]), _Mark(self._payloads[_MARK])
        self._create = _CreateA(self._function(_CORE2, _CREATE))

    def _give_table(self, module, table, size):
        if module not in self._slots:
            return 0
        table[0], size[0] = ctypes.addressof(self._slots[module]), _SLOTS
        return 1

    def _function(self, module, slot):
        address = self._functions[module][slot]
        if not address:
            raise OSError(f"no function in slot {slot} of NVTX's module {module}")
        return address

    def push(self, text):
        self._push(text.encode("utf-8", "replace"))

    def domain(self, name):
        """The handle of a domain."""
        return self._create(name.encode())

    def register(self, domain, schema):
        """Registers a Schema, which must live on."""
        self._register(domain, ctypes.byref(schema))

    def mark(self, domain, schema, data):
        """A mark with one payload: bytes, laid out as the schema of that id says."""
        self._mark(domain, ctypes.byref(_Payload(schema, len(data), data)), 1)


class Borrowed:
    """Ranges through functions of another package."""

    def __init__(self, push, pop):
        self.push, self.pop = push, pop


def _borrow():
    try:
        from torch.cuda.nvtx import range_pop, range_push
        range_push("kernhes"), range_pop()  # a PyTorch without CUDA has them, and they raise
        return Borrowed(range_push, range_pop)
    except Exception:
        pass
    try:
        from nvtx import pop_range, push_range
        return Borrowed(push_range, pop_range)
    except Exception:
        return Borrowed(lambda text: None, lambda: None)


def path():
    """The path of the injected libkernhes.so, or "": this process has none."""
    injected = os.environ.get("NVTX_INJECTION64_PATH", "")
    return injected if os.path.basename(injected).startswith("libkernhes") else ""


_ranges = _injected = None


def injected():
    """The injected libkernhes.so as an Injected, or None."""
    ranges()
    return _injected


def ranges():
    """What pushes and pops the ranges of this process; chosen at the first call."""
    global _ranges, _injected
    if _ranges is None:
        if path():
            try:
                _injected = Injected(path())
            except Exception:
                pass
        _ranges = _injected or _borrow()
    return _ranges
