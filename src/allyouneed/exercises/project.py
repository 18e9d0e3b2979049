"""The project: a Transformer from an empty file, checked stage by stage as it grows.

What stands here is the same teacher as everywhere: each stage is an `Exercise`, or two. What is
different is the answer, a whole file whose names are the reader's own (project_reading.py). Wrong
machines are one reference with slips (project_machine.py): a slip of one stage stays in force for
the stages that are built upon it, so that each is judged for what it adds.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import math
import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from . import core
from .chapter_09 import sinusoids
from .core import Exercise, Mistake, Verdict, mistakes
from .guard import Failure, run
from .project_banks import CAUSAL, PADDING, POSITIONS, SCHEDULE
from .project_machine import (
    OF_LAYERS,
    attention,
    attention_weights,
    causal_mask,
    chequered,
    decoder_layer,
    drawn,
    encoder_layer,
    heads,
    layer_weights,
    machine_weights,
    padding_mask,
    sentences,
    spelled_out,
    torchs_own,
    with_slopes,
)  # fmt: skip
from .project_reading import (
    FF,
    D,
    H,
    N,
    Slot,
    Unclear,
    Uses,
    V,
    Weights,
    attention_slots,
    by_input,
    by_output,
    call,
    copied,
    find,
    first,
    idle,
    laid_out,
    measured,
    order_of_use,
    resting,
    same_module,
    signature,
    stack_layout,
)  # fmt: skip
from .project_runs import (
    BOS,
    EOS,
    PAD,
    Faults,
    Remembered,
    Toy,
    beam_search,
    greedy,
    moved,
    score,
    tidy,
    train,
)  # fmt: skip
from .project_slips import (
    ATTENTION,
    BEAM,
    DECODER,
    ENCODER,
    EQUAL,
    EQUAL_MACHINE,
    GREEDY,
    HEADS,
    LAYER,
    MACHINE,
    TRAINING,
    Rows,
)  # fmt: skip


def known(function: Callable) -> Callable:
    """A function of a case, not an answer of a reader's: `for_readers` calls it as it is."""
    function.of_the_book = True
    return function


def for_readers(probe: Callable) -> Callable:
    """A probe for what readers hand in; known functions take the case as it is."""
    return lambda answer, *case: (
        answer if hasattr(answer, "of_the_book") else partial(probe, answer)
    )(*case)


def bank(rows: Rows, build: Callable, had: Faults, pairs: int = 99) -> list[Mistake]:
    """Each slip on top of those that are had already; then each two of the first ones."""
    new = [(name, set(slip.split("+")), why) for name, slip, why in rows if slip not in had]
    one = [Mistake(name, known(build(had | slips)), why) for name, slips, why in new]
    for (a, some, why), (b, others, besides) in itertools.combinations(new[:pairs], 2):
        words = f"{why} And: {besides}"
        one.append(Mistake(f"{a}, and {b}", known(build(had | some | others)), words))
    return one


def slips_of(name: str, rows: Sequence[tuple[str, str, str]]) -> Faults:
    """The slips that a mistake of `bank` stands for."""
    return frozenset(
        slip for title, slip, _ in rows if name == title or f", and {title}" in name
        or name.startswith(f"{title}, and ")
    )  # fmt: skip


# The stages


class Project:
    """A reader's file, and what is known of it so far."""

    def __init__(self, namespace: Mapping[str, Any]):
        self.namespace = namespace
        self.faults: Faults = frozenset()
        self.own: dict[str, Callable] = {}  # masks and positions that are not right
        self.trained: Callable = train  # as it should be, with the loss and the schedule at hand
        self.looked_at: set[str] = set()  # the stages
        self.wrong: set[str] = set()  # and the parts that are not right
        self.cases: dict[str, list[tuple]] = {}  # of decoding
        self.apart: dict[str, bool] = {}  # which searches ask more of a machine than to be called
        self.written: dict[tuple, Any] = {}  # what a search has given for each
        self.ours: dict[tuple, list] = {}  # and what ours gives, with each slip
        self.speaks: list[Callable] = []  # what each of them says, by its number
        self._pattern: list[list[Slot]] | None = None

    def pattern(self) -> list[list[Slot]]:
        """How the reader's multi-head attention keeps its weights."""
        if self._pattern is None:
            thing = self.thing("heads")
            found = run(lambda: attention_slots(*multi_head(thing)), 10.0)
            views = dict(by_input((D, D)))
            plain = [[Slot(name, views["linear"][0])] for name in "qkv"]
            plain.append([Slot("o", by_output((D, D), "linear"))])
            self._pattern = plain if isinstance(found, Failure) else found[1]
        return self._pattern

    def thing(self, name: str) -> Any:
        return find(self.namespace, NAMES[name], name in CLASSES)

    def get(self, name: str, otherwise: Callable) -> Callable:
        """The reader's function of that name, or ours if there is none."""
        thing = self.thing(name)
        return otherwise if core.is_blank(thing) or not callable(thing) else thing


