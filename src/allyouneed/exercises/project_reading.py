"""How the project is read: a file whose names, orders and matrices are the reader's own.

The parts are found by their names (`find`) and called by what their arguments are called (`call`).
Which matrix is which is seen while they compute (`order_of_use`, `attention_slots`). Then the
weights of a case are copied into them, and outputs and gradients are compared.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

D, H, K, FF, V, N = 12, 3, 4, 20, 17, 2  # all different, so that a shape tells what it is
OUT = 3  # of the outputs, the one that is left out where matrices are told apart
Weights = dict[str, Tensor]  # of attention: q, k, v (D, H, K), o (H, K, D)

# What may stand in for the names of the table


WORDS = {
    "q": "q query queries xq",
    "k": "k key keys xk",
    "v": "v value values xv",
    "mask": "mask attnmask attentionmask m srcmask",
    "d_model": "dmodel d dim embeddim embdim hidden hiddensize hiddendim width modeldim embsize",
    "n_heads": "nheads nhead h heads numheads nbheads",
    "d_ff": "dff ff dimff dimfeedforward ffdim dffn ffn f dinner innerdim ffhidden dhidden",
    "n_layers": "nlayers nlayer n layers numlayers depth numencoderlayers numdecoderlayers"
    " nenc ndec nenclayers ndeclayers",
    "dropout": "dropout pdrop drop dropoutp droprate p dropoutrate",
    "vocab_size": "vocabsize vocab v nvocab vocabularysize vocabulary ntokens srcvocab tgtvocab"
    " srcvocabsize tgtvocabsize numtokens nwords",
    "max_length": "maxlength maxlen maxseqlen maxpositions limit steps maxtokens maxnewtokens",
    "tokens": "tokens ids x src seq tok batch",
    "pad": "pad padid padidx padtoken padindex",
    "bos": "bos bosid start sos startid startsymbol bosidx",
    "eos": "eos eosid end endid stop eosidx",
    "length": "length t n size seqlen maxlen maxlength tgtlen l",
    "x": "x src y tgt inputs h",
    "memory": "memory mem encoded enc encout encoderoutput context m",
    "src_mask": "srcmask mask smask memorymask crossmask paddingmask padmask",
    "tgt_mask": "tgtmask causalmask causal selfmask tmask lookaheadmask",
    "src": "src source s sources srcids srctokens inputs x",
    "tgt": "tgt target t targets tgtids tgttokens tgtin decoderinput y",
    "logits": "logits scores predictions output outputs pred",
    "targets": "targets target labels label tgt y gold",
    "smoothing": "smoothing eps epsilon labelsmoothing epsls alpha",
    "step": "step t s i stepnum n",
    "warmup_steps": "warmupsteps warmup w nwarmup",
    "model": "model net machine transformer m",
    "batches": "batches data loader batch dataloader pairs iterator iterable trainloader traindata"
    " trainbatches trainiter dataset",
    "d_k": "dk dim headdim dhead scale",
    "beam": "beam beamsize beams k n width beamwidth",
    "alpha": "alpha lengthpenalty penalty lp a lenpenalty",
}
WORDS = {key: set(words.split()) for key, words in WORDS.items()}


def bare(name: str) -> str:
    return name.lower().replace("_", "")


def signature(thing: Callable) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function, of a class, or of a module's `forward`."""
    inside = None if inspect.isclass(thing) else getattr(thing, "forward", None)
    return inspect.signature(inside or thing).parameters


