"""The plugin for SGLang, held to a stand-in that has the interface which SGLang's sources have: names, parameters, fields."""

import enum
import functools
import importlib.metadata
import struct
import unittest
from types import SimpleNamespace

from rig import Rig


class ForwardMode(enum.Enum):
    EXTEND, DECODE, MIXED, IDLE, TARGET_VERIFY, PREBUILT = range(6)

    def is_decode(self):
        return self is ForwardMode.DECODE

    def is_extend(self):
        return self in (ForwardMode.EXTEND, ForwardMode.MIXED, ForwardMode.TARGET_VERIFY)

    def is_mixed(self):
        return self is ForwardMode.MIXED

    def is_idle(self):
        return self is ForwardMode.IDLE

    def is_target_verify(self):
        return self is ForwardMode.TARGET_VERIFY

    def is_prebuilt(self):
        return self is ForwardMode.PREBUILT


def request(rid, prompt, out=0, trace=None):
    trace_ctx = SimpleNamespace(root_span_context=trace)
    return SimpleNamespace(rid=rid, origin_input_ids=[0] * prompt, output_ids=[0] * out, time_stats=SimpleNamespace(trace_ctx=trace_ctx))


def batch(mode, reqs, *, seq_lens_sum, prefix_lens=None, extend_lens=None, **more):
    return SimpleNamespace(forward_mode=mode, reqs=reqs, seq_lens_sum=seq_lens_sum, prefix_lens=prefix_lens, extend_lens=extend_lens,
                           extend_num_tokens=extend_lens and sum(extend_lens), **more)


class Registry:
    """As sglang.srt.plugins.hook_registry: hooks are kept, and applied later."""

    def __init__(self):
        self.kept = []

    def register(self, target, hook, hook_type="after", *, source=None):
        self.kept.append((target, hook, hook_type))

    def apply(self, owner):
        for target, hook, hook_type in self.kept:
            assert hook_type == "around" and target == "sglang.srt.managers.scheduler.Scheduler.run_batch"
            original = owner.run_batch

            @functools.wraps(original)
            def wrapper(*arguments, **named):
                return hook(original, *arguments, **named)

            owner.run_batch = wrapper


