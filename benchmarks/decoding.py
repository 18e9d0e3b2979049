"""Decoding speed, beside the peers: `python benchmarks/decoding.py --model multi30k-en-de`.

Everybody has the same weights and must give the same translations; see README.md in this folder.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import allyouneed.decoding
from allyouneed.data import load_pairs
from allyouneed.decoding import beam_search, greedy
from allyouneed.saving import load_model, pretrained
from allyouneed.tokens import BOS, EOS, PAD, UNK, Tokenizer, pad
from allyouneed.transformer import Transformer

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "experiments")]
from measure import Clock, Peak, interleave, ratio, table, versions  # noqa: E402
from record import record  # noqa: E402
from training import hugging_face_model, joey_model  # noqa: E402

Ids = list[list[int]]


# Every peer is a class with `translate(src, beam)`: ids without BOS and EOS. A beam of 1 is greedy;
# no length penalty, which everybody defines in another way. Those that can be told to go on until
# nothing open can overtake the best that has ended, as ours does, are told so.


class Ours:
    """`allyouneed.decoding`, as anybody calls it."""

    def __init__(self, model: Transformer):
        self.model = model

    def translate(self, src: Tensor, beam: int) -> Ids:
        if beam == 1:
            return greedy(self.model, src, longest(src))
        return beam_search(self.model, src, beam, length_penalty=0.0, max_length=longest(src))


class Plain(Ours):
    """The same with the cache as chapter 13 writes it."""

    def translate(self, src: Tensor, beam: int) -> Ids:
        fast = allyouneed.decoding.FastCache
        allyouneed.decoding.FastCache = allyouneed.decoding.Cache
        try:
            return super().translate(src, beam)
        finally:
            allyouneed.decoding.FastCache = fast


class Uncached:
    """Our model without a cache: for every token the whole prefix again. Greedy only."""

    def __init__(self, model: Transformer):
        self.model = model

    @torch.inference_mode()
    def translate(self, src: Tensor, beam: int) -> Ids:
        memory, mask = self.model.encode(src)
        tgt = src.new_full((len(src), 1), BOS)
        while tgt.shape[1] <= longest(src) and not (tgt == EOS).any(1).all():
            logits = self.model.logits(self.model.decode(tgt, memory, mask)[:, -1:])
            tgt = torch.cat([tgt, logits.argmax(-1)], 1)
        return until_eos(tgt[:, 1:])


def longest(src: Tensor) -> int:
    """How many tokens a translation may have, EOS included: source length + 50 (section 6.1)."""
    return src.shape[1] + 50


def until_eos(rows: Tensor) -> Ids:
    """The ids of each row up to EOS."""
    return [row[: row.index(EOS)] if EOS in row else row for row in rows.tolist()]


def copy_linear(to: nn.Linear, of: nn.Linear) -> None:
    to.weight.copy_(of.weight)
    if to.bias is not None:
        to.bias.zero_() if of.bias is None else to.bias.copy_(of.bias)


def copy_norm(to: nn.LayerNorm, of: nn.Module) -> None:
    to.weight.copy_(of.gamma)
    to.bias.copy_(of.beta)
    to.eps = of.eps


class HuggingFace:
    """Hugging Face's Marian or MBart, of our weights, and their `generate` with its cache."""

    @torch.no_grad()
    def __init__(self, model: Transformer):
        self.model = hugging_face_model(model.config).to(model.embedding.weight.device).eval()
        self.model.model.shared.weight.copy_(model.embedding.weight)
        self.model.generation_config.update(max_length=None, num_beams=1)
        for to, of in (
            (self.model.model.encoder, model.encoder),
            (self.model.model.decoder, model.decoder),
        ):
            table = to.embed_positions.weight[2 if model.config.norm_first else 0 :]
            table.copy_(model.positions.table[: len(table)])
            if model.config.norm_first:
                copy_norm(to.layer_norm, of.norm)
            for a, b in zip(to.layers, of.layers, strict=True):
                norms = [a.self_attn_layer_norm, a.final_layer_norm]
                pairs = [(a.self_attn, b.self_attention)]
                if hasattr(a, "encoder_attn"):
                    norms.insert(1, a.encoder_attn_layer_norm)
                    pairs.append((a.encoder_attn, b.cross_attention))
                for x, y in pairs:
                    for name in "qkv":
                        copy_linear(getattr(x, f"{name}_proj"), getattr(y, f"w_{name}"))
                    copy_linear(x.out_proj, y.w_o)
                copy_linear(a.fc1, b.feed_forward.w_1)
                copy_linear(a.fc2, b.feed_forward.w_2)
                for norm, residual in zip(norms, b.residuals, strict=True):
                    copy_norm(norm, residual.norm)

    @torch.inference_mode()
    def translate(
        self, src: Tensor, beam: int, alpha: float = 0.0, early_stopping: bool | str = "never"
    ) -> Ids:
        rows = self.model.generate(
            input_ids=src,
            attention_mask=src != PAD,
            num_beams=beam,
            do_sample=False,
            max_new_tokens=longest(src),
            length_penalty=alpha,
            early_stopping=early_stopping,
        )
        return until_eos(rows[:, 1:])


