"""A decoder in the shape of Qwen3-4B with random weights: eager prefill, decode eagerly or as one CUDA graph.

Every step runs inside an NVTX range `step:PROGRAM seq=...,seqs=...,tokens=...,kv=...`; every part of a layer inside a
range that names its call. With several ranks it is tensor-parallel over NCCL.
"""

import contextlib
import gc
import os

import torch
import torch.nn.functional as F

HIDDEN, HEADS, KV_HEADS, HEAD, INNER, VOCAB = 2560, 32, 8, 128, 9728, 32000
LAYERS = int(os.environ.get("DECODER_LAYERS", "36"))
EAGER_LAYERS = int(os.environ.get("DECODER_EAGER_LAYERS", LAYERS))  # of eager decode
KV = 512  # tokens that each sequence already has
nvtx = torch.cuda.nvtx


@contextlib.contextmanager
def range_of(text):
    nvtx.range_push(text)
    try:
        yield
    finally:
        nvtx.range_pop()


def weight(out, into):
    return torch.randn(out, into, device="cuda", dtype=torch.bfloat16) * into**-0.5


class Decoder:
    def __init__(self, ranks=1):
        self.ranks = ranks
        self.heads, self.kv_heads, inner = HEADS // ranks, KV_HEADS // ranks, INNER // ranks
        torch.manual_seed(0)
        self.embedding = weight(VOCAB, HIDDEN)
        self.norm = torch.ones(HIDDEN, device="cuda", dtype=torch.bfloat16)
        self.head_norm = torch.ones(HEAD, device="cuda", dtype=torch.bfloat16)
        self.layers = [
            (
                weight((self.heads + 2 * self.kv_heads) * HEAD, HIDDEN),
                weight(HIDDEN, self.heads * HEAD),
                weight(2 * inner, HIDDEN),
                weight(HIDDEN, inner),
            )
            for _ in range(LAYERS)
        ]
        angles = torch.outer(torch.arange(4096.0), 1e6 ** -(torch.arange(0, HEAD, 2) / HEAD)).cuda()
        self.cos, self.sin = angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)

    def rotate(self, x, at):
        a, b = x.chunk(2, -1)
        cos, sin = self.cos[at], self.sin[at]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def reduce(self, x):
        if self.ranks > 1:
            torch.distributed.all_reduce(x)
        return x

    def forward(self, program, ids, cache=None):
        """ids: sequences × tokens. With a cache (of k and v, of each layer that is run) each sequence adds one token to KV cached ones."""
        seqs, tokens = ids.shape
        at = slice(0, tokens) if cache is None else slice(KV - 1, KV)
        layers = self.layers if cache is None else self.layers[: len(cache)]
        with range_of(f"{program}.embed"):
            x = F.embedding(ids, self.embedding)
        for i, (qkv, out, up, down) in enumerate(layers):
            with range_of(f"{program}.layers.{i}.attention"):
                h = F.linear(F.rms_norm(x, (HIDDEN,), self.norm), qkv)
                h = h.view(seqs, tokens, -1, HEAD).transpose(1, 2)
                q, k, v = h.split([self.heads, self.kv_heads, self.kv_heads], 1)
                q = self.rotate(F.rms_norm(q, (HEAD,), self.head_norm), at)
                k = self.rotate(F.rms_norm(k, (HEAD,), self.head_norm), at)
                if cache is not None:
                    cache[i][0][:, :, at] = k
                    cache[i][1][:, :, at] = v
                    k, v = cache[i]
                h = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None, enable_gqa=True)
                x = x + self.reduce(F.linear(h.transpose(1, 2).reshape(seqs, tokens, -1), out))
            with range_of(f"{program}.layers.{i}.mlp"):
                gate, h = F.linear(F.rms_norm(x, (HIDDEN,), self.norm), up).chunk(2, -1)
                x = x + self.reduce(F.linear(F.silu(gate) * h, down))
        with range_of(f"{program}.head"):
            return F.linear(F.rms_norm(x[:, -1], (HIDDEN,), self.norm), self.embedding).argmax(-1)


class Steps:
    """The kinds of steps that a decoder can run: `prefill.512`, `eager.1`, `graph.48`; each is a function of no argument."""

    def __init__(self, ranks=1):
        self.decoder, self.ranks = Decoder(ranks), ranks
        self.kinds, self.graphs, self.buffers, self.seq = {}, {}, [], 0

    def add_prefill(self, tokens):
        ids = torch.randint(0, VOCAB, (1, tokens), device="cuda")
        self._add(f"prefill.{tokens}", "prefill", 1, tokens, tokens, lambda: self.decoder.forward("prefill", ids))

    def _decode(self, seqs, layers):
        shape = (seqs, self.decoder.kv_heads, KV, HEAD)
        cache = [[torch.zeros(shape, device="cuda", dtype=torch.bfloat16) for _ in "kv"] for _ in range(layers)]
        ids = torch.randint(0, VOCAB, (seqs, 1), device="cuda")
        return lambda: self.decoder.forward("decode", ids, cache)

    def add_eager(self, seqs):
        self._add(f"eager.{seqs}", "decode", seqs, seqs, KV * seqs, self._decode(seqs, EAGER_LAYERS))

    def add_graph(self, seqs):
        forward, graph = self._decode(seqs, LAYERS), torch.cuda.CUDAGraph(keep_graph=True)
        self.buffers.append(forward)  # a graph holds no tensor alive that it did not make
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                forward()
        side.synchronize()
        with torch.cuda.graph(graph):
            self.buffers.append(forward())
        graph.instantiate()
        self.graphs[f"graph.{seqs}"] = graph
        self._add(f"graph.{seqs}", "graph", seqs, seqs, KV * seqs, graph.replay)

    def _add(self, kind, program, seqs, tokens, kv, run):
        self.kinds[kind] = (f"step:{program} seq=%d,seqs={seqs},tokens={tokens},kv={kv}", run)
        for _ in range(3):
            run()  # outside of any step: what is loaded, tuned or allocated once
        torch.cuda.synchronize()

    def run(self, kind):
        """Runs one step, without waiting for it; returns its number."""
        text, forward = self.kinds[kind]
        self.seq += 1
        with range_of(text % self.seq):
            forward()
        return self.seq

    def timed(self, kind):
        """Runs one step between two CUDA events; returns its number and the events."""
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        seq = self.run(kind)
        after.record()
        return seq, before, after


def join_ranks():
    """Joins the ranks that the environment names (as torchrun does); returns how many there are."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if ranks > 1:
        torch.distributed.init_process_group("nccl")
    return ranks


def leave_ranks(steps):
    """Leaves the group of ranks. NCCL waits until no graph holds its kernels any more."""
    if torch.distributed.is_initialized():
        torch.cuda.synchronize()
        steps.graphs.clear()
        steps.kinds.clear()
        gc.collect()
        torch.distributed.destroy_process_group()
