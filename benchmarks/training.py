"""Training speed, beside the peers: `python benchmarks/training.py --size tiny --device cpu`.

Every peer trains on the same batches, turn by turn, in one run; see README.md in this folder.
"""

from __future__ import annotations

import argparse
import logging
import math
import queue
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed.kernels import half_dtype
from allyouneed.positions import sinusoids
from allyouneed.provenance import processor
from allyouneed.tokens import BOS, EOS, PAD, UNK, Batch
from allyouneed.training import train
from allyouneed.transformer import Transformer, TransformerConfig

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "experiments")]
from measure import (  # noqa: E402
    SIZES,
    Clock,
    Peak,
    flops,
    interleave,
    ratio,
    real_batches,
    smoothed_loss,
    table,
    target_tokens,
    to,
    versions,
)
from record import record  # noqa: E402

SMOOTHING = 0.1
SHORT = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
FIRST = "torch.nn.Transformer"  # in float32: what everybody is compared with


class Embedded(nn.Module):
    """sqrt(d_model) E[token] + PE[position], with dropout, and logits from the same matrix E."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.scale = math.sqrt(config.d_model)
        self.table = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.table.weight, std=config.d_model**-0.5)
        self.register_buffer("positions", sinusoids(512, config.d_model))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.table(tokens) * self.scale + self.positions[: tokens.shape[1]])


# Every peer is a class with `loss(batch)`: the sum over tokens, at the weights it has now.


class TorchTransformer(nn.Module):
    """torch.nn.Transformer. Its dropout inside of attention and feed-forward, which neither the
    paper nor anybody else in the table has, is off: so it is faster than it comes."""

    def __init__(self, config: TransformerConfig, as_it_comes: bool = False):
        super().__init__()
        n, heads, d = config.n_layers, config.n_heads, config.d_model
        self.embed = Embedded(config)
        self.transformer = nn.Transformer(
            d, heads, n, n, config.d_ff, config.dropout, batch_first=True
        )
        for layer in self.transformer.modules():
            if not as_it_comes and isinstance(layer, nn.MultiheadAttention):
                layer.dropout = 0.0
            if not as_it_comes and hasattr(layer, "linear1"):
                layer.dropout.p = 0.0

    def loss(self, batch: Batch) -> Tensor:
        src, tgt, labels = batch.src, batch.tgt[:, :-1], batch.tgt[:, 1:]
        future = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).triu(1)
        states = self.transformer(
            self.embed(src),
            self.embed(tgt),
            tgt_mask=future,
            src_key_padding_mask=src == PAD,
            memory_key_padding_mask=src == PAD,
            tgt_key_padding_mask=tgt == PAD,
            tgt_is_causal=True,
        )
        return smoothed_loss(F.linear(states, self.embed.table.weight), labels, SMOOTHING)


class PlainAttention(nn.Module):
    """The paper's equation (1) in every head, operation by operation."""

    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, hidden: Tensor) -> Tensor:
        q, k, v = (
            w(y).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for w, y in ((self.q, x), (self.k, memory), (self.v, memory))
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(hidden, -1e9).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class PlainNorm(nn.Module):
    """Layer normalisation, operation by operation."""

    def __init__(self, d_model: int):
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + (
            self.bias
        )


class PlainLayer(nn.Module):
    """One layer; with a memory to attend to, a decoder's."""

    def __init__(self, config: TransformerConfig, attentions: int):
        super().__init__()
        d, f = config.d_model, config.d_ff
        self.attentions = nn.ModuleList(
            PlainAttention(d, config.n_heads) for _ in range(attentions)
        )
        self.feed_forward = nn.Sequential(nn.Linear(d, f), nn.ReLU(), nn.Linear(f, d))
        self.norms = nn.ModuleList(PlainNorm(d) for _ in range(attentions + 1))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, *looks: tuple[Tensor | None, Tensor]) -> Tensor:
        for attention, norm, (memory, hidden) in zip(
            self.attentions, self.norms, looks, strict=False
        ):
            x = norm(x + self.dropout(attention(x, x if memory is None else memory, hidden)))
        return self.norms[-1](x + self.dropout(self.feed_forward(x)))