class Joey:
    """JoeyNMT's model, of our weights, and its searches; it has no cache."""

    @torch.no_grad()
    def __init__(self, model: Transformer):
        self.model = joey_model(model.config).to(model.embedding.weight.device).eval()
        self.model.src_embed.lut.weight.copy_(model.embedding.weight)
        for to, of in ((self.model.encoder, model.encoder), (self.model.decoder, model.decoder)):
            if model.config.norm_first:
                copy_norm(to.layer_norm, of.norm)
            for a, b in zip(to.layers, of.layers, strict=True):
                if hasattr(a, "src_src_att"):
                    norms, pairs = [a.layer_norm], [(a.src_src_att, b.self_attention)]
                else:
                    norms = [a.x_layer_norm, a.dec_layer_norm]
                    pairs = [(a.trg_trg_att, b.self_attention), (a.src_trg_att, b.cross_attention)]
                for x, y in pairs:
                    for name in "qkv":
                        copy_linear(getattr(x, f"{name}_layer"), getattr(y, f"w_{name}"))
                    copy_linear(x.output_layer, y.w_o)
                copy_linear(a.feed_forward.pwff_layer[0], b.feed_forward.w_1)
                copy_linear(a.feed_forward.pwff_layer[3], b.feed_forward.w_2)
                for norm, residual in zip(
                    [*norms, a.feed_forward.layer_norm], b.residuals, strict=True
                ):
                    copy_norm(norm, residual.norm)

    @torch.inference_mode()
    def translate(self, src: Tensor, beam: int) -> Ids:
        from joeynmt.search import beam_search, greedy

        mask = (src != PAD)[:, None]
        memory, _, _, _ = self.model("encode", src=src, src_length=None, src_mask=mask)
        given = {
            "model": self.model,
            "encoder_output": memory,
            "encoder_hidden": None,
            "src_mask": mask,
            "max_output_length": longest(src),
        }
        if beam == 1:
            rows, _, _ = greedy(**given)
        else:
            rows, _, _ = beam_search(**given, beam_size=beam, alpha=0.0)
        return until_eos(torch.as_tensor(rows))