def multi_head(thing: Any) -> tuple[Any, Callable[..., Tensor]]:
    module = resting(call(thing, {"dropout": 0.0}, d_model=D, n_heads=H))

    def compute(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return first(call(module, q=q, k=k, v=v, mask=mask))

    return module, compute


def attention_exercise(project: Project, had: Faults) -> Exercise:
    def build(faults: Faults) -> Callable:
        return lambda q, k, v, mask: attention(q, k, v, mask, faults)

    new = drawn(1)
    by_heads = torch.stack([chequered(4, 5).roll(i, -1) for i in range(3)])  # some head sees each
    cases = [
        (new(2, 3, 4, 6), new(2, 3, 5, 6), new(2, 3, 5, 6), chequered(2, 1, 4, 5)),
        (new(1, 3, 4, 2), new(1, 3, 4, 2), new(1, 3, 4, 5), chequered(4, 4)),
        (new(2, 3, 4, 2), new(2, 3, 5, 2), new(2, 3, 5, 2), by_heads),
    ]

    def probe(answer: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Any:
        if inspect.isclass(answer):
            answer = resting(call(answer, {"dropout": 0.0, "d_k": q.shape[-1]}))
        with Uses([]) as uses:
            out = first(call(answer, {"dropout": 0.0}, q=q, k=k, v=v, mask=mask))
        if uses.forbidden:
            raise Unclear(f"It calls `{uses.forbidden}`: write it out.")
        return out

    return Exercise(
        "project.attention", "attention", "Chapter 6", known(build(had)), cases,
        bank(ATTENTION, build, had), probe=for_readers(probe),
    )  # fmt: skip


# In gradients with entries up to 15: of another epsilon in the norms, for which the paper has no
# number, and of rounding, which goes by the largest.
NEAR = 1e-4


def heads_exercise(project: Project, had: Faults) -> Exercise:
    def build(faults: Faults) -> Callable:
        return lambda weights, q, k, v, mask: with_slopes(
            lambda p: heads(p, q, k, v, mask, faults), weights
        )

    new = drawn(2)
    some, square = chequered(2, 1, 4, 5), chequered(1, 1, 6, 6)
    cases = [
        (attention_weights(new), new(2, 4, D), new(2, 5, D), new(2, 5, D), some),
        (attention_weights(new), new(1, 6, D), new(1, 6, D), new(1, 6, D), square),
    ]

    def probe(answer: Any, weights: Weights, *case: Tensor) -> Any:
        module, compute = multi_head(answer)
        used, slots = attention_slots(module, compute)
        for x, row in zip(used, slots, strict=True):
            if not row:
                x.data.zero_()  # a bias, which the paper has not
        return measured(laid_out("", used, slots), weights, lambda: compute(*case))

    alone = [  # not handed on; as wide as keys; and what gives NaN all over
        "ignored", "width of the values", "weights alone", "heads axis", "zero times infinity"
    ]  # fmt: skip
    rows = (*HEADS, *(row for row in ATTENTION if row[1] not in alone))
    return Exercise(
        "project.heads",
        "heads",
        "heads",
        known(build(had)),
        cases,
        bank(rows, build, had),
        probe=for_readers(probe),
        atol=NEAR,
    )


def layer_of(answer: Any, dropout: float = 0.0) -> Any:
    return resting(call(answer, {"dropout": dropout}, d_model=D, n_heads=H, d_ff=FF))


NEARLY_ALL = 1 - 1e-7  # dropout that lets nothing through
NEARLY_NONE = 1e-7  # dropout that lets all through, unless it is taken for the share that is kept


class Dropped(TorchFunctionMode):
    """Counts how often something of one shape is dropped."""

    def __init__(self, shape: torch.Size):
        super().__init__()
        self.shape, self.times = shape, 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") == "dropout" and args and isinstance(args[0], Tensor):
            self.times += args[0].shape == self.shape
        return func(*args, **(kwargs or {}))


class Drawn(TorchFunctionMode):
    """All random numbers between 0 and 1 are one number."""

    def __init__(self, number: float):
        super().__init__()
        self.number = number

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out, name = func(*args, **(kwargs or {})), getattr(func, "__name__", "")
        if name in ("rand", "rand_like", "uniform_"):
            return out.fill_(self.number)
        return out.fill_(self.number > 0.5) if name in ("bernoulli", "bernoulli_") else out


def dropped(answer: Any, compute: Callable[[Any], Tensor], x: Tensor, parts: int) -> str:
    """Where a new layer drops. With all of each sub-layer dropped, LayerNorm(x) is left: whatever
    else is dropped, too, and `x` where a norm is misplaced."""
    layer = layer_of(answer, NEARLY_ALL)
    if not callable(getattr(layer, "train", None)):
        return "each sub-layer"
    with torch.no_grad():
        half = layer_of(answer, 0.5)
        if not torch.allclose(compute(half), compute(half), equal_nan=True):
            return "each sub-layer, in eval mode as well"
        still = compute(layer)
        layer.train()
        one, two = compute(layer), compute(layer)
    if not one.isfinite().all():
        return "each sub-layer"
    if not torch.equal(one, two):
        return "by a share of its own"
    if not all_dropped(one, x):
        reverse = layer_of(answer, NEARLY_NONE)
        reverse.train()
        with torch.no_grad():
            if all_dropped(compute(reverse), x):
                return "each sub-layer, but for its share"
    if torch.allclose(one, still, atol=1e-5):
        return "nothing"
    if torch.allclose(one, torch.zeros_like(one), atol=1e-5):
        return "the residual"
    if not all_dropped(one, x):
        return "some sub-layers"
    with torch.no_grad(), Dropped(x.shape) as drops:
        compute(half.train())
    if not drops.times:  # made of random numbers: with all of them high or low, all is kept
        half.eval()
        with torch.no_grad():
            whole = compute(half)
            half.train()
            for number in (0.999, 0.001):
                with Drawn(number):
                    if torch.allclose(compute(half), whole, atol=1e-5):
                        return "each sub-layer, without dividing by what is kept"
    return "a sub-layer twice" if drops.times > parts else "each sub-layer"


def all_dropped(y: Tensor, x: Tensor) -> bool:
    """Whether a layer gives LayerNorm(x) alone; a norm of another scale is the reader's own."""
    normed = (F.layer_norm(one, one.shape[-1:]) for one in (y, x))
    return torch.allclose(*normed, rtol=1e-3, atol=1e-3)


def dropping(faults: Faults) -> str:
    if "no dropout" in faults:
        return "nothing"
    if "some dropout" in faults:
        return "some sub-layers"
    if "own share" in faults:
        return "by a share of its own"
    if "share kept" in faults:
        return "each sub-layer, but for its share"
    if "not divided" in faults:
        return "each sub-layer, without dividing by what is kept"
    if "dropped twice" in faults:
        return "a sub-layer twice"
    if "always dropped" in faults:
        return "each sub-layer, in eval mode as well"
    whole = faults & {
        "residual dropped", "no residual", "first residual", "middle residual", "last residual"
    }  # fmt: skip
    return "the residual" if whole else "each sub-layer"


def encoder_exercise(project: Project, had: Faults) -> Exercise:
    def build(faults: Faults) -> Callable:
        return lambda weights, x, mask: {
            "dropped": dropping(faults),
            **with_slopes(lambda p: encoder_layer(p, x, mask, faults), weights),
        }

    new = drawn(3)
    mask = padding_mask(sentences(5, 3))
    cases = [(layer_weights(new, "self"), new(2, 5, D), mask)]

    def probe(answer: Any, weights: Weights, x: Tensor, mask: Tensor) -> Any:
        layer = layer_of(answer)
        compute = lambda: first(call(layer, x=x, mask=mask))  # noqa: E731
        used = order_of_use(layer, compute)
        layout = stack_layout(used, project.pattern(), [("", ["self"], 2)], layer)
        where = dropped(answer, lambda layer: first(call(layer, x=x, mask=mask)), x, 2)
        return {"dropped": where, **measured(layout, weights, compute)}

    bad = bank(ENCODER, build, had, 20)
    return Exercise(
        "project.encoder", "layers", "Chapter 10", known(build(had)), cases, bad,
        probe=for_readers(probe), atol=NEAR,
    )  # fmt: skip


def decoder_exercise(project: Project, had: Faults, equal: bool = False) -> Exercise:
    """`equal`: source and target are as long as each other, and every mask fits everywhere."""

    def build(faults: Faults) -> Callable:
        return lambda weights, x, memory, src_mask, tgt_mask: {
            "dropped": dropping(faults),
            **with_slopes(
                lambda p: decoder_layer(p, x, memory, src_mask, tgt_mask, faults), weights
            ),
        }

    new = drawn(4)
    S = 4 if equal else 5
    mask = padding_mask(sentences(S, 3))
    weights = layer_weights(new, "self", "cross")
    cases = [(weights, new(2, 4, D), new(2, S, D), mask, causal_mask(4))]

    def probe(answer: Any, weights: Weights, x: Tensor, memory: Tensor, *masks: Tensor) -> Any:
        layer = layer_of(answer)
        src_mask, tgt_mask = masks

        def compute(layer: Any = layer) -> Tensor:
            return first(call(layer, x=x, memory=memory, src_mask=src_mask, tgt_mask=tgt_mask))

        used = order_of_use(layer, compute)
        layout = stack_layout(used, project.pattern(), [("", ["self", "cross"], 3)], layer)
        return {"dropped": dropped(answer, compute, x, 3), **measured(layout, weights, compute)}

    bad = bank(EQUAL, build, had, 0) if equal else bank(DECODER, build, had, 27)
    return Exercise(
        "project.decoder", "layers", "Chapter 11", known(build(had)), cases, bad,
        probe=for_readers(probe), atol=NEAR,
    )  # fmt: skip


def machine_of(answer: Any, dropout: float = 0.0, sizes: Mapping[str, int] | None = None) -> Any:
    sizes = sizes or {"vocab_size": V, "d_model": D, "n_heads": H, "d_ff": FF, "n_layers": N}
    return call(answer, {"dropout": dropout, "max_length": 256, "pad": PAD}, **sizes)


def logits_of(project: Project, model: Any, src: Tensor, tgt: Tensor) -> Tensor:
    """What the reader's machine says; masks are handed over if it asks for them."""
    names = signature(model)
    spare: dict[str, Any] = {"pad": PAD}
    if len(names) > 2:
        padding = project.get("padding", padding_mask)
        causal = project.get("causal", causal_mask)
        spare |= {
            "src_mask": call(padding, tokens=src, pad=PAD),
            "tgt_mask": call(causal, length=tgt.shape[1]).to(tgt.device),
        }
    return first(call(model, spare, src=src, tgt=tgt))


def at_tokens(logits: Tensor, tgt: Tensor) -> Tensor:
    """What is said behind padding is nobody's business."""
    if logits.shape[:-1] != tgt.shape:
        raise Unclear(
            f"Its logits have the shape {tuple(logits.shape)} where the target has "
            f"{tuple(tgt.shape)}: each place of the target has a row of logits."
        )
    return logits.masked_fill((tgt == PAD)[..., None], 0.0)


SHARES = {"no dropout", "some dropout", "dropped twice", "residual dropped", "own share",
          "share kept", "embeddings not dropped", "embeddings by a share of their own",
          "embeddings by the share kept", "always dropped"}  # fmt: skip


def shares(project: Project, answer: Any, src: Tensor, tgt: Tensor) -> str:
    """What dropout falls on. With all of the embeddings dropped, nobody knows which tokens came."""
    model = machine_of(answer, 0.5)
    if not callable(getattr(model, "train", None)):
        return "all"
    model.train()
    if torch.equal(*(logits_of(project, model, src, tgt) for _ in range(2))):
        return "nothing"
    others = [torch.where(x > EOS, V + EOS - x, x) for x in (src, tgt)]

    def all_alike(dropout: float) -> bool:
        """Whether other tokens change nothing, where that is dropped."""
        model = machine_of(answer, dropout)
        model.train()
        with torch.no_grad():
            state = torch.get_rng_state()  # what is dropped elsewhere is the same both times
            one = logits_of(project, model, src, tgt)
            torch.set_rng_state(state)
            two = logits_of(project, model, *others)
        return torch.allclose(one, two, rtol=1e-3, atol=1e-3, equal_nan=True)

    near = all_alike(NEARLY_ALL)
    if not near and all_alike(NEARLY_NONE):
        return "all" if "share kept" in project.faults else "all, but for their share"
    model = machine_of(answer, 0.0)
    model.train()
    if near or torch.equal(*(logits_of(project, model, src, tgt) for _ in range(2))):
        return "all" if near else "not the embeddings"
    return "all" if "own share" in project.faults else "by a share of its own"


def machine_exercise(project: Project, had: Faults, equal: bool = False) -> Exercise:
    """`equal`: source and target are as long as each other, and every mask fits everywhere."""
    own = project.own if "own" in had else {}
    apart = {"target apart", "logits apart", "all apart"}

    def build(faults: Faults) -> Callable:
        faults = faults - {"own"}

        def compute(weights: Weights, src: Tensor, tgt: Tensor) -> dict[str, Any]:
            machine = torchs_own
            if faults - apart - SHARES or own:
                machine = partial(spelled_out, faults=faults, **own)
            out = with_slopes(lambda p: at_tokens(machine(p, src, tgt), tgt), weights)
            which = next(iter(faults & apart), "one matrix")
            share = "nothing" if "no dropout" in faults else "all"
            share = "not the embeddings" if "embeddings not dropped" in faults else share
            if "embeddings by a share of their own" in faults:
                share = "by a share of its own"
            if "embeddings by the share kept" in faults:
                share = "all, but for their share"
            return {"dropout": share, "embeddings": which, **out}

        return compute

    lengths = ((5, 3, 4), (4, 5, 2)) if equal else ((6, 4, 5), (5, 5, 3))
    cases = [(machine_weights(drawn(5)), *(sentences(*each) for each in lengths))]

    def probe(answer: Any, weights: Weights, src: Tensor, tgt: Tensor) -> Any:
        model = resting(machine_of(answer))
        if any("Transformer" in type(m).__name__ and type(m).__module__.startswith("torch.")
               or isinstance(m, nn.MultiheadAttention)
               for m in (model.modules() if isinstance(model, nn.Module) else ())):  # fmt: skip
            raise Unclear("It is made of PyTorch's own Transformer: write the parts yourself.")
        compute = lambda: at_tokens(logits_of(project, model, src, tgt), tgt)  # noqa: E731
        used = order_of_use(model, compute)
        blocks = [(f"encoder.{i}.", ["self"], 2) for i in range(N)]
        blocks += [(f"decoder.{i}.", ["self", "cross"], 3) for i in range(N)]
        layout = stack_layout(used, project.pattern(), blocks, model)
        tables = [i for i, x in enumerate(used) if V in x.shape and x.ndim == 2]
        behind = tables[-1] > max(i for i, x in enumerate(used) if x.ndim > 1 and FF in x.shape)
        which = {1: "one matrix", 2: "logits apart" if behind else "target apart"}
        which = which.get(len(tables), "all apart")
        out = measured(layout, weights, compute)
        if not torch.allclose(compute(), compute(), equal_nan=True):
            raise Unclear("In eval mode two calls differ: dropout is on there, too.")
        return {"dropout": shares(project, answer, src, tgt), "embeddings": which, **out}

    return Exercise(
        "project.machine", "the machine", "Chapter 11", known(build(had)), cases,
        bank(*((EQUAL_MACHINE, build, had, 0) if equal else (MACHINE, build, had, 19))),
        probe=for_readers(probe), rtol=1e-3, atol=1e-3, seconds=30.0,
    )  # fmt: skip


def borrowed(one: Exercise, name: str, title: str, probe: Callable, **more: Any) -> Exercise:
    """Another exercise with its cases and its bank, for a function under the reader's name."""
    where = one.section if one.number.startswith("project") else f"Chapter {int(float(one.number))}"
    return Exercise(
        f"project.{name}", title, where, one.reference, one.all_cases(), one.mistakes,
        one.invariants, probe, rtol=one.rtol, atol=one.atol, **more,
    )  # fmt: skip


def padding_exercise(project: Project, had: Faults) -> Exercise:
    return borrowed(
        PADDING, "padding", "masks",
        lambda answer, tokens, pad: call(answer, tokens=tokens, pad=pad),
    )  # fmt: skip


def causal_exercise(project: Project, had: Faults) -> Exercise:
    def canonical(mask: Any) -> Any:
        while isinstance(mask, Tensor) and mask.ndim > 2 and len(mask) == 1:
            mask = mask[0]
        return mask

    return borrowed(
        CAUSAL, "causal", "masks", lambda answer, length: call(answer, length=length),
        canonical=canonical,
    )  # fmt: skip


def table_of(answer: Any, length: int, d_model: int) -> Tensor:
    """Positions (length, d_model), from a function, or from a module that adds them."""
    if not inspect.isclass(answer):
        table = call(answer, length=length, d_model=d_model)
        return table[0] if isinstance(table, Tensor) and table.ndim == 3 else table
    module = resting(call(answer, {"max_length": 64, "dropout": 0.0}, d_model=d_model))
    return first(module(torch.zeros(2, length, d_model)))[0]


def positions_exercise(project: Project, had: Faults) -> Exercise:
    exercise = borrowed(POSITIONS, "positions", "positions", table_of)
    over_batch = Mistake(
        "positions over the batch axis",
        lambda length, d_model: sinusoids(1, d_model).expand(length, d_model),
        "All tokens of a sentence get the same row. Row t belongs to token t.",
    )
    return replace(exercise, mistakes=[*exercise.mistakes, over_batch])


SUMS = (
    "mass on PAD", "the share spread over V - 1 tokens, PAD among them",
    "the right token left out of the share", "divided by V, and nothing on PAD",
    "1 - smoothing on the right token, without its part of the share",
    "all of the mass on the right token, and the share besides", "no smoothing",
    "a share of the same size for PAD, too", "smoothing and 1 - smoothing exchanged",
    "the paper's 0.1 in place of smoothing", "the wrong sign", "softmax twice", "no logarithm",
    "the logits as they are", "the logarithm to base 2", "PAD taken out of the softmax",
    "softmax along the wrong axis",
)  # fmt: skip


def mean_loss(logits: Tensor, targets: Tensor, smoothing: float, pad: int = PAD) -> Tensor:
    """The label-smoothed loss for each target token that is not padding."""
    return core.find("12.2").reference(logits, targets, smoothing) / (targets != PAD).sum()


def entropy(smoothing: float, V: int) -> float:
    """Of the smoothed targets, in nats."""
    share = smoothing / (V - 1)
    rows = [(1, 1 - smoothing + share), (V - 2, share)]
    return -sum(n * p * math.log(p) for n, p in rows if p > 0)


def shared_out(logits: Tensor, targets: Tensor, smoothing: float, among: int) -> Tensor:
    """The loss with the share spread evenly over all tokens but PAD, as if they were so many."""
    real = targets != PAD
    log_p = logits.log_softmax(-1)[real]
    right = log_p.gather(1, targets[real][:, None])[:, 0]
    others = (log_p.sum(1) - log_p[:, PAD]) / among
    return -((1 - smoothing) * right + smoothing * others).mean()


def padding_shared(logits: Tensor, targets: Tensor, smoothing: float, pad: int) -> Tensor:
    """With the share of places whose label is PAD, of whose tokens PAD alone is struck out."""
    log_p = logits.log_softmax(-1)[targets == pad]
    share = smoothing / (logits.shape[-1] - 1) * (log_p.sum() - log_p[:, pad].sum())
    return mean_loss(logits, targets, smoothing) - share / (targets != pad).sum()


def loss_of(answer: Any, logits: Tensor, targets: Tensor, smoothing: float, pad: int) -> Tensor:
    """A reader's loss: a function, or a module that is made with its smoothing."""
    spare = {"pad": pad, "smoothing": smoothing, "vocab_size": logits.shape[-1]}
    if inspect.isclass(answer):
        answer = call(answer, spare)
    if isinstance(answer, nn.Module):
        return first(call(answer, spare, logits=logits, targets=targets))
    return first(call(answer, spare, logits=logits, targets=targets, smoothing=smoothing))


def torchs_loss(smooth: bool, pad: bool) -> Callable:
    """PyTorch's cross-entropy, which knows one of the two things only."""
    return lambda logits, targets, smoothing, pad_id: F.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), ignore_index=-100 if pad else PAD,
        label_smoothing=smoothing if smooth else 0.0,
    )  # fmt: skip


