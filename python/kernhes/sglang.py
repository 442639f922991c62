"""The plugin for SGLang: one step around each Scheduler.run_batch."""

from kernhes import _graphs
from kernhes._hook import Hook, Refused, check_parameters, field, wanted
from kernhes._steps import Step, wants_requests

TARGET = "sglang.srt.managers.scheduler.Scheduler.run_batch"


def register():
    """The entry point in sglang.srt.plugins. SGLang calls it in each of its processes, and applies the hook itself."""
    if not wanted():
        return
    hook = _Sglang()
    hook.guard(hook.install)


class _Sglang(Hook):
    """seq is SGLang's forward_iter: it counts idle passes too, so it is equal on all ranks of an engine."""

    def __init__(self):
        super().__init__("SGLang")
        self._checked, self._lists = False, wants_requests()

    def install(self):
        from sglang.srt.plugins.hook_registry import HookRegistry, HookType
        check_parameters("HookRegistry.register", HookRegistry.register, ["target", "hook", "hook_type", "source"],
                         ["target", "hook", "hook_type"])

        def run_batch(original, *arguments, **named):
            step = self.guard(self.step, original, arguments, named)
            if step is None:
                return original(*arguments, **named)
            with step:
                return original(*arguments, **named)

        HookRegistry.register(TARGET, run_batch, HookType.AROUND)

    def step(self, original, arguments, named):
        """The step of a batch, or None: nothing runs for it."""
        if not self._checked:
            check_parameters("Scheduler.run_batch", original, ["self", "batch", "pp_proxy_tensors"], ["self", "batch"])
            _graphs.watch()
            self._checked = True
        scheduler = arguments[0]
        return self._step(scheduler, arguments[1] if len(arguments) > 1 else named["batch"])

    def _step(self, scheduler, batch):
        seq = field(scheduler, "forward_ct") + 1  # run_batch counts first
        mode = field(batch, "forward_mode")
        if _is(mode, "is_prebuilt"):
            return None
        stream = scheduler.forward_stream if getattr(scheduler, "enable_overlap", False) else None
        if field(mode, "is_idle")():
            return Step(f"step:dummy seq={seq}", seq, counts=(0, 0, 0, 0, 0), stream=stream)
        decode = field(mode, "is_decode")()
        if not decode and not field(mode, "is_extend")():
            raise Refused(f"forward mode {mode} is not known")
        requests = field(batch, "reqs")
        program = ("decode" if decode else "verify" if _is(mode, "is_target_verify") else "mixed" if field(mode, "is_mixed")()
                   else "prefill")
        tokens = _decode_tokens(scheduler, batch, len(requests)) if decode else field(batch, "extend_num_tokens")
        pairs = {"seq": seq, "seqs": len(requests), "tokens": tokens, "kv": _kv(batch),
                 "mode": _graph_mode(scheduler, decode, len(requests))}
        text = f"step:{program} " + ",".join(f"{k}={v}" for k, v in pairs.items() if v is not None)
        listed = _requests(batch, decode) if self._lists and _lists(scheduler) else None
        return Step(text, seq, counts=_counts(batch, program), stream=stream, requests=listed)


def _is(mode, name):
    """A question about a forward mode that not every SGLang knows."""
    ask = getattr(mode, name, None)
    return ask is not None and ask()


def _decode_tokens(scheduler, batch, seqs):
    """Tokens that a decode step computes: one a sequence without speculation, else as many as are drafted; None: not known."""
    algorithm = getattr(batch, "spec_algorithm", None)
    if algorithm is None or algorithm.is_none():
        return seqs
    drafted = getattr(scheduler.server_args, "speculative_num_draft_tokens", None)
    return seqs * drafted if isinstance(drafted, int) else None


def _kv(batch):
    """Tokens in the KV cache after the step; None where SGLang knows it only on the device (overlap with speculation)."""
    total = getattr(batch, "seq_lens_sum", None)
    return int(total) if total is not None else None


def _graph_mode(scheduler, decode, seqs):
    """How SGLang is configured to run such a batch; None: its settings do not say."""
    settings = getattr(scheduler, "server_args", None)
    disabled, largest = getattr(settings, "disable_cuda_graph", None), getattr(settings, "cuda_graph_max_bs", None)
    if disabled:
        return "eager"
    if disabled is None or not decode or not isinstance(largest, int):
        return None
    return "full" if seqs <= largest else "eager"


def _counts(batch, program):
    """FPM's counts, or None where the batch does not say them."""
    seqs, kv = len(batch.reqs), _kv(batch)
    if program == "decode":
        return None if kv is None else (0, 0, max(0, kv - seqs), 0, seqs)
    cached = getattr(batch, "prefix_lens", None)
    decoding = getattr(batch, "decoding_reqs", None) if program == "mixed" else ()
    if cached is None or decoding is None or program == "verify":
        return None
    split = seqs - len(decoding)  # those that decode come last, with one token each
    return (batch.extend_num_tokens - len(decoding), sum(cached[:split]), sum(cached[split:]), split, len(decoding))


def _lists(scheduler):
    """Whether this rank says the requests: the first of its attention group in its first pipeline stage."""
    parallel = getattr(scheduler, "ps", None)
    for of in (scheduler, parallel):
        for name in ("attn_tp_rank", "tp_rank"):
            rank = getattr(of, name, None)
            if rank is not None:
                return rank == 0 and (getattr(scheduler, "pp_rank", None) or getattr(parallel, "pp_rank", None) or 0) == 0
    raise Refused("Scheduler has no tp_rank")


def _requests(batch, decode):
    if decode:
        return [(r.rid, 1, max(0, len(r.origin_input_ids) + len(r.output_ids) - 1), lambda r=r: _trace_id(r)) for r in batch.reqs]
    rows = zip(batch.reqs, field(batch, "extend_lens"), field(batch, "prefix_lens"))
    return [(r.rid, tokens, cached, lambda r=r: _trace_id(r)) for r, tokens, cached in rows]


def _trace_id(request):
    """The id of the trace that SGLang exports for a request; 0: it exports none."""
    try:
        context = request.time_stats.trace_ctx.root_span_context
        if context is None:
            return 0
        from opentelemetry.trace import get_current_span
        return get_current_span(context).get_span_context().trace_id
    except Exception:
        return 0