def call(thing: Callable, spare: Mapping[str, Any] | None = None, /, **needed: Any) -> Any:
    """Call a reader's function or class: by its own names where all are understood, else by place.

    `needed` stands in the order of the table; of `spare` is handed over what is asked for by name.
    """
    known, strangers, left = {}, [], dict(needed)
    try:
        wanted = signature(thing).values()
    except (TypeError, ValueError):
        return thing(*needed.values())
    for parameter in wanted:
        if parameter.kind is parameter.VAR_POSITIONAL:
            return thing(*needed.values())
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        every = needed | dict(spare or {})
        keys = [key for key in every if bare(parameter.name) in WORDS[key]]
        keys.sort(key=lambda key: (key not in left, bare(key) != bare(parameter.name)))
        if keys == ["dropout"] and parameter.default is None:
            continue  # none if none is handed over: it may be a module
        if keys:
            known[parameter.name] = every[keys[0]]
            left.pop(keys[0], None)
        else:
            strangers.append(parameter)
    if len(strangers) == 1 and not known and "d_model" in needed:
        return thing(Sizes(needed | dict(spare or {})))  # one argument that holds all sizes
    if strangers and (left or any(p.default is p.empty for p in strangers)):
        values = [*needed.values(), *(spare or {}).values()]
        return thing(*values[: len(known) + len(strangers)])
    return thing(**known)


class Sizes:
    """All sizes in one object, under whatever names they are asked for."""

    def __init__(self, sizes: Mapping[str, Any]):
        self._sizes = dict(sizes)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for key, value in self._sizes.items():
                if bare(name) in WORDS[key]:
                    return value
        raise AttributeError(name)

    __getitem__ = __getattr__


PREFIXES = ("get", "make", "build", "create", "compute", "my", "the")


def find(namespace: Mapping[str, Any], names: str, classes: bool = False) -> Any:
    """What can be called under one of these names, written in any way; `...` if nothing.

    Of an `attention` and an `Attention` it takes the class, if `classes`, or else the function.
    """
    own: dict[str, list[Any]] = {}
    for name, value in namespace.items():
        if isinstance(name, str) and callable(value):
            own.setdefault(bare(name), []).append(value)
    for name in names.split():
        for each in (name, *(prefix + name for prefix in PREFIXES)):
            some = own.get(each, [])
            if classes:  # a model that was made is not what makes one
                some = [x for x in some if inspect.isclass(x) or inspect.isroutine(x)]
            some.sort(key=lambda x: inspect.isclass(x) != classes)
            if some:
                return some[0]
    return ...


def first(output: Any) -> Any:
    """The outputs alone, where weights or a state come with them."""
    return output[0] if isinstance(output, tuple) and output else output


# Which matrix is which


class Uses(TorchFunctionMode):
    """Notes in which order tensors are first used."""

    def __init__(self, tensors: Iterable[Tensor]):
        super().__init__()
        self.waiting = {id(x): x for x in tensors}
        self.order: list[Tensor] = []
        self.forbidden = ""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in ("scaled_dot_product_attention", "multi_head_attention_forward"):
            self.forbidden = name
        for x in flat((args, kwargs or {})):
            if id(x) in self.waiting:
                self.order.append(self.waiting.pop(id(x)))
        return func(*args, **(kwargs or {}))


def flat(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from flat(item)


def tensors_of(model: Any) -> list[Tensor]:
    """What a model learns: `parameters()`, or the tensors that it holds in lists and dicts."""
    source = getattr(model, "parameters", None)
    if callable(source):
        source = list(source())
    source = source if source is not None else getattr(model, "__dict__", {})
    if isinstance(source, dict):
        source = source.values()
    return [x for x in flat(list(source)) if x.requires_grad and x.is_leaf]


class Unclear(Exception):
    """The parts of an answer could not be told from each other."""


def held_apart(model: Any) -> str:
    """The name of a list of modules or parameters which `parameters()` does not know of."""
    if not isinstance(model, nn.Module):
        return ""
    known = {id(x) for x in model.parameters()}
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, list | tuple | dict):
                items = value.values() if isinstance(value, dict) else value
                parts = (x.parameters() if isinstance(x, nn.Module) else [x] for x in items)
                parts = [x for part in parts for x in part if isinstance(x, nn.Parameter)]
                if any(id(x) not in known for x in parts):
                    return name
    return ""


def order_of_use(model: Any, compute: Callable[[], Any]) -> list[Tensor]:
    if name := held_apart(model):
        raise Unclear(
            f"`parameters()` does not know what is in `{name}`, so nothing of it is learned: a "
            "plain list is not seen. Put it into `nn.ModuleList` or `nn.ParameterList`."
        )
    if not tensors_of(model):
        raise Unclear("It has no `parameters()`, so nothing of it can be learned.")
    with Uses(tensors_of(model)) as uses:
        compute()
    if uses.forbidden:
        raise Unclear(f"It calls `{uses.forbidden}`, which is what the project writes by hand.")
    return uses.order