class CTranslate2:
    """CTranslate2 in float32, of our weights, in its own C++."""

    def __init__(self, model: Transformer):
        import ctranslate2
        from ctranslate2.specs import TransformerSpec

        config, device = model.config, model.embedding.weight.device.type
        spec = TransformerSpec.from_config(
            config.n_layers, config.n_heads, pre_norm=config.norm_first
        )
        halves = (spec.encoder, model.encoder), (spec.decoder, model.decoder)
        for to, of in halves:
            embeddings = to.embeddings[0] if to is spec.encoder else to.embeddings
            embeddings.weight = numbers(model.embedding.weight)
            to.position_encodings.encodings = numbers(model.positions.table)
            if config.norm_first:
                set_norm(to.layer_norm, of.norm)
            for a, b in zip(to.layer, of.layers, strict=True):
                own = b.self_attention
                looks = [(a.self_attention, [[own.w_q, own.w_k, own.w_v], [own.w_o]])]
                if to is spec.decoder:
                    cross = b.cross_attention
                    looks.append((a.attention, [[cross.w_q], [cross.w_k, cross.w_v], [cross.w_o]]))
                for (attention, groups), residual in zip(looks, b.residuals, strict=False):
                    set_norm(attention.layer_norm, residual.norm)
                    for linear, layers in zip(attention.linear, groups, strict=True):
                        set_linear(linear, layers)
                set_norm(a.ffn.layer_norm, b.residuals[-1].norm)
                set_linear(a.ffn.linear_0, [b.feed_forward.w_1])
                set_linear(a.ffn.linear_1, [b.feed_forward.w_2])
        spec.decoder.projection.weight = numbers(model.embedding.weight)
        self.tokens = [str(i) for i in range(config.vocab_size)]
        spec.register_source_vocabulary(self.tokens)
        spec.register_target_vocabulary(self.tokens)
        spec.config.bos_token = spec.config.decoder_start_token = str(BOS)
        spec.config.eos_token, spec.config.unk_token = str(EOS), str(UNK)
        spec.config.layer_norm_epsilon = model.encoder.layers[0].residuals[0].norm.eps
        spec.validate()
        spec.optimize()
        with tempfile.TemporaryDirectory() as folder:
            spec.save(folder)
            self.model = ctranslate2.Translator(
                folder,
                device=device,
                compute_type="float32",
                inter_threads=1,
                intra_threads=torch.get_num_threads(),
            )

    def translate(self, src: Tensor, beam: int, alpha: float = 0.0, patience: float = 1e4) -> Ids:
        results = self.model.translate_batch(
            [[self.tokens[i] for i in row if i != PAD] for row in src.tolist()],
            beam_size=beam,
            length_penalty=alpha,
            max_decoding_length=longest(src),
            patience=patience,
        )
        return [[int(token) for token in result.hypotheses[0]] for result in results]


def numbers(weight: Tensor) -> Any:
    return weight.detach().cpu().contiguous().numpy()


def set_linear(to: Any, layers: list[nn.Linear]) -> None:
    to.weight = numbers(torch.cat([layer.weight for layer in layers]))
    if layers[0].bias is not None:
        to.bias = numbers(torch.cat([layer.bias for layer in layers]))


def set_norm(to: Any, of: nn.Module) -> None:
    to.gamma, to.beta = numbers(of.gamma), numbers(of.beta)


PEERS = {
    "ours": Ours,
    "ours, the plain cache": Plain,
    "ours, without a cache": Uncached,
    "Hugging Face generate": HuggingFace,
    "JoeyNMT": Joey,
    "CTranslate2 float32": CTranslate2,
}


@torch.inference_mode()
def log_probability(model: Transformer, src: Tensor, ids: Ids) -> Tensor:
    """log P of each translation, EOS included, one after the other."""
    tgt = pad([[BOS, *row, EOS] for row in ids]).to(src.device)
    log_p = model(src, tgt[:, :-1]).log_softmax(-1).gather(2, tgt[:, 1:, None])[..., 0]
    return log_p.masked_fill(tgt[:, 1:] == PAD, 0).sum(1)


def require_the_same(
    name: str, model: Transformer, batches: list[Tensor], found: list[Ids], ours: list[Ids],
    beam: int, tie: float = 1e-3,
) -> int:  # fmt: skip
    """How many translations are other ones than ours; an error unless they are as probable.

    With a beam, one in twenty may be more or less probable: the programs differ in when they stop.

    Two programs add up numbers in another order; where two translations are equally probable to
    the last digits, that may decide which of them is taken.
    """
    count, apart = 0, 0.0
    for src, theirs, own in zip(batches, found, ours, strict=True):
        other = [i for i, (a, b) in enumerate(zip(theirs, own, strict=True)) if a != b]
        if other:
            a, b = (
                log_probability(model, src[other], [ids[i] for i in other]) for ids in (theirs, own)
            )
            count, apart = count + len(other), max(apart, (a - b).abs().max().item())
    if apart > tie and (beam == 1 or count > sum(map(len, batches)) / 20):
        raise AssertionError(
            f"{name}: expected our translations, got {count} others, log-probabilities "
            f"up to {apart:.4f} apart"
        )
    return count