class Plain(nn.Module):
    """The paper's equations written down one after the other, as teaching code has them (the
    Annotated Transformer's way): nothing fused, log-probabilities and smoothed targets in full."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.embed = Embedded(config)
        self.encoder = nn.ModuleList(PlainLayer(config, 1) for _ in range(config.n_layers))
        self.decoder = nn.ModuleList(PlainLayer(config, 2) for _ in range(config.n_layers))

    def loss(self, batch: Batch) -> Tensor:
        src, tgt, labels = batch.src, batch.tgt[:, :-1], batch.tgt[:, 1:].flatten()
        no_src, no_tgt = ((tokens == PAD)[:, None, None] for tokens in (src, tgt))
        ahead = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).triu(1)
        memory, x = self.embed(src), self.embed(tgt)
        for layer in self.encoder:
            memory = layer(memory, (None, no_src))
        for layer in self.decoder:
            x = layer(x, (None, no_tgt | ahead), (memory, no_src))
        log_p = F.linear(x, self.embed.table.weight).flatten(0, 1).float().log_softmax(-1)
        wanted = torch.full_like(log_p, SMOOTHING / log_p.shape[-1])
        wanted.scatter_(1, labels[:, None], 1 - SMOOTHING + SMOOTHING / log_p.shape[-1])
        wanted[labels == PAD] = 0
        return -(wanted * log_p).sum()


class Joey(nn.Module):
    """JoeyNMT's model with JoeyNMT's own loss; dropout inside of attention and feed-forward off."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.model = joey_model(config)
        self.model.loss_function = ("crossentropy", SMOOTHING)

    def loss(self, batch: Batch) -> Tensor:
        return self.model(
            return_type="loss",
            src=batch.src,
            src_length=None,
            src_mask=(batch.src != PAD)[:, None],
            trg_input=batch.tgt[:, :-1],
            trg=batch.tgt[:, 1:],
            trg_mask=(batch.tgt[:, 1:] != PAD)[:, None],
        )[0]


def joey_model(config: TransformerConfig) -> nn.Module:
    """JoeyNMT's Transformer, of our sizes and our special tokens."""
    from joeynmt.model import build_model
    from joeynmt.transformer_layers import MultiHeadedAttention, PositionwiseFeedForward
    from joeynmt.vocabulary import Vocabulary

    logging.disable(logging.INFO)  # JoeyNMT tells what it builds
    half = {
        "type": "transformer",
        "num_layers": config.n_layers,
        "num_heads": config.n_heads,
        "hidden_size": config.d_model,
        "ff_size": config.d_ff,
        "dropout": config.dropout,
        "layer_norm": "pre" if config.norm_first else "post",
        "embeddings": {"embedding_dim": config.d_model, "scale": True, "dropout": config.dropout},
    }
    symbols = SimpleNamespace(
        unk_token="<pad>",  # JoeyNMT puts the symbols in this order: so they get our ids
        pad_token="<unk>",
        bos_token="<bos>",
        eos_token="<eos>",
        sep_token=None,
        lang_tags=[],
        unk_id=PAD,
        pad_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
    )
    vocabulary = Vocabulary([f"t{i}" for i in range(4, config.vocab_size)], symbols)
    vocabulary.pad_index, vocabulary.unk_index = PAD, UNK
    tied = {"encoder": half, "decoder": half, "tied_embeddings": True, "tied_softmax": True}
    model = build_model(tied, vocabulary, vocabulary)
    for module in model.modules():
        if isinstance(module, MultiHeadedAttention):
            module.dropout.p = 0.0
        if isinstance(module, PositionwiseFeedForward):
            module.pwff_layer[2].p = 0.0
    return model


class Marian(nn.Module):
    """Hugging Face's Marian, which has dropout where the paper has it."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.model = hugging_face_model(config)

    def loss(self, batch: Batch) -> Tensor:
        logits = self.model(
            input_ids=batch.src,
            attention_mask=batch.src != PAD,
            decoder_input_ids=batch.tgt[:, :-1],
            use_cache=False,
        ).logits
        return smoothed_loss(logits, batch.tgt[:, 1:], SMOOTHING)


def hugging_face_model(config: TransformerConfig) -> nn.Module:
    """Hugging Face's Marian, of our sizes and our special tokens. Marian is post-norm; for
    pre-norm it is their MBart, without the norm that MBart has on its embeddings."""
    from transformers import MarianConfig, MarianMTModel, MBartConfig, MBartForConditionalGeneration

    pre = config.norm_first
    half = {"layers": config.n_layers, "ffn_dim": config.d_ff, "attention_heads": config.n_heads}
    sizes = (MBartConfig if pre else MarianConfig)(
        vocab_size=config.vocab_size,
        d_model=config.d_model,
        dropout=config.dropout,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        **{f"{part}_{name}": n for part in ("encoder", "decoder") for name, n in half.items()},
    )
    model = (MBartForConditionalGeneration if pre else MarianMTModel)(sizes)
    if pre:
        for part in (model.model.encoder, model.model.decoder):
            part.layernorm_embedding = nn.Identity()
    return model


class XTransformers(nn.Module):
    """x-transformers' encoder and decoder, pre-norm as it comes; dropout where the paper has it."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        from x_transformers import XTransformer

        half = {
            "num_tokens": config.vocab_size,
            "max_seq_len": 512,
            "depth": config.n_layers,
            "heads": config.n_heads,
            "attn_dim_head": config.d_model // config.n_heads,
            "ff_mult": config.d_ff // config.d_model,
            "attn_flash": True,
            "emb_dropout": config.dropout,
            "attn_sublayer_dropout": config.dropout,
            "ff_sublayer_dropout": config.dropout,
        }
        halves = {f"{part}_{name}": n for part in ("enc", "dec") for name, n in half.items()}
        self.model = XTransformer(dim=config.d_model, tie_token_emb=True, **halves)

    def loss(self, batch: Batch) -> Tensor:
        mask = batch.src != PAD
        memory = self.model.encoder(batch.src, mask=mask, return_embeddings=True)
        logits = self.model.decoder.net(batch.tgt[:, :-1], context=memory, context_mask=mask)
        return smoothed_loss(logits, batch.tgt[:, 1:], SMOOTHING)


