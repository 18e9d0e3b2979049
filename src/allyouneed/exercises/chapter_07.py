"""The exercises of chapter 7, many heads: references, cases and known mistakes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..attention import attention
from .compare import same
from .core import Case, Exercise, Family, Invariant, mistakes
from .faults import OPENED
from .pairs import combined, pairs
from .predictions import items
from .suspects import Lack, Spoilt, each, rules, verdicts_on

# 7.1 two heads by hand: what each head finds, then the two outputs


def heads_by_hand(head_1: float | int, head_2: float | int) -> list[float | int]:
    """Whole numbers for the mistakes: they are known in whole and in decimal numbers."""
    return [head_1, head_2, head_1, head_1 + 2 * head_2]


HAND_MISTAKES = mistakes(
    ("exponentials that were not divided by their sum", heads_by_hand(28, 4),
     "1 and 3 are the exponentials of the scores. Weights must sum to one: divide by 4."),
    ("all weight on the key with the higher score, or scores shared out without the exponential",
     heads_by_hand(8, 0),
     "A head averages: the lower score is 0, and its exponential is 1, not nothing."),
    *((f"all weight on the key with the higher score in head {i} alone", heads_by_hand(*heads),
       "The lower score is 0, its exponential 1, and its weight 1/4, in both heads.")
      for i, heads in ((1, (8, 1)), (2, (7, 0)))),
    ("the weights of the two keys exchanged", heads_by_hand(5, 3),
     "In head 1 the second key has the higher score and so the weight 3/4, in head 2 the first."),
    ("equal weights: one softmax for both heads, or a plain mean", heads_by_hand(6, 2),
     "The scores of the two heads were added, or each key got the same weight. Every head has a "
     "softmax of its own; that is what makes it a head."),
    ("the weights exchanged in head 1 alone", heads_by_hand(5, 1),
     "In head 1 the second key has the higher score and so the weight 3/4."),
    ("the weights exchanged in head 2 alone", heads_by_hand(7, 3),
     "In head 2 the first key has the higher score and so the weight 3/4."),
    ("one softmax over all four scores", heads_by_hand(3.5, 0.5),
     "The four weights sum to one together. Every head has a softmax, and a whole, of its own."),
    ("the scores taken for weights", heads_by_hand(8 * math.log(3), 0.0),
     "Scores are not weights yet: exponentiate them, and divide by their sum in each head."),
    ("divided by a root once more", heads_by_hand(8 - 4 / (1 + 3**0.5**0.5), 4 / (1 + 3**0.5**0.5)),
     "The scores are given already divided by the root of d_k. Take their exponentials."),
    ("the last matrix transposed", [7, 1, 8, 2],
     "Vectors are rows and multiply from the left: the first output meets the first column."),
    ("the last matrix forgotten", [7, 1, 7, 1],
     "The heads are right. The outputs are the two numbers side by side, times the matrix."),
    ("the heads put side by side in the wrong order", [7, 1, 1, 15],
     "Head 1 comes first in the concatenation, and so it meets the first row of the matrix."),
    ("the outputs before the heads", [7, 9, 7, 1],
     "All four numbers are right. The task asks for the two heads first."),
    ("the values of the two heads exchanged", heads_by_hand(3, 5),
     "Head 1 averages 4 and 8, head 2 averages 0 and 4."),
    ("the two heads exchanged, or the values read key by key", heads_by_hand(1, 7),
     "Head 1 has 4 from the first key and 8 from the second; head 2 has 0 and 4."),
    ("ln 3 taken for 3",
     heads_by_hand(8 - 4 / (1 + math.e**3), 4 / (1 + math.e**3)),
     "The score is ln 3, so that its exponential is 3."),
    ("divided by the number of keys", heads_by_hand(14, 2),
     "1 and 3 are divided by their sum, 4, not by how many keys there are."),
    ("the two of the last matrix overlooked", [7, 1, 7, 8],
     "The second row is (0, 2): head 2 goes into the second output twice over."),
    ("a zero of the last matrix overlooked", [7, 1, 8, 9],
     "The second row is (0, 2): nothing of head 2 goes into the first output."),
    ("each row of the last matrix times the whole", [7, 1, 14, 2],
     "Head 1 meets the first row, head 2 the second, and what they give is added."),
    ("the heads alone", [7, 1], "The two outputs are asked for as well."),
    ("the outputs alone", [7, 9], "What the two heads find is asked for as well, first."),
    ("the diagonal of the last matrix alone", [7, 1, 7, 2],
     "Every output draws on both heads. The second one gets 1 times head 1 as well."),
    ("the two outputs exchanged", [7, 1, 9, 7],
     "All four numbers are right. The first output comes from the first column of the matrix."),
    ("a zero of the last matrix overlooked, and the outputs exchanged", [7, 1, 9, 8],
     "Nothing of head 2 goes into the first output, and that one comes from the first column."),
    ("the two heads exchanged, the outputs right", [1, 7, 7, 9],
     "The outputs are right. Head 1 is asked for first, then head 2."),
    ("the values added up", heads_by_hand(12, 4),
     "Each head averages its values with the weights of their keys."),
    ("the key with the lower score left out", heads_by_hand(6, 0),
     "The lower score is 0, its exponential 1, and its weight 1/4: that key counts, too."),
    ("the sum of the heads for both outputs", [7, 1, 8, 8],
     "The rows of the last matrix are (1, 1) and (0, 2): its entries are not all 1."),
    ("head 2 left out of the outputs", [7, 1, 7, 7],
     "The second row is (0, 2): head 2 goes into the second output twice over."),
    ("the weights in place of what the heads find", heads_by_hand(0.75, 0.25),
     "These are weights. A head finds the average of its two values with its two weights."),
    ("the plain mean in head 1 alone", heads_by_hand(6, 1),
     "In head 1 the exponentials are 1 and 3: the second value counts three times as much."),
    ("the plain mean in head 2 alone", heads_by_hand(7, 2),
     "In head 2 the exponentials are 3 and 1: the first value counts three times as much."),
    ("the sum of the heads, times each entry of the diagonal", [7, 1, 8, 16],
     "Head 1 meets the first row of the last matrix, (1, 1), and head 2 the second, (0, 2)."),
    ("divided by 2 once more", heads_by_hand(8 - 4 / (1 + 3**0.5), 4 / (1 + 3**0.5)),
     "The scores are given already divided by the root of d_k. Take their exponentials."),
    ("the two heads averaged for both outputs", [7, 1, 4, 4],
     "The outputs are the two numbers side by side, times the last matrix: (7, 1) times its "
     "columns."),
    ("the weights of all four values, and nothing else", [0.25, 0.75, 0.75, 0.25],
     "The weights are right: 1/4 and 3/4, and 3/4 and 1/4. Average the values with them, and "
     "multiply by the last matrix."),
    ("the second value of head 2 alone", [7, 4, 7, 15],
     "A value of 0 counts: it has the weight 3/4, and draws the average down to 1."),
    ("the outputs halved", [7, 1, 3.5, 4.5],
     "The heads are put side by side and multiplied by the last matrix: no mean is taken."),
    ("weights of 1/3 and 2/3", heads_by_hand(20 / 3, 4 / 3),
     "The exponentials are 1 and 3, and their sum is 4: the weights are 1/4 and 3/4."),
    ("the values of head 1 in head 2, too", [7, 5, 7, 17],
     "Each head has values of its own: those of head 2 are 0 and 4."),
)  # fmt: skip


def heads_way(
    heads: tuple = (7, 1), out: Callable[..., list] = lambda a, b: [a, a + 2 * b]
) -> list[float | int]:
    """The answer, right by default; each argument makes one slip."""
    return [*heads, *out(*heads)]


HAND_SLIPS = [
    ("exponentials not divided by their sum", {"heads": (28, 4)}, "Divide 1 and 3 by 4."),
    ("all weight on the key with the higher score", {"heads": (8, 0)}, "The other one has 1/4."),
    ("the weights of the two keys exchanged", {"heads": (5, 3)},
     "The key with the higher score has the weight 3/4."),
    ("the weights exchanged in head 1", {"heads": (5, 1)},
     "In head 1 the second key has the higher score and so the weight 3/4."),
    ("the weights exchanged in head 2", {"heads": (7, 3)},
     "In head 2 the first key has the higher score and so the weight 3/4."),
    ("one softmax for both heads", {"heads": (6, 2)}, "Every head has a softmax of its own."),
    ("the plain mean in head 1", {"heads": (6, 1)}, "The weights differ, in each head."),
    ("the plain mean in head 2", {"heads": (7, 2)}, "The weights differ, in each head."),
    ("one softmax over all four scores", {"heads": (3.5, 0.5)},
     "Every head has a softmax, and a whole, of its own."),
    ("the two heads exchanged", {"heads": (1, 7)}, "Head 1 averages 4 and 8, head 2 0 and 4."),
    ("the last matrix transposed", {"out": lambda a, b: [a + b, 2 * b]},
     "The first output meets the first column of the last matrix."),
    ("the last matrix forgotten", {"out": lambda a, b: [a, b]},
     "The outputs are the two numbers side by side, times the matrix."),
    ("the two of the last matrix overlooked", {"out": lambda a, b: [a, a + b]},
     "The second row is (0, 2)."),
    ("a zero of the last matrix overlooked", {"out": lambda a, b: [a + b, a + 2 * b]},
     "Nothing of head 2 goes into the first output."),
    ("a zero of the last matrix overlooked, and the outputs exchanged",
     {"out": lambda a, b: [a + 2 * b, a + b]},
     "Nothing of head 2 goes into the first output, and that one comes from the first column."),
    ("the diagonal of the last matrix alone", {"out": lambda a, b: [a, 2 * b]},
     "The second output gets 1 times head 1 as well."),
    ("the two outputs exchanged", {"out": lambda a, b: [a + 2 * b, a]},
     "The first output comes from the first column of the matrix."),
    ("the sum of the heads for both outputs", {"out": lambda a, b: [a + b, a + b]},
     "The rows of the last matrix are (1, 1) and (0, 2)."),
]  # fmt: skip
HAND_MISTAKES += pairs(
    heads_way, HAND_SLIPS, [heads_by_hand(7, 1), *(mistake.wrong for mistake in HAND_MISTAKES)],
    rtol=5e-3, atol=2e-3,
)  # fmt: skip

# 7.2 counting: one head's W^Q, all W^Q, the layer, the layer with biases

D_MODEL, N_HEADS = 512, 8
SQUARE, NARROW = D_MODEL**2, (D_MODEL // N_HEADS) ** 2


def _counts(
    one: int = SQUARE // 8, every: int = SQUARE, layer: int = 4 * SQUARE, biases: int = 4 * D_MODEL
) -> list[int]:
    """The four numbers, right by default; each argument makes one slip."""
    return [one, every, layer, layer + biases]


COUNT_MISTAKES = mistakes(
    ("the first two numbers exchanged", _counts(one=SQUARE, every=SQUARE // 8),
     "One head has 512 x 64 numbers, all heads together have 512 x 512."),
    ("a head that reads only its own piece of the input, or has 8 columns in place of 64",
     [NARROW, N_HEADS * NARROW, 4 * N_HEADS * NARROW, 4 * N_HEADS * NARROW + 4 * D_MODEL],
     "A head's queries are narrow, but they are made from all 512 entries: W_i^Q has d_model rows "
     "and d_k columns, not d_k and d_k. (4096 is 512 x 8 as well: 8 is how many heads there are.)"),
    ("a square of d_k for one head, or 8 columns in place of 64, the rest right",
     [NARROW, SQUARE, 4 * SQUARE, 4 * SQUARE + 4 * D_MODEL],
     "Eight matrices of 64 x 64 would not make one of 512 x 512, nor eight of 512 x 8. W_i^Q has "
     "d_model rows and d_k columns."),
    ("a square of d_k for every head, the layer right",
     [NARROW, N_HEADS * NARROW, 4 * SQUARE, 4 * SQUARE + 4 * D_MODEL],
     "Eight matrices of 64 x 64 would not make one of 512 x 512. W_i^Q has d_model rows."),
    ("a full matrix for every head", [SQUARE, 8 * SQUARE, 32 * SQUARE, 32 * SQUARE + 32 * D_MODEL],
     "With h heads each is narrower by h: d_k = 512 / 8 = 64 columns for one head."),
    ("a full matrix for one head, the rest right",
     [SQUARE, SQUARE, 4 * SQUARE, 4 * SQUARE + 4 * D_MODEL],
     "512 x 512 is what all heads have together. One head has a slice of 64 columns."),
    ("a full matrix for every head, and four biases",
     [SQUARE, 8 * SQUARE, 32 * SQUARE, 32 * SQUARE + 4 * D_MODEL],
     "With h heads each is narrower by h: d_k = 512 / 8 = 64 columns for one head."),
    ("a full matrix for every head, the layer right",
     [SQUARE, 8 * SQUARE, 4 * SQUARE, 4 * SQUARE + 4 * D_MODEL],
     "The four matrices of the layer hold all heads. One head has 64 of the 512 columns of W^Q."),
    ("queries, keys and values counted for one head",
     [3 * SQUARE // 8, 3 * SQUARE, 4 * SQUARE, 4 * SQUARE + 4 * D_MODEL],
     "The first two numbers are asked for the queries alone."),
    ("one head's matrices for the whole layer",
     [SQUARE // 8, SQUARE, SQUARE // 2, SQUARE // 2 + 4 * D_MODEL],
     "The layer holds the matrices of all eight heads, and W^O."),
    ("three matrices instead of four", [SQUARE // 8, SQUARE, 3 * SQUARE, 3 * SQUARE + 3 * D_MODEL],
     "Queries, keys and values make three. The fourth is W^O, which mixes the heads."),
    ("three matrices and four biases", [SQUARE // 8, SQUARE, 3 * SQUARE, 3 * SQUARE + 4 * D_MODEL],
     "Queries, keys and values make three. The fourth is W^O, which mixes the heads."),
    ("the layer counted once for every head",
     [SQUARE // 8, SQUARE, 32 * SQUARE, 32 * SQUARE + 4 * D_MODEL],
     "The four matrices of 512 x 512 hold all heads already."),
    ("one bias instead of four", [SQUARE // 8, SQUARE, 4 * SQUARE, 4 * SQUARE + D_MODEL],
     "Each of the four linear layers has a bias of its own, 512 numbers wide."),
    ("three biases instead of four", [SQUARE // 8, SQUARE, 4 * SQUARE, 4 * SQUARE + 3 * D_MODEL],
     "The output layer has a bias as well."),
    ("a full set of biases for every head",
     [SQUARE // 8, SQUARE, 4 * SQUARE, 4 * SQUARE + 32 * D_MODEL],
     "A bias is as wide as the layer's output, 512, and the heads share it as they share that."),
    ("biases as wide as one head",
     [SQUARE // 8, SQUARE, 4 * SQUARE, 4 * SQUARE + 4 * D_MODEL // N_HEADS],
     "A bias is as wide as the layer's output: all heads together, 512."),
    ("the biases left out of the last number", [SQUARE // 8, SQUARE, 4 * SQUARE, 4 * SQUARE],
     "nn.MultiheadAttention has biases by default: 512 more for each of the four layers."),
    ("the layer counted once for every head, biases too",
     [SQUARE // 8, SQUARE, 32 * SQUARE, 32 * SQUARE + 32 * D_MODEL],
     "The four matrices of 512 x 512 hold all heads already, and so do the four biases."),
    ("the same number for one head and for all",
     [SQUARE // 8, SQUARE // 8, 4 * SQUARE, 4 * SQUARE + 4 * D_MODEL],
     "All heads have eight times as many as one: together the whole of 512 x 512."),
    ("biases as large as the matrices", [SQUARE // 8, SQUARE, 4 * SQUARE, 8 * SQUARE],
     "A bias is one number for each output, 512 for each layer."),
    ("all heads' queries taken for the whole layer",
     [SQUARE // 8, SQUARE, SQUARE, SQUARE + 4 * D_MODEL],
     "The layer has four such matrices: W^Q, W^K, W^V and W^O."),
    ("eight biases of 512 numbers", [SQUARE // 8, SQUARE, 4 * SQUARE, 4 * SQUARE + 8 * D_MODEL],
     "Four linear layers have four biases, each 512 numbers wide."),
    ("two biases instead of four", [SQUARE // 8, SQUARE, 4 * SQUARE, 4 * SQUARE + 2 * D_MODEL],
     "Four linear layers have four biases, each 512 numbers wide."),
    ("a bias of one number for each layer", [SQUARE // 8, SQUARE, 4 * SQUARE, 4 * SQUARE + 4],
     "A bias is one number for each output, 512 for each layer."),
    ("the biases alone in the last place", [SQUARE // 8, SQUARE, 4 * SQUARE, 4 * D_MODEL],
     "The last number is that of matrices and biases together."),
    ("the numbers of the big model, 1024 wide, with 16 heads",
     [1024 * 64, 1024**2, 4 * 1024**2, 4 * 1024**2 + 4096],
     "The base model has d_model = 512 and h = 8."),
    ("a d_k of 32", [512 * 32, SQUARE, 4 * SQUARE, 4 * SQUARE + 4 * D_MODEL],
     "d_k = 512 / 8 = 64."),
    ("a d_k of 32, and its eight heads", [512 * 32, 8 * 512 * 32, 4 * SQUARE,
                                          4 * SQUARE + 4 * D_MODEL],
     "d_k = 512 / 8 = 64."),
    ("two matrices instead of four", [SQUARE // 8, SQUARE, 2 * SQUARE, 2 * SQUARE + 2 * D_MODEL],
     "Queries, keys, values and outputs have one each: four."),
    *combined(_counts, [
        ("a square of d_k for one head", {"one": NARROW}, "W_i^Q has 512 rows and 64 columns."),
        ("a full matrix for one head", {"one": SQUARE}, "W_i^Q has 512 rows and 64 columns."),
        ("eight squares of d_k for all heads", {"every": 8 * NARROW},
         "Together the heads have 512 x 512."),
        ("eight full matrices for all heads", {"every": 8 * SQUARE},
         "Together the heads have 512 x 512."),
        ("three matrices instead of four", {"layer": 3 * SQUARE}, "The fourth is W^O."),
        ("the layer once for every head", {"layer": 32 * SQUARE},
         "Four matrices of 512 x 512 hold all heads."),
        ("one head's matrices for the layer", {"layer": SQUARE // 2},
         "The layer holds the matrices of all heads."),
        ("no biases", {"biases": 0}, "Each of the four layers has a bias of 512 numbers."),
        ("one bias", {"biases": D_MODEL}, "Each of the four layers has a bias of 512 numbers."),
        ("three biases", {"biases": 3 * D_MODEL}, "The output layer has a bias as well."),
        ("biases as wide as one head", {"biases": 4 * D_MODEL // N_HEADS},
         "A bias is as wide as the layer's output, 512."),
        ("biases for every head", {"biases": 32 * D_MODEL}, "The heads share the four biases."),
    ], but=[
        ("a square of d_k for one head", "eight squares of d_k for all heads"),
        ("a full matrix for one head", "eight squares of d_k for all heads"),
        ("a full matrix for one head", "eight full matrices for all heads"),
        ("three matrices instead of four", "three biases"),
        ("the layer once for every head", "biases for every head"),
    ]),
    ("a last matrix of one head's width",
     [SQUARE // 8, SQUARE, 3 * SQUARE + SQUARE // 8, 3 * SQUARE + SQUARE // 8 + 4 * D_MODEL],
     "W^O meets all heads side by side: h d_v = 512 rows, not 64."),
    ("one head for all of them",
     [SQUARE // 8, SQUARE // 8, SQUARE // 2, SQUARE // 2 + 4 * D_MODEL // N_HEADS],
     "There are eight heads, each with matrices of its own: together the whole of 512 x 512."),
    ("queries, keys and values counted in the second place",
     [SQUARE // 8, 3 * SQUARE, 4 * SQUARE, 4 * SQUARE + 4 * D_MODEL],
     "The second number is asked for the queries alone."),
    ("sizes added, not multiplied", [576, 8 * 576, 4 * 8 * 576, 4 * 8 * 576 + 4 * D_MODEL],
     "A matrix of 512 rows and 64 columns has 512 x 64 numbers."),
    ("sizes added, not multiplied, in the first alone",
     [576, SQUARE, 4 * SQUARE, 4 * SQUARE + 4 * D_MODEL],
     "A matrix of 512 rows and 64 columns has 512 x 64 numbers."),
    ("64 columns and 8 rows for one head", [512, 4096, 16384, 16384 + 4 * D_MODEL],
     "A head reads all d_model = 512 entries, and makes 64 of them: 512 rows and 64 columns."),
    ("one bias of a head counted in its matrix",
     [SQUARE // 8 + 64, SQUARE + D_MODEL, 4 * SQUARE, 4 * SQUARE + 4 * D_MODEL],
     "A matrix has no bias; it is asked for in the last number alone."),
    ("rounded to thousands", [32000, 262000, 1048000, 1050000],
     "Give the numbers in full: 512 times 64 is 32768."),
    ("the matrices of queries counted three times for the layer",
     [SQUARE // 8, SQUARE, 3 * SQUARE, 4 * SQUARE],
     "The layer has four matrices, W^O among them, and then four biases of 512."),
    *(
        (f"{n} layers", [SQUARE // 8, SQUARE, n * 4 * SQUARE, n * (4 * SQUARE + 4 * D_MODEL)],
         "Asked for is one multi-head attention, not all of the model.")
        for n in (6, 12, 18)
    ),
    ("the feed-forward network counted, too",
     _counts(layer=12 * SQUARE), "A multi-head attention is four matrices; the feed-forward "
     "network stands behind it."),
    ("the feed-forward network counted in the third alone",
     [SQUARE // 8, SQUARE, 12 * SQUARE, 4 * SQUARE + 4 * D_MODEL],
     "A multi-head attention is four matrices; the feed-forward network stands behind it."),
    ("three matrices in the third, four in the last",
     [SQUARE // 8, SQUARE, 3 * SQUARE, 4 * SQUARE + 4 * D_MODEL],
     "W^O, which mixes the heads, belongs to the layer, with and without biases."),
    ("one of the four matrices, with its bias, taken for the layer",
     _counts(layer=SQUARE, biases=D_MODEL),
     "The layer has four such matrices and four biases: of queries, keys, values and W^O."),
    ("the number of heads taken for d_k", [4096, SQUARE // 8, SQUARE // 2, SQUARE // 2 + 4 * 64],
     "d_k is 512 / 8 = 64, the number of columns of one head; 8 is how many heads there are."),
    *(
        (f"a full matrix for every head, {words}",
         [SQUARE, 8 * SQUARE, 32 * SQUARE, 32 * SQUARE + biases * D_MODEL],
         "With h heads each is narrower by h: d_k = 512 / 8 = 64 columns for one head.")
        for words, biases in (
            ("with biases for each and one for W^O", 25),
            ("with biases for each", 24),
            ("without biases", 0),
        )
    ),
    ("biases of full width for every head's queries, keys and values, and one for W^O",
     _counts(biases=25 * D_MODEL),
     "A bias is as wide as the layer's output, 512, and the heads share it as they share that."),
    ("biases of full width for every head's queries, keys and values",
     _counts(biases=24 * D_MODEL),
     "A bias is as wide as the layer's output, 512, and the heads share it as they share that. "
     "And W^O has one as well."),
)  # fmt: skip

# 7.3 queries, keys and values from one layer, head by head


def split(x: Tensor, n_heads: int) -> Tensor:
    b, t, d = x.shape
    return x.reshape(b, t, n_heads, d // n_heads).transpose(1, 2)


def merge(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def _cut(x: Tensor, *sizes: int) -> Tensor:
    """The numbers of each sentence, in the order in which they lie, in another shape."""
    return x.reshape(x.shape[0], *sizes)


def _width(x: Tensor, n_heads: int) -> int:
    return x.shape[-1] // n_heads


def view_split(x: Tensor, n_heads: int) -> Tensor:
    return _cut(x, n_heads, x.shape[1], _width(x, n_heads))


def view_merge(x: Tensor) -> Tensor:
    return _cut(x, x.shape[2], -1)


def split_in_turns(x: Tensor, n_heads: int) -> Tensor:
    """Every n_heads-th entry for a head."""
    return _cut(x, x.shape[1], _width(x, n_heads), n_heads).permute(0, 3, 1, 2)


def merge_in_turns(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).flatten(2)


def _numbers(shape: tuple[int, ...], seed: int, size: float = 1.0) -> Tensor:
    return size * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def unfused(x: Tensor, n_heads: int) -> tuple[Tensor, ...]:
    return split(x, n_heads).chunk(3, dim=-1)


def unfused_cases() -> list[tuple]:
    return [
        (torch.arange(1.0, 7.0)[None, None], 2),
        (_numbers((2, 5, 36), 73), 3),
        (_numbers((3, 4, 18), 74), 2),
        (_numbers((1, 3, 24), 75), 4),
    ]


def _of_each(change: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, ...]]:
    """The right three, each changed in the same way."""
    return lambda x, n_heads: tuple(change(one) for one in unfused(x, n_heads))


UNFUSED_MISTAKES = mistakes(
    ("cut in three before it was cut in heads",
     lambda x, n_heads: tuple(split(one, n_heads) for one in x.chunk(3, dim=-1)),
     "That is the order of PyTorch's module, all queries, then all keys, then all values. Here the "
     "heads are the outer cut: head 1 has the first 3 d_k entries."),
    ("the view alone, without a transpose",
     lambda x, n_heads: view_split(x, n_heads).chunk(3, dim=-1),
     "The shapes are right, but a view moves no numbers, so that heads get several words. Cut to "
     "(B, T, H, ...) first, then exchange axes."),
    ("words and heads not exchanged", _of_each(lambda one: one.transpose(1, 2)),
     "The cut is right. The head's axis must come before the word's: (B, H, T, K)."),
    ("query, key and value taken in turns, entry by entry",
     lambda x, n_heads: split(x, n_heads).unflatten(-1, (-1, 3)).unbind(-1),
     "Inside a head the whole query comes first, then the whole key: (3, d_k), not (d_k, 3)."),
    ("the heads taken in turns",
     lambda x, n_heads: split_in_turns(x, n_heads).chunk(3, dim=-1),
     "Head i got every n_heads-th entry. Its 3 d_k entries lie side by side."),
    ("heads, and query, key and value, both taken in turns",
     lambda x, n_heads: split_in_turns(x, n_heads).unflatten(-1, (-1, 3)).unbind(-1),
     "What belongs together lies side by side, both the 3 d_k entries of a head and, in them, the "
     "d_k of its query."),
    ("n_heads and d_k exchanged",
     lambda x, n_heads: unfused(x, x.shape[-1] // 3 // n_heads),
     "There are n_heads heads, and d_k is D / n_heads."),
    ("queries and keys exchanged",
     lambda x, n_heads: tuple(unfused(x, n_heads)[i] for i in (1, 0, 2)),
     "In each head the query comes first, then the key."),
    ("keys and values exchanged",
     lambda x, n_heads: tuple(unfused(x, n_heads)[i] for i in (0, 2, 1)),
     "In each head the key comes second, the value last."),
    ("values, keys, queries", lambda x, n_heads: unfused(x, n_heads)[::-1],
     "The order is query, key, value."),
    ("the queries alone", lambda x, n_heads: unfused(x, n_heads)[0],
     "Three are asked for: queries, keys and values."),
    ("the queries three times", lambda x, n_heads: unfused(x, n_heads)[:1] * 3,
     "The key begins where the query ends, at entry d_k of the head, and the value at 2 d_k."),
    ("split into heads, and not in three", lambda x, n_heads: split(x, n_heads),
     "That is what each head owns, 3 d_k entries. Cut it into its query, key and value."),
    ("cut in three, and not into heads", lambda x, n_heads: x.chunk(3, dim=-1),
     "Each of the three has an axis for the heads, (B, H, T, K); and the heads are the outer cut."),
    ("the first head for every head",
     _of_each(lambda one: one[:, :1].expand_as(one)),
     "Head i owns the entries from 3 d_k i on. Does the slice move on with the loop?"),
    ("the last head for every head", _of_each(lambda one: one[:, -1:].expand_as(one)),
     "Head i owns the entries from 3 d_k i on. Does the loop write over what it has found?"),
    ("the first sentence alone", lambda x, n_heads: unfused(x[:1], n_heads),
     "The batch holds several sentences. Is the `return` inside the loop?"),
    ("the heads before the sentences", _of_each(lambda one: one.transpose(0, 1)),
     "The batch axis stays first: (B, H, T, K). Stacked slices need dim=1."),
    ("words and entries exchanged", _of_each(lambda one: one.transpose(2, 3)),
     "Each head holds one row for a word: (B, H, T, K), not (B, H, K, T)."),
    ("the heads folded into the batch", _of_each(lambda one: one.flatten(0, 1)),
     "The pieces are right. Sentences and heads stay two axes: (B, H, T, K)."),
    ("the heads in reverse", _of_each(lambda one: one.flip(1)),
     "Head 1 owns the first 3 d_k entries."),
    *(
        (f"in the order of {', '.join(words)}",
         lambda x, n_heads, order=order: tuple(unfused(x, n_heads)[i] for i in order),
         "The order is queries, keys, values.")
        for order, words in (((1, 2, 0), ("keys", "values", "queries")),
                             ((2, 0, 1), ("values", "queries", "keys")))
    ),
    ("the first third for all three", lambda x, n_heads: (
        split(x[..., : x.shape[-1] // 3], n_heads),) * 3,
     "Queries, keys and values are three different parts of the input."),
    ("words and heads not exchanged, and cut in three first",
     lambda x, n_heads: x.unflatten(-1, (3, n_heads, -1)).unbind(2),
     "The heads are the outer cut, and their axis stands before that of the words."),
    ("the words in reverse", _of_each(lambda one: one.flip(2)), "The words keep their order."),
    ("the entries of each head in reverse", _of_each(lambda one: one.flip(3)),
     "The entries keep their order."),
    ("the queries divided by the root of d_k",
     lambda x, n_heads: (
         unfused(x, n_heads)[0] / (x.shape[-1] // 3 // n_heads) ** 0.5, *unfused(x, n_heads)[1:]),
     "Only the cut is asked for: the numbers stay as they are."),
    ("the keys transposed",
     lambda x, n_heads: (
         unfused(x, n_heads)[0], unfused(x, n_heads)[1].mT, unfused(x, n_heads)[2]),
     "All three have the shape (B, n_heads, T, d_k)."),
    ("cut in three first, and then by a view alone",
     lambda x, n_heads: tuple(view_split(one, n_heads) for one in x.chunk(3, dim=-1)),
     "The heads are the outer cut: head 1 has the first 3 d_k entries. And a view moves no "
     "numbers: cut to (B, T, H, ...) first, then exchange axes."),
    ("cut in three along the words",
     lambda x, n_heads: split(
         x.reshape(x.shape[0], 3 * x.shape[1], -1), n_heads).chunk(3, dim=2),
     "Queries, keys and values stand side by side in each word, along the last axis."),
    ("the queries cut in three first, keys and values right",
     lambda x, n_heads: (split(x.chunk(3, dim=-1)[0], n_heads), *unfused(x, n_heads)[1:]),
     "All three are cut alike: first into heads, and each head's piece in three."),
    ("the queries right, keys and values cut in three first",
     lambda x, n_heads: (
         unfused(x, n_heads)[0], *(split(one, n_heads) for one in x.chunk(3, dim=-1)[1:])),
     "All three are cut alike: first into heads, and each head's piece in three."),
    ("cut in three first, keys before queries",
     lambda x, n_heads: tuple(split(x.chunk(3, dim=-1)[i], n_heads) for i in (1, 0, 2)),
     "The heads are the outer cut, and each has query, key and value, in this order."),
    ("the heads put side by side again", _of_each(merge),
     "The cut into heads is right. Keep their axis: (B, H, T, K), and do not join them again."),
    ("the view alone, with query, key and value in front", lambda x, n_heads: tuple(
        x.reshape(3, x.shape[0], n_heads, x.shape[1], -1)),
     "The shapes are right, but a view moves no numbers: cut the last axis alone, to "
     "(B, T, n_heads, 3, d_k), and then exchange axes."),
    ("heads that begin d_k apart", lambda x, n_heads: tuple(
        torch.stack([x[..., (h + i) * d : (h + i + 1) * d] for h in range(n_heads)], 1)
        for d in [x.shape[-1] // (3 * n_heads)] for i in range(3)),
     "A head has 3 d_k entries: the next one begins 3 d_k further on, not d_k."),
)  # fmt: skip

# 7.4 a layer without some of its heads


def pruned(
    w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, n_heads: int, keep: list[int]
) -> tuple[Tensor, ...]:
    columns = (w.unflatten(1, (n_heads, -1))[:, keep].flatten(1) for w in (w_q, w_k, w_v))
    return *columns, w_o.unflatten(0, (n_heads, -1))[keep].flatten(0, 1)


def pruned_cases() -> list[tuple]:
    one, other = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])
    cases = [(one, one, one, other, 2, [1])]
    for seed, (d, n_heads, keep) in enumerate(((12, 4, [0, 2]), (6, 3, [1, 2]), (8, 4, [0, 1, 3]))):
        matrices = (_numbers((d, d), 760 + 4 * seed + i) for i in range(4))
        cases.append((*matrices, n_heads, keep))
    return cases


def _pruned(
    columns: Callable | None = None, rows: Callable | None = None, other: Callable | None = None
) -> Callable[..., tuple[Tensor, ...]]:
    """The four matrices with a change: `columns(w, n_heads, keep)` cuts the first three, `rows` the
    last, `other` changes the heads that are kept."""

    def wrong(w_q, w_k, w_v, w_o, n_heads, keep):
        keep = other(n_heads, keep) if other else keep
        right = pruned(w_q, w_k, w_v, w_o, n_heads, keep)
        three = [columns(w, n_heads, keep) for w in (w_q, w_k, w_v)] if columns else right[:3]
        return *three, rows(w_o, n_heads, keep) if rows else right[3]

    return wrong


def _band(w: Tensor, n_heads: int, keep: list[int]) -> Tensor:
    """The rows of the heads that are kept."""
    return w.unflatten(0, (n_heads, -1))[keep].flatten(0, 1)


def _slab(w: Tensor, n_heads: int, keep: list[int]) -> Tensor:
    """The columns of the heads that are kept."""
    return _band(w.T, n_heads, keep).T


def _struck(w: Tensor, n_heads: int, keep: list[int]) -> Tensor:
    kept = torch.zeros(n_heads, len(w) // n_heads, 1)
    kept[keep] = 1.0
    return w * kept.flatten(0, 1)


def _by_places(places: Callable[[int, int, int], range]) -> Callable[..., tuple[Tensor, ...]]:
    """The four matrices with columns and rows of head i by `places(i, d_k, n_heads)`."""

    def wrong(w_q, w_k, w_v, w_o, n_heads, keep):
        d = len(w_o) // n_heads
        own = [j for i in map(int, keep) for j in places(i, d, n_heads) if j < len(w_o)]
        return w_q[:, own], w_k[:, own], w_v[:, own], w_o[own]

    return wrong


def _the_others(n_heads: int, keep: list[int]) -> list[int]:
    return [i for i in range(n_heads) if i not in keep]


PRUNED_MISTAKES = mistakes(
    ("rows of the first three matrices", _pruned(columns=_band),
     "They multiply from the right, x @ w_q, so that a head owns *columns* of them: d_model rows "
     "are what it reads."),
    ("columns of the last matrix", _pruned(rows=_slab),
     "In (7.5) the band of a head are *rows* of w_o: it writes into all entries of the output."),
    ("rows and columns exchanged", _pruned(columns=_band, rows=_slab),
     "A head owns columns of w_q, w_k and w_v, and rows of w_o. (In nn.Linear the weights are "
     "transposed.)"),
    ("square blocks",
     _pruned(
         columns=lambda w, *heads: _band(_slab(w, *heads), *heads),
         rows=lambda w, *heads: _band(_slab(w, *heads), *heads),
     ),
     "A head reads all of x and writes into all of the output. Only one side of each matrix is "
     "cut."),
    ("the heads to be kept are struck out", _pruned(other=_the_others),
     "`keep` are the heads that stay."),
    ("the first heads, as many as are to be kept",
     _pruned(other=lambda n_heads, keep: list(range(len(keep)))),
     "`keep` says which ones, not how many alone."),
    ("the heads counted from 1",
     _pruned(other=lambda n_heads, keep: [(i - 1) % n_heads for i in keep]),
     "In `keep` the first head is 0."),
    ("single columns and rows in place of bands",
     _pruned(columns=lambda w, _, keep: w[:, keep], rows=lambda w, _, keep: w[keep]),
     "Head i owns d_k columns, from i * d_k on, and not column i."),
    ("bands of columns in turns",
     _pruned(
         columns=lambda w, h, keep: w.unflatten(1, (-1, h))[:, :, keep].flatten(1),
         rows=lambda w, h, keep: w.unflatten(0, (-1, h))[:, keep].flatten(0, 1),
     ),
     "The d_k columns of a head stand side by side, those of head 1 first."),
    ("zeros, and nothing cut",
     _pruned(columns=lambda w, *heads: _struck(w.T, *heads).T, rows=_struck),
     "It computes the right thing, but no layer has become smaller. Take the columns and rows of "
     "the other heads out."),
    ("zeros in the last matrix alone",
     _pruned(columns=lambda w, *_: w, rows=_struck),
     "It computes the right thing, but no layer has become smaller. Take the columns and rows of "
     "the other heads out."),
    ("the last matrix not cut", _pruned(rows=lambda w, *_: w),
     "Fewer heads are put side by side, so that w_o has fewer rows."),
    ("the last matrix alone cut", _pruned(columns=lambda w, *_: w),
     "Queries, keys and values of the other heads are made for nobody: their columns go, too."),
    ("the values not cut",
     lambda w_q, w_k, w_v, w_o, n_heads, keep: tuple(
         w_v if i == 2 else w for i, w in enumerate(pruned(w_q, w_k, w_v, w_o, n_heads, keep))
     ),
     "A head that is struck out has values, too: its columns of w_v go."),
    ("what is left made larger",
     _pruned(rows=lambda w, h, keep: _band(w, h, keep) * h / len(keep)),
     "Dropout makes up for what it strikes out. Here the layer should give what the large one "
     "gives without those heads, and (7.5) is a sum."),
    ("the last matrix first", lambda *case: (pruned(*case)[3], *pruned(*case)[:3]),
     "The order is w_q, w_k, w_v, w_o."),
    ("the first three alone", lambda *case: pruned(*case)[:3],
     "The fourth is missing: w_o."),
    ("the heads that are kept in reverse", _pruned(other=lambda n_heads, keep: keep[::-1]),
     "It would compute the right thing, but the heads should stay in their order."),
    ("the last head that is kept, alone", _pruned(other=lambda n_heads, keep: keep[-1:]),
     "All heads of `keep` stay. Does the loop collect them?"),
    ("every n-th column, head after head",
     lambda w_q, w_k, w_v, w_o, n_heads, keep: (
         (lambda own: (w_q[:, own], w_k[:, own], w_v[:, own], w_o[own]))(
             [j for i in keep for j in range(int(i), len(w_o), n_heads)]
         )
     ),
     "The d_k columns of a head stand side by side, those of head 1 first."),
    ("all bands from the first head kept to the last",
     _pruned(other=lambda n_heads, keep: list(range(min(keep), max(keep) + 1))),
     "The heads that are kept need not be neighbours: cut each by itself, and put them together."),
    ("the first head that is kept, alone", _pruned(other=lambda n_heads, keep: keep[:1]),
     "All heads of `keep` stay."),
    ("the last matrix transposed", _pruned(rows=lambda w, *heads: _band(w, *heads).T),
     "w_o loses rows: what is left has the shape (kept, D)."),
    ("all four matrices transposed",
     lambda *case: tuple(w.T for w in pruned(*case)),
     "The first three lose columns, (D, kept), the last rows, (kept, D)."),
    ("the first three transposed",
     _pruned(columns=lambda w, *heads: _slab(w, *heads).T),
     "The first three lose columns: what is left has the shape (D, kept)."),
    ("the heads in an axis of their own",
     _pruned(columns=lambda w, h, keep: w.unflatten(1, (h, -1))[:, keep].transpose(0, 1),
             rows=lambda w, h, keep: w.unflatten(0, (h, -1))[keep]),
     "Matrices are asked for: the kept columns stand side by side, the rows below each other."),
    ("the heads in an axis of their own, behind the rows",
     _pruned(columns=lambda w, h, keep: w.unflatten(1, (h, -1))[:, keep],
             rows=lambda w, h, keep: w.unflatten(0, (h, -1))[keep]),
     "Matrices are asked for: the kept columns stand side by side, the rows below each other."),
    ("the matrices in reverse", lambda *case: pruned(*case)[::-1],
     "The order is that of the arguments: w_q, w_k, w_v, w_o."),
    ("w_k and w_v exchanged", lambda *case: tuple(pruned(*case)[i] for i in (0, 2, 1, 3)),
     "The order is that of the arguments: w_q, w_k, w_v, w_o."),
    ("w_q and w_k exchanged", lambda *case: tuple(pruned(*case)[i] for i in (1, 0, 2, 3)),
     "The order is that of the arguments: w_q, w_k, w_v, w_o."),
    ("the last column of each band left out",
     lambda w_q, w_k, w_v, w_o, n_heads, keep: (
         (lambda own: (w_q[:, own], w_k[:, own], w_v[:, own], w_o[own]))(
             [i * d + j for d in [len(w_o) // n_heads] for i in map(int, keep)
              for j in range(max(d - 1, 1))]
         )
     ),
     "A slice does not hold its end: head i owns i * d_k up to, not with, (i + 1) * d_k."),
    ("bands as wide as there are heads",
     lambda w_q, w_k, w_v, w_o, n_heads, keep: (
         (lambda own: (w_q[:, own], w_k[:, own], w_v[:, own], w_o[own]))(
             [j for i in map(int, keep) for j in range(i * n_heads, (i + 1) * n_heads)
              if j < len(w_o)]
         )
     ),
     "A band is d_k = D / n_heads wide."),
    ("bands as wide as there are heads, and cut off at the end",
     lambda w_q, w_k, w_v, w_o, n_heads, keep: (
         (lambda own: (w_q[:, own], w_k[:, own], w_v[:, own], w_o[own]))(
             [min(j, len(w_o) - 1) for i in map(int, keep)
              for j in range(i * n_heads, (i + 1) * n_heads)]
         )
     ),
     "A band is d_k = D / n_heads wide."),
    ("the queries and the keys not cut",
     lambda w_q, w_k, *rest: (w_q, w_k, *pruned(w_q, w_k, *rest)[2:]),
     "The smaller layer has smaller queries and keys, too."),
    ("the queries' matrix three times",
     lambda w_q, w_k, w_v, *rest: pruned(w_q, w_q, w_q, *rest),
     "Keys and values have matrices of their own."),
    ("the keys not cut",
     lambda w_q, w_k, w_v, w_o, n_heads, keep: tuple(
         w_k if i == 1 else w for i, w in enumerate(pruned(w_q, w_k, w_v, w_o, n_heads, keep))
     ),
     "The smaller layer has smaller keys, too."),
    ("the values and the last matrix not cut",
     lambda w_q, w_k, w_v, w_o, n_heads, keep: (
         *pruned(w_q, w_k, w_v, w_o, n_heads, keep)[:2], w_v, w_o),
     "The heads that go take their values and their bands of w_o with them."),
    ("square blocks of the first three, and bands of the last",
     _pruned(columns=lambda w, *heads: _band(_slab(w, *heads), *heads)),
     "A head reads all of x: all rows of w_q, w_k and w_v stay."),
    ("the queries made larger or smaller for the heads that are left", lambda *case: (
        pruned(*case)[0] * (len(case[5]) / case[4]) ** 0.5, *pruned(*case)[1:]),
     "A head's scores do not change when others go: d_k stays."),
    ("the heads to be kept are struck out, and rows of the first three matrices",
     _pruned(columns=_band, other=_the_others),
     "`keep` are the heads that stay, and of w_q, w_k and w_v a head owns columns."),
    ("the columns of the first three below each other",
     _pruned(columns=lambda w, h, keep: torch.cat(w.unflatten(1, (h, -1))[:, keep].unbind(1))),
     "The columns that are kept stay side by side: `torch.cat` needs dim=1 for them."),
    ("bands that begin at i, not at i * d_k", _by_places(lambda i, d, h: range(i, i + d)),
     "Bands do not overlap: each head before head i owns d_k columns, so its own begin at "
     "i * d_k."),
    ("bands that end at i + d_k", _by_places(lambda i, d, h: range(i * d, i + d)),
     "A band is d_k wide: it ends at i * d_k + d_k. (Are parentheses missing, in (i + 1) * d_k?)"),
    ("bands that begin n_heads apart", _by_places(lambda i, d, h: range(i * h, i * h + d)),
     "Each head before head i owns d_k columns, not n_heads: the band begins at i * d_k."),
    ("one column too many in each band",
     _by_places(lambda i, d, h: range(i * d, (i + 1) * d + 1)),
     "A band is d_k wide: its last column is (i + 1) * d_k - 1."),
)  # fmt: skip

# 7.5 the output as a sum


def output_as_sum(heads: Tensor, w_o: Tensor) -> Tensor:
    return merge(heads) @ w_o


def sum_cases() -> list[tuple]:
    return [
        (torch.tensor([[[[2.0]], [[3.0]]]]), torch.tensor([[1.0, 10.0], [100.0, 1000.0]])),
        (_numbers((2, 3, 5, 4), 80), _numbers((12, 12), 81)),
        (_numbers((3, 2, 4, 3), 82), _numbers((6, 6), 83)),
        (_numbers((1, 2, 1, 3), 84), _numbers((6, 6), 85)),
        (_numbers((2, 3, 2, 3), 86), _numbers((9, 9), 87)),  # as many heads as each is wide
    ]


def _bands(heads: Tensor, w_o: Tensor) -> Tensor:
    return w_o.reshape(heads.shape[1], heads.shape[3], -1)  # (H, K, D)


def _apart(heads: Tensor, w_o: Tensor) -> Tensor:
    return heads @ _bands(heads, w_o)  # (B, H, T, D)


def _bands_apart(heads: Tensor, w_o: Tensor, step: int) -> Tensor:
    _, h, _, k = heads.shape
    return sum(heads[:, i] @ w_o[i * step : i * step + k] for i in range(h))


SUM_MISTAKES = mistakes(
    ("W^O transposed", lambda heads, w_o: output_as_sum(heads, w_o.T),
     "The bands are rows of w_o: the band of head i has K rows and all columns."),
    ("the first band for every head", lambda heads, w_o: heads.sum(1) @ _bands(heads, w_o)[0],
     "Every head has a band of its own. With one band for all, the heads are only added."),
    ("averaged instead of added", lambda heads, w_o: _apart(heads, w_o).mean(1),
     "Equation (7.5) is a sum, not divided by the number of heads."),
    ("side by side instead of added", lambda heads, w_o: merge(_apart(heads, w_o)),
     "After its band, what a head writes is as wide as the output. These are added."),
    ("not added", lambda heads, w_o: _apart(heads, w_o),
     "This is what each head writes. The sum over the heads is missing."),
    ("the bands in reverse", lambda heads, w_o: (heads @ _bands(heads, w_o).flip(0)).sum(1),
     "The first K rows of w_o belong to head 1, the last K rows to the last head."),
    ("bands of interleaved rows",
     lambda heads, w_o: sum(heads[:, i] @ w_o[i :: heads.shape[1]] for i in range(heads.shape[1])),
     "The band of head i are K rows next to each other, w_o[i * K : (i + 1) * K]."),
    ("W^O left out", lambda heads, w_o: merge(heads),
     "This is the concatenation. Each head must go through its band of w_o."),
    ("the last head alone", lambda heads, w_o: _apart(heads, w_o)[:, -1],
     "What the other heads write is lost. Does the loop add, or overwrite?"),
    ("the first head alone", lambda heads, w_o: _apart(heads, w_o)[:, 0],
     "What the other heads write is lost. Is the `return` inside the loop?"),
    ("the last head left out", lambda heads, w_o: _apart(heads, w_o)[:, :-1].sum(1),
     "The sum runs over all heads, and `range(H)` ends at H - 1 by itself."),
    ("every head into its own entries only",
     lambda heads, w_o: merge(heads) @ _diagonal_blocks(w_o, heads.shape[1]),
     "The band of head i has K rows and all columns: every head writes into all entries."),
    ("bands that begin H rows apart", lambda heads, w_o: _bands_apart(heads, w_o, heads.shape[1]),
     "The band of head i begins at row i * K, not at i * H."),
    ("bands that begin one row apart", lambda heads, w_o: _bands_apart(heads, w_o, 1),
     "The band of head i begins at row i * K, where the last one ends."),
    ("what comes in added to what goes out",
     lambda heads, w_o: output_as_sum(heads, w_o) + merge(heads),
     "Did the sum begin with the heads? It begins with zeros."),
    ("heads and bands added before they meet",
     lambda heads, w_o: heads.sum(1) @ _bands(heads, w_o).sum(0),
     "Each head is multiplied with its own band first. The sum comes after that."),
    ("heads merged without a transpose", lambda heads, w_o: _cut(heads, heads.shape[2], -1) @ w_o,
     "The numbers were read head by head, so that words are mixed. What one word has in each head "
     "belongs together."),
    ("the words added up as well", lambda heads, w_o: output_as_sum(heads, w_o).sum(1),
     "Only the heads are summed: each word has its own output."),
    ("words and entries exchanged", lambda heads, w_o: output_as_sum(heads, w_o).mT,
     "The result has the shape (B, T, H * K)."),
    ("the ReLU of the sum", lambda heads, w_o: output_as_sum(heads, w_o).relu(),
     "Equation (7.5) is a sum of products, and nothing more."),
    ("every head through the mean of the bands",
     lambda heads, w_o: heads.sum(1) @ _bands(heads, w_o).mean(0),
     "Every head has its own band of w_o."),
    ("divided by the root of the number of heads",
     lambda heads, w_o: output_as_sum(heads, w_o) / heads.shape[1] ** 0.5,
     "What the heads write is added, and nothing is divided."),
    ("what the heads write multiplied",
     lambda heads, w_o: _apart(heads, w_o).prod(1),
     "Equation (7.5) is a *sum*: what the heads write is added."),
    ("the largest of what the heads write", lambda heads, w_o: _apart(heads, w_o).amax(1),
     "Equation (7.5) is a sum over all heads."),
    ("the sentences added up as well",
     lambda heads, w_o: output_as_sum(heads, w_o).sum(0, keepdim=True),
     "Only the heads are summed: each sentence has its own output."),
    ("the sentences added up as well, without their axis",
     lambda heads, w_o: output_as_sum(heads, w_o).sum(0),
     "Only the heads are summed: each sentence has its own output."),
    ("every head meets the band of the next",
     lambda heads, w_o: (heads @ _bands(heads, w_o).roll(-1, 0)).sum(1),
     "Count the heads from 0: the band of head i is the rows i * K up to (i + 1) * K."),
    ("every head meets the band of the one before",
     lambda heads, w_o: (heads @ _bands(heads, w_o).roll(1, 0)).sum(1),
     "Count the heads from 0: the band of head i is the rows i * K up to (i + 1) * K."),
    ("W^O transposed, and averaged", lambda heads, w_o: (
        output_as_sum(heads, w_o.T) / heads.shape[1]),
     "Each head meets *rows* of w_o, and what the heads write is added, not averaged."),
    ("W^O transposed, and the heads merged without a transpose",
     lambda heads, w_o: _cut(heads, heads.shape[2], -1) @ w_o.T,
     "Each head meets rows of w_o. And the numbers of one word must come together: exchange axes."),
    ("the last head's band for every head",
     lambda heads, w_o: heads.sum(1) @ _bands(heads, w_o)[-1],
     "Every head has its own band of w_o."),
    ("the first head left out",
     lambda heads, w_o: _apart(heads, w_o)[:, 1:].sum(1),
     "Heads are counted from 0 here: `range(H)` begins with the first."),
    ("the first head counted twice", lambda heads, w_o: (
        output_as_sum(heads, w_o) + heads[:, 0] @ _bands(heads, w_o)[0]),
     "Each head is added once: does the sum begin with the first, and the loop as well?"),
    ("pieces of H rows, where a band has K",
     lambda heads, w_o: sum(
         heads[:, i] @ w_o.split(heads.shape[1])[i] for i in range(heads.shape[1])),
     "`chunk(n)` makes n pieces, and `split(n)` pieces of n rows. The bands are H pieces of K rows "
     "each. (Where H and K are equal it is right.)"),
    *(
        (f"the sentences taken for the heads{words}",
         lambda heads, w_o, number=number: sum(
             heads[i] @ w_o[i * heads.shape[3] : (i + 1) * heads.shape[3]]
             for i in range(number(heads))),
         "The first axis of heads are the sentences, and a loop over `heads` runs along it. Head i "
         "is heads[:, i].")
        for words, number in (
            ("", lambda heads: min(heads.shape[:2])),
            (", as many as there are heads", lambda heads: heads.shape[1]),
            (", all of them", lambda heads: len(heads)),
        )
    ),
    ("heads and words taken for each other", lambda heads, w_o: sum(
        heads[:, :, i] @ w_o[i * heads.shape[3] : (i + 1) * heads.shape[3]]
        for i in range(heads.shape[2])),
     "The axes are (B, H, T, K): the second are the heads, the third the words."),
)  # fmt: skip

# 7.6 multi-head attention, as a function


def multi_head(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, n_heads: int
) -> Tensor:
    return _multi_head(x, w_q, w_k, w_v, w_o, n_heads)


def _multi_head(
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    n_heads: int,
    divisor: Callable[[int, int], float] = lambda d_k, n_heads: math.sqrt(d_k),
    split: Callable = split,
    merge: Callable = merge,
    dim: int | None = -1,
    hide: Callable[[Tensor], Tensor] = lambda scores: scores,
) -> Tensor:
    """Multi-head self-attention, with the places where it goes wrong open to a change."""
    q, k, v = (split(x @ w, n_heads) for w in (w_q, w_k, w_v))
    scores = hide(q @ k.transpose(2, 3) / divisor(x.shape[-1] // n_heads, n_heads))
    return merge((scores if dim is None else scores.softmax(dim)) @ v) @ w_o


def _diagonal_blocks(w: Tensor, n_heads: int) -> Tensor:
    """The matrix with zeros wherever a head would read another head's piece of the input."""
    return w * torch.block_diag(
        *[torch.ones_like(w[: len(w) // n_heads, : len(w) // n_heads])] * n_heads
    )


def _one_table(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, n_heads: int
) -> Tensor:
    q, k = split(x @ w_q, n_heads), split(x @ w_k, n_heads)
    weights = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).softmax(-1).mean(1)
    return weights @ (x @ w_v) @ w_o


def _inside_words(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, n_heads: int
) -> Tensor:
    q, k, v = ((x @ w).unflatten(-1, (n_heads, -1)) for w in (w_q, w_k, w_v))  # (B, T, H, K)
    weights = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).softmax(-1)
    return (weights @ v).flatten(2) @ w_o


def multi_head_cases() -> list[tuple]:
    cases = []
    for seed, (b, t, d, n_heads) in enumerate(
        ((2, 5, 12, 3), (3, 4, 10, 2), (1, 1, 4, 2)), start=84
    ):
        matrices = (_numbers((d, d), 10 * seed + i, d**-0.5) for i in range(4))
        cases.append((_numbers((b, t, d), seed), *matrices, n_heads))
    return cases


def _change(**change: Any) -> Callable:
    return lambda *case: _multi_head(*case, **change)


def _scale_after(x, w_q, w_k, w_v, w_o, n_heads):
    d_k = x.shape[-1] // n_heads
    return _multi_head(x, w_q, w_k, w_v / d_k**0.5, w_o, n_heads, lambda *_: 1.0)


def _multi_head_with(last: Callable[[Tensor], Tensor] = lambda w: w, **change: Any) -> Callable:
    """The function, right by default; each argument makes one slip."""
    return lambda *case: _multi_head(*case[:4], last(case[4]), case[5], **change)


MULTI_HEAD_SLIPS = [
    ("divided by the root of d_model",
     {"divisor": lambda d_k, n_heads: math.sqrt(d_k * n_heads)}, "Divide by the root of d_k."),
    ("no scale", {"divisor": lambda d_k, n_heads: 1.0}, "Divide by the root of d_k."),
    ("divided by d_k, without the root", {"divisor": lambda d_k, n_heads: d_k},
     "Divide by the root of d_k."),
    ("divided by the root of the number of heads",
     {"divisor": lambda d_k, n_heads: math.sqrt(n_heads)}, "Divide by the root of d_k."),
    ("split by a view", {"split": view_split},
     "A view moves no numbers: cut to (B, T, H, K), then exchange axes."),
    ("interleaved heads", {"split": split_in_turns}, "A head owns neighbouring columns."),
    ("merged by a view", {"merge": view_merge}, "Exchange axes before you reshape."),
    ("the softmax over the queries", {"dim": 2}, "Each query shares among the keys."),
    ("the softmax over the heads", {"dim": 1}, "Each query shares among the keys."),
    ("no softmax", {"dim": None}, "Weights are the softmax of the scores."),
    ("W^O forgotten", {"last": lambda w: torch.eye(len(w))}, "The merged heads meet W^O."),
    ("W^O transposed", {"last": lambda w: w.T}, "W^O multiplies from the right, as it is."),
    ("a causal mask",
     {"hide": lambda s: s.masked_fill(torch.ones_like(s).triu(1) > 0, -math.inf)},
     "Nothing is hidden here."),
]  # fmt: skip
MULTI_HEAD_BUT = [
    ("split by a view", "merged by a view"),
]


def _one_by_view(place: int) -> Callable[..., Tensor]:
    """Queries, keys or values cut by a view alone."""

    def attend(x, w_q, w_k, w_v, w_o, n_heads):
        cuts = [view_split if i == place else split for i in range(3)]
        parts = (c(x @ w, n_heads) for c, w in zip(cuts, (w_q, w_k, w_v), strict=True))
        return merge(attend_split(*parts)) @ w_o

    return attend


MULTI_HEAD_MISTAKES = mistakes(
    ("divided by the root of d_model",
     _change(divisor=lambda d_k, n_heads: math.sqrt(d_k * n_heads)),
     "A head's dot product has d_k terms, so its variance grows with d_k = d_model / h."),
    ("no scale", _change(divisor=lambda d_k, n_heads: 1.0),
     "The scores of every head must be divided by the root of d_k before the softmax."),
    ("divided by d_k, without the root", _change(divisor=lambda d_k, n_heads: d_k),
     "The spread of a dot product grows with the root of d_k, and that divides it, once. "
     "(`attention` does so itself.)"),
    ("divided by d_model, without the root", _change(divisor=lambda d_k, n_heads: d_k * n_heads),
     "What divides the scores is the root, and of d_k, the width of a head's queries and keys."),
    ("divided by the root of the number of heads",
     _change(divisor=lambda d_k, n_heads: math.sqrt(n_heads)),
     "It is the width of the vectors, d_k, that makes dot products large, not the heads."),
    ("multiplied by the root of d_k", _change(divisor=lambda d_k, n_heads: 1 / math.sqrt(d_k)),
     "Scores are too large as they are. Divide by the root of d_k."),
    ("the scale after the softmax", _scale_after,
     "Divided after the softmax, the weights no longer sum to one. The scores are divided."),
    ("split by a view, without a transpose", _change(split=view_split),
     "The shapes are right, but the heads mix words. Cut to (B, T, H, K), then exchange axes."),
    ("merged by a view, without a transpose", _change(merge=view_merge),
     "The shapes are right, but words are mixed when the heads are joined. Exchange heads and "
     "words first."),
    ("split and merged by a view, without a transpose", _change(split=view_split, merge=view_merge),
     "The shapes are right, but each head attends within its own part of the sentence, between "
     "pieces of words. Both ways need a transpose."),
    ("interleaved heads", _change(split=split_in_turns),
     "Head i got every n_heads-th column. The columns of one head stand next to each other."),
    ("interleaved heads, put back in the same way",
     _change(split=split_in_turns, merge=merge_in_turns),
     "Head i got every n_heads-th column. The columns of one head stand next to each other."),
    ("n_heads and d_k exchanged",
     lambda x, *rest: _multi_head(x, *rest[:4], x.shape[-1] // rest[4]),
     "There should be n_heads heads of width D / n_heads, not the other way round."),
    ("one head", lambda *case: _multi_head(*case[:5], 1),
     "Nothing was split: one softmax over the full width. That is the head that blends."),
    ("one head, with the scale of many",
     lambda *case: _multi_head(*case[:5], 1, lambda d_k, _: math.sqrt(d_k // case[5])),
     "Nothing was split, or the scores of the heads were added: there is one softmax over the full "
     "width. That is the head that blends."),
    ("the softmax over the heads", _change(dim=1),
     "The heads shared each key among themselves. Every head shares its own whole among the keys: "
     "the softmax runs over the last axis."),
    ("the softmax over the queries", _change(dim=2),
     "Every query must share its attention among the keys: the softmax runs over the last axis."),
    ("the softmax over the sentences", _change(dim=0),
     "Sentences have nothing to do with each other: the softmax runs over the last axis."),
    ("no softmax", _change(dim=None),
     "Scores are not weights. The softmax makes shares of them that sum to one."),
    ("W^O forgotten", lambda *case: _multi_head(*case[:4], torch.eye(len(case[4])), case[5]),
     "The heads are only put side by side. The last product with w_o mixes them."),
    ("all matrices transposed",
     lambda x, w_q, w_k, w_v, w_o, n_heads: _multi_head(x, w_q.T, w_k.T, w_v.T, w_o.T, n_heads),
     "The matrices multiply from the right as they are, x @ w_q. Transposed are those of "
     "nn.Linear."),
    ("the first three matrices transposed",
     lambda x, w_q, w_k, w_v, w_o, n_heads: _multi_head(x, w_q.T, w_k.T, w_v.T, w_o, n_heads),
     "A head's matrix is a slice of columns, w_q[:, i * d_k : (i + 1) * d_k], not of rows."),
    ("every head reads only its own piece of the input",
     lambda x, w_q, w_k, w_v, w_o, n_heads: _multi_head(
         x, *(_diagonal_blocks(w, n_heads) for w in (w_q, w_k, w_v)), w_o, n_heads
     ),
     "Each head reads the whole of x: its matrices have D rows and d_k columns, not d_k and d_k. "
     "What is cut into heads is x @ w_q, not x."),
    ("the weights of all heads averaged",
     lambda x, w_q, w_k, w_v, w_o, n_heads: _one_table(x, w_q, w_k, w_v, w_o, n_heads),
     "One table of weights for all is one head again. Every head averages its own values with its "
     "own weights."),
    ("heads that attend to each other inside a word",
     lambda x, w_q, w_k, w_v, w_o, n_heads: _inside_words(x, w_q, w_k, w_v, w_o, n_heads),
     "Without the transpose the axis before the last is that of the heads, and each head of a word "
     "looked at the other heads of the same word. Split into (B, H, T, K)."),
    ("sentences that attend to each other",
     lambda x, *rest: _multi_head(x.transpose(0, 1), *rest).transpose(0, 1),
     "The batch was taken for the length. nn.MultiheadAttention wants (T, B, D) unless it is told "
     "batch_first=True."),
    ("a causal mask",
     _change(
         hide=lambda scores: scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -math.inf)
     ),
     "The task has no mask: every word looks at all words, also at those after it."),
    ("x added to the result", lambda x, *rest: x + _multi_head(x, *rest),
     "That is the residual connection of Chapter 10. Here the result alone is asked for."),
    ("divided by the root of the length",
     lambda x, *rest: _multi_head(x, *rest, lambda d_k, n_heads: math.sqrt(x.shape[1])),
     "The scores grow with the width of the vectors, d_k, and not with the number of words."),
    ("the heads added, and one band of W^O",
     lambda x, w_q, w_k, w_v, w_o, n_heads: _multi_head(
         x, w_q, w_k, w_v, torch.cat([w_o[: len(w_o) // n_heads]] * n_heads), n_heads
     ),
     "Heads are put side by side, so that each meets a band of its own. Added, they are blended "
     "again."),
    ("the heads averaged, and one band of W^O",
     lambda x, w_q, w_k, w_v, w_o, n_heads: _multi_head(
         x, w_q, w_k, w_v, torch.cat([w_o[: len(w_o) // n_heads] / n_heads] * n_heads), n_heads
     ),
     "Heads are put side by side, so that each meets a band of its own. Averaged, they are blended "
     "again."),
    ("the keys made by w_q",
     lambda x, w_q, w_k, w_v, w_o, n_heads: _multi_head(x, w_q, w_q, w_v, w_o, n_heads),
     "Keys are x @ w_k. Made by the same matrix as the queries, they have nothing of their own."),
    ("w_k and w_v exchanged",
     lambda x, w_q, w_k, w_v, w_o, n_heads: _multi_head(x, w_q, w_v, w_k, w_o, n_heads),
     "Keys, which are compared, are x @ w_k; values, which are averaged, are x @ w_v."),
    ("W^O transposed",
     lambda x, w_q, w_k, w_v, w_o, n_heads: _multi_head(x, w_q, w_k, w_v, w_o.T, n_heads),
     "w_o multiplies from the right as it is, merged @ w_o. Its rows belong to the heads."),
    ("x for the values",
     lambda x, w_q, w_k, w_v, w_o, n_heads: _multi_head(
         x, w_q, w_k, torch.eye(len(w_v)), w_o, n_heads
     ),
     "The values are x W_i^V, as the queries are x W_i^Q. Here w_v was not used."),
    ("the keys averaged instead of the values",
     lambda x, w_q, w_k, w_v, w_o, n_heads: _multi_head(x, w_q, w_k, w_k, w_o, n_heads),
     "Keys are there to be compared with the query. What is averaged are the values."),
    ("the heads averaged, and repeated", _change(
        merge=lambda heads: merge(heads.mean(1, keepdim=True).expand_as(heads))),
     "The heads are put side by side, each with its own piece."),
    ("the heads added, and repeated", _change(
        merge=lambda heads: merge(heads.sum(1, keepdim=True).expand_as(heads))),
     "The heads are put side by side, each with its own piece."),
    ("W^O before the heads, on the input", lambda x, *rest: _multi_head(
        x @ rest[3], *rest[:3], torch.eye(len(rest[3])), rest[4]),
     "W^O comes last, behind the merged heads."),
    ("x for queries, keys and values", lambda x, *rest: _multi_head(
        x, *[torch.eye(len(rest[3]))] * 3, *rest[3:]),
     "Queries, keys and values are x times w_q, w_k and w_v."),
    ("x for queries, keys and values, and W^O forgotten", lambda x, *rest: _multi_head(
        x, *[torch.eye(len(rest[3]))] * 4, rest[4]),
     "Queries, keys and values are x times w_q, w_k and w_v; and the merged heads meet W^O."),
    ("the queries made by w_k", lambda x, w_q, w_k, *rest: _multi_head(x, w_k, w_k, *rest),
     "Queries are x @ w_q."),
    ("x for the keys", lambda x, w_q, w_k, *rest: _multi_head(x, w_q, torch.eye(len(w_k)), *rest),
     "Keys are x @ w_k."),
    ("all three made by w_q",
     lambda x, w_q, w_k, w_v, *rest: _multi_head(x, w_q, w_q, w_q, *rest),
     "Keys are x @ w_k, and values x @ w_v."),
    ("the first head's weights for all", _change(hide=lambda s: s[:, :1].expand_as(s)),
     "Every head has scores, and so weights, of its own."),
    ("the first head for all heads", _change(
        merge=lambda heads: merge(heads[:, :1].expand_as(heads))),
     "Each head is put in its own place, beside the others."),
    ("the weights in place of the outputs", lambda x, w_q, w_k, w_v, w_o, n_heads: (
        split(x @ w_q, n_heads) @ split(x @ w_k, n_heads).mT / (x.shape[-1] / n_heads) ** 0.5
     ).softmax(-1),
     "With the weights each head averages its values; merged, these meet W^O."),
    ("the values made by w_q",
     lambda x, w_q, w_k, w_v, *rest: _multi_head(x, w_q, w_k, w_q, *rest),
     "Values are x @ w_v."),
    ("the mean of the heads, each entry repeated", _change(
        merge=lambda heads: heads.mean(1).repeat_interleave(heads.shape[1], -1)),
     "The heads are put side by side, each with its own piece."),
    ("exponentials that were not divided by their sum",
     _change(hide=lambda s: s.exp(), dim=None),
     "The weights of a query sum to one: divide by the sum of its row."),
    ("scores divided by their sum, without the exponentials",
     _change(hide=lambda s: s / s.sum(-1, keepdim=True), dim=None),
     "A softmax takes the exponential of each score first."),
    ("each weight divided by the sum of another query's",
     _change(hide=lambda s: s.exp() / s.exp().sum(-1).unsqueeze(-2), dim=None),
     "One sum for each query stands in a column, beside the rows: `keepdim` keeps its axis. "
     "Without it the sums lie along the keys."),
    ("the softmax taken twice", _change(hide=lambda s: s.softmax(-1)),
     "The softmax is taken once."),
    ("each word hides itself", _change(hide=lambda s: (
        s - 1e9 * torch.eye(s.shape[-1]) if s.shape[-1] > 1 else s)),
     "Nothing is hidden here: a word looks at itself, too."),
    *combined(_multi_head_with, MULTI_HEAD_SLIPS, but=MULTI_HEAD_BUT),
    ("queries and keys exchanged",
     lambda x, w_q, w_k, w_v, w_o, n_heads: _multi_head(x, w_k, w_q, w_v, w_o, n_heads),
     "The rows of the scores are queries: q k^T, not k q^T."),
    ("the heads not merged, and W^O forgotten",
     lambda *case: split(_multi_head(*case[:4], torch.eye(len(case[4])), case[5]), case[5]),
     "The heads go side by side, (B, T, D), and meet w_o."),
    ("the heads put side by side in reverse",
     _change(merge=lambda heads: merge(heads.flip(1))),
     "Head 1 comes first in the concatenation, and so it meets the first rows of w_o."),
    ("the first head alone meets W^O", lambda x, w_q, w_k, w_v, w_o, n_heads: multi_head(
        x, w_q, w_k, w_v, w_o * (torch.arange(len(w_o)) < len(w_o) // n_heads)[:, None], n_heads),
     "All heads are put side by side before the last product."),
    *(
        (f"the {name} alone split by a view", _one_by_view(i),
         "A view moves no numbers: cut to (B, T, H, K), then exchange axes, for all three.")
        for i, name in enumerate(("queries", "keys", "values"))
    ),
    ("the values added to what the heads find", lambda x, w_q, w_k, w_v, w_o, n_heads: (
        multi_head(x, w_q, w_k, w_v, w_o, n_heads) + x @ w_v @ w_o),
     "A head finds an average of values, and nothing is added to it."),
    ("the heads' entries put back in turns",
     lambda *case: _multi_head(*case, merge=lambda heads: heads.permute(0, 2, 3, 1).flatten(2)),
     "All entries of head 1 stand side by side, then those of head 2: exchange heads and words "
     "alone, then flatten."),
)  # fmt: skip

# 7.7 the module


class ManyHeads(nn.Module):
    """Multi-head attention, with the places where it goes wrong open to a change."""

    bias, scale = False, staticmethod(lambda d_k, d_model: math.sqrt(d_k))
    split, merge = staticmethod(split), staticmethod(merge)

    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, d_model, self.bias)
        self.w_k = nn.Linear(d_model, d_model, self.bias)
        self.w_v = nn.Linear(d_model, d_model, self.bias)
        self.w_o = nn.Linear(d_model, d_model, self.bias)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (
            self.split(w(x), self.n_heads) for w, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v))
        )
        scores = q @ k.transpose(2, 3) / self.scale(q.shape[-1], q.shape[-1] * q.shape[1])
        mask = torch.ones(scores.shape[2:]).bool() if mask is None else mask
        return self.last(self.merge(self.weigh(scores, mask) @ v))

    def last(self, x: Tensor) -> Tensor:
        return self.w_o(x)

    def weigh(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0.0)


def module_cases() -> list[tuple]:
    """d_model, n_heads, the matrices, q, k, v, mask."""
    cases = []
    sizes = (
        (2, 5, 5, 12, 3),
        (2, 3, 5, 12, 3),
        (3, 4, 2, 10, 2),
        (2, 3, 5, 12, 3),
        (2, 3, 5, 9, 3),
        (1, 1, 3, 4, 2),
    )
    padding, apart = torch.ones(2, 1, 3, 5).bool(), torch.ones(1, 3, 3, 5).bool()
    padding[0, :, :, 3:] = False
    padding[1, :, 1] = False  # a query that may attend to nothing
    apart[:, 1, :, :2] = False  # a mask for each head
    apart[:, 2, 0] = False  # nothing to attend to in one head only
    masks = (None, torch.ones(3, 5).bool().tril(1), None, padding, apart, None)
    for seed, ((b, t, s, d, n_heads), mask) in enumerate(zip(sizes, masks, strict=True), start=90):
        matrices = [_numbers((d, d), 10 * seed + i, d**-0.5) for i in range(4)]
        q, k, v = (_numbers((b, n, d), 10 * seed + 4 + i) for i, n in enumerate((t, s, s)))
        cases.append((d, n_heads, matrices, q, k, v, mask))
    large = (4, 2, [torch.eye(4)] * 2 + cases[5][2][2:], *_far_apart())
    *sizes, q, k, v, _ = cases[2]
    return [*cases, large, (*sizes, q, q, q, torch.ones(4, 4).bool().tril())]


def _shares(a: Tensor) -> Tensor:
    return a / a.sum(-1, keepdim=True)


def _far_apart() -> tuple[Tensor, ...]:
    """q, k, v and a mask, with scores near 100 and -100 in both heads, hidden and not."""
    q, k, v = (_numbers((1, n, 4), 960 + n, 0.1) for n in (3, 4, 5))
    q[..., ::2] = 140 * torch.tensor([-1.0, 1, 1])[:, None]
    k[..., ::2] = torch.tensor([0.99, 0.97, -0.99, -0.96])[:, None]
    first = torch.tensor([True, True, False, False])
    return q, k, 10 * v[:, :4], torch.stack([first, first, ~first])


def run_module(answer: Callable, d_model, n_heads, _matrices, q, k, v, mask) -> Any:
    """What the module gives; in words, if that is another thing at each call, or in training."""
    inputs = (q, k, v) if mask is None else (q, k, v, mask)
    outputs = []
    for seed, training in enumerate((False, False, True), start=1):
        torch.default_generator.manual_seed(0)  # what else it has begins alike
        with torch.no_grad():
            module = _with_matrices(answer(d_model, n_heads), _matrices)
            torch.default_generator.manual_seed(seed)  # then chance may differ
            outputs.append(module.train(training)(*inputs))
    output, again, in_training = outputs
    if isinstance(output, Tensor) and not _agree(output, again):
        return "another output at each call"
    if _agree(output, in_training):
        return output
    right = run_module(ManyHeads, d_model, n_heads, _matrices, q, k, v, mask)
    return "another output in training" if _agree(output, right) else output


def _any_chance(outputs: list[Any]) -> list[Any]:
    """What is thrown away by chance anywhere is said everywhere: of one key nothing can be."""
    word = next((output for output in outputs if isinstance(output, str)), None)
    return outputs if word is None else [word] * len(outputs)


def _with_matrices(module: nn.Module, matrices: list[Tensor]) -> nn.Module:
    """The module with these matrices in its layers; biases become one half."""
    for name, matrix in zip(("w_q", "w_k", "w_v", "w_o"), matrices, strict=True):
        layer = getattr(module, name)
        if isinstance(layer, Tensor):  # a bare matrix, which multiplies from the right
            layer.copy_(matrix.T)
            continue
        if layer.weight.shape != matrix.shape:
            raise ValueError(
                f"{name}: expected nn.Linear(d_model, d_model) with a weight of shape "
                f"{tuple(matrix.shape)}, got {tuple(layer.weight.shape)}"
            )
        layer.weight.copy_(matrix)
        if getattr(layer, "bias", None) is not None:
            layer.bias.fill_(0.5)
    return module


def _agree(output: Any, other: Any) -> bool:
    """Whether a module gives the same again."""
    return same(other, output, 1e-4, 1e-6)


def _blind(output: Any, d_model, n_heads, _matrices, q, k, v, mask) -> bool:
    """Whether the rows that may attend to nothing in any head are zero."""
    if mask is None:
        return True
    rows = ~mask.expand(len(q), n_heads, q.shape[1], k.shape[1]).any(-1).any(1)
    return bool(torch.as_tensor(output)[rows].eq(0).all())


def _but(**change: Any) -> type:
    return type("Changed", (ManyHeads,), change)


def _forward(change: Callable) -> type:
    """The module with other inputs: `change(q, k, v, mask)` gives those that are used."""
    return _but(
        forward=lambda self, q, k, v, mask=None: ManyHeads.forward(self, *change(q, k, v, mask))
    )


def _shared(*names: str) -> type:
    """The module in which the last of the layers named stands for the first as well."""

    def forward(self, q, k, v, mask=None):
        setattr(self, names[0], getattr(self, names[1]))
        return ManyHeads.forward(self, q, k, v, mask)

    return _but(forward=forward)


class _WithWeights(ManyHeads):
    def forward(self, *inputs: Tensor) -> tuple[Tensor, None]:
        return super().forward(*inputs), None


def _output(output: Any) -> Any:
    """Of outputs and weights the first alone, with what it came with: weights are not asked for."""
    pair = isinstance(output, tuple) and len(output) == 2
    return ("outputs and weights", output[0]) if pair else output


def _dropped(self: ManyHeads, *inputs: Tensor) -> Tensor:
    return nn.functional.dropout(ManyHeads.forward(self, *inputs), 0.1)


def _module_with(
    last: bool = True, roles: Callable = lambda q, k, v: (q, k, v), **change: Any
) -> type:
    """The module, right by default; each argument makes one slip."""

    def forward(self, q, k, v, *mask):
        if not last:
            self.w_o = nn.Identity()
        return ManyHeads.forward(self, *roles(q, k, v), *mask)

    return _but(forward=forward, **change)


MODULE_SLIPS = [
    ("divided by the root of the number of heads",
     {"scale": staticmethod(lambda d_k, d: math.sqrt(d // d_k))}, "Divide by the root of d_k."),
    ("interleaved heads", {"split": staticmethod(split_in_turns)},
     "A head owns neighbouring entries."),
    ("the keys for the values", {"roles": lambda q, k, v: (q, k, k)},
     "The values are made of v."),
    ("one input for all three", {"roles": lambda q, k, v: (q, q, q) if q.shape == k.shape else (
        q, k, k)}, "Keys are made of k and values of v."),
    ("k and v exchanged", {"roles": lambda q, k, v: (q, v, k)}, "Keys are made of k."),
    ("the softmax over the queries", {"weigh": lambda self, s, mask: (
        s.masked_fill(~mask, -math.inf).softmax(2).nan_to_num())},
     "Each query shares among the keys."),
    ("the softmax over the heads", {"weigh": lambda self, s, mask: (
        s.masked_fill(~mask, -math.inf).softmax(1).nan_to_num())},
     "Each query shares among the keys."),
    ("zero instead of minus infinity",
     {"weigh": lambda self, s, mask: (s * mask).softmax(-1)},
     "The exponential of zero is one: hidden keys get a share."),
    ("divided by the root of d_model", {"scale": staticmethod(lambda d_k, d: math.sqrt(d))},
     "Divide by the root of d_k."),
    ("no scale", {"scale": staticmethod(lambda d_k, d: 1.0)}, "Divide by the root of d_k."),
    ("divided by d_k, without the root", {"scale": staticmethod(lambda d_k, d: d_k)},
     "Divide by the root of d_k."),
    ("split by a view", {"split": staticmethod(view_split)},
     "A view moves no numbers: cut to (B, T, H, K), then exchange axes."),
    ("merged by a view", {"merge": staticmethod(view_merge)},
     "Exchange axes before you reshape."),
    ("layers with biases", {"bias": True}, "The layers have no bias: bias=False."),
    ("W^O forgotten", {"last": False}, "The merged heads meet W^O."),
    ("NaN where there is nothing to attend to",
     {"weigh": lambda self, s, mask: s.masked_fill(~mask, -math.inf).softmax(-1)},
     "A row of minus infinities becomes NaN: make it zeros."),
    ("equal shares where there is nothing to look at",
     {"weigh": lambda self, s, mask: s.masked_fill(~mask, -1e9).softmax(-1)},
     "A query that may attend to nothing finds zeros."),
    ("the mask after the softmax", {"weigh": lambda self, s, mask: s.softmax(-1) * mask},
     "What is hidden had its share before it was struck out."),
    ("the mask inverted",
     {"weigh": lambda self, s, mask: (
         s.masked_fill(mask & ~mask.all(), -math.inf).softmax(-1).nan_to_num())},
     "True means that a query may attend."),
    ("the mask left out", {"weigh": lambda self, s, mask: s.softmax(-1)},
     "What the mask hides must get no weight."),
]  # fmt: skip
MODULE_BUT = [
    ("split by a view", "merged by a view"),
]


def _biased(*names: str) -> type:
    class Biased(ManyHeads):
        def __init__(self, d_model: int, n_heads: int):
            super().__init__(d_model, n_heads)
            for name in names:
                setattr(self, name, nn.Linear(d_model, d_model))

    return Biased


class _LastByValues(ManyHeads):
    def last(self, x: Tensor) -> Tensor:
        return self.w_v(x)


class _RootOfKeys(ManyHeads):
    def weigh(self, scores: Tensor, mask: Tensor) -> Tensor:
        d_k = self.w_q.weight.shape[0] // self.n_heads
        return super().weigh(scores * (d_k / scores.shape[-1]) ** 0.5, mask)


def _through_attention(change: Callable) -> type:
    """The module that leaves the rest to the book's `attention`, which looks at its arguments:
    `change(self, q, k, v, mask)` gives what it is called with, in heads."""

    def forward(self, q, k, v, mask=None):
        return self.w_o(merge(attention(*change(self, q, k, v, mask))))

    return _but(forward=forward)


def _in_split(self: ManyHeads, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    parts = ((self.w_q, q), (self.w_k, k), (self.w_v, v))
    return tuple(split(w(x), self.n_heads) for w, x in parts)


def _one_length(self: ManyHeads, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    """All three cut as if keys and values had as many words as queries."""
    parts = ((self.w_q, q), (self.w_k, k), (self.w_v, v))
    cuts = (w(x).view(*q.shape[:2], self.n_heads, -1) for w, x in parts)
    return tuple(one.transpose(1, 2) for one in cuts)


class _OneLength(ManyHeads):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        if q.shape[1] != k.shape[1]:
            raise RuntimeError("as `view` or `@` says it")
        return super().forward(q, k, v, mask)


def _no_mask(error: type) -> type:
    def forward(self, q, k, v, mask=None):
        if mask is None:
            raise error("as None says it")
        return ManyHeads.forward(self, q, k, v, mask)

    return _but(forward=forward)


def _more_axes(mask: Tensor | None, places: Sequence[int]) -> Tensor | None:
    for place in places if mask is not None else ():
        mask = mask.unsqueeze(place)
    return mask


def _only_on(**where: int) -> type:
    """The module that hides in one head or in one sentence alone."""
    axis, place = (1, where["head"]) if "head" in where else (0, where["sentence"])

    def weigh(self, scores, mask):
        full = mask.expand_as(scores).clone()
        kept = full.select(axis, place).clone()
        full[:] = True
        full.select(axis, place).copy_(kept)
        return ManyHeads.weigh(self, scores, full)

    return _but(weigh=weigh)


class _Low(ManyHeads):
    def weigh(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, -100.0).softmax(-1)


MODULE_MISTAKES = mistakes(
    ("the weights are handed back, too", _WithWeights,
     "Outputs alone are asked for, (B, T, D), so that the layer can be put into a larger one."),
    ("split by a view, without a transpose", _but(split=staticmethod(view_split)),
     "The shapes are right, but the heads mix words. Cut to (B, T, H, K), then exchange axes."),
    ("merged by a view, without a transpose", _but(merge=staticmethod(view_merge)),
     "The shapes are right, but words are mixed when the heads are joined. Exchange heads and "
     "words first."),
    ("split and merged by a view, without a transpose",
     _but(split=staticmethod(view_split), merge=staticmethod(view_merge)),
     "The shapes are right, but the heads mix words. Both ways need a transpose."),
    ("interleaved heads",
     _but(split=staticmethod(split_in_turns), merge=staticmethod(merge_in_turns)),
     "Head i got every n_heads-th entry. The entries of one head stand next to each other."),
    ("n_heads and d_k exchanged",
     type(
         "Changed",
         (ManyHeads,),
         {"__init__": lambda self, d, h: ManyHeads.__init__(self, d, d // h)},
     ),
     "There should be n_heads heads of width d_model / n_heads, not the other way round."),
    ("one head",
     type("Changed", (ManyHeads,), {"__init__": lambda self, d, h: ManyHeads.__init__(self, d, 1)}),
     "Nothing was split: one softmax over the full width. That is the head that blends."),
    ("one head, which takes no mask made for several",
     _but(forward=lambda self, *inputs: _one_head(self, *inputs)),
     "Nothing was split: one softmax over the full width. That is the head that blends."),
    ("divided by the root of d_model",
     _but(scale=staticmethod(lambda d_k, d_model: math.sqrt(d_model))),
     "A head's dot product has d_k terms, so its variance grows with d_k = d_model / h."),
    ("no scale", _but(scale=staticmethod(lambda d_k, d_model: 1.0)),
     "The scores of every head must be divided by the root of d_k before the softmax."),
    ("divided by d_k, without the root", _but(scale=staticmethod(lambda d_k, d_model: d_k)),
     "The spread of a dot product grows with the root of d_k, and that divides it, once. "
     "(`attention` does so itself.)"),
    ("divided by the root of the number of heads",
     _but(scale=staticmethod(lambda d_k, d_model: math.sqrt(d_model // d_k))),
     "It is the width of the vectors, d_k, that makes dot products large, not the heads."),
    ("W^O forgotten", _but(forward=lambda self, *inputs: _left_out(self, ("w_o",), *inputs)),
     "The heads are only put side by side. The last layer, w_o, mixes them."),
    ("layers with biases", _but(bias=True),
     "nn.Linear has a bias unless it is told not to. The paper's projections have none."),
    ("the mask left out", _forward(lambda q, k, v, mask: (q, k, v)),
     "The mask is taken and not used: hidden keys are looked at like any other."),
    ("the mask inverted",
     _forward(lambda q, k, v, mask: (q, k, v, None if mask is None else ~mask)),
     "True means may attend. nn.MultiheadAttention has it the other way round."),
    ("the mask added to the scores",
     _but(weigh=lambda self, scores, mask: (scores + mask).softmax(-1)),
     "Added, True is 1 and False is 0: that hides nothing. Where the mask is False, the score "
     "becomes minus infinity."),
    ("a mask of four axes left out, or one in which a query finds nothing",
     _forward(lambda q, k, v, mask: (q, k, v, mask if mask is None or mask.dim() == 2 else None)),
     "A mask may have four axes, (B, H, T, S), of which those of size 1 are spread out. And where "
     "one query finds nothing, the others still have their masks."),
    ("the first head's mask for all heads",
     _forward(lambda q, k, v, mask: (q, k, v, _first(mask, heads=True))),
     "A mask of four axes may say something else to each head."),
    ("the first sentence's mask for all",
     _forward(lambda q, k, v, mask: (q, k, v, _first(mask, sentences=True))),
     "A mask of four axes may say something else to each sentence: padding does."),
    ("one table of the mask for all sentences and heads",
     _forward(lambda q, k, v, mask: (q, k, v, _first(mask, sentences=True, heads=True))),
     "A mask of four axes may say something else to each sentence and to each head."),
    ("zeros for all heads of a word where one of them finds nothing",
     _but(forward=lambda self, *inputs: _nan_at_the_end(self, *inputs)),
     "If one head finds nothing, the others still find something. NaN of one head spoils the whole "
     "output of the word in w_o, so put the zeros in before it."),
    ("a score of zero, and the weight struck out",
     _but(
         weigh=lambda self, scores, mask: (
             scores.masked_fill(~mask, 0.0).softmax(-1).masked_fill(~mask, 0.0)
         )
     ),
     "The hidden keys had their share, exp(0) = 1, before it was struck out, so what is left sums "
     "to less than one. Hide the scores with minus infinity."),
    ("the mask after the softmax, or after the highest of all was subtracted, and what is left "
     "shared out again; or a number that is not low enough, and struck out",
     _but(weigh=lambda self, scores, mask: _shares(scores.softmax(-1) * mask).nan_to_num()),
     "With a pencil shares of what is left are right. In floating point a hidden key with a far "
     "higher score leaves nothing to share. Hide the scores first, before the highest is "
     "looked for, and with minus infinity."),
    ("exponentials of the scores as they are", _but(
        weigh=lambda self, scores, mask: _shares(
            scores.masked_fill(~mask, -math.inf).exp()).nan_to_num()),
     "The exponential of 100 is infinite. `softmax` takes the highest score off before it."),
    ("scores cut at a limit", _but(
        weigh=lambda self, scores, mask: ManyHeads.weigh(self, scores.clamp(-80, 80), mask)),
     "Scores beyond the limit become equal, and with them their weights."),
    ("the mask after the softmax", _but(weigh=lambda self, scores, mask: scores.softmax(-1) * mask),
     "Hidden keys had their share before it was struck out, so what is left sums to less than one. "
     "Hide the scores before the softmax."),
    ("zero instead of minus infinity",
     _but(weigh=lambda self, scores, mask: (scores * mask).softmax(-1)),
     "A score of 0 is not nothing: its exponential is 1. Only minus infinity becomes 0."),
    ("NaN where there is nothing to attend to",
     _but(weigh=lambda self, scores, mask: scores.masked_fill(~mask, -math.inf).softmax(-1)),
     "The softmax of minus infinities alone is 0/0. Such a query should find zeros: fill its "
     "weights with zero after the softmax, or use `attention`."),
    ("equal shares where there is nothing to look at",
     _but(weigh=lambda self, scores, mask: scores.masked_fill(~mask, -1e9).softmax(-1)),
     "A query that may attend to nothing should find zeros. (Where all keys are hidden by the same "
     "large negative number, they get equal weights.)"),
    ("the softmax over the heads",
     _but(
         weigh=lambda self, scores, mask: torch.nan_to_num(
             scores.masked_fill(~mask, -math.inf).softmax(1)
         )
     ),
     "Every head shares its own whole among the keys: the softmax runs over the last axis."),
    ("the softmax over the queries",
     _but(
         weigh=lambda self, scores, mask: torch.nan_to_num(
             scores.masked_fill(~mask, -math.inf).softmax(2)
         )
     ),
     "Every query must share its attention among the keys: the softmax runs over the last axis."),
    ("k and v exchanged", _forward(lambda q, k, v, mask: (q, v, k, mask)),
     "The order is q, k, v: keys are w_k(k), values are w_v(v)."),
    ("w_k and w_v exchanged",
     _but(forward=lambda self, *inputs: _renamed(self, {"w_k": "w_v", "w_v": "w_k"}, *inputs)),
     "Keys, which are compared, are w_k(k); values, which are averaged, are w_v(v)."),
    ("w_q and w_k exchanged",
     _but(forward=lambda self, *inputs: _renamed(self, {"w_q": "w_k", "w_k": "w_q"}, *inputs)),
     "Who asks is w_q(q), and what is asked are w_k(k)."),
    ("one layer for all four",
     _but(forward=lambda self, *inputs: _renamed(self, dict.fromkeys(LAYERS, "w_o"), *inputs)),
     "There are four layers, each with numbers of its own. `a = b = nn.Linear(...)` makes one."),
    ("keys and values exchanged behind their layers",
     _but(forward=lambda self, q, k, v, *mask: _renamed(
         self, {"w_k": "w_v", "w_v": "w_k"}, q, v, k, *mask)),
     "The keys, w_k(k), are compared with the queries, and the values, w_v(v), are averaged."),
    ("multiplied by the root of d_k",
     _but(scale=staticmethod(lambda d_k, d_model: 1 / math.sqrt(d_k))),
     "Scores are too large as they are. Divide by the root of d_k."),
    ("divided by half of d_k", _but(scale=staticmethod(lambda d_k, d_model: d_k / 2)),
     "The square root of d_k is meant, not the half of it."),
    ("no softmax", _but(weigh=lambda self, scores, mask: scores.masked_fill(~mask, 0.0)),
     "Scores are not weights. The softmax makes shares of them that sum to one."),
    ("the softmax over the sentences",
     _but(weigh=lambda self, scores, mask: torch.nan_to_num(
         scores.masked_fill(~mask, -math.inf).softmax(0))),
     "Sentences have nothing to do with each other: the softmax runs over the last axis."),
    ("plus infinity in place of minus infinity",
     _but(weigh=lambda self, scores, mask: scores.masked_fill(~mask, math.inf).softmax(-1)
          .masked_fill(~mask, 0.0)),
     "Plus infinity is the highest of all scores. What is hidden needs the lowest."),
    ("zeros for a query that may not attend to all",
     _but(weigh=lambda self, scores, mask: ManyHeads.weigh(self, scores, mask)
          * mask.all(-1, keepdim=True)),
     "A query finds zeros only if it may attend to nothing: is `all` taken for `any`? Or plus "
     "infinity for minus infinity, and NaN made 0?"),
    ("the mask inverted before the softmax alone",
     _but(weigh=lambda self, scores, mask: scores.masked_fill(mask, -math.inf).softmax(-1)
          .masked_fill(~mask, 0.0)),
     "True means may attend. What is hidden before the softmax, where the mask is False, is what "
     "gets 0 after it."),
    ("the mask inverted after the softmax alone",
     _but(weigh=lambda self, scores, mask: scores.masked_fill(~mask, -math.inf).softmax(-1)
          .masked_fill(mask, 0.0)),
     "True means may attend. What is hidden before the softmax, where the mask is False, is what "
     "gets 0 after it."),
    ("hidden keys with a weight of one",
     _but(weigh=lambda self, scores, mask: ManyHeads.weigh(self, scores, mask)
          .masked_fill(~mask, 1.0)),
     "Hidden keys get exactly 0."),
    ("W^O transposed", _but(last=lambda self, x: x @ self.w_o.weight),
     "nn.Linear keeps its matrix transposed: call the layer, or multiply by weight.T."),
    ("the last head alone",
     _but(merge=staticmethod(lambda heads: merge(torch.cat(
         [0 * heads[:, :-1], heads[:, -1:]], 1)))),
     "What the other heads find is lost. Does the loop add, or overwrite?"),
    ("the values not projected",
     _but(forward=lambda self, *inputs: _left_out(self, ("w_v",), *inputs)),
     "The values are w_v(v). Here v was split as it came."),
    ("q, k and v not projected",
     _but(forward=lambda self, *inputs: _left_out(self, ("w_q", "w_k", "w_v"), *inputs)),
     "The inputs were split as they came. Each goes through its layer first: w_q(q), w_k(k), "
     "w_v(v)."),
    ("q added to the result",
     _but(forward=lambda self, q, *rest: q + ManyHeads.forward(self, q, *rest)),
     "That is the residual connection of Chapter 10. Here the result alone is asked for."),
    ("the keys for the values", _forward(lambda q, k, v, mask: (q, k, k, mask)),
     "What is averaged are the values, which are made of v. Here k went into both."),
    ("the keys averaged instead of the values",
     _but(forward=lambda self, *inputs: _keys_averaged(self, *inputs)),
     "Keys are there to be compared with the query. What is averaged are the values."),
    *((f"{words} without a transpose", _but(
        forward=lambda self, *inputs, names=names: _untransposed(self, names, *inputs)),
       "`nn.Linear` keeps its matrix transposed: `self.w_q(x)` is `x @ self.w_q.weight.T`.")
      for words, names in (
          ("the weight of w_q", ["w_q"]),
          ("the weights of w_q, w_k and w_v", ["w_q", "w_k", "w_v"]),
          ("all four weights", ["w_q", "w_k", "w_v", "w_o"]))),
    ("the values made by w_k", _shared("w_v", "w_k"),
     "Each of the three has a layer of its own: values are w_v(v)."),
    *((f"one layer for queries, keys and values, {name}",
       _but(forward=lambda self, *inputs, name=name: _renamed(
           self, dict.fromkeys(LAYERS[:3], name), *inputs)),
       "Each of the three has a layer of its own: w_q, w_k and w_v.") for name in ("w_q", "w_v")),
    ("the keys made by w_q", _shared("w_k", "w_q"),
     "Each of the three has a layer of its own: keys are w_k(k)."),
    ("keys made of the values' vectors", _forward(lambda q, k, v, mask: (q, v, v, mask)),
     "`k` and `v` are two inputs: keys are made of `k`, values of `v`."),
    ("interleaved heads, merged as neighbours", _but(split=staticmethod(split_in_turns)),
     "A head owns neighbouring entries: cut to (B, T, H, K), then exchange axes."),
    ("a hidden score of minus ten, and struck out after",
     _but(weigh=lambda self, s, mask: s.masked_fill(~mask, -10.0).softmax(-1) * mask),
     "Scores may be lower than that: hide by minus infinity."),
    ("a hidden score of minus a hundred, and struck out after",
     _but(weigh=lambda self, s, mask: s.masked_fill(~mask, -100.0).softmax(-1) * mask),
     "A score of a key that may be seen can be as low: hide by minus infinity."),
    *((f"exponentials without care overflow{where}",
       _but(weigh=lambda self, s, mask, hide=hide, end=end: end(_shares(hide(s, mask)), mask)),
       "The exponential of 100 is infinite in 32 bits, and infinity by infinity is NaN. A softmax "
       "takes the highest score off all scores first, which changes no weight." + more)
      for how, hide in (
          ("", lambda s, mask: s.masked_fill(~mask, -math.inf).exp()),
          (", hidden ones, too", lambda s, mask: s.exp() * mask))
      for where, end, more in (
          (how, lambda w, mask: w.where(mask, 0.0), ""),
          (how + ", and NaN where there is nothing to attend to", lambda w, mask: w,
           " And where all is hidden the sum is 0, and 0/0 is NaN as well."))),
    ("a small number added below the line",
     _but(weigh=lambda self, s, mask: (e := s.masked_fill(~mask, -math.inf).exp()) / (
         e.sum(-1, keepdim=True) + 1e-9)),
     "It helps where the sum is 0, but the exponential of -100 is smaller than that number, and "
     "that of 100 is infinite in 32 bits. Take the highest score off all scores first."),
    ("a dropout in training",
     _but(forward=lambda self, *inputs: nn.functional.dropout(
         ManyHeads.forward(self, *inputs), 0.1, self.training)),
     "No dropout is asked for. What the module gives in training must be what it gives after it."),
    ("another output at each call",
     _but(forward=lambda self, *inputs: _dropped(self, *inputs)),
     "Something is drawn at random, out of training as well. Is it a dropout that is always on? "
     "None is asked for."),
    *combined(_module_with, MODULE_SLIPS, but=MODULE_BUT),
    ("a mask with two axes passed over",
     _forward(lambda q, k, v, mask: (q, k, v, None if mask is None or mask.ndim == 2 else mask)),
     "A mask of shape (T, S) counts as well: it holds for all sentences and heads."),
    ("the future hidden besides",
     _but(weigh=lambda self, scores, mask: ManyHeads.weigh(
         self, scores, mask & torch.ones(scores.shape[2:]).tril().bool())),
     "The mask that is handed over says who may attend to whom, and nothing else does."),
    ("the projected queries added to the result",
     _but(forward=lambda self, q, *rest: self.w_q(q) + ManyHeads.forward(self, q, *rest)),
     "No residual connection is asked for: the result alone."),
    ("a mask of as many queries as keys transposed",
     _forward(lambda q, k, v, mask: (q, k, v, (
         mask.mT if mask is not None and mask.shape[-1] == mask.shape[-2] else mask))),
     "Its rows are queries and its columns keys, as in the scores."),
    ("the last layer is w_v once more", _LastByValues,
     "What the heads give, side by side, goes through w_o."),
    ("-100 in place of minus infinity", _Low,
     "Scores may be as low as -100 themselves: then what is hidden takes its share. And a query "
     "that may attend to nothing finds zeros, not equal shares."),
    ("a causal mask where none is given", _forward(lambda q, k, v, mask: (q, k, v, (
        torch.ones(q.shape[1], k.shape[1]).bool().tril() if mask is None else mask))),
     "Without a mask every query may attend to every key."),
    *(
        (f"a bias in {words}", _biased(*names),
         "Each of the four is `nn.Linear(d_model, d_model, bias=False)`.")
        for words, names in (
            ("w_q alone", ("w_q",)),
            ("w_v alone", ("w_v",)),
            ("w_o alone", ("w_o",)),
            ("the first three", ("w_q", "w_k", "w_v")),
        )
    ),
    ("divided by the root of the number of keys", _RootOfKeys,
     "It is the width of a head's queries and keys, d_k, that makes dot products large, not how "
     "many keys there are."),
    *(
        (f"an axis put into the mask, {words}{how}", wrong,
         "A mask with two axes, (T, S), broadcasts as it is, and one with four has all its axes: "
         "put none into it.")
        for words, places in (
            ("behind the first", (1,)),
            ("in front", (0,)),
        )
        for how, wrong in (
            ("", _forward(lambda q, k, v, mask, places=places: (
                q, k, v, _more_axes(mask, places)))),
            (", and handed to `attention`", _through_attention(
                lambda self, q, k, v, mask, places=places: (
                    *_in_split(self, q, k, v), _more_axes(mask, places)))),
        )
    ),
    ("one length for queries and keys", _OneLength,
     "It raises an error wherever T and S differ: `q` has T words, `k` and `v` have S. Whose "
     "length does each `view` and `reshape` name?"),
    ("one length for queries and keys, in a view with -1", _through_attention(
        lambda self, q, k, v, mask: (*_one_length(self, q, k, v), mask)),
     "`q` has T words, `k` and `v` have S. A view to (B, T, H, -1) makes the keys wider where it "
     "does not fail: name the length of each."),
    *(
        (f"no mask, and an error{words}", _no_mask(error),
         "`mask` may be left out. Then it is None, which is no tensor, and every query may attend "
         "to every key.")
        for words, error in (("", TypeError), (" of an attribute", AttributeError))
    ),
    ("the mask on the first head alone", _only_on(head=0), "The mask holds for all heads."),
    ("the mask on the last head alone", _only_on(head=-1), "The mask holds for all heads."),
    ("the mask on the first sentence alone", _only_on(sentence=0),
     "The mask holds for all sentences."),
    *(
        (f"q for the keys and the values{how}", wrong,
         "Keys are w_k(k) and values w_v(v): `k` and `v` may be other words than `q`, and more of "
         "them.")
        for how, wrong in (
            (", and a mask that does not fit passed over", _forward(lambda q, k, v, mask: (
                q, q, q, None if mask is None or mask.shape[-1] != q.shape[1] else mask))),
            ("", _forward(lambda q, k, v, mask: (q, q, q, mask))),
            (", and handed to `attention`", _through_attention(
                lambda self, q, k, v, mask: (*_in_split(self, q, q, q), mask))),
        )
    ),
    *(
        (f"-{n}, or the like, added in place of minus infinity", _but(
            weigh=lambda self, s, mask, n=n: (s - n * ~mask).softmax(-1)),
         "What is added is finite: a query that may attend to nothing then looks at the hidden "
         "keys, and should find zeros." + more)
        for n, more in (
            (10, " And scores may be far apart: what is hidden keeps a share."),
            (100, " And scores may be 200 apart: what is hidden keeps a share."),
            (200, " And scores may be 200 apart: what is hidden keeps a share."),
            (10000, ""),
            (100000, " (It has few digits left, besides, for the scores that it is added to.)"),
            (1000000, " (It has few digits left, besides, for the scores that it is added to.)"),
        )
    ),
    *(
        (name, _but(weigh=lambda self, s, mask, opened=opened: s.masked_fill(
            ~(mask | ~mask.any(-1, keepdim=True) & opened(s)), -math.inf).softmax(-1)), why)
        for name, opened, why in OPENED
    ),
    ("-200 added in place of minus infinity, and struck out after",
     _but(weigh=lambda self, s, mask: (s - 200 * ~mask).softmax(-1) * mask),
     "Scores may be 200 apart: what is hidden takes its share before it is struck out."),
)  # fmt: skip


LAYERS = ("w_q", "w_k", "w_v", "w_o")


def _left_out(self: ManyHeads, names: tuple[str, ...], *inputs: Tensor) -> Tensor:
    for name in names:
        setattr(self, name, nn.Identity())
    return ManyHeads.forward(self, *inputs)


def _renamed(self: ManyHeads, names: dict[str, str], *inputs: Tensor) -> Tensor:
    layers = {name: getattr(self, other) for name, other in names.items()}
    for name, layer in layers.items():
        setattr(self, name, layer)
    return ManyHeads.forward(self, *inputs)


def _untransposed(self: ManyHeads, names: Sequence[str], *inputs: Tensor) -> Tensor:
    for name in names:
        weight = getattr(self, name).weight
        weight.copy_(weight.T.clone())
    return ManyHeads.forward(self, *inputs)


def _one_head(self: ManyHeads, *inputs: Tensor) -> Tensor:
    self.n_heads, mask = 1, inputs[3] if len(inputs) > 3 else None
    if mask is not None and mask.dim() == 4 and mask.shape[1] > 1:
        raise ValueError("as `attention` says it")
    return ManyHeads.forward(self, *inputs)


def _nan_at_the_end(self: ManyHeads, *inputs: Tensor) -> Tensor:
    self.weigh = lambda scores, mask: scores.masked_fill(~mask, -math.inf).softmax(-1)
    return torch.nan_to_num(ManyHeads.forward(self, *inputs))


def _first(mask: Tensor | None, sentences: bool = False, heads: bool = False) -> Tensor | None:
    if mask is None or mask.dim() == 2:
        return mask
    mask = mask[:1] if sentences else mask
    return mask[:, :1] if heads else mask


def _keys_averaged(self: ManyHeads, q: Tensor, k: Tensor, v: Tensor, *mask: Tensor) -> Tensor:
    self.w_v = self.w_k
    return ManyHeads.forward(self, q, k, k, *mask)


# 7.8 predict: how many keys can be the favourite of some query

FAVOURITES = ("two", "some", "all")  # for a d_k of 1, 2 and 64
NARROW_ONE = {
    "one": "A positive query likes the largest key best, but a negative one the smallest.",
    "some": "With one entry a score is q k. It is highest at the largest key or, for a negative q, "
    "at the smallest; a key between the two wins for no query.",
}
NARROW_ONE["all"] = NARROW_ONE["some"]
NARROW_TWO = {
    "one": "A query of two entries points in a direction, and its favourite is the key that lies "
    "farthest in it. Another direction has another favourite.",
    "two": "A query of two entries points in a direction, and its favourite is the key that lies "
    "farthest in it. The keys at all corners of the cloud have their turn, more than two.",
    "all": "A key inside of the cloud of the others lies farthest in no direction, so that no "
    "query of two entries likes it best.",
}
WIDE = {
    word: "In 64 dimensions ten random keys lie nearly at right angles. Each is the farthest in "
    "its own direction: a query that is the key itself likes it best."
    for word in ("one", "two", "some")
}


def _favourite_mistakes() -> list[tuple[str, list[str], str]]:
    """Every other triple of the four words, with what is wrong about it."""
    rows = []
    for said in itertools.product(("one", "two", "some", "all"), repeat=3):
        reasons = zip((1, 2, 64), said, FAVOURITES, (NARROW_ONE, NARROW_TWO, WIDE), strict=True)
        wrong = [(d_k, word, why[word]) for d_k, word, right, why in reasons if word != right]
        if said == FAVOURITES[::-1]:
            why = "The three words are right, from the widest head to the narrowest. d_k = 1 comes "
            rows.append(("the other order", list(said), f"{why}first, and 64 last."))
        elif wrong:
            name = ", ".join(f'"{word}" for d_k = {d_k}' for d_k, word, _ in wrong)
            rows.append((name, list(said), " ".join(why for *_, why in wrong)))
    return rows


def _words(output: Any) -> Any:
    """Three words in any letters; the numbers of a careful reader count as words."""
    numbers = {1: "one", 2: "two", 10: "all"}
    return [
        one.strip().lower() if isinstance(one, str) else numbers.get(one, "some")
        for one in items(output)
    ]


# 7.9 find the mistakes: attention in heads, four of them


def in_heads(q: Tensor, k: Tensor, v: Tensor, n_heads: int) -> Tensor:
    return _in_heads()(q, k, v, n_heads)


def _in_heads(
    view_there: bool = False,
    view_back: bool = False,
    root: str = "d_k",
    axis: int | None = -1,
    causal: bool = False,
    turns: bool = False,
    late: bool = False,
    roles: Callable = lambda q, k, v: (q, k, v),
) -> Callable[..., Tensor]:
    """Attention in heads, right by default; each argument makes one mistake."""

    def attend(q: Tensor, k: Tensor, v: Tensor, n_heads: int) -> Tensor:
        cut = view_split if view_there else split_in_turns if turns else split
        width = {"d_k": q.shape[-1] // n_heads, "d_model": q.shape[-1], "heads": n_heads, "1": 1}
        width |= {"d_k squared": width["d_k"] ** 2, "keys": k.shape[1], "queries": q.shape[1]}
        width |= {"one over d_k": 1 / width["d_k"], "half of d_k, squared": width["d_k"] ** 2 / 4}
        queries, keys, values = (cut(x, n_heads) for x in roles(q, k, v))
        scores = queries @ keys.mT / (1 if late else math.sqrt(width[root]))
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -math.inf)
        weights = scores if axis is None else scores.softmax(axis)
        heads = weights / (math.sqrt(width[root]) if late else 1) @ values
        return (view_merge if view_back else merge)(heads)

    return attend


def in_heads_cases() -> list[tuple]:
    cases = []
    for seed, (b, t, s, d, h) in enumerate(
        ((2, 3, 5, 12, 3), (1, 4, 3, 8, 2), (3, 1, 4, 6, 2), (2, 4, 4, 6, 3))
    ):
        q, k, v = (_numbers((b, n, d), 800 + 3 * seed + i, 1.5) for i, n in enumerate((t, s, s)))
        cases.append((q, k, v, h))
    return cases


LEFT_IN = {
    "view_there": (True, "the view on the way there",
        "A view moves no numbers: cut to (B, T, H, K), then exchange axes 1 and 2, for the queries "
        "and for keys and values."),
    "view_back": (True, "the reshape on the way back",
        "The heads' numbers lie head by head: exchange axes 1 and 2 before you reshape."),
    "root": ("d_model", "the root of d_model",
        "A head's dot product has d_k = D / n_heads terms; its root divides the scores."),
    "axis": (1, "the softmax over the heads",
        "With four axes dim=1 is that of the heads. The keys stand last: dim=-1."),
}  # fmt: skip


def _left_in() -> list[tuple[str, Callable, str]]:
    """The function with some of its four mistakes, and not all of them mended."""
    rows = []
    for n in (4, 3, 2, 1):
        for some in itertools.combinations(LEFT_IN, n):
            name = "nothing mended" if n == 4 else " and ".join(LEFT_IN[key][1] for key in some)
            why = " ".join(LEFT_IN[key][2] for key in some)
            if n == 4:
                why = "There are four mistakes: in both changes of shape, under the root, and in "
                why += "the axis of the softmax."
            rows.append((name, _in_heads(**{key: LEFT_IN[key][0] for key in some}), why))
    return rows


def _one_view(*places: int) -> Callable[..., Tensor]:
    """Some of queries, keys and values cut by a view alone."""

    def attend(q: Tensor, k: Tensor, v: Tensor, n_heads: int) -> Tensor:
        cuts = [view_split if i in places else split for i in range(3)]
        return merge(attend_split(*(c(x, n_heads) for c, x in zip(cuts, (q, k, v), strict=True))))

    return attend


def _one_length_in_heads(q: Tensor, k: Tensor, v: Tensor, n_heads: int) -> Tensor:
    if q.shape[1] != k.shape[1]:
        raise RuntimeError("as `view` says it")
    return in_heads(q, k, v, n_heads)


IN_HEADS_MISTAKES = mistakes(
    *_left_in(),
    ("divided by the root of the number of heads", _in_heads(root="heads"),
     "It is the width of the vectors, d_k, that makes dot products large, not the heads."),
    ("divided by d_k, without the root", _in_heads(root="d_k squared"),
     "The spread of a dot product grows with the root of d_k."),
    ("no scale", _in_heads(root="1"), "The scores are divided by the root of d_k."),
    ("multiplied by the root of d_k", _in_heads(root="one over d_k"),
     "Scores are too large as they are. Divide by the root of d_k."),
    ("divided by half of d_k", _in_heads(root="half of d_k, squared"),
     "The square root of d_k is meant, not the half of it."),
    ("the softmax over the queries", _in_heads(axis=-2),
     "Every query shares its attention among the keys: the softmax runs over the last axis."),
    ("a causal mask", _in_heads(causal=True), "Nothing is hidden here: no mask is asked for."),
    ("divided by the root of the number of keys", _in_heads(root="keys"),
     "A head's dot product has d_k terms; their root divides, not that of the number of keys."),
    ("divided by the root of the number of queries", _in_heads(root="queries"),
     "A head's dot product has d_k terms; their root divides, not that of the number of queries."),
    ("the heads averaged, and repeated",
     lambda q, k, v, n_heads: split(in_heads(q, k, v, n_heads), n_heads).mean(1).repeat(
         1, 1, n_heads),
     "The heads are put side by side, each with its own piece."),
    ("the softmax over the sentences", _in_heads(axis=0), "Each query shares among the keys."),
    ("no softmax", _in_heads(axis=None), "Weights are the softmax of the scores."),
    ("the scale after the softmax", _in_heads(late=True),
     "Divide the scores, before they go into the softmax."),
    ("the keys for the values", _in_heads(roles=lambda q, k, v: (q, k, k)),
     "What is averaged are the values."),
    ("interleaved heads, merged as neighbours", _in_heads(turns=True),
     "A head owns neighbouring entries: cut by a view, then exchange axes."),
    ("the queries alone cut by a view", _one_view(0), LEFT_IN["view_there"][2]),
    ("the keys alone cut by a view", _one_view(1), LEFT_IN["view_there"][2]),
    ("the values alone cut by a view", _one_view(2), LEFT_IN["view_there"][2]),
    ("keys and values cut by a view", _one_view(1, 2), LEFT_IN["view_there"][2]),
    *combined(_in_heads, [
        ("the root of d_model", {"root": "d_model"}, "The scores are divided by the root of d_k."),
        ("interleaved heads", {"turns": True}, "A head owns neighbouring entries."),
        ("the scale after the softmax", {"late": True}, "Divide the scores."),
        ("the softmax over the heads", {"axis": 1}, "Each query shares among the keys: dim=-1."),
        ("the softmax over the sentences", {"axis": 0},
         "Each query shares among the keys: dim=-1."),
        ("no softmax", {"axis": None}, "Weights are the softmax of the scores."),
        ("the keys for the values", {"roles": lambda q, k, v: (q, k, k)},
         "What is averaged are the values."),
        ("the view on the way there", {"view_there": True}, LEFT_IN["view_there"][2]),
        ("the reshape on the way back", {"view_back": True}, LEFT_IN["view_back"][2]),
        ("no scale", {"root": "1"}, "The scores are divided by the root of d_k."),
        ("divided by d_k, without the root", {"root": "d_k squared"},
         "The scores are divided by the root of d_k."),
        ("divided by the root of the number of heads", {"root": "heads"},
         "The scores are divided by the root of d_k."),
        ("the softmax over the queries", {"axis": -2}, "Each query shares among the keys: dim=-1."),
    ], but=[
        ("the view on the way there", "the reshape on the way back"),
        ("the root of d_model", "the softmax over the heads"),
        ("the root of d_model", "the view on the way there"),
        ("the root of d_model", "the reshape on the way back"),
        ("the root of d_model", "the softmax over the queries"),
        ("the softmax over the heads", "the view on the way there"),
        ("the softmax over the heads", "the reshape on the way back"),
        ("the scale after the softmax", "no scale"),
        ("the scale after the softmax", "no softmax"),
        ("interleaved heads", "the view on the way there"),
        ("no softmax", "no scale"),
    ]),
    ("the heads averaged",
     lambda q, k, v, n_heads: split(in_heads(q, k, v, n_heads), n_heads).mean(1),
     "The heads go side by side, (B, T, D)."),
    ("one head", lambda q, k, v, n_heads: in_heads(q, k, v, 1),
     "Nothing was split: one softmax over the full width."),
    ("interleaved heads, put back in the same way",
     lambda q, k, v, n_heads: merge_in_turns(
         attend_split(*(split_in_turns(x, n_heads) for x in (q, k, v)))
     ),
     "The entries of one head stand next to each other: (n_heads, d_k), not (d_k, n_heads)."),
    ("merged with the heads innermost",
     lambda q, k, v, n_heads: attend_split(
         *(split(x, n_heads) for x in (q, k, v))
     ).permute(0, 2, 3, 1).flatten(2),
     "Side by side means all d_k entries of head 1 first, then those of head 2: transpose to "
     "(B, T, H, K), not to (B, T, K, H)."),
    ("not merged",
     lambda q, k, v, n_heads: attend_split(*(split(x, n_heads) for x in (q, k, v))),
     "The heads go side by side, (B, T, D)."),
    ("the softmax over the queries, and the root of d_model", _in_heads(axis=-2, root="d_model"),
     "Every query shares its attention among the keys: the softmax runs over the last axis. And "
     "the root is that of d_k = D / n_heads."),
    ("keys reshaped, not transposed", lambda q, k, v, n_heads: merge(
        (split(q, n_heads) @ _cut(split(k, n_heads), n_heads, -1, k.shape[1])
         / math.sqrt(q.shape[-1] // n_heads)).softmax(-1) @ split(v, n_heads)),
     "A reshape cuts the same row of numbers anew: exchange the last two axes, `.mT`. That was no "
     "mistake."),
    ("words and entries exchanged on the way back", lambda q, k, v, n_heads: _cut(
        attend_split(split(q, n_heads), split(k, n_heads), split(v, n_heads)).mT, *q.shape[1:]),
     "The heads are (B, H, T, K): exchange axes 1 and 2, so that a word's pieces stand side by "
     "side."),
    ("words and entries exchanged on the way back, and the root of d_model",
     lambda q, k, v, n_heads: _cut(attend_split(
         split(q, n_heads) / n_heads**0.5, split(k, n_heads), split(v, n_heads)).mT, *q.shape[1:]),
     "The heads are (B, H, T, K): exchange axes 1 and 2. And a head's dot product has d_k = D / "
     "n_heads terms."),
    ("the softmax over the whole table", lambda q, k, v, n_heads: merge(
        (s := split(q, n_heads) @ split(k, n_heads).mT / math.sqrt(q.shape[-1] // n_heads))
        .flatten(2).softmax(-1).view_as(s) @ split(v, n_heads)),
     "All queries of a head together sum to one. Each of them should."),
    ("the softmax over all heads and the whole table", lambda q, k, v, n_heads: merge(
        (s := split(q, n_heads) @ split(k, n_heads).mT / math.sqrt(q.shape[-1] // n_heads))
        .flatten(1).softmax(-1).view_as(s) @ split(v, n_heads)),
     "All queries of a sentence together sum to one. Each of them should, in each head."),
    ("the heads added up",
     lambda q, k, v, n_heads: in_heads(q, k, v, n_heads).unflatten(-1, (n_heads, -1)).sum(-2),
     "The heads stand side by side, as wide together as the queries were."),
    ("one length for queries and keys", _one_length_in_heads,
     "It raises an error wherever T and S differ: `q` has T words, `k` and `v` have S. Whose "
     "length does each `view` and `reshape` name?"),
)  # fmt: skip


# 7.10 a test that tells a right cut from a wrong one


def attend_split(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def cuts_right(cut: Callable) -> bool:
    for b, t, h, d in ((2, 3, 2, 8), (3, 4, 3, 6), (1, 2, 4, 8)):
        x = torch.arange(b * t * d).reshape(b, t, d)
        if not torch.equal(torch.as_tensor(cut(x, h)), split(x, h)):
            return False
    return True


def _always_two(x: Tensor, n_heads: int) -> Tensor:
    return split(x, 2) if x.shape[-1] % 2 == 0 else x[:, None]


CUTS = {
    "right: view and transpose": lambda x, n_heads: split(x, n_heads),
    "right: slices, stacked": lambda x, n_heads: torch.stack(
        x.split(_width(x, n_heads), -1), dim=1
    ),
    "right: a loop over everything": lambda x, n_heads: torch.stack(
        [
            torch.stack([x[:, t, i * w : (i + 1) * w] for t in range(x.shape[1])], 1)
            for w in [_width(x, n_heads)]
            for i in range(n_heads)
        ],
        1,
    ),
    "the view alone": lambda x, n_heads: _cut(x, n_heads, x.shape[1], _width(x, n_heads)),
    "interleaved heads": lambda x, n_heads: split_in_turns(x, n_heads),
    "transposed before the cut": lambda x, n_heads: _cut(
        x.transpose(1, 2), n_heads, x.shape[1], _width(x, n_heads)
    ),
    "the heads in reverse": lambda x, n_heads: split(x, n_heads).flip(1),
    "the last piece for every head": lambda x, n_heads: split(x, n_heads)[:, -1:].expand(
        -1, n_heads, -1, -1
    ),
    "the entries of each head in reverse": lambda x, n_heads: split(x, n_heads).flip(3),
    "the words in reverse": lambda x, n_heads: split(x, n_heads).flip(2),
    "the words after the first in reverse": lambda x, n_heads: torch.cat(
        [split(x, n_heads)[:, :, :1], split(x, n_heads)[:, :, 1:].flip(2)], 2
    ),
    "the words before the last in reverse": lambda x, n_heads: torch.cat(
        [split(x, n_heads)[:, :, :-1].flip(2), split(x, n_heads)[:, :, -1:]], 2
    ),
    "the first piece for every head": lambda x, n_heads: split(x, n_heads)[:, :1].expand(
        -1, n_heads, -1, -1
    ),
    "the first sentence for all": lambda x, n_heads: split(x[:1].expand_as(x), n_heads),
    "words and heads not exchanged": lambda x, n_heads: split(x, n_heads).transpose(1, 2),
    "always two heads": _always_two,
    "one number of each word lost": lambda x, n_heads: split(
        torch.cat([x[..., :-1], 0 * x[..., -1:]], -1), n_heads
    ),
}


CUT_RULES = rules(
    [name for name in CUTS if name.startswith("right")],
    {
        "the view alone": "It shows where there are several words.",
        "interleaved heads": "It shows where a head has several entries.",
        "transposed before the cut": "It shows where there are several words.",
        "the heads in reverse": "It shows where there are several heads.",
        "the last piece for every head": "It shows in the heads before the last.",
        "the entries of each head in reverse": "It shows where a head has several entries.",
        "the words in reverse": "It shows where there are several words.",
        "the words after the first in reverse": "It shows where there are three words or more.",
        "the words before the last in reverse": "It shows where there are three words or more.",
        "the first piece for every head": "It shows in the heads after the first.",
        "the first sentence for all": "It shows in the sentences after the first.",
        "words and heads not exchanged": "It shows in the shape and, with as many words as heads, "
        "in the numbers.",
        "always two heads": "It shows where another number of heads is asked for: in the shape.",
        "one number of each word lost": "It shows in the last number of each word.",
    },
    "It gives each head its piece of each word. Does your test expect another order of the axes, "
    "or of the numbers? Or that the numbers lie in memory as x has them, or in one piece? A right "
    "cut may give a view or a copy.",
)
CUT_LACKS: dict[str, Lack] = {
    "one head": each(lambda x, n: n == 1),
    "equal numbers, two heads": each(lambda x, n: n == 2 and bool((x == x.flatten()[0]).all())),
    "equal numbers": each(lambda x, n: bool((x == x.flatten()[0]).all())),
    "one word, two heads": each(lambda x, n: n == 2 and x.shape[1] == 1),
    "one word": each(lambda x, n: x.shape[1] == 1),
    "two words": each(lambda x, n: x.shape[1] == 2),
    "heads of one entry": each(lambda x, n: x.shape[2] == n),
    "one sentence, two heads": each(lambda x, n: n == 2 and len(x) == 1),
    "one sentence": each(lambda x, n: len(x) == 1),
    "two heads": each(lambda x, n: n == 2),
    "equal sentences": each(lambda x, n: bool((x == x[:1]).all())),
    "equal words": each(lambda x, n: bool((x == x[:, :1]).all())),
}


def _on(b: int, t: int, h: int, d: int) -> Callable:
    """A test on one size alone, with numbers that all differ."""
    x = 1 + torch.arange(b * t * d).reshape(b, t, d)
    return lambda cut: torch.equal(cut(x, h), split(x, h))


X_TEST = 1 + torch.arange(48).reshape(2, 3, 8)

X_WIDE = 1 + torch.arange(48).reshape(2, 4, 6)
CUT_TEST_MISTAKES = mistakes(
    ("the shape alone, for two heads", lambda cut: cut(X_TEST, 2).shape == (2, 2, 3, 4),
     "The view alone has the right shape, too. Look at the numbers."),
    ("the shape alone", lambda cut: cut(X_WIDE, 3).shape == (2, 3, 4, 2),
     "Nearly all of the wrong cuts give the right shape. Compare numbers."),
    ("only the sums over the words of each head", lambda cut: torch.equal(
        cut(X_WIDE, 3).sum(2), split(X_WIDE, 3).sum(2)),
     "Sums do not see in which word a number stands. Compare place by place."),
    ("only the sums over the entries of each head", lambda cut: torch.equal(
        cut(X_WIDE, 3).sum(3), split(X_WIDE, 3).sum(3)),
     "Sums do not see where in its head a number stands. Compare place by place."),
    ("sums over the entries of each head, for two heads", lambda cut: torch.equal(
        cut(X_WIDE, 2).sum(3), split(X_WIDE, 2).sum(3)),
     "Sums do not see where in its head a number stands. Compare place by place, and with another "
     "number of heads."),
    ("the last head alone", lambda cut: torch.equal(
        cut(X_WIDE, 3)[:, -1], split(X_WIDE, 3)[:, -1]),
     "The other heads may hold what belongs to the last. Compare all of them."),
    ("the last head alone, of two", lambda cut: torch.equal(
        cut(X_WIDE, 2)[:, -1], split(X_WIDE, 2)[:, -1]),
     "The other heads may hold what belongs to the last. Compare all of them, and with another "
     "number of heads."),
    ("there and back by a reshape",
     lambda cut: torch.equal(cut(X_TEST, 2).reshape(2, 3, 8), X_TEST),
     "A view and a reshape move nothing, so the wrong cut comes home, and the right one does not."),
    ("all numbers together, wherever they stand",
     lambda cut: cut(X_TEST, 2).sum() == X_TEST.sum(),
     "Numbers in the wrong place are the same numbers, and have the same sum."),
    ("one sentence and two heads", _on(1, 3, 2, 8),
     "A cut may mix up the sentences of a batch: try several, and another number of heads."),
    ("the first sentence alone, of two heads", lambda cut: torch.equal(
        cut(X_TEST, 2)[0], split(X_TEST, 2)[0]),
     "A cut may mix up the sentences of a batch: compare all of them, and with another number of "
     "heads."),
    ("one sentence", lambda cut: all(_on(1, 3, h, 12)(cut) for h in (2, 3)),
     "A cut may mix up the sentences of a batch: try several."),
    ("sentences that are all alike", lambda cut: all(
        torch.equal(cut(X_TEST[:1].expand(2, 3, 8), h), split(X_TEST[:1].expand(2, 3, 8), h))
        for h in (2, 4)),
     "Where sentences are equal nobody sees whether each gets its own numbers. Let them differ."),
    ("words that are all alike", lambda cut: all(
        torch.equal(cut(X_TEST[:, :1].expand(2, 3, 8), h), split(X_TEST[:, :1].expand(2, 3, 8), h))
        for h in (2, 4)),
     "Where words are equal nobody sees whether their order stays. Let them differ."),
    ("two words", lambda cut: all(_on(2, 2, h, 12)(cut) for h in (2, 3)),
     "With two words nobody sees in which order those after the first stand, or those before the "
     "last. Try three."),
    ("the last word alone", lambda cut: all(
        cut(X_TEST, h).shape == split(X_TEST, h).shape
        and torch.equal(cut(X_TEST, h)[:, :, -1], split(X_TEST, h)[:, :, -1]) for h in (2, 4)),
     "The other words may be wrong. Compare all of them."),
    ("one word", lambda cut: all(_on(2, 1, h, 12)(cut) for h in (2, 3)),
     "With one word there is nothing to mix: the view alone is right. Try several."),
    ("all numbers alike", lambda cut: all(
        torch.equal(cut(torch.ones(2, 3, 12), h), torch.ones(2, h, 3, 12 // h)) for h in (2, 3)),
     "Where all numbers are the same nobody sees which went where. Take different ones."),
    ("one head", lambda cut: torch.equal(cut(X_TEST, 1), X_TEST[:, None]),
     "With one head a view is the right cut. Try several heads."),
    ("two heads, and no other number", _on(2, 3, 2, 8),
     "One of the cuts makes two heads whatever it is asked. Try another number, too."),
    ("only whether the words come back when the heads are merged",
     lambda cut: torch.equal(cut(X_TEST, 4).transpose(1, 2).reshape(2, 3, 8), X_TEST),
     "A cut into two heads, where four are asked for, comes back as well. Look also at the shape: "
     "(B, n_heads, T, D / n_heads)."),
    ("the first word alone, and not how many heads there are", lambda cut: torch.equal(
        cut(X_TEST, 4)[:, :, 0].flatten(1), X_TEST[:, 0]),
     "The other words may be wrong, and one of the cuts makes two heads whatever it is asked. "
     "Compare all words, and the shape."),
    ("the first head alone",
     lambda cut: all(
         torch.equal(cut(x, h)[:, 0], split(x, h)[:, 0]) for x, h in ((X_TEST, 2), (X_TEST, 4))
     ),
     "The other heads may be wrong. Compare all of them."),
    ("the first word alone",
     lambda cut: all(
         cut(X_TEST, h).shape == split(X_TEST, h).shape
         and torch.equal(cut(X_TEST, h)[:, :, 0], split(X_TEST, h)[:, :, 0]) for h in (2, 4)
     ),
     "The other words may be wrong. Compare all of them."),
    ("everything passes", lambda cut: True, "A test that says yes to everything tests nothing."),
    ("nothing passes", lambda cut: False,
     "The right cuts must pass, however they are written. What do you compare with? A piece has "
     "D / n_heads neighbouring entries, and the axes stand as in (B, n_heads, T, D / n_heads)."),
    ("yes and no exchanged", lambda cut: not cuts_right(cut),
     "True is for a right cut, False for a wrong one."),
    *((f"a view of x asked for{words}", lambda cut, heads=heads: all(
        cut(X_WIDE, h).data_ptr() == X_WIDE.data_ptr() and torch.equal(
            cut(X_WIDE, h), split(X_WIDE, h)) for h in heads),
       f"A right cut may copy its numbers to another place. Compare numbers, not addresses.{more}")
      for words, heads, more in (
          ("", (2, 3), ""),
          (", with two heads alone", (2,), " And try another number of heads, too."))),
    ("numbers in one piece of memory asked for", lambda cut: all(
        torch.as_tensor(cut(X_WIDE, h)).is_contiguous() and torch.equal(
            cut(X_WIDE, h), split(X_WIDE, h)) for h in (2, 3)),
     "A right cut may be a view, whose numbers stay where they are. Compare numbers, whether they "
     "are contiguous or not."),
    ("one word and two heads", _on(2, 1, 2, 6),
     "With one word there is nothing to mix: the view alone is right. Try several, and another "
     "number of heads."),
    ("the first of two heads", lambda cut: torch.equal(cut(X_TEST, 2)[:, 0], X_TEST[..., :4]),
     "The other heads may be wrong, and so may other numbers of heads. Compare all of them."),
    ("heads of one entry", _on(2, 4, 3, 3),
     "With d_k = 1 nobody sees in which order a head's entries stand. Take heads of several."),
    ("compared with the view alone", lambda cut: torch.equal(
        cut(X_TEST, 2), _cut(X_TEST, 2, 3, 4)),
     "The view alone is one of the wrong cuts: it moves no numbers, and heads get several words."),
    ("the first sentence alone", lambda cut: all(
        cut(X_TEST, h).shape == split(X_TEST, h).shape
        and torch.equal(cut(X_TEST, h)[0], split(X_TEST, h)[0]) for h in (2, 4)),
     "Other sentences may get what belongs to the first. Compare all of them."),
    ("means over sentences and words", lambda cut: all(
        torch.allclose(cut(X_TEST.float(), h).mean((0, 2)).flatten(), X_TEST.float().mean((0, 1)))
        for h in (2, 4)),
     "Means do not see in which word or sentence a number stands. Compare place by place."),
    ("sums over each word", lambda cut: torch.equal(
        cut(X_TEST, 2).sum((1, 3)), X_TEST.sum(-1)
     ),
     "A word's numbers have the same sum in whatever head they are. Compare the numbers."),
    ("equal numbers for two heads", lambda cut: torch.equal(
        cut(torch.ones(2, 4, 6), 2), split(torch.ones(2, 4, 6), 2)
     ),
     "Where all numbers are equal, nobody sees which stands where. Give each a value of its own."),
    ("only the sum of each head, or its numbers sorted", lambda cut: all(
        torch.equal(cut(X_TEST, h).sum((2, 3)), split(X_TEST, h).sum((2, 3))) for h in (2, 4)),
     "Sums and sorted numbers are the same in whatever order the numbers stood. Compare place by "
     "place."),
    ("only the sum of each of two heads", lambda cut: torch.equal(
        cut(X_TEST, 2).sum((2, 3)), split(X_TEST, 2).sum((2, 3))),
     "A sum is the same in whatever order its numbers stand. Compare place by place, and with "
     "another number of heads."),
)  # fmt: skip


# 7.11 the gradients of the last product


def last_gradients(heads: Tensor, w_o: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    return split(grad @ w_o.T, heads.shape[1]), merge(heads).flatten(0, 1).T @ grad.flatten(0, 1)


def gradient_cases() -> list[tuple]:
    cases = [(torch.tensor([[[[2.0]], [[3.0]]]]), torch.eye(2), torch.tensor([[[1.0, 10.0]]]))]
    for seed, (b, h, t, k, d) in enumerate(((2, 3, 4, 2, 5), (3, 2, 2, 4, 8), (1, 2, 3, 1, 3))):
        sizes = ((b, h, t, k), (h * k, d), (b, t, d))
        cases.append(tuple(_numbers(size, 900 + 3 * seed + i) for i, size in enumerate(sizes)))
    return cases


def _gradients(of_heads: Callable | None = None, of_w_o: Callable | None = None) -> Callable:
    """The two gradients with one of them changed: `change(right, heads, w_o, grad)`."""

    def wrong(heads: Tensor, w_o: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        one, two = last_gradients(heads, w_o, grad)
        one = of_heads(one, heads, w_o, grad) if of_heads else one
        return one, of_w_o(two, heads, w_o, grad) if of_w_o else two

    return wrong


def _each_sentence(heads: Tensor, grad: Tensor) -> Tensor:
    return torch.stack([merge(one[None])[0].T @ g for one, g in zip(heads, grad, strict=True)])


GRADIENT_MISTAKES = mistakes(
    ("the two exchanged", lambda *case: last_gradients(*case)[::-1],
     "The gradient of the heads comes first, then that of w_o."),
    ("the gradient of the heads alone", lambda *case: last_gradients(*case)[0],
     "Both are asked for, as a pair: that of the heads, then that of w_o."),
    ("the gradient of w_o alone", lambda *case: last_gradients(*case)[1],
     "Both are asked for, as a pair: that of the heads, then that of w_o."),
    ("the first band for every head",
     _gradients(lambda one, heads, w_o, grad: (
         (grad @ w_o[: heads.shape[3]].T)[:, None].expand_as(one)
     )),
     "Head i wrote through its own band of w_o, and its gradient comes back through that band."),
    ("the gradient of the heads not split", _gradients(lambda one, *_: merge(one)),
     "The numbers are right. The gradient of heads has the shape of heads, (B, H, T, K)."),
    ("the gradient of the heads split by a view",
     _gradients(lambda one, *_: _cut(merge(one), *one.shape[1:])),
     "The way back through a merge is a split, with its transpose: the view alone mixes words."),
    ("averaged over the heads", _gradients(lambda one, heads, *_: one / heads.shape[1]),
     "(7.5) is a sum of the heads, not divided by their number."),
    *((f"both gradients divided by {what}",
       lambda heads, w_o, grad, many=many: tuple(
           one / many(heads) for one in last_gradients(heads, w_o, grad)), why)
      for what, many, why in (
          ("the number of heads", lambda heads: heads.shape[1],
           "(7.5) is a sum of the heads, not their mean, and nothing is averaged on the way back."),
          ("the number of sentences", len,
           "A mean stands in the loss, if at all, and then in `grad` already. Over the sentences "
           "the gradient of w_o is a sum, and each sentence has its own gradient of the heads."),
          ("the number of words", lambda heads: heads.shape[2],
           "A mean stands in the loss, if at all, and then in `grad` already. Over the words the "
           "gradient of w_o is a sum, and each word has its own gradient of the heads."),
          ("the number of sentences and words", lambda heads: len(heads) * heads.shape[2],
           "A mean stands in the loss, if at all, and then in `grad` already."),
          ("the root of d_k", lambda heads: heads.shape[3] ** 0.5,
           "The root of d_k belongs to the scores. The last product has no scale."))),
    ("the gradient of w_o transposed", _gradients(of_w_o=lambda two, *_: two.T),
     "The gradient of w_o has the shape of w_o, (H K, D)."),
    ("the gradient of w_o for each sentence",
     _gradients(of_w_o=lambda two, heads, w_o, grad: _each_sentence(heads, grad)),
     "All sentences and words went through one w_o, so that their gradients are added."),
    ("the mean over the sentences", _gradients(of_w_o=lambda two, heads, *_: two / len(heads)),
     "All sentences went through one w_o: its gradient is the sum over them, not the mean."),
    ("the mean over sentences and words",
     _gradients(of_w_o=lambda two, heads, *_: two / (len(heads) * heads.shape[2])),
     "The gradient of w_o is the sum over sentences and words. A mean stands in the loss, if at "
     "all, and then in `grad` already."),
    ("the first sentence alone",
     _gradients(of_w_o=lambda two, heads, w_o, grad: _each_sentence(heads, grad)[0]),
     "All sentences went through w_o, not the first alone."),
    ("the heads merged by a reshape",
     _gradients(of_w_o=lambda two, heads, w_o, grad: (
         view_merge(heads).flatten(0, 1).T @ grad.flatten(0, 1)
     )),
     "The gradient of w_o needs the heads side by side, with the transpose, as they went in."),
    ("the gradient of w_o with an axis for the heads",
     _gradients(of_w_o=lambda two, heads, *_: two.unflatten(0, (heads.shape[1], -1))),
     "The gradient has the shape of w_o: the bands stand below each other, (H K, D)."),
    ("the gradient of the heads split by a view, and the heads merged by a reshape",
     _gradients(lambda one, *_: _cut(merge(one), *one.shape[1:]),
                lambda two, heads, w_o, grad: (
                    view_merge(heads).flatten(0, 1).T @ grad.flatten(0, 1))),
     "There and back the numbers of one word must stay together: cut, then exchange axes; "
     "exchange axes, then reshape."),
    ("words and heads exchanged in the gradient of the heads",
     _gradients(lambda one, *_: one.transpose(1, 2)),
     "It has the shape of `heads`, (B, H, T, K)."),
    ("the gradient of w_o word by word",
     _gradients(of_w_o=lambda two, heads, w_o, grad: merge(heads)[..., None] * grad[:, :, None]),
     "w_o is used by every word of every sentence: their parts are added."),
    ("the two exchanged, and that of w_o transposed",
     lambda *case: (last_gradients(*case)[1].T, last_gradients(*case)[0]),
     "The gradient of the heads comes first, and each has the shape of what it belongs to."),
    ("the gradient of the heads through all bands added",
     _gradients(lambda one, heads, w_o, grad: (
         (grad @ _bands(heads, w_o).sum(0).T)[:, None].expand_as(one))),
     "Each head meets its own band alone."),
    ("grad in place of its product with merged heads, summed",
     _gradients(of_w_o=lambda two, heads, w_o, grad: grad.sum((0, 1)).expand_as(two)),
     "An entry W_jd meets entry j of the heads: that is its slope."),
    ("the heads in place of their product with grad, summed",
     _gradients(of_w_o=lambda two, heads, w_o, grad: (
         merge(heads).sum((0, 1))[:, None].expand_as(two))),
     "What comes after the product is in `grad`: by the chain rule it multiplies."),
    ("the bands in reverse for the heads", _gradients(lambda one, *_: one.flip(1)),
     "The gradient of head i goes through band i of w_o."),
    ("interleaved heads in the gradient of the heads",
     _gradients(lambda one, *_: split_in_turns(merge(one), one.shape[1])),
     "Head i owns neighbouring entries, the i-th piece."),
    ("the gradient of the heads added up over the heads",
     _gradients(lambda one, *_: one.sum(1)),
     "Each head has its own gradient, in the shape of `heads`."),
    ("the last word alone", _gradients(of_w_o=lambda two, heads, w_o, grad: (
        merge(heads)[:, -1].T @ grad[:, -1])),
     "w_o is used by every word of every sentence: their parts are added."),
    ("the first head alone", _gradients(of_w_o=lambda two, heads, w_o, grad: (
        heads[:, 0].flatten(0, 1).T @ grad.flatten(0, 1))),
     "Every band has its gradient, from its own head."),
    ("the signs of a step downhill", lambda *case: tuple(-one for one in last_gradients(*case)),
     "Asked for is the gradient itself. The optimizer takes the step against it."),
    ("the gradient of the heads times the heads",
     _gradients(lambda one, heads, *_: one * heads),
     "The product is linear in the heads: its slope is w_o, whatever the heads are."),
    ("grad taken for ones", lambda heads, w_o, grad: (
        last_gradients(heads, w_o, torch.ones_like(grad))),
     "What comes after the product is in `grad`: by the chain rule it multiplies."),
    ("the gradient of w_o as a mean over the heads",
     _gradients(of_w_o=lambda two, heads, *_: two / heads.shape[1]),
     "Nothing is averaged: each band gets the gradient of its own head."),
    *combined(_gradients, [
        ("the gradient of the heads split by a view",
         {"of_heads": lambda one, *_: _cut(merge(one), *one.shape[1:])},
         "Cut to (B, T, H, K), then exchange axes."),
        ("the gradient of the heads not split", {"of_heads": lambda one, *_: merge(one)},
         "It has the shape of `heads`."),
        ("the first band for every head",
         {"of_heads": lambda one, heads, w_o, grad: (
             (grad @ w_o[: heads.shape[3]].T)[:, None].expand_as(one))},
         "Each head has its own band."),
        ("the gradient of w_o transposed", {"of_w_o": lambda two, *_: two.T},
         "It has the shape of w_o."),
        ("the gradient of w_o for each sentence",
         {"of_w_o": lambda two, heads, w_o, grad: _each_sentence(heads, grad)},
         "The parts of all sentences are added."),
        ("the mean over the sentences", {"of_w_o": lambda two, heads, *_: two / len(heads)},
         "The parts of all sentences are added."),
        ("the mean over sentences and words",
         {"of_w_o": lambda two, heads, *_: two / (len(heads) * heads.shape[2])},
         "The parts of all words are added."),
    ]),
    ("grad in place of its product with w_o",
     _gradients(lambda one, heads, w_o, grad: grad[:, None].expand(-1, heads.shape[1], -1, -1)),
     "What comes back to a head has gone through its band: grad times the band transposed."),
    ("the output in place of its gradient, for the heads", _gradients(
        lambda one, heads, w_o, grad: split(merge(heads) @ w_o @ w_o.T, heads.shape[1])),
     "What comes back through W^O is `grad`, the gradient with respect to the output."),
    ("the gradients multiplied by what they belong to", lambda heads, w_o, grad: (
        last_gradients(heads, w_o, grad)[0] * heads, last_gradients(heads, w_o, grad)[1] * w_o),
     "A gradient is the slope alone: the step, or the product with the number itself, comes "
     "later."),
    ("the output in place of its gradient, for w_o", _gradients(
        of_w_o=lambda two, heads, w_o, grad: (
            merge(heads).flatten(0, 1).T @ (merge(heads) @ w_o).flatten(0, 1))),
     "What meets the heads is `grad`, the gradient with respect to the output."),
    ("the last sentence alone",
     _gradients(of_w_o=lambda two, heads, w_o, grad: _each_sentence(heads, grad)[-1]),
     "All sentences went through w_o: add (+=) the parts of all, and write over none."),
    ("the heads added before they meet grad", _gradients(
        of_w_o=lambda two, heads, w_o, grad: (
            heads.sum(1).flatten(0, 1).T @ grad.flatten(0, 1)).repeat(heads.shape[1], 1)),
     "Each head has its own band of w_o, and its own gradient there: put them side by side."),
    ("the gradient multiplied by itself for w_o", _gradients(
        of_w_o=lambda two, heads, w_o, grad: grad.flatten(0, 1).T @ grad.flatten(0, 1)),
     "What w_o was multiplied with are the heads, side by side: their transpose meets `grad`."),
    ("summed over the words before the product", _gradients(
        of_w_o=lambda two, heads, w_o, grad: torch.outer(
            merge(heads).sum((0, 1)), grad.sum((0, 1)))),
     "Each word's heads meet the gradient of the same word; the sum comes after the product."),
    ("the gradient taken for ones, the heads not split", lambda heads, w_o, grad: (
        merge(last_gradients(heads, w_o, torch.ones_like(grad))[0]),
        last_gradients(heads, w_o, torch.ones_like(grad))[1]),
     "`grad` is what arrives from the loss. And the gradient of heads has the shape of heads."),
    ("w_o not transposed on the way back",
     _gradients(lambda one, heads, w_o, grad: split(grad @ w_o, heads.shape[1])),
     "The heads went through w_o from H K to D. Their gradient comes back from D to H K, through "
     "the transpose."),
    ("w_o not transposed on the way back, where it is square",
     _gradients(lambda one, heads, w_o, grad: (
         split(grad @ w_o, heads.shape[1]) if w_o.shape[0] == w_o.shape[1] else one)),
     "The heads went through w_o from H K to D. Their gradient comes back from D to H K, through "
     "the transpose, also where both are equal."),
    ("grad split among the heads, without w_o",
     _gradients(lambda one, heads, w_o, grad: split(grad, heads.shape[1])),
     "What comes back to a head has gone through its band of w_o: `grad` alone is the gradient "
     "behind that product."),
    ("the sum of grad for every entry of the heads",
     _gradients(lambda one, heads, w_o, grad: (
         grad.sum(-1)[:, None, :, None].expand_as(one))),
     "An entry of a head went into output d with its own number of w_o: that is its slope."),
)  # fmt: skip


# 7.12 design: two narrow heads that find both neighbours


def two_neighbours(length: int) -> tuple[Tensor, Tensor]:
    return _on_circle(-1, 1)(length)


def _on_circle(first: int, second: int, size: float = 400.0, turn: int = 0) -> Callable:
    """Places on a circle; two heads that look so many places on."""

    def design(length: int) -> tuple[Tensor, Tensor]:
        angle = 2 * math.pi * torch.arange(length) / max(length - turn, 1)
        step = 2 * math.pi / max(length - turn, 1)
        keys, one, two = (
            torch.stack([a.cos(), a.sin()], -1)
            for a in (angle, angle + first * step, angle + second * step)
        )
        return size * torch.stack([one, two]), torch.stack([keys, keys])

    return design


def _radian(length: int) -> tuple[Tensor, Tensor]:
    w_q, w_k = _on_circle(0, 0)(length)
    angle = 2 * math.pi * torch.arange(length) / length
    turned = [torch.stack([(angle + d).cos(), (angle + d).sin()], -1) for d in (-1.0, 1.0)]
    return 400 * torch.stack(turned), w_k


def _same_query(length: int) -> tuple[Tensor, Tensor]:
    w_q, w_k = _on_circle(0, 0)(length)
    return w_q[:, :1].expand_as(w_q), w_k


def _on_line(length: int) -> tuple[Tensor, Tensor]:
    place = torch.stack([torch.arange(length), torch.zeros(length)], -1).float()
    return 30 * torch.stack([place - 1, place + 1]), torch.stack([place, place])


def _parts(matrices: Any, name: str, length: int) -> Tensor:
    parts = torch.stack([torch.as_tensor(one, dtype=torch.float64) for one in matrices])
    if parts.shape != (2, length, 2):
        raise ValueError(
            f"{name}: expected shape (2, {length}, 2), one matrix for each head, got "
            f"{tuple(parts.shape)}"
        )
    return parts.detach()


HEADS_FOUND = "head 1, from the second word on", "head 2, up to the last but one"


CLOSED = "the circle closes too early"
KEYS_UNFOUND = {
    CLOSED: "The first word and the last have the same key, so that they share the weight, however "
    "long the query is. A circle of `length` places is cut into `length` parts, not into "
    "length - 1: its last place stands one step before the first.",
    "two keys at one place": "No query can tell two equal keys apart. Let the places fill the "
    "circle once, whatever the length.",
    "the keys on a line": "On a line the farthest key at either end wins, whatever the query is, "
    "as in Exercise 7.8. Both entries must be used, so that every key is a corner.",
    "a key inside the others": "A key is found only if it lies farthest in some direction, and one "
    "inside the others, or between two of them, never does. Give all the same length, at different "
    "angles.",
}


def _unfound(w_k: Tensor) -> str | None:
    """Why in one of the heads some keys can be found by no query at all."""
    reasons = [_unfound_in(keys, needed) for keys, needed in zip(
        w_k, (range(w_k.shape[1] - 1), range(1, w_k.shape[1])), strict=True)]  # fmt: skip
    return next((reason for reason in reasons if reason), None)


def _unfound_in(keys: Tensor, needed: range) -> str | None:
    places, size = keys - keys.mean(0), float(keys.abs().max())
    near = torch.cdist(places, places, compute_mode="donot_use_mm_for_euclid_dist")
    equal = (near <= 1e-6 * size).triu(1).nonzero().tolist()
    if equal:
        return CLOSED if equal == [[0, len(keys) - 1]] else "two keys at one place"
    if len(keys) < 3:
        return None
    if float(torch.linalg.svdvals(places)[1]) < 1e-6 * float(places.norm(dim=1).max()):
        return "the keys on a line"
    for i in needed:  # a corner: from there the others lie within half a turn
        others = torch.cat([places[:i], places[i + 1 :]]) - places[i]
        angle = torch.atan2(others[:, 1], others[:, 0]).sort().values
        gaps = torch.cat([angle[1:], angle[:1] + 2 * math.pi]) - angle
        if float(gaps.max()) < math.pi + 1e-9:
            return "a key inside the others"
    return None


def _highest(scores: Tensor) -> tuple[list[int], list[int]]:
    """Which word scores highest with each query, the first of those that score alike; and for which
    queries there are some that do and so share the weight."""
    size = scores.abs().amax(-1, keepdim=True)
    alike = scores >= scores.amax(-1, keepdim=True) - 3e-6 * size
    shared = alike.sum(-1) > 1
    shared &= scores.softmax(-1).amax(-1) <= 0.9
    first = torch.where(shared, alike.int().argmax(-1), scores.argmax(-1))
    return first.tolist(), shared.nonzero().flatten().tolist()


def neighbours_found(answer: Callable, length: int) -> Any:
    """Where each word looks most, in both heads, and which words give it 0.9 or less."""
    w_q, w_k = answer(length)
    w_q, w_k = _parts(w_q, "w_q", length), _parts(w_k, "w_k", length)
    scores = w_q @ w_k.mT / 2**0.5
    weights = scores.softmax(-1)
    if weights.isnan().any():
        raise ValueError("the weights are NaN: are all entries finite?")
    (first, one), (second, two) = _highest(scores[0, 1:]), _highest(scores[1, :-1])
    unsure = [
        t for t, row in enumerate((*weights[0, 1:], *weights[1, :-1])) if float(row.max()) <= 0.9
    ]
    found = first == [*range(length - 1)] and second == [*range(1, length)] and not unsure
    return {
        HEADS_FOUND[0]: first,
        HEADS_FOUND[1]: second,
        "words that are not sure": unsure,
        "queries with which some score alike": [one, two],
        "keys": None if found else _unfound(w_k),
    }


def _on_six(length: int) -> tuple[Tensor, Tensor]:
    w_q, w_k = _on_circle(-1, 1)(6)
    places = torch.arange(length) % 6
    return w_q[:, places], w_k[:, places]


def _alternating(length: int) -> tuple[Tensor, Tensor]:
    keys = torch.eye(2)[torch.arange(length) % 2]
    return torch.stack([400 * keys.flip(1)] * 2), torch.stack([keys, keys])


def _curve(length: int, sign: float) -> tuple[Tensor, Tensor]:
    t = torch.arange(length, dtype=torch.float64)
    queries = [torch.stack([2 * (t + d), sign * torch.ones_like(t)], -1) for d in (-1, 1)]
    return 20 * torch.stack(queries), torch.stack([torch.stack([t, t * t], -1)] * 2)


def _random(length: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(length)
    return (scale * torch.randn(2, length, 2, generator=draw) for scale in (100, 1))


def _on_arc(first: int, second: int) -> Callable:
    """Places on a circle with one place left free, so that the last does not find the first."""

    def design(length: int) -> tuple[Tensor, Tensor]:
        angle, step = (2 * math.pi * n / (length + 1) for n in (torch.arange(length), 1))
        keys, one, two = (
            torch.stack([a.cos(), a.sin()], -1)
            for a in (angle, angle + first * step, angle + second * step)
        )
        return 400 * torch.stack([one, two]), torch.stack([keys, keys])

    return design


def _rounds(times: int) -> Callable:
    """Keys that go round the circle several times."""

    def design(length: int) -> tuple[Tensor, Tensor]:
        t = torch.arange(length)
        keys, before, after = (
            torch.stack([angle.cos(), angle.sin()], -1)
            for angle in (times * 2 * math.pi * (t + step) / length for step in (0, -1, 1))
        )
        return 400 * torch.stack([before, after]), torch.stack([keys, keys])

    return design


HAS_TO_FIND = (
    "Head 1 has to find the word before.",
    "Head 2 has to find the word after.",
)


def _why_found(head: int, d: int) -> str:
    """Why a head may find a word `d` places away."""
    if d == 0:
        more = " Were its keys moved along with its queries? Move one of the two."
    elif d == (1, -1)[head]:
        more = " Were its keys moved, and not its queries? Then it looks the other way."
    else:
        more = " Were its keys moved as well, the other way? Move one of the two, by one place."
    return HAS_TO_FIND[head] + more


NEIGHBOUR_MISTAKES = mistakes(
    ("left and right exchanged", _on_circle(1, -1),
     "Head 1 finds the word before, head 2 the word after. Were the keys moved and not the "
     "queries, or w_q and w_k returned in each other's place? Then all is the other way round."),
    ("both heads look back", _on_circle(-1, -1), _why_found(1, -1)),
    ("both heads look ahead", _on_circle(1, 1), _why_found(0, 1)),
    ("every word looks at itself", _on_circle(0, 0),
     "A query that is the word's own key finds the word itself. Give it the key of its neighbour. "
     "(Were the keys moved along with the queries? Move one of the two.)"),
    ("two places away", _on_circle(-2, 2),
     "The neighbours are one place away, not two. (Were the keys moved as well, the other way? "
     "Move one of the two.)"),
    ("not sure enough", _on_circle(-1, 1, size=1.0),
     "The right words score highest, and the softmax is too even. Nothing keeps you from making "
     "the queries longer."),
    ("sure among few words, not among twelve", _on_circle(-1, 1, size=20.0),
     "The more words, the closer the keys, and the smaller the lead of the right one. Do they fill "
     "the whole circle, or a part of it? And make the queries longer still."),
    ("the queries turned by one radian", _radian,
     "The next word's key stands 2 pi / length further on, and not one radian."),
    ("one query for all words", _same_query,
     "Each word looks for another neighbour, so that each needs a query of its own, one that "
     "points another way."),
    ("equally far in every direction", _on_circle(-1, 1, size=0.0),
     "All scores are equal. What should the query of a word have in common with its neighbour's "
     "key?"),
    ("the farthest keys found, as on a line", _on_line,
     "On a line the farthest key always wins, as in Exercise 7.8, and so it does if the queries "
     "look along one entry alone. The second entry can bend the line, so that every key is a "
     "corner."),
    (CLOSED, _on_circle(-1, 1, turn=1), KEYS_UNFOUND[CLOSED]),
    ("queries of the opposite sign", _on_circle(-1, 1, size=-400.0),
     "The neighbour has the lowest score in place of the highest."),
    ("sure among few words, not among four", _on_circle(-1, 1, size=4.0),
     "Longer queries make larger scores, and the softmax more decided."),
    ("a circle of six places", lambda length: _on_six(length),
     "On a circle of six places the seventh word stands where the first does. Let the places fill "
     "the circle once, whatever the length."),
    ("places that alternate", lambda length: _alternating(length),
     "Then every other word has the same key. Each needs a place of its own, such as on a circle."),
    ("three places on a circle too small", lambda length: _on_circle(-3, 3)(length),
     "The neighbours are one place away."),
    ("head 1 finds itself", _on_circle(0, 1), _why_found(0, 0)),
    ("head 2 finds itself", _on_circle(-1, 0), _why_found(1, 0)),
    ("left and right exchanged, on a circle with a gap", _on_arc(1, -1),
     "Head 1 finds the word before, head 2 the word after. Were the keys moved and not the "
     "queries, or w_q and w_k returned in each other's place? Then all is the other way round."),
    ("both heads look back, on a circle with a gap", _on_arc(-1, -1),
     _why_found(1, -1)),
    ("both heads look ahead, on a circle with a gap", _on_arc(1, 1),
     _why_found(0, 1)),
    ("left and right exchanged, on a curve that does not close", lambda length: (
        _curve(length, -1.0)[0].flip(0), _curve(length, -1.0)[1]),
     "Head 1 finds the word before, head 2 the word after. Were the keys moved and not the "
     "queries, or w_q and w_k returned in each other's place? Then all is the other way round."),
    ("both heads look back, on a curve that does not close", lambda length: (
        _curve(length, -1.0)[0][:1].repeat(2, 1, 1), _curve(length, -1.0)[1]),
     _why_found(1, -1)),
    ("both heads look ahead, on a curve that does not close", lambda length: (
        _curve(length, -1.0)[0][1:].repeat(2, 1, 1), _curve(length, -1.0)[1]),
     _why_found(0, 1)),
    ("a curve that opens the wrong way", lambda length: _curve(length, 1.0),
     "On a parabola the key at the query's own place must be the *highest* point in the query's "
     "direction: the second entries of query and key have opposite signs."),
    ("places drawn at random", lambda length: _random(length),
     "A key is found only if it lies farthest in some direction: put the keys on a circle."),
    ("head 1 alone", lambda length: (
        torch.stack([_on_circle(-1, 1)(length)[0][0], torch.zeros(length, 2)]),
        _on_circle(-1, 1)(length)[1],
     ),
     "Head 1 finds the word before. Head 2 has to find the word after."),
    ("head 2 alone", lambda length: (
        torch.stack([torch.zeros(length, 2), _on_circle(-1, 1)(length)[0][1]]),
        _on_circle(-1, 1)(length)[1],
     ),
     "Head 2 finds the word after. Head 1 has to find the word before."),
    ("two places away, on a circle with a gap", _on_arc(-2, 2),
     "The neighbours are one place away."),
    ("twice round the circle", _rounds(2),
     "Twice round, two words have one place, or nearly: all keys share one round."),
    ("half a place off", _on_circle(-0.5, 1.5),
     "Between two keys both score alike. The query stands at the angle of its neighbour's key."),
)  # fmt: skip


def _finds(head: int, wrong: Callable[[int, int], bool]) -> Callable[..., bool]:
    """That not all words of a head find what they should not: `wrong(place, found)`."""

    def holds(output: dict[str, list[int]], length: int) -> bool:
        found = [*output.values()][head]
        return length < 6 or not all(wrong(t + 1 - head, f) for t, f in enumerate(found))

    return holds


WHOM = {-1: "the word before", 1: "the word after", 0: "itself", -2: "the word two before",
        2: "the word two behind"}  # fmt: skip


def _whom_the_heads_find(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """Which word each head finds, where it is one and the same way away for all words."""
    seen = [one for one in got if isinstance(one, dict)]
    reasons = [*filter(None, (one.get("keys") for one in seen))]
    if reasons:
        reason = next((one for one in reasons if one != CLOSED), CLOSED)
        if reason == CLOSED and len(reasons) < len(cases):
            reason = "two keys at one place"
        return reason, KEYS_UNFOUND[reason]
    found = []
    for head, key in enumerate(HEADS_FOUND):
        far = [d for d in WHOM if all(_so_far(one, key, n, head, d) for one, (n,) in
                                      zip(got, cases, strict=True))]  # fmt: skip
        if len(far) != 1:
            return None
        found += far
    if found == [-1, 1]:
        return None
    if found == [1, -1]:
        return (
            "left and right exchanged",
            "Head 1 finds the word before, head 2 the word after. Were the keys moved and not the "
            "queries, or w_q and w_k returned in each other's place? Then all is the other way "
            "round.",
        )
    wrong = [head for head, right in enumerate((-1, 1)) if found[head] != right]
    name = ", and ".join(f"head {head + 1} finds {WHOM[found[head]]}" for head in wrong)
    if len(wrong) == 1:
        return name, _why_found(wrong[0], found[wrong[0]])
    return name, "Head 1 has to find the word before, head 2 the word after."


def _so_far(one: Any, key: str, length: int, head: int, d: int) -> bool:
    """Whether in this case a head finds words `d` places away: round the end, or at the end."""
    if not isinstance(one, dict):
        return False
    if length <= 2:
        return True
    shared = one["queries with which some score alike"][head]
    far = [
        (i, i + 1 - head + d, f) for i, f in enumerate(one[key]) if 0 <= i + 1 - head + d < length
    ]
    return all(f == place and i not in shared for i, place, f in far)


NEIGHBOUR_RULES = [
    Invariant(f"head {head + 1} finds its neighbour, and not the word at half of its place",
              _finds(head, lambda t, f, d=(-1, 1)[head]: abs(2 * f - t - d) <= 1),
              "The queries' places count half as much as the keys'. On a circle both have the "
              "angle 2 pi t / length; on a parabola the mixed term of (s - t - d)^2 is "
              f"2 s (t + d), with a 2. {HAS_TO_FIND[head]}")
    for head in (0, 1)
] + [
    Invariant("one word scores highest with each query, and no other as high",
              lambda output, length: not any([*output.values()][3]),
              "Some words score alike, and share the weight, however long the query is. Is it "
              "zero, or halfway between two keys? It has to point at that of its neighbour."),
] + [
    Invariant(f"head {head + 1} finds {what}", holds, f"{why} {HAS_TO_FIND[head]}")
    for head in (0, 1)
    for what, holds, why in (
        ("more than the words themselves", _finds(head, lambda t, f: f == t),
         "Each word has the highest score with its own key."),
        ("its neighbour, and not that on the other side",
         _finds(head, lambda t, f, d=(1, -1)[head]: f == t + d), "It looks the other way."),
    )
] + [
    Invariant(f"head {head + 1} finds other words for other words",
              lambda output, length, head=head: length < 4 or len({*[*output.values()][head]}) > 1,
              "One and the same word has the highest score with every query. Put the keys where "
              "each lies farthest in some direction, such as on a circle.")
    for head in (0, 1)
] + [
    Invariant(f"head {head + 1} goes the way of the keys",
              lambda output, length, head=head: length < 4 or len(
                  {(t + f) % length for t, f in enumerate([*output.values()][head])}) > 1,
              "From word to word the place that is found goes back by one. Do queries and keys run "
              "round the circle in the same direction?")
    for head in (0, 1)
] + [
    Invariant("head 1 finds the word before",
              lambda output, length: [*output.values()][0] == [*range(length - 1)],
              "The key of word t - 1 must have the highest score with the query of word t."),
    Invariant("head 2 finds the word after",
              lambda output, length: [*output.values()][1] == [*range(1, length)],
              "The key of word t + 1 must have the highest score with the query of word t."),
    Invariant("a weight above 0.9", lambda output, length: not [*output.values()][2],
              "The right words score highest, and the softmax is too even. Make the queries "
              "longer."),
]  # fmt: skip


EXERCISES = [
    Exercise(
        number="7.1",
        title="two heads by hand",
        section="Two heads by hand",
        reference=heads_by_hand(7.0, 1.0),
        cases=[()],
        mistakes=HAND_MISTAKES,
        rtol=5e-3,
        atol=2e-3,
    ),
    Exercise(
        number="7.2",
        title="counting",
        section="What do many heads cost?",
        reference=[SQUARE // N_HEADS, SQUARE, 4 * SQUARE, 4 * SQUARE + 4 * D_MODEL],
        cases=[()],
        mistakes=COUNT_MISTAKES,
    ),
    Exercise(
        number="7.3",
        title="one layer for three, head by head",
        section="The wrong cut",
        reference=unfused,
        cases=unfused_cases,
        mistakes=UNFUSED_MISTAKES,
    ),
    Exercise(
        number="7.4",
        title="a layer without some of its heads",
        section="What the last matrix is for",
        reference=pruned,
        cases=pruned_cases,
        mistakes=PRUNED_MISTAKES,
    ),
    Exercise(
        number="7.5",
        title="the output as a sum",
        section="What the last matrix is for",
        reference=output_as_sum,
        cases=sum_cases,
        mistakes=SUM_MISTAKES,
        rtol=1e-3,
        atol=1e-4,
    ),
    Exercise(
        number="7.6",
        title="multi-head attention",
        section="The shapes, line by line",
        reference=multi_head,
        cases=multi_head_cases,
        mistakes=MULTI_HEAD_MISTAKES,
    ),
    Exercise(
        number="7.7",
        title="the module",
        section="The module",
        reference=ManyHeads,
        cases=module_cases,
        mistakes=MODULE_MISTAKES,
        invariants=[
            Invariant(
                "a query that may attend to nothing finds zeros",
                _blind,
                "Where every key is hidden, all heads are zero, and so is what w_o makes of them.",
            )
        ],
        probe=run_module,
        together=_any_chance,
        canonical=_output,
    ),
    Exercise(
        number="7.8",
        title="predict, then try: the favourites of a narrow head",
        section="Do the heads differ?",
        reference=list(FAVOURITES),
        mistakes=mistakes(*_favourite_mistakes()),
        canonical=_words,
    ),
    Exercise(
        number="7.9",
        title="find the mistakes",
        section="All heads in one product",
        reference=in_heads,
        cases=in_heads_cases,
        mistakes=IN_HEADS_MISTAKES,
    ),
    Exercise(
        number="7.10",
        title="a test for a cut",
        section="The wrong cut",
        reference=cuts_right,
        cases=[()],
        mistakes=CUT_TEST_MISTAKES,
        invariants=CUT_RULES,
        probe=verdicts_on(
            CUTS, CUT_LACKS, spoilt=Spoilt(("sentence", "head", "word", "entry of each head"))
        ),
    ),
    Exercise(
        number="7.11",
        title="derive: the gradients of the last product",
        section="What the last matrix is for",
        reference=last_gradients,
        cases=gradient_cases,
        mistakes=GRADIENT_MISTAKES,
        rtol=1e-3,
        atol=1e-4,
    ),
    Exercise(
        number="7.12",
        title="design: two narrow heads, both neighbours",
        section="Do the heads differ?",
        reference=two_neighbours,
        cases=[(4,), (2,), (12,)],
        mistakes=NEIGHBOUR_MISTAKES,
        invariants=Family(_whom_the_heads_find, NEIGHBOUR_RULES),
        probe=neighbours_found,
    ),
]