def loss_over(count: Callable[[Tensor], float]) -> Callable:
    """The loss, added up and divided by another number."""
    return lambda logits, targets, smoothing, pad: (
        mean_loss(logits, targets, smoothing) * (targets != PAD).sum() / count(targets)
    )


LOSS_MISTAKES = mistakes(
    ("padding in the loss, and mass on PAD", torchs_loss(True, True),
     "Places whose label is PAD count for nothing, above and below the line. PyTorch's "
     "`label_smoothing` gives PAD a share, too: another mistake."),
    ("padding in the loss, and no smoothing", torchs_loss(False, True),
     "Places whose label is PAD count for nothing, and the share `smoothing` is to be spread "
     "over all tokens but PAD."),
    ("the share spread over V - 2 tokens, the right one among them",
     lambda logits, targets, smoothing, pad: shared_out(
         logits, targets, smoothing, logits.shape[-1] - 2
     ),
     "V - 1 tokens are not PAD, and the right one is among them: it keeps 1 - smoothing and "
     "its part of the share, smoothing / (V - 1)."),
    ("the sum in place of the mean", loss_over(lambda y: 1.0),
     "The project asks for the mean over all target tokens that are not PAD."),
    ("divided by all places, padding too", loss_over(lambda y: y.numel()),
     "The more padding, the smaller the loss. Divide by the number of true tokens."),
    ("divided by the number of sentences", loss_over(len), "Divide by the number of true tokens."),
    ("a mean of the sentences' means", lambda logits, targets, smoothing, pad: torch.stack([
         mean_loss(logits[i : i + 1], targets[i : i + 1], smoothing) for i in range(len(logits))
     ]).mean(),
     "Every true token counts the same, so a long sentence counts more: add up over all "
     "sentences, and divide once."),
    ("the share of the places that are PAD counted", padding_shared,
     "A place whose label is PAD counts for nothing: neither its right token nor its share."),
    ("the perplexity", lambda logits, targets, smoothing, pad: (
         mean_loss(logits, targets, smoothing).exp()
     ),
     "Asked for is the cross-entropy in nats. The perplexity is its exponential."),
    ("the entropy of the targets taken off", lambda logits, targets, smoothing, pad: (
         mean_loss(logits, targets, smoothing) - entropy(smoothing, logits.shape[-1])
     ),
     "That is the divergence of Kullback and Leibler (`nn.KLDivLoss`), which is less by a "
     "constant. Its gradients are the same; asked for is the cross-entropy itself."),
)  # fmt: skip


