"""python3 python/test_kernhes.py: with PyTorch, with the nvtx package, with neither; each stood in for."""

import importlib
import sys
import types
import unittest


class Helper(unittest.TestCase):
    def load(self, torch=None, nvtx=None):
        """The module, as imported where these stand for torch.cuda.nvtx and nvtx; None: there is none."""
        modules = {"torch": torch and types.ModuleType("torch"), "torch.cuda": torch and types.ModuleType("torch.cuda"),
                   "torch.cuda.nvtx": torch, "nvtx": nvtx}
        for name in [*modules, "kernhes"]:
            self.addCleanup(sys.modules.pop, name, None)
        sys.modules.pop("kernhes", None)
        sys.modules.update(modules)  # None makes an import of it fail
        return importlib.import_module("kernhes")

    def module(self, push, pop):
        """A module that notes what it is told."""
        module, self.heard = types.ModuleType("stand-in"), []
        setattr(module, push, self.heard.append)
        setattr(module, pop, lambda: self.heard.append(None))
        return module

    def use(self, kernhes):
        del self.heard[:]
        with kernhes.step("decode", seq=7, seqs=48, kv=96000):
            with self.assertRaises(KeyError), kernhes.call("decode.layers.0"):
                raise KeyError
        return self.heard

    WANT = ["step:decode seq=7,seqs=48,kv=96000", "decode.layers.0", None, None]

    def test_torch(self):
        self.assertEqual(self.use(self.load(torch=self.module("range_push", "range_pop"))), self.WANT)

    def test_nvtx(self):
        self.assertEqual(self.use(self.load(nvtx=self.module("push_range", "pop_range"))), self.WANT)

    def test_torch_without_cuda(self):
        broken = types.ModuleType("torch.cuda.nvtx")
        broken.range_push = broken.range_pop = lambda *text: (_ for _ in ()).throw(RuntimeError("no CUDA"))
        self.assertEqual(self.use(self.load(torch=broken, nvtx=self.module("push_range", "pop_range"))), self.WANT)

    def test_neither(self):
        kernhes = self.load()
        with kernhes.step("decode", seq=1), kernhes.call("a"):
            pass


if __name__ == "__main__":
    unittest.main()
