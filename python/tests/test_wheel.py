"""The wheel itself: where the tests' package comes from, its record, and that it works from a zip on the path, uninstalled."""

import base64
import hashlib
import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import unittest
import zipfile

WHEEL = os.environ.get("KERNHES_WHEEL", "")


class Wheel(unittest.TestCase):
    def test_tests_run_from_the_installed_wheel(self):
        import kernhes
        self.assertEqual(os.path.dirname(kernhes.__file__), os.path.join(sysconfig.get_path("purelib"), "kernhes"))
        self.assertEqual(importlib.metadata.version("kernhes"), kernhes.__version__)
        self.assertIsNone(importlib.metadata.requires("kernhes"))

    def test_record(self):
        with zipfile.ZipFile(WHEEL) as z:
            info, = {name.partition("/")[0] for name in z.namelist() if ".dist-info/" in name}
            rows = dict(line.split(",", 1) for line in z.read(f"{info}/RECORD").decode().splitlines())
            self.assertEqual(sorted(rows), sorted(z.namelist()))
            for name, row in rows.items():
                if not name.endswith("/RECORD"):
                    data = z.read(name)
                    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                    self.assertEqual(row, f"sha256={digest},{len(data)}")

    def test_a_wheel_on_the_path_is_enough(self):
        code = ("import importlib.metadata as m, kernhes; "
                "print(kernhes.__file__, *[e.load().__module__ for g in ('vllm.general_plugins', 'sglang.srt.plugins') "
                "for e in m.entry_points(group=g)])")
        out = subprocess.run([sys.executable, "-S", "-c", code], env={"PYTHONPATH": WHEEL}, capture_output=True, text=True, check=True)
        self.assertEqual(out.stdout.split(), [f"{WHEEL}/kernhes/__init__.py", "kernhes.vllm", "kernhes.sglang"])


if __name__ == "__main__":
    unittest.main()