Step = Callable[..., None]  # takes batches, and makes one update with each


def training_step(
    peer: nn.Module, device: torch.device, dtype: torch.dtype, backend: str | None = None
) -> Step:
    """Updates of a peer: the loss per token, its gradients, Adam as the paper sets it."""
    peer.to(device).train()
    adam = torch.optim.Adam(peer.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    loss = torch.compile(peer.loss, backend=backend) if backend else peer.loss
    half = None if dtype == torch.float32 else dtype
    scaler = torch.amp.GradScaler(device.type, enabled=half == torch.float16)

    def step(*batches: Batch) -> None:
        for batch in batches:
            batch = to(batch, device)
            with torch.autocast(device.type, half, enabled=half is not None):
                total = loss(batch)
            scaler.scale(total / (batch.tgt[:, 1:] != PAD).sum()).backward()
            scaler.step(adam)
            scaler.update()
            adam.zero_grad()

    return step


def our_step(
    config: TransformerConfig, device: torch.device, dtype: torch.dtype, backend: str | None = None
) -> Step:
    """Updates of ours, by `allyouneed.training.train` as anybody calls it.

    Called without a batch, it comes to its end.
    """
    waiting: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
    model = Transformer(config).to(device)
    if backend:  # as `--compile` does
        model.encoder.compile(dynamic=True, backend=backend)
        model.decoder.compile(dynamic=True, backend=backend)
    records = train(
        model,
        lambda epoch: iter(waiting.get, None),
        steps=10**9,
        schedule=lambda step: 1e-4,
        smoothing=SMOOTHING,
        precision=SHORT[dtype],
    )

    def step(*batches: Batch) -> None:
        for batch in batches:
            waiting.put(batch)
        for _ in batches:
            next(records)
        model.zero_grad()  # as the peers do: gradients are no part of what stays
        if not batches:  # an epoch ends, and an epoch has no batches: no thread waits for more
            waiting.put(None), waiting.put(None)
            records.close()

    return step


@dataclass(frozen=True)
class Peer:
    """A row of the table: how to build it, and how it computes."""

    build: Callable[[TransformerConfig], nn.Module]
    bf16: bool = False  # or float16, on a GPU that has no bfloat16
    compiled: bool = False


PEERS = {
    FIRST: Peer(TorchTransformer),
    FIRST + ", as it comes": Peer(lambda config: TorchTransformer(config, as_it_comes=True)),
    FIRST + ", bf16": Peer(TorchTransformer, bf16=True),
    FIRST + ", compiled": Peer(TorchTransformer, compiled=True),
    FIRST + ", bf16, compiled": Peer(TorchTransformer, bf16=True, compiled=True),
    "the equations, plainly": Peer(Plain),
    "JoeyNMT": Peer(Joey),
    "Hugging Face Marian": Peer(Marian),
    "Hugging Face Marian, bf16": Peer(Marian, bf16=True),
    "x-transformers": Peer(XTransformers),
}


def run(
    config: TransformerConfig, batches: list[Batch], only: list[str], rounds: int, clock: Clock,
    backend: str | None = None,
    observe: Callable[[Callable[[], None]], dict[str, Any]] | None = None, small: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The table of one size: a row of numbers for each peer, and the peak of the run.

    A turn is one batch on a CPU; on a GPU it is all of them, one after the other as in a run, since
    a GPU works on one while the next one is on its way. Only with a `backend` is anybody compiled.
    `observe` is given one turn of a row and finds what else is to be in it. `small` as in `Peak`.
    """
    gpu = clock.device.type == "cuda"
    half = half_dtype(clock.device) if gpu else torch.bfloat16
    ours = {"ours, without bf16": Peer(Transformer), "ours": Peer(Transformer, bf16=True)}
    if backend:
        ours["ours, compiled"] = Peer(Transformer, bf16=True, compiled=True)
    chosen = {n: p for n, p in PEERS.items() if n == FIRST or any(part in n for part in only)}
    steps, dtypes, left_out = {}, {}, {}
    torch.compiler.reset()  # what is compiled for other models is not counted against these
    for name, peer in (chosen | ours).items():
        if peer.compiled and not backend:
            continue  # on a CPU a minute or two of compiling for nothing: see README.md
        dtype, how = half if peer.bf16 else torch.float32, backend if peer.compiled else None
        name = name.replace("bf16", SHORT[half])
        try:
            if peer.build is Transformer:
                step = our_step(config, clock.device, dtype, how)
            else:
                step = training_step(peer.build(config), clock.device, dtype, how)
            if how:
                step(*batches)  # where the compiler fails, the others go on
        except ModuleNotFoundError as error:
            left_out[name] = f"{error.name} is not installed"
        except Exception as error:
            if not how:
                raise
            left_out[name] = f"not compiled: {type(error).__name__}"
            traceback.print_exc()
        else:
            steps[name], dtypes[name] = step, dtype
    for name, why in left_out.items():
        print(f"without {name}: {why}")
    peak = Peak(clock, half, small)
    turns = [batches] if gpu else [[batch] for batch in batches]
    seconds = interleave(
        {name: lambda i, step=step: step(*turns[i]) for name, step in steps.items()},
        len(turns),
        rounds,
        clock,
        peak,
    )
    tokens = [sum(map(target_tokens, turn)) for turn in turns] * rounds
    needed = [sum(flops(config, batch) for batch in turn) for turn in turns] * rounds

    def row(name: str) -> dict[str, float | str]:
        own, dtype = seconds[name], dtypes[name]
        more = observe(lambda: steps[name](*batches)) if observe else {}
        return {
            "dtype": str(dtype).removeprefix("torch."),
            "target tokens per second": sum(tokens) / sum(own),
            "times nn.Transformer": ratio(seconds[FIRST], own),
            "ours is faster": ratio(own, seconds["ours"]),
            "of the peak": sum(needed) / sum(own) / peak[dtype],
            **more,
        }

    found = {"peak": peak.data(), "rows": {name: row(name) for name in steps}}
    for name in set(steps) & set(ours):
        steps[name]()
    return found | {"left out": left_out}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = options.add_argument
    add("--size", choices=SIZES, nargs="+", default=["tiny"], help="one or more of %(choices)s")
    add("--device", default="cpu", help="cpu or cuda")
    add("--threads", type=int, default=1, help="of the CPU; with 1 its own time is measured")
    add("--tokens", type=int, default=4096, help="positions in a batch, at most")
    add("--batches", type=int, default=8, help="how many batches, of different lengths")
    add("--rounds", type=int, default=3, help="how often everybody trains on each of them")
    add("--data", default="multi30k-en-de", help="or tatoeba-en-fr")
    add("--only", nargs="+", default=[""], help="peers whose names have one of these in them")
    add("--record", action="store_true", help="write the tables to the package's results")
    wanted = options.parse_args()

    torch.set_num_threads(wanted.threads)
    clock, tables = Clock(torch.device(wanted.device)), {}
    for size in wanted.size:
        torch.manual_seed(0)
        config = SIZES[size]
        batches = real_batches(wanted.data, config.vocab_size, wanted.tokens, wanted.batches)
        backend = None if wanted.device == "cpu" else "inductor"
        tables[size] = run(config, batches, wanted.only, wanted.rounds, clock, backend)
        print(f"\n{size}, {wanted.device}, {clock.name}, {wanted.tokens} positions a batch")
        print(*in_print(tables[size]), sep="\n", flush=True)
    if wanted.record:
        conditions = {**vars(wanted), "time": clock.name, "peers": versions()}
        name = "training_speed_amx" if "amx_bf16" in processor() else "training_speed"
        record(name, {**conditions, "tables": tables})


def in_print(measured: dict[str, Any]) -> Iterator[str]:
    """The lines of a table."""
    yield measured["peak"]["line"]
    head = ["", "type", "target tokens/s", "times nn.Transformer", "ours is faster", "of the peak"]
    yield from table(
        head,
        [
            [
                name,
                row["dtype"],
                f"{row['target tokens per second']:,.0f}",
                f"{row['times nn.Transformer']:.2f}",
                f"{row['ours is faster']:.2f}",
                f"{row['of the peak']:.0%}",
            ]
            for name, row in measured["rows"].items()
        ],
    )


if __name__ == "__main__":
    main()