def a_mean_of(mistake: Mistake, count: Callable[[Tensor], Any]) -> Mistake:
    """A mistake in a sum over all tokens (12.2) as one in the sum divided by a number."""
    return Mistake(
        mistake.name,
        lambda logits, targets, smoothing, pad: (
            mistake.wrong(logits, targets, smoothing) / count(targets)
        ),
        mistake.why,
    )


def loss_exercise(project: Project, had: Faults) -> Exercise:
    chapter = core.find("12.2")
    lifted = [a_mean_of(m, lambda y: (y != PAD).sum()) for m in chapter.mistakes if m.name in SUMS]
    lifted += [
        a_mean_of(m, Tensor.numel) for m in chapter.mistakes if m.name.startswith("padding counted")
    ]
    bad = [*lifted, *LOSS_MISTAKES]
    for mistake in bad:
        known(mistake.wrong)
    cases = [(*case, PAD) for case in chapter.all_cases()]
    return Exercise(
        "project.loss", "loss", "Chapter 12", known(mean_loss), cases, bad,
        probe=for_readers(loss_of),
    )  # fmt: skip


def schedule_exercise(project: Project, had: Faults) -> Exercise:
    def probe(answer: Any, step: int, d_model: int, warmup_steps: int) -> Any:
        return call(answer, step=step, d_model=d_model, warmup_steps=warmup_steps)

    return borrowed(SCHEDULE, "schedule", "schedule", probe)


# Gradients have norms of 1.1 to 1.3, so that it shows where they are clipped at 1. With more, some
# entries would be as small as rounding, which Adam makes large; the smallest is 2e-4 as it is.
STEEP = 2.0


def training_exercise(project: Project, had: Faults) -> Exercise:
    torch.optim.Adam([torch.zeros(1, requires_grad=True)]).step()  # imports much, once: not on time
    loss, rate = mean_loss, SCHEDULE.reference
    if "own" in had:
        theirs = project.get("loss", loss), project.get("schedule", rate)

        def loss(logits, targets, smoothing, pad):  # noqa: F811
            return loss_of(theirs[0], logits, targets, smoothing, pad)

        def rate(step, d_model, warmup_steps):  # noqa: F811
            return call(theirs[1], step=step, d_model=d_model, warmup_steps=warmup_steps)

    def build(faults: Faults) -> Callable:
        def compute(model: Toy, batches: list, d_model: int, warmup_steps: int) -> dict[str, Any]:
            before = copy.deepcopy(model)
            train(model, batches, d_model, warmup_steps, faults - {"own"}, loss, rate)
            return moved(model, before)

        return compute

    sizes = ((6, 4, 5), (3, 7), (5, 5, 2), (4, 6))
    batches = [(few_words(*lengths), sealed(few_words(*lengths[::-1]))) for lengths in sizes]
    cases = [(Toy(7, steep=STEEP), batches, 16, 3)]

    project.trained = lambda model, *case: train(model, *case, frozenset(), loss, rate)

    def probe(answer: Any, model: Toy, batches: list, d_model: int, warmup_steps: int) -> Any:
        before = copy.deepcopy(model)
        spare = {"smoothing": 0.1, "pad": PAD}
        given = iter(batches) if "own" in had else batches
        call(answer, spare, model=model, batches=given, d_model=d_model, warmup_steps=warmup_steps)
        return moved(model, before)

    return Exercise(
        "project.training", "training", "Chapter 12", known(build(had)), cases,
        bank(TRAINING, build, had), probe=for_readers(probe),
        rtol=2e-3, atol=2e-5,
    )  # fmt: skip