class Sglang(Rig):
    def setUp(self):
        super().setUp()
        self.inject()
        self.driver = self.drive()
        self.graph = self.torch().cuda.CUDAGraph()

    def load(self, run_batch=None):
        """Calls the plugin as SGLang does, and gives a scheduler, with a run_batch of its own or this one."""
        entry, = importlib.metadata.entry_points(group="sglang.srt.plugins")
        registry, test = Registry(), self
        for name in ("sglang", "sglang.srt", "sglang.srt.plugins"):
            self.module(name)
        self.module("sglang.srt.plugins.hook_registry", HookRegistry=registry, HookType=SimpleNamespace(AROUND="around"))
        entry.load()()

        class Scheduler:
            forward_ct, tp_rank, pp_rank, enable_overlap = 41, 0, 0, False
            server_args = SimpleNamespace(disable_cuda_graph=False, cuda_graph_max_bs=2)

            def run_batch(self, batch, pp_proxy_tensors=None):
                self.forward_ct += 1
                test.graph.replay()
                return batch.forward_mode, pp_proxy_tensors

        if run_batch is not None:
            Scheduler.run_batch = run_batch
        registry.apply(Scheduler)
        return Scheduler()

    def pushed(self):
        return [line[5:] for line in self.told() if line.startswith("push ")]

    def test_programs(self):
        scheduler = self.load()
        a, b = request("a", 100, 3), request("b", 20, 1)
        for given, want in [
            (batch(ForwardMode.EXTEND, [a, b], seq_lens_sum=120, prefix_lens=[64, 0], extend_lens=[36, 20]),
             "step:prefill seq=42,seqs=2,tokens=56,kv=120"),
            (batch(ForwardMode.DECODE, [a, b], seq_lens_sum=124), "step:decode seq=43,seqs=2,tokens=2,kv=124,mode=full"),
            (batch(ForwardMode.DECODE, [a, b, b], seq_lens_sum=145), "step:decode seq=44,seqs=3,tokens=3,kv=145,mode=eager"),
            (batch(ForwardMode.MIXED, [a, b], seq_lens_sum=121, prefix_lens=[0, 20], extend_lens=[100, 1], decoding_reqs=[b]),
             "step:mixed seq=45,seqs=2,tokens=101,kv=121"),
            (batch(ForwardMode.TARGET_VERIFY, [a], seq_lens_sum=103, prefix_lens=[100], extend_lens=[4]), "step:verify seq=46,seqs=1,tokens=4,kv=103"),
            (batch(ForwardMode.IDLE, [], seq_lens_sum=0), "step:dummy seq=47"),
        ]:
            self.assertEqual(scheduler.run_batch(given), (given.forward_mode, None))
            self.assertEqual(self.pushed(), [want])
        self.assertEqual(scheduler.run_batch(batch(ForwardMode.PREBUILT, [a], seq_lens_sum=1), pp_proxy_tensors=5), (ForwardMode.PREBUILT, 5))
        self.assertEqual(self.pushed(), [], "nothing runs for a batch whose KV came from elsewhere")

    def test_counts(self):
        scheduler = self.load()
        self.driver.reached = 1000
        a, b = request("a", 100, 3), request("b", 20, 1)
        for given in [batch(ForwardMode.EXTEND, [a, b], seq_lens_sum=120, prefix_lens=[64, 0], extend_lens=[36, 20]),
                      batch(ForwardMode.DECODE, [a, b], seq_lens_sum=124),
                      batch(ForwardMode.MIXED, [a, b], seq_lens_sum=121, prefix_lens=[0, 20], extend_lens=[100, 1], decoding_reqs=[b]),
                      batch(ForwardMode.IDLE, [], seq_lens_sum=0)]:
            scheduler.run_batch(given)
        steps = self.steps()
        self.assertEqual([s.counts() for s in steps], [(56, 64, 0, 2, 0), (0, 0, 122, 0, 2), (100, 0, 20, 1, 1), (0, 0, 0, 0, 0)])
        self.assertEqual([(s.seq, s.flags) for s in steps], [(42, 0), (43, 0), (44, 0), (45, 0)])
        self.assertEqual([s.graphs for s in steps], [1, 1, 1, 1])

    def test_overlap_runs_on_a_stream_of_its_own(self):
        scheduler = self.load()
        scheduler.enable_overlap, scheduler.forward_stream = True, SimpleNamespace(cuda_stream=9)
        self.torch(handle="the scheduler's stream: not a number")
        scheduler.run_batch(batch(ForwardMode.DECODE, [request("a", 1)], seq_lens_sum=2))
        self.assertEqual(self.driver.recorded, 2)

    def test_speculation(self):
        scheduler = self.load()
        speculative = SimpleNamespace(is_none=lambda: False)
        given = batch(ForwardMode.DECODE, [request("a", 1)], seq_lens_sum=None, spec_algorithm=speculative)
        scheduler.run_batch(given)
        scheduler.server_args = SimpleNamespace(disable_cuda_graph=True, speculative_num_draft_tokens=4)
        scheduler.run_batch(given)
        self.assertEqual(self.pushed(), ["step:decode seq=42,seqs=1,mode=full", "step:decode seq=43,seqs=1,tokens=4,mode=eager"])

    def test_requests(self):
        self.setenv("KERNHES_REQUESTS", "1")
        scheduler = self.load()
        self.module("opentelemetry")
        span = SimpleNamespace(get_span_context=lambda: SimpleNamespace(trace_id=0xABC << 64 | 1))
        self.module("opentelemetry.trace", get_current_span=lambda context: span if context == "exported" else None)
        a, b = request("a", 100, 3, "exported"), request("b", 20, 1)
        scheduler.run_batch(batch(ForwardMode.EXTEND, [a], seq_lens_sum=100, prefix_lens=[64], extend_lens=[36]))
        scheduler.run_batch(batch(ForwardMode.DECODE, [a, b], seq_lens_sum=124))
        lines = [line.split()[1:] for line in self.told() if line.startswith("mark 1677721")]
        names = [bytes.fromhex(data) for schema, data in lines if schema == "16777218"]
        self.assertEqual([(struct.unpack_from("<IIQQ", data), data[24:]) for data in names],
                         [((1, 1, 0xABC, 1), b"a"), ((2, 1, 0, 0), b"b")])
        rows = [bytes.fromhex(data)[24:] for schema, data in lines if schema == "16777219"]
        self.assertEqual([struct.unpack(f"<{len(r) // 4}I", r) for r in rows], [(1, 36, 64), (1, 1, 102, 2, 1, 20)])
        scheduler.tp_rank = 1
        scheduler.run_batch(batch(ForwardMode.DECODE, [a, b], seq_lens_sum=126))
        self.assertEqual([line for line in self.told() if line.startswith("mark 16777219")], [])

    def off(self, scheduler, why):
        """The hook ends, with one line, and the batch runs."""
        given = batch(ForwardMode.DECODE, [request("a", 1)], seq_lens_sum=2)
        with self.assertLogs("kernhes", "WARNING") as logs:
            for _ in range(2):
                self.assertEqual(scheduler.run_batch(given)[0], ForwardMode.DECODE)
        self.assertEqual(logs.output, [f"WARNING:kernhes:kernhes: the hook for SGLang is off: {why}. The engine goes on without it."])
        self.assertEqual(self.pushed(), [])

    def test_another_signature(self):
        def run_batch(self, batch, extra=None):
            return batch.forward_mode, extra

        self.off(self.load(run_batch), "Scheduler.run_batch(self, batch, extra) is not known")

    def test_a_field_is_missing(self):
        def run_batch(self, batch, pp_proxy_tensors=None):
            return batch.forward_mode, None

        scheduler = self.load(run_batch)
        del type(scheduler).forward_ct
        self.off(scheduler, "Scheduler has no forward_ct")

    def test_an_unknown_mode(self):
        scheduler = self.load()
        ForwardMode.is_extend, known = lambda self: False, ForwardMode.is_extend
        self.addCleanup(setattr, ForwardMode, "is_extend", known)
        with self.assertLogs("kernhes", "WARNING") as logs:
            scheduler.run_batch(batch(ForwardMode.EXTEND, [request("a", 1)], seq_lens_sum=2))
        self.assertIn("forward mode ForwardMode.EXTEND is not known", logs.output[0])

    def test_an_unknown_registry(self):
        for name in ("sglang", "sglang.srt", "sglang.srt.plugins", "sglang.srt.plugins.hook_registry"):
            self.module(name)
        from kernhes.sglang import register
        with self.assertLogs("kernhes", "WARNING") as logs:
            register()
        self.assertEqual(len(logs.output), 1)

    def test_nothing_without_a_shim(self):
        self.setenv("NVTX_INJECTION64_PATH", None)
        scheduler = self.load()
        scheduler.run_batch(batch(ForwardMode.DECODE, [request("a", 1)], seq_lens_sum=2))
        self.assertEqual(self.told(), [])


if __name__ == "__main__":
    unittest.main()
