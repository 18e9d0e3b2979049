"""What each head of a trained translator is worth: chapter 15.

    python experiments/heads.py tatoeba-en-fr        # about 5 minutes on one core

Takes heads of the shipped model out through the columns of W^O: one at a time, all of one kind, and
greedily, the cheapest first. Losses are measured on one set of validation sentences and choose the
order; BLEU of greedy translations is measured on another. Writes
src/allyouneed/results/head_ablation.json.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from record import record
from torch import Tensor

from allyouneed import pretrained
from allyouneed.data import load_pairs
from allyouneed.decoding import translate
from allyouneed.evaluation import scores
from allyouneed.tokens import BOS, EOS, PAD, pad
from allyouneed.transformer import Transformer

CHOOSING, JUDGING, GROUP = 80, 300, 20  # sentences for the losses, for BLEU, and in one batch
ORDERS, STEP = 3, 4  # random orders, and how many heads they lose at a time

Head = tuple[str, int, int]  # kind, layer, head, both counted from 0


def output_matrix(model: Transformer, kind: str, layer: int) -> Tensor:
    """W^O of one attention, as PyTorch keeps it: heads are blocks of columns."""
    if kind == "encoder":
        return model.encoder.layers[layer].self_attention.w_o.weight
    part = model.decoder.layers[layer]
    return (part.self_attention if kind == "decoder" else part.cross_attention).w_o.weight


@contextmanager
def without(model: Transformer, heads: list[Head]) -> Iterator[None]:
    """The model without some heads, for as long as the block lasts."""
    width = model.config.d_model // model.config.n_heads
    kept = {head[:2]: output_matrix(model, *head[:2]).clone() for head in heads}
    for kind, layer, head in heads:
        output_matrix(model, kind, layer)[:, head * width : (head + 1) * width] = 0
    try:
        yield
    finally:
        for place, weight in kept.items():
            output_matrix(model, *place).copy_(weight)


def loss(model: Transformer, batches: list[tuple[Tensor, Tensor]]) -> float:
    """Nats per token of the true translations, without label smoothing."""
    total, count = 0.0, 0
    for src, tgt in batches:
        states = model.decode(tgt[:, :-1], *model.encode(src))
        labels = tgt[:, 1:]
        real = labels != PAD
        log_p = model.logits(states[real]).log_softmax(-1)
        total -= log_p.gather(1, labels[real][:, None]).sum().item()
        count += int(real.sum())
    return total / count


def main(name: str) -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    model, tokenizer = pretrained(name)
    pairs = list(
        {source: (source, target) for source, target in load_pairs(name, "valid")}.values()
    )
    random.Random(15).shuffle(pairs)
    chosen = sorted(pairs[:CHOOSING], key=lambda pair: len(pair[0]))
    sources, references = zip(*pairs[CHOOSING : CHOOSING + JUDGING], strict=True)
    batches = [
        (
            pad([[*tokenizer.encode(source), EOS] for source, _ in chosen[k : k + GROUP]]),
            pad([[BOS, *tokenizer.encode(target), EOS] for _, target in chosen[k : k + GROUP]]),
        )
        for k in range(0, CHOOSING, GROUP)
    ]
    config = model.config
    heads = [
        (kind, layer, head)
        for kind in ("encoder", "decoder", "cross")
        for layer in range(config.n_layers)
        for head in range(config.n_heads)
    ]

    def judged(out: list[Head]) -> dict[str, float]:
        with without(model, out):
            found = translate(model, tokenizer, list(sources), beam=1)
            bleu = scores(found, list(references))[0]
            return {"bleu": bleu.value, "loss": loss(model, batches)}

    def chosen_loss(out: list[Head]) -> float:
        with without(model, out):
            return loss(model, batches)

    def row(head: Head) -> dict[str, str | int]:
        return dict(zip(("kind", "layer", "head"), head, strict=True))

    whole = judged([])
    print(f"whole: BLEU {whole['bleu']:.2f}, loss {whole['loss']:.3f}", flush=True)
    single = [{**row(head), **judged([head])} for head in heads]
    kinds = {
        kind: judged([h for h in heads if h[0] == kind]) for kind in ("encoder", "decoder", "cross")
    }
    path, out = [], []
    while len(out) < len(heads):
        left = [head for head in heads if head not in out]
        out.append(min(left, key=lambda head: chosen_loss([*out, head])))
        path.append({**row(out[-1]), **judged(out)})
        print(f"{len(out):3} heads out, BLEU {path[-1]['bleu']:.2f}", flush=True)
    orders = []
    for seed in range(ORDERS):
        order = heads.copy()
        random.Random(seed).shuffle(order)
        sizes = range(STEP, len(heads) + 1, STEP)
        orders.append([{"removed": size, **judged(order[:size])} for size in sizes])
    signature = scores(["a"], ["a"])[0].signature
    record(
        "head_ablation",
        {
            "model": name,
            "chosen_on": CHOOSING,
            "judged": JUDGING,
            "signature": signature,
            **whole,
            "single": single,
            "kinds": kinds,
            "pruning": path,
            "random": orders,
        },
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