def few_words(*lengths: int) -> Tensor:
    """Sentences in the words of a `Toy`: ids from 4 to 8."""
    rows = sentences(*lengths)
    return torch.where(rows == PAD, PAD, 4 + rows % 5)


def sealed(rows: Tensor) -> Tensor:
    """Targets: BOS in front, EOS behind."""
    edge = torch.zeros(len(rows), 1, dtype=torch.long)
    rows = torch.cat([edge + BOS, rows, edge], 1)
    rows[torch.arange(len(rows)), (rows != PAD).sum(1)] = EOS
    return rows


BEAM_SIZE, ROOM = 3, 7
# How a search is closed
WAYS = "kept", "enough", "ranked", "late", "wide", "leaving", "narrowing", "all steps"
NEVER = -1e4  # an inclination to EOS with which all the room is filled
# Cases of decoding: the sentences' lengths, alpha, and then what makes a machine: a seed, its
# inclination to EOS, and how far its words lie apart. Chosen of some hundreds so that each two
# slips are told apart in whichever way a search is closed, nearly always by two cases, and so that
# ten right ways to close it write the same.
SEVERAL = (5, 3, 4, 2, 5)
TOYS = {
    "greedy": ((SEVERAL, 0, 15, 1.5), (SEVERAL, 0, 0, 0.5)),
    "beam": (
        ((5, 3, 4), 0.9, 9, 0.5), ((5, 3, 4), 0.9, 10, 0.5), ((2,), 1.64, 14, 1.0),
        ((2,), 0.43, 54, 1.0), ((4,), 0.53, 75, 1.0), ((2,), 1.07, 144, 0.0),
        ((3,), 1.54, 114, 0.5), ((4,), 2.34, 60, 0.5), ((2,), 0.38, 1, 0.5),
        ((3,), 0.6, 5, NEVER), ((2,), 1.1, 1, 0.5), ((5,), 1.8, 180, 0.5),
    ),
}  # fmt: skip
OWN = {
    "greedy": ((SEVERAL, 0, 21, 3.0, 1.0), (SEVERAL, 0, 1, 3.0, 1.0), (SEVERAL, 0, 2, 3.0, 1.0)),
    "beam": (
        ((5, 3, 4), 0.9, 28, 1.0, 1.0), ((3,), 0.81, 79, 2.0, 1.6), ((3,), 1.62, 68, 1.0, 1.6),
        ((5,), 0.39, 35, 2.0, 1.0), ((2,), 0.21, 64, 1.0, 1.6), ((5,), 2.1, 38, 1.0, 1.0),
        ((3,), 2.37, 3, 1.0, 1.0), ((3,), 2.57, 67, 0.0, 2.4), ((3,), 0.6, 5, NEVER, 1.0),
    ),
}  # fmt: skip


def on_their_own(project: Project, name: str) -> bool:
    """Whether a search asks more of a machine than to be called."""
    if name not in project.apart:
        answer, src = project.thing(name), few_words(3, 2)
        needed = decode_needed(name, Toy(0), src, 3)
        tried = run(lambda: call(answer, decode_spare(src), **needed), 10.0)
        project.apart[name] = isinstance(tried, Failure) and "'Toy' object has no" in tried.text
    return project.apart[name]


def waiting(project: Project, name: str) -> str:
    """What is said of a search that can be tried on the reader's machine alone, if that is wrong:
    what it writes would tell nothing of the search."""
    if core.is_blank(project.thing(name)) or not on_their_own(project, name):
        return ""
    if "machine" not in project.looked_at:
        for one in STAGES:
            if one.name in ("attention", "heads", "masks", "positions", "layers", "machine"):
                examine_stage(project, one)
    if "machine" not in project.wrong:
        return ""
    if isinstance(run(lambda: machine_with(project, 0, 1.0, 1.0), 30.0), Failure):
        return ""  # it cannot be read: that is said when the cases are made
    return (
        "it asks more of a machine than `model(src, tgt)`, so it is tried on yours: mend the "
        "machine first."
    )


def decode_cases(project: Project, name: str) -> list[tuple]:
    """Toys; or, for those who decode with more of their machine than a call, that machine."""
    if name in project.cases:
        return project.cases[name]
    own = on_their_own(project, name)
    rows = (OWN if own else TOYS)[name]
    models = run(
        lambda: [machine_with(project, *how) if own else Toy(*how) for _, _, *how in rows], 30.0
    )
    if isinstance(models, Failure):
        raise Unclear(
            "It asks more of a machine than `model(src, tgt)`, and yours cannot be given weights "
            f"for it yet. {models.text}"
        )
    for model in models:
        speak = model.eval() if isinstance(model, Toy) else spoken(project, model)
        model.number = len(project.speaks)
        project.speaks.append(Remembered(speak))
    project.cases[name] = [
        (model, few_words(*lengths), *[alpha] * (name == "beam"), ROOM)
        for model, (lengths, alpha, *_) in zip(models, rows, strict=True)
    ]
    return project.cases[name]


def machine_with(project: Project, seed: int, eos: float, apart: float) -> Any:
    """The reader's machine with the weights of that seed, by which it writes five words and EOS.

    The first entry of its last states is 4, so that what stands first in an embedding is added to
    the logits.
    """
    sizes = {"vocab_size": V, "d_model": D, "n_heads": H, "d_ff": FF, "n_layers": 1}
    model = resting(machine_of(project.get("machine", ...), sizes=sizes))
    weights = machine_weights(drawn(seed), 1)
    for norm in ("decoder.0.norm.2", "decoder.norm"):
        weights[f"{norm}.gamma"][0], weights[f"{norm}.beta"][0] = 0, 4
    weights["E"] *= apart
    weights["E"][:, 0] = -2
    weights["E"][EOS, 0] = eos / 4
    weights["E"][4:9, 0] = 0
    src, tgt = few_words(5, 3), sealed(few_words(4, 2))
    with torch.no_grad():  # what it keeps of a call can be copied then
        used = order_of_use(model, lambda: logits_of(project, model, src, tgt))
    blocks = [("encoder.0.", ["self"], 2), ("decoder.0.", ["self", "cross"], 3)]
    copied(stack_layout(used, project.pattern(), blocks, model), weights)
    return model


def decode_spare(src: Tensor) -> dict[str, Any]:
    return {"bos": BOS, "eos": EOS, "pad": PAD, "src_mask": padding_mask(src)}


def decode_needed(name: str, model: Any, src: Tensor, n: int, alpha: float = 0) -> dict[str, Any]:
    search = {"beam": BEAM_SIZE, "alpha": alpha} if name == "beam" else {}
    return {"model": model, "src": src, **search, "max_length": n}


def spoken(project: Project, model: Any) -> Callable:
    """A machine as a function of source and target, in eval mode."""
    number = getattr(model, "number", None)
    if number is not None and number < len(project.speaks):
        return project.speaks[number]
    resting(model)
    return lambda src, tgt: logits_of(project, model, src, tgt)


def watched(name: str, answer: Any, model: Any, src: Tensor, n: int, alpha: float = 0) -> Any:
    """What the reader's decoder gives, and whether dropout was on."""
    asked: list[bool] = []
    if isinstance(model, nn.Module):
        model.train()
        for module in model.modules():
            if isinstance(module, nn.Dropout | Toy):
                module.register_forward_pre_hook(lambda m, _: asked.append(m.training))
    needed = decode_needed(name, model, src, n, alpha)
    rows = call(answer, decode_spare(src), **needed)
    mode = any(asked)
    if mode:  # and what would it have written?
        rows = call(answer, decode_spare(src), **(needed | {"model": model.eval()}))
    rows = first_of(rows, src)
    return {"mode": "training" if mode else "eval", "ids": tidy(rows)}


