"""Device time: the events of the stand-in for the driver, and what the shim is told of them."""

import sys
import unittest

from rig import Rig

UNMEASURED, NO_BATCH, UNKNOWN = 1, 2, 0xFFFFFFFF


class DeviceTime(Rig):
    def setUp(self):
        super().setUp()
        self.inject()
        self.driver = self.drive()
        self.torch()
        import kernhes
        self.kernhes = kernhes

    def run_step(self, seq, us, **more):
        with self.kernhes.step("decode", seq=seq, **more):
            self.driver.now_us += us
        self.driver.now_us += 1000  # other work on the stream is no part of a step

    def test_one_step_later(self):
        self.run_step(7, 250)
        self.assertEqual(self.steps(), [], "the device has not come to its end")
        self.driver.reached = 2
        self.run_step(8, 3000)
        step, = self.steps()
        self.assertEqual((step.seq, step.device_ns, step.flags, step.graphs), (7, 250_000, NO_BATCH, UNKNOWN))
        self.driver.reached = 100
        self.run_step(9, 1)
        self.assertEqual([(s.seq, s.device_ns) for s in self.steps()], [(8, 3_000_000), (9, 1000)])
        self.assertEqual(self.driver.made, 4, "pairs are used again: two ran at once")
        self.assertEqual((self.driver.forbidden, self.driver.library.fake_mode()), (0, 0), "and the thread's mode is as before")

    def test_range_and_layout(self):
        self.run_step(7, 250, seqs=2)
        lines = self.told()
        self.assertIn("push step:decode seq=7,seqs=2", lines)
        self.assertEqual(lines[-1], "pop")
        self.assertIn("schema kernhes.step_device.v1 id=16777217 type=1 size=56 seq:18@0 device_ns:18@8 sum_prefill_tokens:18@16 "
                      "sum_prefill_kv_tokens:18@24 sum_decode_kv_tokens:18@32 num_prefill_requests:16@40 num_decode_requests:16@44 "
                      "graphs:16@48 flags:16@52", lines)
        self.assertEqual([line for line in lines if line.startswith("domain")], ["domain kernhes"])

    def test_nothing_in_a_capture(self):
        self.driver.capturing = 1
        self.run_step(1, 10)
        self.assertEqual((self.driver.recorded, [s.flags for s in self.steps()]), (0, [UNMEASURED | NO_BATCH]))
        self.driver.capturing = 0
        with self.kernhes.step("decode", seq=2):
            self.driver.capturing = 1  # a capture begins in the step
        self.assertEqual((self.driver.recorded, [s.flags for s in self.steps()]), (1, [UNMEASURED | NO_BATCH]))

    def test_the_pool_is_bounded(self):
        for seq in range(70):
            self.run_step(seq, 10)
        self.assertEqual(self.driver.made, 128)
        self.assertEqual([(s.seq, s.device_ns, s.flags) for s in self.steps()], [(n, 0, UNMEASURED | NO_BATCH) for n in range(64, 70)])
        self.driver.reached = 1000
        self.run_step(70, 10)  # finds none free, and asks once more
        self.assertEqual([(s.seq, s.device_ns) for s in self.steps()], [(n, 10_000) for n in [*range(64), 70]])
        self.assertEqual(self.driver.made, 128)

    def test_a_failure_ends_it_once(self):
        with self.assertLogs("kernhes", "WARNING") as logs:
            self.driver.record_fails = 700
            for seq in range(3):
                self.run_step(seq, 10)
        self.assertEqual(logs.output, ["WARNING:kernhes:kernhes: device time: off: cuEventRecord returned 700"])
        self.assertEqual([line for line in self.told() if not line.startswith(("schema", "domain"))],
                         [line for seq in range(3) for line in (f"push step:decode seq={seq}", "pop")])

    def test_where_there_is_no_context(self):
        self.driver.context = None
        self.run_step(1, 10)
        self.assertEqual([s.flags for s in self.steps()], [UNMEASURED | NO_BATCH])

    def test_contexts_have_pools_of_their_own(self):
        self.run_step(1, 10)
        self.driver.context = 0xD0
        self.driver.reached = 2
        self.run_step(2, 20)
        self.assertEqual(self.steps(), [], "the events of another context are not queried")
        self.driver.context = 0xC0
        self.run_step(3, 30)
        self.assertEqual([(s.seq, s.device_ns) for s in self.steps()], [(1, 10_000)])

    def test_a_stream_is_given(self):
        del sys.modules["torch"]
        self.run_step(1, 10)
        self.assertEqual((self.driver.recorded, self.steps()), (0, []), "without PyTorch there is no stream")
        self.run_step(2, 10, stream=5)
        self.assertEqual(self.driver.recorded, 2)

    def test_without_seq_only_the_range(self):
        with self.kernhes.step("decode", seqs=4):
            pass
        self.assertEqual((self.told(), self.driver.recorded), (["push step:decode seqs=4", "pop"], 0))

    def test_turned_off(self):
        self.setenv("KERNHES_DEVICE_TIME", "0")
        self.run_step(1, 10)
        self.assertEqual((self.driver.recorded, self.steps()), (0, []))

    def test_a_step_that_raises_ends(self):
        with self.assertRaises(KeyError), self.kernhes.step("decode", seq=1):
            raise KeyError
        self.assertEqual((self.told()[-1], self.driver.recorded), ("pop", 2))

    def test_no_driver(self):
        import kernhes._clock
        kernhes._clock.LIBRARY = "/nowhere/libcuda.so.1"
        with self.assertLogs("kernhes", "WARNING") as logs:
            self.run_step(1, 10)
            self.run_step(2, 10)
        self.assertEqual(len(logs.output), 1)
        self.assertEqual(self.told()[-2:], ["push step:decode seq=2", "pop"])


if __name__ == "__main__":
    unittest.main()
