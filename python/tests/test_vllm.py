"""The plugin for vLLM, held to a stand-in that has the interface which vLLM's sources have: names, parameters, fields."""

import contextlib
import enum
import functools
import importlib.metadata
import os
import sys
import tempfile
import unittest
from dataclasses import dataclass, field
from types import SimpleNamespace

from rig import Rig


@dataclass
class NewRequestData:
    req_id: str
    num_computed_tokens: int = 0


@dataclass
class CachedRequestData:
    req_ids: list = field(default_factory=list)
    num_computed_tokens: list = field(default_factory=list)
    num_output_tokens: list = field(default_factory=list)


@dataclass
class SchedulerOutput:
    scheduled_new_reqs: list
    scheduled_cached_reqs: CachedRequestData
    num_scheduled_tokens: dict
    total_num_scheduled_tokens: int


def output(new=(), cached=()):
    """new: (id, scheduled, computed); cached: (id, scheduled, computed, output tokens)."""
    scheduled = {r[0]: r[1] for r in [*new, *cached]}
    return SchedulerOutput([NewRequestData(r[0], r[2]) for r in new],
                           CachedRequestData([r[0] for r in cached], [r[2] for r in cached], [r[3] for r in cached]),
                           scheduled, sum(scheduled.values()))


class CUDAGraphMode(enum.Enum):
    NONE = 0
    PIECEWISE = 1
    FULL = 2
    FULL_DECODE_ONLY = (FULL, NONE)
    FULL_AND_PIECEWISE = (FULL, PIECEWISE)

    def decode_mode(self):
        return CUDAGraphMode(self.value[0]) if isinstance(self.value, tuple) else self

    def mixed_mode(self):
        return CUDAGraphMode(self.value[1]) if isinstance(self.value, tuple) else self


def decorated(function):  # as torch.inference_mode() and vLLM's own decorators do
    @functools.wraps(function)
    def wrapper(*arguments, **named):
        return function(*arguments, **named)
    return wrapper


WORKER = '''
import contextlib
class Worker:
    def annotate_profile(self, scheduler_output):
        return contextlib.nullcontext()
    def execute_dummy_batch(self) -> None:
        return "dummy"
    def execute_model(self, scheduler_output):
        with self.annotate_profile(scheduler_output):
            return "output"
'''