@dataclass(frozen=True)
class Slot:
    """Where a weight of the case stands in the reader's: `view(tensor)` is `weights[name][at]`."""

    name: str
    view: Callable[[Tensor], Tensor]
    at: Any = ...


View = Callable[[Tensor], Tensor]
TURNS: dict[str, View] = {"linear": lambda x: x.T, "plain": lambda x: x}  # (out, in) and (in, out)


@cache
def by_input(shape: tuple[int, ...]) -> list[tuple[str, list[View]]]:
    """The ways to read a tensor: how it lies, and its parts as (D, H, K), or (D, K) of a head."""
    shape = tuple(n for n in shape if n != 1)
    ways: list[tuple[str, list[View]]] = []
    for how, turn in TURNS.items():
        if shape == (D, D):
            ways.append((how, [lambda x, t=turn: t(flattened(x)).unflatten(1, (H, K))]))
        if len(shape) == 2 and turn(torch.empty(shape)).shape == (D, K):
            ways.append(("head", [lambda x, t=turn: t(flattened(x))]))
        if shape == (4, D, D):  # the outputs' as well
            ways.append((how, [
                lambda x, t=turn, i=i: t(flattened(x)[i]).unflatten(1, (H, K)) for i in range(4)
            ]))  # fmt: skip
    if sorted(shape) == sorted((D, H, K)):
        axes = [shape.index(n) for n in (D, H, K)]
        ways.append(("axes", [lambda x: flattened(x).permute(axes)]))
    for n in (2, 3):  # keys and values in one, or all three
        every, one_head = {"n": n, "D": D, "H": H, "K": K}, {"n": n, "D": D, "K": K}
        for how, atoms in (("axes", every), ("head", one_head)):
            for groups in groupings(shape, atoms):
                ways.append((how, [part_of(groups, atoms, i) for i in range(n)]))
    return ways


def groupings(shape: Sequence[int], atoms: Mapping[str, int]) -> list[list[str]]:
    """How axes may lie in a tensor, some of them in one: the letters of each of its axes.

    Where heads and the places in them lie in one axis, a head has neighbours.
    """
    found = []
    for order in itertools.permutations(atoms):
        groups, rest = [], list(order)
        for size in shape:
            group = ""
            while rest and math.prod(atoms[one] for one in group) < size:
                group += rest.pop(0)
            groups.append(group)
        sizes = [math.prod(atoms[one] for one in group) for group in groups]
        apart = not any("K" in group and "H" in group[group.index("K") :] for group in groups)
        if sizes == [*shape] and not rest and apart:
            found.append(groups)
    return found


def part_of(groups: list[str], atoms: Mapping[str, int], i: int) -> View:
    """Reads the i-th of several matrices that lie in one tensor."""
    order = "".join(groups)
    axes = [order.index(one) for one in atoms]

    def view(x: Tensor) -> Tensor:
        x = flattened(x)
        for axis in reversed(range(len(groups))):
            if len(groups[axis]) > 1:
                x = x.unflatten(axis, [atoms[one] for one in groups[axis]])
        return x.permute(axes)[i]

    return view


def by_output(shape: Sequence[int], how: str) -> View | None:
    """How to read a tensor as (H, K, D), if it can be; a square one lies as the others do."""
    shape = tuple(n for n in shape if n != 1)
    if shape == (D, D):
        turn = TURNS.get(how, TURNS["linear"])
        return lambda x: turn(flattened(x)).unflatten(0, (H, K))
    if sorted(shape) == sorted((D, H, K)):
        axes = [shape.index(n) for n in (H, K, D)]
        return lambda x: flattened(x).permute(axes)
    return None