def first_of(rows: Any, src: Tensor) -> Any:
    """The rows alone, where their scores come with them."""
    return rows[0] if isinstance(rows, tuple) and len(rows) < len(src) else rows


def mode_and(ids: Any, faults: Faults) -> dict[str, Any]:
    return {"mode": "training" if "training mode" in faults else "eval", "ids": ids}


def greedy_exercise(project: Project, had: Faults) -> Exercise:
    def build(faults: Faults) -> Callable:
        def compute(model: Any, src: Tensor, max_length: int) -> dict[str, Any]:
            return mode_and(greedy(spoken(project, model), src, max_length, faults), faults)

        return compute

    return Exercise(
        "project.greedy", "greedy", "Chapter 13", known(build(had)),
        decode_cases(project, "greedy"), bank(GREEDY, build, had, 13),
        probe=for_readers(partial(watched, "greedy")),
    )  # fmt: skip


def beam_exercise(project: Project, had: Faults) -> Exercise:
    def build(faults: Faults) -> Callable:
        def compute(model: Any, src: Tensor, alpha: float, n: int) -> dict[str, Any]:
            rows = ours(faults, model, src, alpha, n)
            return mode_and(as_good(rows, model, src, alpha, n) if faults - had else rows, faults)

        return compute

    def ours(faults: Faults, model: Any, src: Tensor, alpha: float, n: int) -> list[list[int]]:
        case = (faults, model.number, alpha, n, *src.shape, *src.flatten().tolist())
        if case not in project.ours:
            speak = spoken(project, model)
            project.ours[case] = beam_search(speak, src, BEAM_SIZE, alpha, n, faults)
        return [*project.ours[case]]

    def as_good(rows: Any, model: Any, src: Tensor, alpha: float, n: int) -> Any:
        """A row that is better than all that we find counts as ours: they searched otherwise."""
        if not isinstance(rows, list) or len(rows) != len(src):
            return rows
        speak = spoken(project, model)
        others = ({way} for way in WAYS)
        ways = [had, frozenset(), *map(frozenset, others)]
        found = [ours(way, model, src, alpha, n) for way in ways]
        for i, row in enumerate(rows):
            if row != found[0][i] and isinstance(row, list) and len(row) <= n:
                here, *there = (
                    score(speak, src[i], ids, alpha, n) for ids in (row, *(x[i] for x in found))
                )
                rows[i] = found[0][i] if here >= max(there) - 1e-4 else row
        return rows

    def probe(answer: Any, model: Any, src: Tensor, alpha: float, n: int) -> Any:
        case = (model.number, alpha, *src.shape, *src.flatten().tolist())
        if case not in project.written:
            project.written[case] = watched("beam", answer, model, src, n, alpha)
        output = copy.deepcopy(project.written[case])
        return output | {"ids": as_good(output["ids"], model, src, alpha, n)}

    return Exercise(
        "project.beam", "beam search", "Chapter 13", known(build(had)),
        decode_cases(project, "beam"), bank(BEAM, build, had, 7),
        probe=for_readers(probe), seconds=30.0,
    )  # fmt: skip


NAMES = {
    "attention": "attention scaleddotproductattention scaledattention dotproductattention attend"
    " sdpa scaleddotattention scaleddotproduct attn qkvattention calculateattention",
    "heads": "multiheadattention multihead mha multiheads multiheadedattention",
    "padding": "paddingmask padmask makepaddingmask makepadmask srcmask sourcemask keypaddingmask",
    "causal": "causalmask subsequentmask lookaheadmask futuremask makecausalmask"
    " nopeekmask triangularmask squaresubsequentmask autoregressivemask",
    "positions": "positions sinusoids positionalencoding positionalencodings sinusoidalpositions"
    " positionencoding pe sinusoidalpositionalencoding sinusoidalencoding sinusoidalembedding"
    " sinusoidaltable sinusoid positiontable positionalembedding posenc",
    "encoder": "encoderlayer encoderblock transformerencoderlayer encblock enclayer",
    "decoder": "decoderlayer decoderblock transformerdecoderlayer decblock declayer",
    "machine": "transformer machine model seq2seq maketransformer makemodel translator"
    " transformermodel encoderdecoder",
    "loss": "loss labelsmoothedloss lossfunction smoothedloss labelsmoothing criterion"
    " labelsmoothingloss lossfn labelsmoothingcrossentropy labelsmoothedcrossentropy smoothloss"
    " smoothedcrossentropy smoothcrossentropy crossentropyloss crossentropy",
    "schedule": "learningrate schedule rate lr noam noamlr lrschedule getlr noamschedule noamrate"
    " learningrateschedule noamlearningrate warmuprate warmupschedule warmup lrlambda",
    "training": "train training fit trainmodel trainloop trainingloop trainepoch runepoch"
    " traintransformer",
    "greedy": "greedy greedydecode greedysearch decodegreedy greedytranslate greedydecoding"
    " greedydecoder translategreedy",
    "beam": "beamsearch beam beamdecode decodebeam beamtranslate beamdecoding beamsearchdecode"
    " beamdecoder translatebeam",
}

CLASSES = ("heads", "encoder", "decoder", "machine")


@dataclass(frozen=True)
class Stage:
    """A step of the project: its parts, each with what makes its exercise."""

    name: str
    title: str
    parts: Mapping[str, Callable[[Project, Faults], Exercise]]
    rows: Sequence[tuple[str, str, str]] = ()
    upon: Sequence[tuple[str, str, str]] = ()  # slips of earlier stages that show here, too


STAGES = [
    Stage("attention", "attention", {"attention": attention_exercise}, ATTENTION),
    Stage("heads", "heads", {"heads": heads_exercise}, (*HEADS, *ATTENTION), ATTENTION),
    Stage("masks", "masks", {"padding": padding_exercise, "causal": causal_exercise}),
    Stage("positions", "positions", {"positions": positions_exercise}),
    Stage("layers", "layers", {"encoder": encoder_exercise, "decoder": decoder_exercise},
          (*ENCODER, *DECODER), (*ATTENTION, *HEADS)),
    Stage("machine", "the machine", {"machine": machine_exercise}, MACHINE,
          (*ATTENTION, *HEADS, *LAYER, *ENCODER, *DECODER)),
    Stage("loss", "loss", {"loss": loss_exercise}),
    Stage("schedule", "schedule", {"schedule": schedule_exercise}),
    Stage("training", "training", {"training": training_exercise}, TRAINING),
    Stage("greedy", "greedy", {"greedy": greedy_exercise}, GREEDY),
    Stage("beam", "beam search", {"beam": beam_exercise}, BEAM),
]  # fmt: skip
NUMBERS = [f"project.{stage.name}" for stage in STAGES] + ["project.translation"]


def namespace_of(answer: Any, stage: str = "") -> Mapping[str, Any] | Failure | None:
    """The names that an answer brings: a module, a dict, or the path of a file, which is run."""
    if isinstance(answer, Mapping):
        return answer
    if isinstance(answer, str | Path) and str(answer).endswith(".py"):
        return run(lambda: runpy.run_path(str(answer)), 60.0)
    parts = next((one.parts for one in STAGES if one.name == stage), {})
    if len(parts) == 1 and callable(answer):  # the part itself
        return {NAMES[next(iter(parts))].split()[0]: answer}
    return None if inspect.isroutine(answer) else getattr(answer, "__dict__", None)


@dataclass(frozen=True)
class Found:
    """What was found of a stage: its status, the words for it, and the slips that it has."""

    status: str
    words: str
    names: tuple[str, ...] = ()


