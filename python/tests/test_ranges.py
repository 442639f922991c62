"""Ranges: through the shim, through PyTorch, through the nvtx package, or nowhere; each stood in for."""

import sys
import types
import unittest

from rig import Rig


class Ranges(Rig):
    def load(self, torch=None, nvtx=None):
        """The package, as imported where these stand for torch.cuda.nvtx and nvtx; None: there is none."""
        modules = {"torch": torch and types.ModuleType("torch"), "torch.cuda": torch and types.ModuleType("torch.cuda"),
                   "torch.cuda.nvtx": torch, "nvtx": nvtx}
        sys.modules.update(modules)  # None makes an import of it fail
        if torch:
            modules["torch"].cuda = modules["torch.cuda"]
            modules["torch.cuda"].is_initialized = lambda: False
        import kernhes
        return kernhes

    def stand_in(self, push, pop):
        """A module that notes what it is told."""
        module, self.heard = types.ModuleType("stand-in"), []
        setattr(module, push, self.heard.append)
        setattr(module, pop, lambda: self.heard.append(None))
        return module

    def use(self, kernhes):
        with kernhes.step("decode", seq=7, seqs=48, kv=96000):
            with self.assertRaises(KeyError), kernhes.call("decode.layers.0"):
                raise KeyError

    WANT = ["step:decode seq=7,seqs=48,kv=96000", "decode.layers.0", None, None]

    def test_torch(self):
        self.use(self.load(torch=self.stand_in("range_push", "range_pop")))
        self.assertEqual(self.heard, ["kernhes", None, *self.WANT], "it is tried first")

    def test_nvtx(self):
        self.use(self.load(nvtx=self.stand_in("push_range", "pop_range")))
        self.assertEqual(self.heard, self.WANT)

    def test_torch_without_cuda(self):
        broken = types.ModuleType("torch.cuda.nvtx")
        broken.range_push = broken.range_pop = lambda *text: (_ for _ in ()).throw(RuntimeError("no CUDA"))
        self.use(self.load(torch=broken, nvtx=self.stand_in("push_range", "pop_range")))
        self.assertEqual(self.heard, self.WANT)

    def test_neither(self):
        self.use(self.load())

    def test_shim(self):
        self.inject()
        self.use(self.load(torch=self.stand_in("range_push", "range_pop")))
        self.assertEqual(self.heard, [], "a shim needs neither")
        self.assertEqual([line for line in self.told() if line.startswith(("push", "pop"))],
                         ["push " + text if text else "pop" for text in self.WANT])

    def test_another_injection_is_left_to_nvtx(self):
        self.setenv("NVTX_INJECTION64_PATH", "/opt/nsight/libToolsInjection64.so")
        self.use(self.load(nvtx=self.stand_in("push_range", "pop_range")))
        self.assertEqual(self.heard, self.WANT)

    def test_a_shim_that_cannot_be_loaded(self):
        self.setenv("NVTX_INJECTION64_PATH", "/nowhere/libkernhes.so")
        self.use(self.load(nvtx=self.stand_in("push_range", "pop_range")))
        self.assertEqual(self.heard, self.WANT)


if __name__ == "__main__":
    unittest.main()