def of_outputs(x: Tensor, lies: str, head: int) -> list[Slot]:
    """Where the matrix of the outputs stands in a tensor: its gradient is zero for one of them."""
    shape = tuple(n for n in x.shape if n != 1)
    whole: list[tuple[Any, View]] = []
    for turn in TURNS.values():
        if len(shape) == 2 and turn(torch.empty(shape)).shape == (K, D):  # one for each head
            whole.append((head, lambda x, t=turn: t(flattened(x))))
        if shape == (D, D):
            whole.append((..., lambda x, t=turn: t(flattened(x)).unflatten(0, (H, K))))
        if shape == (4, D, D):
            for i in range(4):
                whole.append((..., lambda x, t=turn, i=i: t(flattened(x)[i]).unflatten(0, (H, K))))
    found = [Slot("o", view, at) for at, view in whole if not view(x.grad)[..., OUT].any()]
    if len(found) != 1:
        view = by_output(shape, lies)
        found = [Slot("o", view)] if view else []
    return found


def read_by_slopes(x: Tensor) -> tuple[str, list[Slot]]:
    """How a tensor lies that queries, keys or values are multiplied with, and what is in it."""
    best: tuple[str, list[Slot]] = "", []
    for how, views in by_input(x.shape) if x.grad is not None else []:
        found = []
        for view in views:
            slope = view(x.grad)
            zero = [i for i in range(D) if not slope[i].any()]
            if len(zero) == 1 and zero[0] < 3:
                found.append(Slot("qkv"[zero[0]], view))
        if len(found) > len(best[1]):
            best = how, found
        if len(found) == len(views):
            return how, found
    return best


def attention_slots(
    module: Any, compute: Callable[..., Tensor]
) -> tuple[list[Tensor], list[list[Slot]]]:
    """The tensors of a multi-head attention, in the order of use, and what stands in each.

    The queries have a zero in their first entry, keys in their second, values in their third: so
    has the gradient of the matrix that they are multiplied with. One of the outputs does not count,
    so that the gradient of their matrix has a zero for it.
    """
    q, k, v = torch.randn(3, 1, 5, D)
    for i, x in enumerate((q, k, v)):
        x[..., i] = 0

    def look() -> None:
        out = compute(q, k, v, torch.ones(1, 1, 5, 5, dtype=torch.bool))
        if not out.isfinite().all():
            raise Unclear("Where the mask hides nothing, its outputs are NaN or infinite.")
        weigh = signs(out)
        weigh[..., OUT] = 0
        (out * weigh).sum().backward()

    used = order_of_use(module, look)
    slots, heads_seen, lies = [], dict.fromkeys("qkvo", 0), "linear"
    for x in used:
        how, found = read_by_slopes(x)
        lies = how if how in TURNS else lies
        for i, slot in enumerate(found if how == "head" else []):
            found[i] = replace(slot, at=(slice(None), heads_seen[slot.name]))
            heads_seen[slot.name] += 1
        if x.grad is not None and (not found or len(found) == 3 and len(x) == 4):
            found += of_outputs(x, lies, heads_seen["o"])
            heads_seen["o"] += any(slot.name == "o" and slot.at is not ... for slot in found)
        slots.append(found)
    for x in used:
        x.grad = None
    if not set("qkv") <= {slot.name for row in slots for slot in row}:
        name_the_rest(used, slots, lies)  # some are used otherwise than they should be
    return used, slots


def name_the_rest(used: list[Tensor], slots: list[list[Slot]], lies: str) -> None:
    """Give names to the matrices that their gradients have not told apart, by their order."""
    marked = [slot.name for row in slots for slot in row]
    square = [i for i, x in enumerate(used) if sorted(x.shape) in ([D, D], sorted((D, H, K)))]
    if not 2 <= len(square) <= 4:
        words = {"q": "the queries", "k": "the keys", "v": "the values"}
        unseen = " and ".join(words[name] for name in "qkv" if name not in marked)
        raise Unclear(
            f"It could not be seen which of its matrices makes {unseen}: none is multiplied with "
            "them alone. Is one used twice, or one input taken for another?"
        )
    given: list[str] = []
    for i in square:
        name = slots[i][0].name
        if name == "o" or name in given:
            rest = [n for n in "qkv" if n not in marked]
            name = rest[0] if rest and i != square[-1] else "o"
            marked.append(name)
        given.append(name)
        shape = tuple(used[i].shape)
        how = lies if shape == (D, D) else "axes"
        view = by_output(shape, how) if name == "o" else dict(by_input(shape))[how][0]
        slots[i] = [Slot(name, view)]


