"""What the tests share: stand-ins for the shim and the CUDA driver, compiled from C, and a fresh import of the package."""

import atexit
import ctypes
import functools
import importlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import types
import unittest

_HERE = os.path.dirname(os.path.abspath(__file__))


@functools.cache
def _folder():
    folder = tempfile.mkdtemp(prefix="kernhes-test-")
    atexit.register(shutil.rmtree, folder, True)
    return folder


@functools.cache
def build(name, file):
    """Compiles fakes/NAME.c into a library of this file name and gives its path."""
    path = os.path.join(_folder(), file)
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o", path,
                    os.path.join(_HERE, "fakes", name + ".c")], check=True)
    return path


class Rig(unittest.TestCase):
    """Imports the package anew for each test, with an injected stand-in for the shim."""

    def setUp(self):
        self.forget()
        self.addCleanup(self.forget)
        self.environ = {}
        for name in ("NVTX_INJECTION64_PATH", "KERNHES_REQUESTS", "KERNHES_DEVICE_TIME", "KERNHES_HOOKS"):
            self.setenv(name, None)

    def forget(self):
        for name in [n for n in sys.modules if n.partition(".")[0] in ("kernhes", "torch", "nvtx", "vllm", "sglang", "opentelemetry")]:
            del sys.modules[name]

    def setenv(self, name, value):
        before = os.environ.get(name)
        self.addCleanup(lambda: os.environ.pop(name, None) if before is None else os.environ.__setitem__(name, before))
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value

    def inject(self):
        path = build("injection", "libkernhes-fake.so")
        self.setenv("NVTX_INJECTION64_PATH", path)
        self.shim = ctypes.CDLL(path)
        self.shim.fake_told.restype = ctypes.c_char_p
        self.shim.fake_clear()

    def drive(self):
        """Puts the stand-in for the driver in place, with a context; gives it."""
        path = build("cuda", "libcuda-fake.so")
        importlib.import_module("kernhes._clock").LIBRARY = path
        return Driver(ctypes.CDLL(path))

    def told(self):
        """What the shim was told, a line each; then it forgets."""
        lines = self.shim.fake_told().decode().splitlines()
        self.shim.fake_clear()
        return lines

    def steps(self):
        """The payloads of kernhes.step_device.v1 that the shim was told."""
        return [StepDevice(bytes.fromhex(line.split()[2])) for line in self.told() if line.startswith("mark 16777217 ")]

    def module(self, name, **values):
        """Puts a module in place."""
        module = types.ModuleType(name)
        module.__dict__.update(values)
        sys.modules[name] = module
        return module

    def torch(self, handle=7):
        """A PyTorch that has initialised CUDA, as far as the package looks at it."""
        class CUDAGraph:
            def replay(self):
                return "replayed"

        cuda = self.module("torch.cuda", is_initialized=lambda: True, current_stream=lambda: types.SimpleNamespace(cuda_stream=handle),
                           CUDAGraph=CUDAGraph)
        return self.module("torch", cuda=cuda)


class StepDevice:
    """One payload of kernhes.step_device.v1."""

    def __init__(self, data):
        (self.seq, self.device_ns, self.sum_prefill_tokens, self.sum_prefill_kv_tokens, self.sum_decode_kv_tokens,
         self.num_prefill_requests, self.num_decode_requests, self.graphs, self.flags) = struct.unpack("<5Q4I", data)

    def counts(self):
        return (self.sum_prefill_tokens, self.sum_prefill_kv_tokens, self.sum_decode_kv_tokens, self.num_prefill_requests,
                self.num_decode_requests)


class Driver:
    """The stand-in for the driver. Attributes are its variables without fake_."""

    _types = {"now_us": ctypes.c_double, "capturing": ctypes.c_int, "record_fails": ctypes.c_int, "context": ctypes.c_void_p}

    def __init__(self, library):
        self.__dict__["library"] = library
        for name in ("now_us", "reached", "recorded", "made", "capturing", "record_fails", "forbidden"):
            setattr(self, name, 0)
        self.context = 0xC0

    def _variable(self, name):
        return self._types.get(name, ctypes.c_long).in_dll(self.library, "fake_" + name)

    def __getattr__(self, name):
        return self._variable(name).value

    def __setattr__(self, name, value):
        self._variable(name).value = value
