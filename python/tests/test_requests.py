"""The requests of steps, as the shim is told them."""

import struct
import unittest

from rig import Rig


class Requests(Rig):
    def setUp(self):
        super().setUp()
        self.inject()
        self.setenv("KERNHES_REQUESTS", "1")
        import kernhes
        self.kernhes = kernhes

    def run_step(self, seq, requests):
        with self.kernhes.step("decode", seq=seq, requests=requests):
            pass
        names, parts = {}, []
        for line in self.told():
            if line.startswith("mark 16777218 "):
                data = bytes.fromhex(line.split()[2])
                number, length, high, low = struct.unpack_from("<IIQQ", data)
                self.assertEqual(len(data), 24 + length)
                names[number] = (data[24:].decode(), high << 64 | low)
            elif line.startswith("mark 16777219 "):
                data = bytes.fromhex(line.split()[2])
                self.assertLessEqual(len(data), 512)
                said, total, first, count, reserved = struct.unpack_from("<QIIII", data)
                self.assertEqual((said, reserved, len(data)), (seq, 0, 24 + 12 * count))
                parts.append((total, first, [struct.unpack_from("<III", data, 24 + 12 * i) for i in range(count)]))
        return names, parts

    def test_names_once(self):
        trace = 0x0AF7651916CD43DD8448EB211C80319C
        names, parts = self.run_step(0, [("cmpl-a", 512, 128), ("cmpl-b", 1, 4095, trace)])
        self.assertEqual(names, {1: ("cmpl-a", 0), 2: ("cmpl-b", trace)})
        self.assertEqual(parts, [(2, 0, [(1, 512, 128), (2, 1, 4095)])])
        names, parts = self.run_step(1, [("cmpl-b", 1, 4096), ("cmpl-ü", 7, 0, lambda: 5)])
        self.assertEqual(names, {3: ("cmpl-ü", 5)})
        self.assertEqual(parts, [(2, 0, [(2, 1, 4096), (3, 7, 0)])])

    def test_several_marks(self):
        names, parts = self.run_step(3, [(f"r{i}", 1, i) for i in range(85)])
        self.assertEqual(len(names), 85)
        self.assertEqual([(total, first, len(rows)) for total, first, rows in parts], [(85, 0, 40), (85, 40, 40), (85, 80, 5)])
        self.assertEqual([row for _, _, rows in parts for row in rows], [(i + 1, 1, i) for i in range(85)])

    def test_a_step_without_requests_says_so(self):
        self.assertEqual(self.run_step(3, []), ({}, [(0, 0, [])]))

    def test_a_long_name_is_cut(self):
        names, _ = self.run_step(1, [("x" * 300, 1, 0)])
        self.assertEqual(names, {1: ("x" * 256, 0)})

    def test_names_come_again_and_go(self):
        self.run_step(0, [("stays", 1, 0), ("goes", 1, 0)])
        again = [seq for seq in range(1, 600) if self.run_step(seq, [("stays", 1, 0)])[0]]
        self.assertEqual(len(again), 2, "about every 256 steps")
        self.assertEqual(again[1] - again[0], 256)
        names, _ = self.run_step(600, [("goes", 1, 0)])
        self.assertEqual(names, {3: ("goes", 0)}, "it was forgotten, and its number is not used again")

    def test_only_if_asked(self):
        self.setenv("KERNHES_REQUESTS", None)
        self.assertEqual(self.run_step(0, [("a", 1, 0)]), ({}, []))

    def test_a_bad_list_ends_it_once(self):
        with self.assertLogs("kernhes", "WARNING") as logs:
            self.run_step(0, [("a", "many", 0)])
            self.run_step(1, [("a", 1, 0)])
        self.assertEqual(len(logs.output), 1)
        self.assertIn("requests: off", logs.output[0])


if __name__ == "__main__":
    unittest.main()