Layout = list[tuple[Tensor, Slot]]


def laid_out(prefix: str, used: list[Tensor], slots: list[list[Slot]]) -> Layout:
    return [
        (x, replace(slot, name=f"{prefix}{slot.name}"))
        for x, row in zip(used, slots, strict=True)
        for slot in row
    ]


def idle(model: Any, used: list[Tensor]) -> str:
    """The names of the parts that a machine makes and does not use."""
    seen, named = {id(x) for x in used}, getattr(model, "named_parameters", None)
    names = [name for name, x in named() if id(x) not in seen] if callable(named) else []
    ends = (".weight", ".bias")
    parts = list(dict.fromkeys(name.removesuffix(end) for name in names for end in ends
                               if name.endswith(end) or not name.endswith(ends)))  # fmt: skip
    return ", ".join(f"`{part}`" for part in parts[:4]) + ", ..." * (len(parts) > 4)


def same_module(model: Any) -> str:
    """The names of two parts that are one module."""
    for at, module in model.named_modules() if isinstance(model, nn.Module) else ():
        for (one, x), (two, y) in itertools.combinations(module._modules.items(), 2):
            if x is y and x is not None and [*x.parameters()]:
                return " and ".join(f"`{f'{at}.{name}'.removeprefix('.')}`" for name in (one, two))
    return ""


def never_used(model: Any, used: list[Tensor]) -> str:
    """What is said of the parts that a machine makes and does not use, or makes once for many."""
    if names := idle(model, used):
        return f"Never used: {names}. Another one stands in its place, or it is left out."
    if both := same_module(model):
        return f"{both} are one and the same module: make each anew."
    return "One is used in several places, or some are missing: each stack has `n_layers` layers."


def stack_layout(
    used: list[Tensor], pattern: list[list[Slot]], blocks: list[tuple[str, list[str], int]],
    model: Any = None,
) -> Layout:  # fmt: skip
    """What stands where in layers: `blocks` are (name, its attentions, number of norms)."""
    layout, attentions, nets, norms = sorted_by_kind(used)
    weights = [row for row in pattern if row]  # biases are known by their single axis
    groups = [attentions[i : i + len(weights)] for i in range(0, len(attentions), len(weights))]
    names = [f"{block}{name}." for block, own, _ in blocks for name in own]
    if len(attentions) != len(weights) * len(names):
        raise Unclear(
            f"It uses {len(groups)} attentions with weights of their own; {len(names)} were "
            f"expected. {never_used(model, used)}"
        )
    for name, group in zip(names, groups, strict=True):
        layout += laid_out(name, group, weights)
    if len(nets) != len(blocks):
        raise Unclear(
            f"It uses {len(nets)} feed-forward nets; {len(blocks)} were expected. "
            f"{never_used(model, used)}"
        )
    for (block, _, _), net in zip(blocks, nets, strict=True):
        layout += [(x, Slot(f"{block}{name}", view)) for name, (x, view) in net.items()]
    for place, pair in zip(places_of_norms(blocks, len(norms), model, used), norms, strict=True):
        for x, name in zip(pair, ("gamma", "beta"), strict=False):
            layout.append((x, Slot(f"{place}.{name}", lambda x: x.view(-1))))
    return layout


def flattened(x: Tensor) -> Tensor:
    """A matrix, whatever axes of one it has besides, as those of convolutions."""
    return x.view([n for n in x.shape if n != 1])


def turned(x: Tensor) -> Tensor:
    return flattened(x).T