class Vllm(Rig):
    def setUp(self):
        super().setUp()
        self.inject()
        self.driver = self.drive()
        self.graph = self.torch().cuda.CUDAGraph()

    def worker_class(self):
        test = self

        class Worker:
            rank = 0
            graphs = 0
            model_runner = SimpleNamespace(uniform_decode_query_len=1)
            vllm_config = SimpleNamespace(
                compilation_config=SimpleNamespace(cudagraph_mode=CUDAGraphMode.FULL_AND_PIECEWISE, cudagraph_capture_sizes=[1, 2, 4, 512]),
                parallel_config=SimpleNamespace(world_size=2))

            def annotate_profile(self, scheduler_output):
                return contextlib.nullcontext("theirs")

            @decorated
            def execute_model(self, scheduler_output):
                with self.annotate_profile(scheduler_output) as given:
                    for _ in range(self.graphs):
                        test.assertEqual(test.graph.replay(), "replayed")
                    return given

            def execute_dummy_batch(self) -> None:
                return None

        return Worker

    def load(self, worker):
        """Calls the plugin as vLLM does: by its entry point, then it imports the worker."""
        entry, = importlib.metadata.entry_points(group="vllm.general_plugins")
        self.assertEqual(entry.name, "kernhes")
        self.module("vllm.v1.worker.gpu_worker", Worker=worker)
        entry.load()()
        return worker()

    def pushed(self):
        return [line[5:] for line in self.told() if line.startswith("push ")]

    def test_programs(self):
        worker = self.load(self.worker_class())
        for out, want in [
            (output(new=[("a", 512, 128), ("b", 88, 0)]), "step:prefill seq=0,seqs=2,tokens=600,kv=728,mode=eager"),
            (output(cached=[("a", 1, 640, 1), ("b", 1, 88, 5)]), "step:decode seq=1,seqs=2,tokens=2,kv=730,mode=full"),
            (output(new=[("c", 100, 0)], cached=[("a", 1, 641, 2)]), "step:mixed seq=2,seqs=2,tokens=101,kv=742,mode=piecewise"),
            (output(cached=[("d", 256, 512, 0)]), "step:prefill seq=3,seqs=1,tokens=256,kv=768,mode=piecewise"),
            (output(cached=[("d", 2048, 768, 0), ("a", 1, 643, 4)]), "step:mixed seq=4,seqs=2,tokens=2049,kv=3460,mode=eager"),
            (output(new=[("e", 512, 0)]), "step:prefill seq=5,seqs=1,tokens=512,kv=512,mode=piecewise"),  # the largest that is captured
        ]:
            self.assertEqual(worker.execute_model(out), "theirs")
            self.assertEqual(self.pushed(), [want])

    def test_counts_and_device_time(self):
        worker = self.load(self.worker_class())
        worker.graphs = 3
        worker.execute_model(output(new=[("c", 100, 32)], cached=[("a", 1, 641, 2), ("d", 256, 512, 0)]))
        worker.graphs = 0
        self.driver.reached, self.driver.now_us = 100, 40
        worker.execute_dummy_batch()
        first, second = self.steps()
        self.assertEqual((first.seq, first.counts(), first.graphs, first.flags), (0, (356, 544, 641, 2, 1), 3, 0))
        self.assertEqual((second.seq, second.counts(), second.graphs), (1, (0, 0, 0, 0, 0), 0))

    def test_dummy_batches_count_and_empty_steps_do_not(self):
        worker = self.load(self.worker_class())
        worker.execute_dummy_batch()
        self.assertEqual(worker.execute_model(output()), "theirs")  # a rank that moves KV only: a dummy batch follows
        worker.execute_dummy_batch()
        worker.execute_model(output(cached=[("a", 1, 640, 1)]))
        self.assertEqual(self.pushed(), ["step:dummy seq=0", "step:dummy seq=1", "step:decode seq=2,seqs=1,tokens=1,kv=641,mode=full"])

    def test_speculation_is_uniform_by_its_own_length(self):
        worker = self.load(self.worker_class())
        worker.model_runner = SimpleNamespace(uniform_decode_query_len=3)
        worker.execute_model(output(cached=[("a", 3, 640, 1), ("b", 3, 10, 2)]))
        worker.execute_model(output(cached=[("a", 2, 640, 1), ("b", 4, 10, 2)]))
        self.assertEqual(self.pushed(), ["step:decode seq=0,seqs=2,tokens=6,kv=656,mode=full",
                                         "step:decode seq=1,seqs=2,tokens=6,kv=656,mode=piecewise"])

    def test_modes(self):
        for mode, want in [(CUDAGraphMode.NONE, ["eager", "eager"]), (CUDAGraphMode.PIECEWISE, ["piecewise", "piecewise"]),
                           (CUDAGraphMode.FULL_DECODE_ONLY, ["full", "eager"])]:
            self.setUp()
            kind = self.worker_class()
            kind.vllm_config.compilation_config.cudagraph_mode = mode
            worker = self.load(kind)
            worker.execute_model(output(cached=[("a", 1, 640, 1)]))
            worker.execute_model(output(new=[("b", 4, 0)]))
            self.assertEqual([text.rpartition("mode=")[2] for text in self.pushed()], want)

    def test_a_vllm_that_does_not_say_its_mode(self):
        kind = self.worker_class()
        del kind.vllm_config.compilation_config
        worker = self.load(kind)
        worker.execute_model(output(cached=[("a", 1, 640, 1)]))
        self.assertEqual(self.pushed(), ["step:decode seq=0,seqs=1,tokens=1,kv=641"])

    def test_graphs_are_not_counted_where_replay_is_another(self):
        for replay in (lambda self, stream: None, min):
            self.setUp()
            sys.modules["torch"].cuda.CUDAGraph.replay = replay
            worker = self.load(self.worker_class())
            self.driver.reached = 100
            worker.execute_dummy_batch()
            self.assertIs(sys.modules["torch"].cuda.CUDAGraph.replay, replay)
            self.assertEqual([s.graphs for s in self.steps()], [0xFFFFFFFF])

    def test_requests_of_the_first_rank(self):
        self.setenv("KERNHES_REQUESTS", "1")
        kind = self.worker_class()
        worker, second = self.load(kind), kind()
        second.rank = 1
        out = output(new=[("c", 100, 32)], cached=[("a", 1, 641, 2)])
        worker.execute_model(out)
        lines = [line.split()[1:] for line in self.told() if line.startswith("mark 1677721")]
        self.assertEqual([bytes.fromhex(data)[24:] for schema, data in lines if schema == "16777218"], [b"c", b"a"])
        data, = [bytes.fromhex(data) for schema, data in lines if schema == "16777219"]
        self.assertEqual(data[24:], b"".join(n.to_bytes(4, "little") for n in (1, 100, 32, 2, 1, 641)))
        second.execute_model(out)
        self.assertEqual([line for line in self.told() if line.startswith("mark 16777219")], [])

    def test_twice_is_once(self):
        worker = self.load(self.worker_class())
        sys.modules["kernhes.vllm"].register()
        worker.execute_model(output(cached=[("a", 1, 640, 1)]))
        self.assertEqual(len(self.pushed()), 1)

    def refuse(self, kind, why):
        """The plugin leaves such a worker as it is, and says so in one line."""
        before = dict(vars(kind))
        with self.assertLogs("kernhes", "WARNING") as logs:
            self.load(kind)
        self.assertEqual(logs.output, [f"WARNING:kernhes:kernhes: the hook for vLLM is off: {why}. The engine goes on without it."])
        self.assertEqual(dict(vars(kind)), before)

    def test_other_signatures_are_refused(self):
        kind = self.worker_class()
        kind.annotate_profile = lambda self, scheduler_output, extra: None
        self.refuse(kind, "Worker.annotate_profile(self, scheduler_output, extra) is not known")

    def test_no_dummy_batch(self):
        kind = self.worker_class()
        del kind.execute_dummy_batch
        self.refuse(kind, "type has no execute_dummy_batch")

    def test_annotate_profile_is_not_called(self):
        kind = self.worker_class()
        kind.execute_model = lambda self, scheduler_output: None
        self.refuse(kind, "Worker.execute_model does not call annotate_profile")

    def test_an_unknown_output_ends_the_hook(self):
        worker = self.load(self.worker_class())
        out = output(cached=[("a", 1, 640, 1)])
        out.scheduled_cached_reqs = []  # of an older vLLM
        with self.assertLogs("kernhes", "WARNING") as logs:
            self.assertEqual(worker.execute_model(out), "theirs")
            self.assertEqual(worker.execute_model(output(cached=[("a", 1, 640, 1)])), "theirs")
        self.assertEqual(logs.output, ["WARNING:kernhes:kernhes: the hook for vLLM is off: list has no req_ids. "
                                       "The engine goes on without it."])
        self.assertEqual(self.pushed(), [])

    def test_an_engine_that_raises(self):
        kind = self.worker_class()
        kind.graphs = "three"
        worker = self.load(kind)
        with self.assertRaises(TypeError):
            worker.execute_model(output(cached=[("a", 1, 640, 1)]))
        self.assertEqual(self.told()[-1], "pop")

    def test_nothing_without_a_shim(self):
        kind = self.worker_class()
        self.setenv("NVTX_INJECTION64_PATH", None)
        before = dict(vars(kind))
        self.load(kind)
        self.assertEqual(dict(vars(kind)), before)

    def test_before_the_worker_is_imported(self):
        with tempfile.TemporaryDirectory() as folder:
            for package in ("vllm", "vllm/v1", "vllm/v1/worker"):
                os.mkdir(os.path.join(folder, package))
                open(os.path.join(folder, package, "__init__.py"), "w").close()
            with open(os.path.join(folder, "vllm/v1/worker/gpu_worker.py"), "w") as f:
                f.write(WORKER)
            sys.path.insert(0, folder)
            self.addCleanup(sys.path.remove, folder)
            from kernhes.vllm import register
            register()
            register()
            self.assertNotIn("vllm", sys.modules, "the plugin imports nothing of the engine")
            from vllm.v1.worker.gpu_worker import Worker
            self.assertEqual((Worker().execute_model(output(new=[("a", 5, 0)])), Worker().execute_dummy_batch()), ("output", "dummy"))
            self.assertEqual(self.pushed(), ["step:prefill seq=0,seqs=1,tokens=5,kv=5", "step:dummy seq=1"])
            self.assertEqual([f for f in sys.meta_path if type(f).__module__ == "kernhes._hook"], [])


if __name__ == "__main__":
    unittest.main()