def run(
    peers: dict[str, Any], model: Transformer, batches: list[Tensor], beam: int, rounds: int,
    clock: Clock, peak: Peak,
) -> dict[str, dict[str, float]]:  # fmt: skip
    """A row of numbers for each peer; everybody's translations are looked at first."""
    ours = [peers["ours"].translate(src, beam) for src in batches]
    others = {
        name: require_the_same(
            name, model, batches, [peer.translate(src, beam) for src in batches], ours, beam
        )
        for name, peer in peers.items()
    }
    seconds = interleave(
        {n: lambda i, p=peer: p.translate(batches[i], beam) for n, peer in peers.items()},
        len(batches),
        rounds,
        clock,
        peak,
    )
    tokens = rounds * sum(len(ids) + 1 for batch in ours for ids in batch)  # EOS is one as well
    return {
        name: {
            "tokens per second": tokens / sum(seconds[name]),
            "ours is faster": ratio(seconds[name], seconds["ours"]),
            "other translations": others[name],
        }
        for name in peers
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = options.add_argument
    add("--model", default="multi30k-en-de", help="a model of the package, or a file of one")
    add("--device", default="cpu", help="cpu or cuda")
    add("--threads", type=int, default=1, help="of the CPU; with 1 its own time is measured")
    add("--sentences", type=int, default=256, help="of the validation set")
    add("--alone", type=int, default=32, help="so many of them are translated one by one as well")
    add("--rounds", type=int, default=3, help="how often everybody translates each of them")
    add("--data", default="multi30k-en-de", help="or tatoeba-en-fr")
    add("--only", nargs="+", default=[""], help="peers whose names have one of these in them")
    add("--record", action="store_true", help="write the tables to the package's results")
    wanted = options.parse_args()

    torch.set_num_threads(wanted.threads)
    clock = Clock(torch.device(wanted.device))
    peak, tables = Peak(clock), {}
    asked = wanted.model, wanted.data, wanted.sentences, wanted.alone, wanted.rounds, wanted.only
    for kind, rows in measured(*asked, clock, peak):
        tables[kind] = rows
        print(f"\n{kind}: {wanted.model}, {wanted.device}, {clock.name}")
        print(*in_print(rows), sep="\n", flush=True)
    print(peak.data()["line"])
    if wanted.record:
        conditions = {**vars(wanted), "time": clock.name, "peers": versions(), "peak": peak.data()}
        record("decoding_speed", {**conditions, "tables": tables})


def measured(
    name: str, data: str, number: int, alone: int, rounds: int, only: list[str], clock: Clock,
    peak: Peak,
) -> Iterator[tuple[str, dict[str, dict[str, float]]]]:  # fmt: skip
    """The tables of one model, each with its name: greedy, greedy one by one, and with a beam."""
    read = load_model if Path(name).is_file() else pretrained
    model, tokenizer = read(name, clock.device)
    sentences = [src for src, _ in load_pairs(data, "valid")[:number]]
    peers = {}
    for row, peer in PEERS.items():
        if row != "ours" and not any(part in row for part in only):
            continue
        try:
            peers[row] = peer(model)
        except ModuleNotFoundError as error:
            print(f"without {row}: {error.name} is not installed")
    for kind, beam, size, some in (
        ("greedy, 64 sentences at a time", 1, 64, number),
        ("greedy, one sentence at a time", 1, 1, alone),
        ("beam of 4, 64 sentences at a time", 4, 64, number),
    ):
        batches = source_batches(tokenizer, sentences[:some], size, clock.device)
        able = {n: p for n, p in peers.items() if beam == 1 or not isinstance(p, Uncached)}
        yield kind, run(able, model, batches, beam, rounds, clock, peak)


def source_batches(
    tokenizer: Tokenizer, sentences: list[str], size: int, device: torch.device
) -> list[Tensor]:
    """The sentences as padded batches; sentences of similar length are together."""
    ids = sorted(([*tokenizer.encode(sentence), EOS] for sentence in sentences), key=len)
    return [pad(ids[i : i + size]).to(device) for i in range(0, len(ids), size)]


def in_print(rows: dict[str, dict[str, float]]) -> Iterator[str]:
    """The lines of a table."""
    yield from table(
        ["", "tokens/s", "ours is faster", "other translations"],
        [
            [
                name,
                f"{row['tokens per second']:,.0f}",
                f"{row['ours is faster']:.2f}",
                row["other translations"],
            ]
            for name, row in rows.items()
        ],
    )


if __name__ == "__main__":
    main()