def sorted_by_kind(
    used: list[Tensor],
) -> tuple[Layout, list[Tensor], list[dict[str, tuple[Tensor, Callable]]], list[list[Tensor]]]:
    """The embedding in its place, the matrices of attentions, feed-forward nets, and norms.

    Norms are known by the ones that they begin with, a feed-forward net by its width.
    """
    layout: Layout = []
    attentions, norms, nets = [], [], []
    before, biased = None, False
    for x in used:
        shape = tuple(n for n in x.shape if n != 1)
        if V in shape and len(shape) == 2:
            layout.append((x, Slot("E", flattened if shape == (V, D) else turned)))
        elif FF in shape and len(shape) == 2:
            if not nets or "w2" in nets[-1]:
                nets.append({})
            name, right = ("w2", (FF, D)) if "w1" in nets[-1] else ("w1", (D, FF))
            nets[-1][name] = (x, flattened if shape == right else turned)
        elif shape == (V,):
            x.data.zero_()
            biased = True
        elif shape == (FF,):
            nets[-1]["b1"] = (x, lambda x: x.view(-1))
        elif len(shape) > 1:
            if not by_input(shape):
                raise Unclear(
                    f"A parameter of shape {tuple(x.shape)} has no place in the paper's machine. "
                    "(Positions are sinusoids here, not learned.)"
                )
            attentions.append(x)
        elif shape == (D,) and bool((x == 1).all()):
            norms.append([x])
            before = "gamma"
            continue
        elif shape == (D,) and before == "gamma":
            norms[-1].append(x)
        elif (
            shape == (D,) and nets and "w2" in nets[-1] and "b2" not in nets[-1] and before == "net"
        ):
            nets[-1]["b2"] = (x, lambda x: x.view(-1))
        else:
            x.data.zero_()  # a bias of attention, which the paper has not
        before = "net" if FF in shape else None
    if biased and len(layout) == 1:  # else it is the matrix that is named
        raise Unclear("The logits have a bias. They are the product with the embedding alone.")
    return layout, attentions, nets, norms


def places_of_norms(
    blocks: list[tuple[str, list[str], int]], number: int, model: Any, used: list[Tensor]
) -> list[str]:
    """The names of so many norms; one more may stand behind each stack, or one in each block."""
    places = [f"{block}norm.{i}" for block, _, n in blocks for i in range(n)]
    if number == len(places) + 2:
        half = sum(n for block, _, n in blocks if block.startswith("encoder"))
        places = [*places[:half], "encoder.norm", *places[half:], "decoder.norm"]
    elif number not in (len(places), len(blocks)):
        why = (
            "There is one behind each sub-layer, and none elsewhere."
            if number > len(places)
            else never_used(model, used)
        )
        raise Unclear(
            f"It uses {number} layer norms that begin with ones; {len(places)} were expected. {why}"
        )
    elif number == len(blocks) != len(places):
        places = [f"{block}norm.0" for block, _, _ in blocks]
    return places


def copied(layout: Layout, p: Weights) -> None:
    """The weights of the case, in their places."""
    with torch.no_grad():
        for x, slot in layout:
            slot.view(x.data).copy_(p[slot.name][slot.at])


def slopes(layout: Layout, p: Weights) -> dict[str, Tensor]:
    """The gradients, each where the case has its weight; of one that stands twice, their sum."""
    named: dict[str, Tensor] = {}
    for x, slot in layout:
        if x.grad is not None:
            named.setdefault(slot.name, torch.zeros_like(p[slot.name]))
            named[slot.name][slot.at] += slot.view(x.grad)
    return without_padding(named)


def without_padding(named: dict[str, Tensor]) -> dict[str, Tensor]:
    """The row of PAD may be kept from learning, as `padding_idx` does."""
    if "E" in named:
        named["E"][0] = 0
    return named


def resting(model: Any) -> Any:
    """In eval mode, where it has one."""
    if callable(getattr(model, "eval", None)):
        model.eval()
    return model


def measured(layout: Layout, p: Weights, compute: Callable[[], Tensor]) -> dict[str, Any]:
    copied(layout, p)
    for x, _ in layout:
        x.grad = None
    out = first(compute())
    (out * signs(out)).sum().backward()
    return {"outputs": out.detach(), "gradients": slopes(layout, p)}


def signs(out: Tensor) -> Tensor:
    """A weight for each output, so that no gradient is zero by symmetry."""
    return torch.linspace(-1, 1.5, out.numel(), dtype=out.dtype).cos().view(out.shape)
