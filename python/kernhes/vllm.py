"""The plugin for vLLM, V1 engine: one step around each forward of a worker, and around each dummy batch of a rank that idles."""

import functools
import inspect

from kernhes import _graphs
from kernhes._hook import Hook, Refused, after_import, check_parameters, field, wanted
from kernhes._steps import Step, wants_requests

WORKER = "vllm.v1.worker.gpu_worker"


def register():
    """The entry point in vllm.general_plugins. vLLM calls it in each of its processes, some more than once."""
    if wanted():
        after_import(WORKER, install)


def install(module):
    """Wraps the Worker of vllm.v1.worker.gpu_worker, if it is as known."""
    hook = _Vllm()
    hook.guard(hook.install, module)


class _Both:
    """vLLM's own context, and the step inside it."""

    def __init__(self, theirs, step):
        self._theirs, self._step = theirs, step

    def __enter__(self):
        value = self._theirs.__enter__()
        self._step.__enter__()
        return value

    def __exit__(self, *raised):
        self._step.__exit__(*raised)
        return self._theirs.__exit__(*raised)


class _Vllm(Hook):
    """seq counts the steps of this process: equal on all ranks of an engine, and over data parallel ranks as dummy batches count."""

    def __init__(self):
        super().__init__("vLLM")
        self._seq, self._modes, self._lists = -1, None, wants_requests()

    def install(self, module):
        worker = field(module, "Worker")
        annotate, dummy = field(worker, "annotate_profile"), field(worker, "execute_dummy_batch")
        if hasattr(annotate, "__kernhes__"):
            return
        check_parameters("Worker.annotate_profile", annotate, ["self", "scheduler_output"])
        check_parameters("Worker.execute_dummy_batch", dummy, ["self"])
        execute = field(worker, "execute_model")
        check_parameters("Worker.execute_model", execute, ["self", "scheduler_output"])
        if "annotate_profile" not in inspect.unwrap(execute).__code__.co_names:
            raise Refused("Worker.execute_model does not call annotate_profile")

        @functools.wraps(annotate)
        def annotate_profile(self, scheduler_output):
            theirs = annotate(self, scheduler_output)
            step = hook.guard(hook.scheduled, self, scheduler_output)
            return theirs if step is None else _Both(theirs, step)

        @functools.wraps(dummy)
        def execute_dummy_batch(self):
            step = hook.guard(hook.dummy)
            if step is None:
                return dummy(self)
            with step:
                return dummy(self)

        hook = self
        annotate_profile.__kernhes__ = True
        worker.annotate_profile, worker.execute_dummy_batch = annotate_profile, execute_dummy_batch
        _graphs.watch()

    def dummy(self):
        self._seq += 1
        return Step(f"step:dummy seq={self._seq}", self._seq, counts=(0, 0, 0, 0, 0))

    def scheduled(self, worker, output):
        """The step of a SchedulerOutput, or None: it has no tokens. Such a rank may run a dummy batch, which counts."""
        tokens = field(output, "total_num_scheduled_tokens")
        if tokens <= 0:
            return None
        scheduled = field(output, "num_scheduled_tokens")
        counts, kv = _counts(output, scheduled, tokens)
        self._seq += 1
        program = "decode" if counts[3] == 0 else "prefill" if counts[4] == 0 else "mixed"
        mode = self._mode(worker, scheduled, tokens)
        text = f"step:{program} seq={self._seq},seqs={len(scheduled)},tokens={tokens},kv={kv}" + (f",mode={mode}" if mode else "")
        listed = _requests(output, scheduled) if self._lists and _lists(worker) else None
        return Step(text, self._seq, counts=counts, requests=listed)

    def _mode(self, worker, scheduled, tokens):
        """How vLLM is configured to run such a batch: eager, piecewise or full; "": this vLLM does not say."""
        if self._modes is None:
            self._modes = _modes(worker)
        uniform, mixed, limit, query = self._modes
        if tokens > limit:
            return "eager" if limit >= 0 else ""
        if tokens == len(scheduled) * query and (query == 1 or max(scheduled.values()) == query):
            return uniform
        return mixed


def _counts(output, scheduled, tokens):
    """FPM's counts of a step, and its tokens in the KV cache after it. A request without output yet is in prefill, as vLLM counts."""
    new, cached = field(output, "scheduled_new_reqs"), field(output, "scheduled_cached_reqs")
    ids, before, outputs = field(cached, "req_ids"), field(cached, "num_computed_tokens"), field(cached, "num_output_tokens")
    if not len(ids) == len(before) == len(outputs):
        raise Refused("CachedRequestData has lists of several lengths")
    prefilling = outputs.count(0)
    decode_kv = sum(before)
    prefill_tokens = prefill_kv = 0
    for request in new:
        prefill_tokens += scheduled[field(request, "req_id")]
        prefill_kv += field(request, "num_computed_tokens")
    if prefilling:
        for name, kv, n in zip(ids, before, outputs):
            if n == 0:
                prefill_tokens += scheduled[name]
                prefill_kv += kv
                decode_kv -= kv
    counts = prefill_tokens, prefill_kv, decode_kv, len(new) + prefilling, len(ids) - prefilling
    return counts, prefill_kv + decode_kv + tokens


def _modes(worker):
    """The modes of uniform decode batches and of others, the largest batch that has a graph, and the tokens a sequence of a uniform
    batch: from vLLM's settings as they are after it has captured."""
    names = {"NONE": "eager", "PIECEWISE": "piecewise", "FULL": "full"}
    try:
        config = worker.vllm_config.compilation_config
        mode, sizes = config.cudagraph_mode, config.cudagraph_capture_sizes
        if mode.name == "NONE" or not sizes:
            return "eager", "eager", 0, 1
        return (names[mode.decode_mode().name], names[mode.mixed_mode().name], max(sizes),
                getattr(worker.model_runner, "uniform_decode_query_len", 1))
    except (AttributeError, KeyError):
        return "", "", -1, 1


def _lists(worker):
    """Whether this worker says the requests: the first of its engine. All ranks of an engine have the same ones."""
    return field(worker, "rank") % worker.vllm_config.parallel_config.world_size == 0


def _requests(output, scheduled):
    """vLLM's workers do not know the trace ids of requests."""
    listed = [(r.req_id, scheduled[r.req_id], r.num_computed_tokens) for r in output.scheduled_new_reqs]
    cached = output.scheduled_cached_reqs
    return listed + [(name, scheduled[name], kv) for name, kv in zip(cached.req_ids, cached.num_computed_tokens)]