def examine_stage(project: Project, stage: Stage) -> Found:
    """Judge one stage, given what is known of those before it."""
    lines, statuses, names = [], [], []
    for name, make in stage.parts.items():
        thing = project.thing(name)
        if name in ("greedy", "beam") and (waits := waiting(project, name)):
            lines.append(core.wrong(stage.title, waits).message)
            statuses.append("waits")
            continue
        foreign = str(getattr(thing, "__module__", "")).split(".")[0]
        if foreign in ("torch", "allyouneed"):
            lines.append(f"`{thing.__name__}` is {foreign}'s own: write it yourself.")
            statuses.append("wrong")
            continue
        if core.is_blank(thing):
            statuses.append("not attempted")
            continue
        status, words, named = judged(project, stage, name, thing, make)
        statuses.append(status)
        if status == "wrong":
            lines.append(words)
            names += named
            project.wrong.add(name)
    missing = "not attempted" in statuses
    status = "wrong" if "wrong" in statuses else "not attempted" if missing else "correct"
    status = "waits" if "waits" in statuses else status
    project.looked_at.add(stage.name)
    return Found(status, "\n".join(lines), tuple(names))


def judged(
    project: Project, stage: Stage, name: str, thing: Any, make: Callable
) -> tuple[str, str, list[str]]:
    """A part, first as it would be with the slips of earlier stages in it, then without them."""
    known = {slip for _, slip, _ in stage.upon}
    had = frozenset(project.faults & known)
    bases = [had, frozenset()]
    if name in ("machine", "training"):  # with masks, positions, loss and schedule of their own
        bases.insert(0, had | {"own"})
    if name == "beam":
        bases += [{way} for way in WAYS]
    elif stage.upon:  # who hides by a large number has numbers where minus infinity gives NaN
        bases += [base | {"finite"} for base in bases if base]
    if name == "machine":  # and who hides the target's padding, too, sees what stands there
        bases += [base | {"both masks"} for base in bases if base]
    bases = list(dict.fromkeys(frozenset(base) for base in bases))
    sides = []
    if name == "machine" and had & OF_LAYERS:  # the layers of one side alone may have a slip
        sides = [had | {"not in the encoder"}, had | {"not in the decoder"}]
    verdict, fitting = None, {}
    # is it right? has it one slip? or two?
    every = [(0, base) for base in (*bases, *sides)] + [(1, base) for base in bases]
    for search, base in [*every, (2, bases[0])]:
        try:
            exercise = make(project, base)
        except Unclear as unclear:
            return "wrong", core.wrong(stage.title, str(unclear)).message, []
        slips = [m for m in exercise.mistakes if search == 2 or ", and " not in m.name]
        exercise = replace(exercise, mistakes=slips if search else ())
        try:
            found = core.judge(exercise, thing, stage.title)
        except RuntimeError:  # ours fails with a function of theirs
            if not base:
                raise
            continue  # with a slip of an earlier stage, too: no such thing can be computed
        if found.status != "wrong":
            return found.status, "", []
        if verdict is None or search == 0 and "finite" in base and base <= bases[0] | {"finite"}:
            verdict = found
        named = found.mistake in {slip.name for slip in exercise.mistakes}
        if name == "beam":  # closed in another way, it may be another mistake
            fitting |= {found.mistake: found} if named else {}
            if search == 0 or search == 1 and base != bases[-1]:
                continue
        if len(fitting) > 1:
            what = f"one of these mistakes would write what it writes: {'; '.join(fitting)}."
            where = f'Look again at "{exercise.section}".'
            return "wrong", core.wrong(stage.title, what, where).message, []
        found = next(iter(fitting.values()), found)
        if name == "training" and found.mistake == "no step":  # or is its rate zero?
            said = run(lambda: of_the_optimiser(project, thing), 60.0)
            if isinstance(said, tuple):
                found = core.wrong(stage.title, f"{said[0]}.", said[1], mistake=said[0])
        if named or fitting:
            rows = {row[0]: row for row in (*stage.rows, *stage.upon)}
            project.faults |= slips_of(found.mistake, list(rows.values()))
            project.own |= own_function(project, name)
            return "wrong", found.message, [found.mistake]
    project.own |= own_function(project, name)
    if name in ALIKE and "It raised" in verdict.message:
        make, rows = ALIKE[name]
        for base in (had, had | {"finite"}):
            try:
                found = core.judge(make(project, base, equal=True), thing, stage.title)
            except RuntimeError:  # ours fails with a slip of an earlier stage
                continue
            if found.mistake in {row[0] for row in rows}:
                return "wrong", found.message, [found.mistake]
    if name in REMEDIES and (said := run(lambda: REMEDIES[name](project, thing), 60.0)):
        if not isinstance(said, Failure):
            where = f'Look again at "{exercise.section}".'
            name, why = said
            return "wrong", core.wrong(stage.title, f"{name}.", why, where).message, [name]
    return "wrong", verdict.message, []


# What can be said of a mistake that has no name


def idle_matrices(project: Project, answer: Any) -> tuple[str, str] | None:
    """A matrix of the heads that is made and not used."""
    module, compute = multi_head(answer)
    x, mask = torch.randn(3, 1, 5, D), torch.ones(1, 1, 5, 5, dtype=torch.bool)
    if names := idle(module, order_of_use(module, lambda: compute(*x, mask))):
        why = "Queries, keys, values and the output have a matrix each: another one stands in its "
        return f"never used: {names}", f"{why}place, or it is left out."
    if both := same_module(module):
        return f"{both} are one and the same module", "Each head has matrices of its own."
    return drawn_anew(lambda: compute(*x, mask))


def drawn_anew(compute: Callable[[], Any]) -> tuple[str, str] | None:
    """Whether something is dropped, or drawn, where nothing should be."""
    outs = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        outs.append(compute())
    if core.same(*outs, 1e-4, 1e-6):
        return None
    return "something is drawn at random", (
        "Called twice, it gives two results. `F.dropout` drops unless it is told `training=False`, "
        "and no dropout belongs here: it falls on the outputs of sub-layers."
    )


def attention_drawn(project: Project, answer: Any) -> tuple[str, str] | None:
    exercise = attention_exercise(project, frozenset())
    return drawn_anew(lambda: exercise.probe(answer, *copy.deepcopy(exercise.cases[0])))


@dataclass(frozen=True)
class Update:
    """What an optimiser is about to do."""

    kind: str
    rates: tuple[float, ...]
    betas: Any
    slopes: list[Tensor | None]


def updates(model: Toy, training: Callable[[Toy], Any]) -> list[Update]:
    """What a training hands to its optimiser, update by update."""
    seen: list[Update] = []

    def note(optimizer: Any, *_: Any) -> None:
        groups = optimizer.param_groups
        kind = type(optimizer).__name__ + " with weight decay" * bool(groups[0].get("weight_decay"))
        slopes = [None if x.grad is None else x.grad.clone() for x in model.parameters()]
        rates = tuple(float(group["lr"]) for group in groups)
        seen.append(Update(kind, rates, groups[0].get("betas"), slopes))

    hook = register_optimizer_step_pre_hook(note)
    try:
        training(model)
    finally:
        hook.remove()
    return seen


def of_the_optimiser(project: Project, answer: Any) -> tuple[str, str] | None:
    """How the updates of a training part from ours."""
    exercise = training_exercise(
        project, frozenset({"own"} if {"loss", "schedule"} & project.wrong else ())
    )
    model, *rest = exercise.cases[0]
    names = "batches", "d_model", "warmup_steps"
    spare, needed = {"smoothing": 0.1, "pad": PAD}, dict(zip(names, rest, strict=True))
    got = updates(copy.deepcopy(model), lambda toy: call(answer, spare, model=toy, **needed))
    want = updates(copy.deepcopy(model), lambda toy: project.trained(toy, *rest))
    if not got:
        return None
    if got[0].kind != "Adam":
        return f"the optimiser is {got[0].kind}", "The paper's is Adam, without weight decay."
    if len(got) != len(want):
        return f"{len(got)} updates for {len(want)} batches", "One update for each batch."
    if not any(x is not None and x.any() for x in got[0].slopes):
        return "no gradients when the optimiser steps", (
            "`zero_grad` stands between `backward` and `step`, or the loss is cut off from the "
            "weights (`detach`, `item`, `no_grad`)."
        )
    rates = [each.rates[0] for each in got]
    if not all(math.isclose(rate, y.rates[0], rel_tol=1e-3)
               for x, y in zip(got, want, strict=True) for rate in x.rates):  # fmt: skip
        first = ", ".join(f"{y.rates[0]:.3g}" for y in want)
        why = (
            f"By the schedule they are {first}: set it in each group of `optimizer.param_groups`, "
        )
        why += "before `optimizer.step()`."
        if len({rate for each in got for rate in each.rates}) == 1:
            return f"the rate of every update is {rates[0]:.3g}", why
        return f"the rates of the updates are {', '.join(f'{rate:.3g}' for rate in rates)}", why
    if tuple(got[0].betas) != (0.9, 0.98):
        return f"betas {tuple(got[0].betas)}", "Section 5.3: beta_1 is 0.9 and beta_2 0.98."
    return of_slopes(got, want)


def of_slopes(got: list[Update], want: list[Update]) -> tuple[str, str] | None:
    """Gradients that are a multiple of ours, in the first update or in a later one."""
    for i, (one, two) in enumerate(zip(got, want, strict=True)):
        x, y = (torch.cat([torch.zeros(0) if x is None else x.flatten() for x in each.slopes])
                for each in (one, two))  # fmt: skip
        if x.shape != y.shape:
            return None
        factor = float(x @ y / (y @ y))
        if i == 0 and not torch.allclose(x, factor * y, rtol=1e-3, atol=1e-6):
            return None  # other inputs, labels, or another loss
        if i == 0 and not math.isclose(factor, 1, rel_tol=1e-3):
            return f"the gradients are {factor:.3g} times what they should be", (
                "Is the loss added up or divided once more, or are the gradients clipped? The loss "
                "is a mean already, and the paper clips nothing."
            )
        if not torch.allclose(x, y, rtol=1e-2, atol=1e-5):
            return f"the gradients are right up to update {i}, and others from there on", (
                "Is something of the update before still in them, or are they clipped?"
            )
    return None


def of_the_search(project: Project, answer: Any, name: str) -> tuple[str, str] | None:
    """Whether a search draws its words, mixes the sentences of a batch, or its hypotheses."""
    cases = decode_cases(project, name)

    def written(model: Any, src: Tensor, *more: Any, beam: int = BEAM_SIZE) -> Any:
        *alpha, n = more
        needed = decode_needed(name, resting(copy.deepcopy(model)), src, n, *alpha)
        needed |= {"beam": beam} if name == "beam" else {}
        return tidy(first_of(call(answer, decode_spare(src), **needed), src))

    def ours(model: Any, src: Tensor, *more: Any) -> list[list[int]]:
        *alpha, n = more
        speak = spoken(project, model)
        return beam_search(speak, src, BEAM_SIZE, *alpha, n) if alpha else greedy(speak, src, n)

    for case in cases:
        several = []
        for seed in (0, 1):
            torch.manual_seed(seed)
            several.append(written(*case))
        if several[0] != several[1]:
            return "words are drawn at random", (
                "Called twice, it writes two things. Nothing is drawn here: take the likeliest."
            )
    batches = [(model, src, *more) for model, src, *more in cases if len(src) > 1]
    alone = [[written(model, src[i : i + 1], *more)[0] for i in range(len(src))]
             for model, src, *more in batches]  # fmt: skip
    if [written(*case) for case in batches] != alone == [ours(*case) for case in batches]:
        return "the sentences of a batch are mixed", (
            "Each of them is translated rightly when it comes alone. In a batch each row belongs "
            "to its own source, with its own memory, mask, and end."
        )
    if name == "beam" and all(
        written(model, src, *more, beam=1) == greedy(spoken(project, model), src, more[-1])
        for model, src, *more in cases
    ):
        return f"right with a beam of one, and not with {BEAM_SIZE}", (
            "What goes wrong is how hypotheses are compared, or kept apart: each has its own "
            "tokens, its own sum, its own length, and its own end, wherever it stands in the beam."
        )
    return None


REMEDIES: dict[str, Callable[[Project, Any], tuple[str, str] | None]] = {
    "attention": attention_drawn,
    "heads": idle_matrices,
    "training": of_the_optimiser,
    "greedy": partial(of_the_search, name="greedy"),
    "beam": partial(of_the_search, name="beam"),
}
ALIKE = {"decoder": (decoder_exercise, EQUAL), "machine": (machine_exercise, EQUAL_MACHINE)}


def own_function(project: Project, name: str) -> dict[str, Callable]:
    """A function that is not right, in the place of ours, for the stages that build upon it."""
    thing = project.get(name, ...)
    if name == "positions":
        return {"table": lambda length, d_model: table_of(thing, length, d_model)}
    if name == "padding":
        return {"padding": lambda tokens, pad: call(thing, tokens=tokens, pad=pad)}
    if name == "causal":
        return {"causal": lambda length: call(thing, length=length)}
    return {}


def examine(number: str, answer: Any) -> Verdict:
    """What is found of the project, or of one of its stages ("project.heads")."""
    stage = number.partition(".")[2]
    if number != "project" and number not in NUMBERS:
        raise KeyError(f"expected project or one of {', '.join(NUMBERS)}; got {number!r}")
    namespace = {} if answer is ... or answer is None else namespace_of(answer, stage)
    if isinstance(namespace, Failure):
        at = f" Line {namespace.line}: `{namespace.source}`" if namespace.line else ""
        what = f"the file could not be run: {namespace.kind}: {namespace.text}.{at}"
        return core.wrong("The project", what)
    if namespace is None:
        what = (
            f"got {core.kind(answer)}. Hand over `globals()`, a module, or the path of a .py file."
        )
        return core.wrong("The project", what)
    project = Project(namespace)
    if stage == "translation":
        from .project_translation import translation

        return translation(project)
    asked = [one for one in STAGES if one.name == stage]
    if asked:  # what it builds upon is looked at, and not spoken of
        before = STAGES[: STAGES.index(asked[0])] if asked[0].upon or stage == "training" else []
        for one in before:
            if one.name != "loss" or stage == "training":
                examine_stage(project, one)
        found = examine_stage(project, asked[0])
        if found.status in ("wrong", "waits"):
            return Verdict("wrong", clear(found.words), found.names[0] if found.names else None)
        words = "stands" if found.status == "correct" else "not attempted yet"
        done = (number,) if found.status == "correct" else ()
        return Verdict(found.status, f"The project, {asked[0].title}: {words}.", done=done)
    return whole(project)


def whole(project: Project) -> Verdict:
    """All stages, each with its mark; behind them the words for those that are wrong."""
    rows, words, names, done = [], [], [], []
    for one in STAGES:
        found = examine_stage(project, one)
        mark = {"correct": "[x]", "wrong": "[!]"}.get(found.status, "[ ]")
        rows.append(f"{mark} {one.title}")
        if found.status == "correct":
            done.append(f"project.{one.name}")
        if found.status in ("wrong", "waits"):
            words.append(clear(found.words))
            names += found.names
    if not done and not words:
        return Verdict("not attempted", "The project: not attempted yet.")
    text = [
        f"The project: {len(done)} of {len(STAGES)} stages stand.",
        "  " + "  ".join(rows),
        *words,
    ]
    if len(done) == len(STAGES):
        text.append('  Now let it learn: check("project.translation", ...) takes some minutes.')
    status = "correct" if len(done) == len(STAGES) else "wrong" if words else "not attempted"
    return Verdict(status, "\n".join(text), "; ".join(names) or None, tuple(done))


def clear(words: str) -> str:
    return words.replace("It raised Unclear: ", "The check cannot read it. ").replace(
        ": not yet right.", ", not yet right:"
    )
