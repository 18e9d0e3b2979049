"""The exercises of chapter 14, translation for real: references, cases, mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import mean, median, pstdev, stdev
from typing import Any

import torch
from torch import Tensor

from .core import Exercise, Invariant, mistakes

# 14.1 which number may be reported


def reported(valid: Sequence[float], test: Sequence[float]) -> float:
    return test[max(range(len(valid)), key=lambda i: valid[i])]


REPORT_CASES = [
    ([31.0, 33.5, 33.1, 32.0], [30.2, 31.4, 32.6, 29.0]),
    ([28.0, 29.5, 29.5, 27.1, 29.5, 29.5], [30.0, 28.9, 28.2, 31.3, 29.1, 28.8]),  # ties
    ([40.1, 39.0, 39.9], [39.5, 41.0, 38.8]),
]


def _of_the_best(valid: Sequence[float], choose: Callable) -> int | float:
    best = max(valid)
    return choose([i for i, score in enumerate(valid) if score == best])


REPORT_MISTAKES = mistakes(
    ("the best test score", lambda valid, test: max(test),
     "This chooses on the test set, and its score is then flattered by luck. Choose by `valid`, "
     "then read the test score of that one setting."),
    ("the best validation score", lambda valid, test: max(valid),
     "The setting was chosen by this very number, so it is flattered. What may be reported is the "
     "same setting's score on the test set."),
    ("the validation score of the setting that is best on test",
     lambda valid, test: valid[max(range(len(test)), key=lambda i: test[i])],
     "The roles are exchanged: `valid` chooses, `test` is read."),
    ("the last one of those that tie",
     lambda valid, test: test[_of_the_best(valid, lambda tied: tied[-1])],
     "Of settings that tie on validation the first counts. (`>=` in a loop keeps the last.)"),
    ("ties broken by the test set",
     lambda valid, test: _of_the_best(valid, lambda tied: max(test[i] for i in tied)),
     "The test set must not choose, not even between settings that tie on validation."),
    ("of those that tie the worst on test",
     lambda valid, test: _of_the_best(valid, lambda tied: min(test[i] for i in tied)),
     "That is cautious, and the test set chooses all the same. The first of those that tie "
     "counts."),
    ("the mean of those that tie",
     lambda valid, test: _of_the_best(valid, lambda tied: mean(test[i] for i in tied)),
     "One setting is chosen, the first of those that tie."),
    ("chosen by both sets together",
     lambda valid, test: test[max(range(len(valid)), key=lambda i: valid[i] + test[i])],
     "The sum of both scores lets the test set choose as well."),
    ("the mean of all test scores", lambda valid, test: mean(test),
     "One setting is chosen, and its own test score is reported."),
    ("the setting that is worst on validation",
     lambda valid, test: test[min(range(len(valid)), key=lambda i: valid[i])],
     "BLEU is better when it is higher: take the largest validation score."),
    ("the number of the setting, not its score",
     lambda valid, test: max(range(len(valid)), key=lambda i: valid[i]),
     "This is where the best validation score stands. Return the test score that stands there."),
    ("the test score with the difference to validation taken off",
     lambda valid, test: 2 * reported(valid, test) - max(valid),
     "The test score is reported as it is: nothing is added or taken off."),
)  # fmt: skip

# 14.2 corpus BLEU from counts


def _bleu(matches: Tensor, totals: Tensor, length: Tensor, reference: Tensor) -> Tensor:
    """From pooled counts: (..., 4), (..., 4), (...), (...)."""
    precisions = matches.double() / totals.double().clamp(min=1)
    brevity = torch.exp((1 - reference.double() / length.double()).clamp(max=0))
    return 100 * brevity * precisions.prod(-1) ** 0.25


def corpus_bleu(matches: Tensor, totals: Tensor, lengths: Tensor, references: Tensor) -> Tensor:
    return _bleu(matches.sum(0), totals.sum(0), lengths.sum(), references.sum())


def _counts(lengths: list[int], references: list[int], matches: list[list[int]]) -> tuple:
    lengths_, references_ = torch.tensor(lengths), torch.tensor(references)
    totals = torch.stack([(lengths_ - n).clamp(min=0) for n in range(4)], dim=1)
    return torch.tensor(matches), totals, lengths_, references_


BLEU_CASES = [
    _counts([6, 9, 3], [7, 12, 3], [[5, 3, 2, 1], [8, 6, 4, 3], [2, 0, 0, 0]]),
    _counts([8, 5, 11, 7], [7, 5, 9, 6], [[6, 4, 2, 1], [5, 4, 3, 2], [7, 4, 2, 0], [5, 3, 1, 0]]),
    _counts([4, 10], [9, 6], [[4, 3, 2, 1], [6, 5, 4, 3]]),
]
BleuParts = tuple[Tensor, Tensor, Tensor, Tensor]


def _pooled(matches: Tensor, totals: Tensor) -> Tensor:
    return matches.sum(0).double() / totals.sum(0).double()


def _root(matches: Tensor, totals: Tensor) -> Tensor:
    return _pooled(matches, totals).prod() ** 0.25


def _brevity(lengths: Tensor, references: Tensor) -> Tensor:
    return torch.exp((1 - references.sum() / lengths.sum().double()).clamp(max=0))


BLEU_MISTAKES = mistakes(
    ("the mean of the sentences' BLEUs", lambda m, t, c, r: _bleu(m, t, c, r).mean(),
     "BLEU divides the sums over the whole corpus. A sentence of its own often has no group of "
     "four right, and its BLEU is zero."),
    ("precisions averaged over the sentences",
     lambda m, t, c, r: (
         100 * _brevity(c, r) * (m.double() / t.double().clamp(min=1)).mean(0).prod() ** 0.25
     ),
     "First sum the counts over all sentences, then divide. Otherwise a short sentence counts as "
     "much as a long one."),
    ("the arithmetic mean of the precisions",
     lambda m, t, c, r: 100 * _brevity(c, r) * _pooled(m, t).mean(),
     "The four precisions are multiplied, and of the product the fourth root is taken."),
    ("one precision of all n-grams together",
     lambda m, t, c, r: 100 * _brevity(c, r) * m.sum() / t.sum().double(),
     "Each n has a precision of its own; the four are multiplied, and then the fourth root is "
     "taken."),
    ("no fourth root", lambda m, t, c, r: 100 * _brevity(c, r) * _pooled(m, t).prod(),
     "The product of the four precisions still needs its fourth root."),
    ("no brevity penalty", lambda m, t, c, r: 100 * _root(m, t),
     "What is shorter than the references is multiplied by exp(1 - r / c)."),
    ("a reward for what is long",
     lambda m, t, c, r: 100 * _root(m, t) * torch.exp(1 - r.sum() / c.sum().double()),
     "The brevity penalty is 1 when the hypotheses are longer than the references. The formula "
     "gives more than 1 there."),
    ("lengths exchanged in the brevity penalty",
     lambda m, t, c, r: 100 * _root(m, t) * _brevity(r, c),
     "This punishes what is long. The exponent is 1 - r / c; c are the hypotheses' words."),
    ("the plain ratio of lengths as brevity penalty",
     lambda m, t, c, r: 100 * _root(m, t) * (c.sum() / r.sum().double()).clamp(max=1),
     "The penalty is exp(1 - r / c), which falls faster than the ratio c / r."),
    ("a brevity penalty for each sentence",
     lambda m, t, c, r: 100 * _root(m, t) * torch.exp((1 - r / c.double()).clamp(max=0)).mean(),
     "Lengths, too, are summed over the corpus first: a long translation makes up for a short "
     "one."),
    ("the brevity penalty under the root",
     lambda m, t, c, r: 100 * (_brevity(c, r) * _pooled(m, t).prod()) ** 0.25,
     "Only the product of the precisions is under the fourth root. The penalty stands before it."),
    ("a penalty for what is long, none for what is short",
     lambda m, t, c, r: 100 * _root(m, t) * torch.exp((1 - r.sum() / c.sum().double()).clamp(0)),
     "The two branches are exchanged: exp(1 - r / c) is for hypotheses that are shorter than the "
     "references."),
    ("a number from 0 to 1", lambda m, t, c, r: corpus_bleu(m, t, c, r) / 100,
     "BLEU is given from 0 to 100 here."),
    ("words and pairs only",
     lambda m, t, c, r: 100 * _brevity(c, r) * _pooled(m, t)[:2].prod() ** 0.5,
     "All four precisions count, of one word up to four words in a row."),
)  # fmt: skip

# 14.3 paired bootstrap


def paired(a: Tensor, b: Tensor, draws: Tensor) -> Tensor:
    sums_a, sums_b = a.double()[draws].sum(1), b.double()[draws].sum(1)
    return 100 * (sums_a[:, 0] / sums_a[:, 1] - sums_b[:, 0] / sums_b[:, 1])


def paired_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(143)
    cases = []
    for n, r in ((6, 5), (9, 7), (4, 1)):
        totals = torch.randint(3, 12, (2, n), generator=draw)
        matches = (torch.rand(2, n, generator=draw) * (totals + 1)).long()
        systems = torch.stack([matches, totals], dim=-1)  # (2, n, 2)
        cases.append((systems[0], systems[1], torch.randint(0, n, (r, n), generator=draw)))
    return cases


def _ratio(counts: Tensor, draws: Tensor) -> Tensor:
    sums = counts.double()[draws].sum(1)
    return 100 * sums[:, 0] / sums[:, 1]


def _by_sentence(counts: Tensor, draws: Tensor) -> Tensor:
    return 100 * (counts[:, 0] / counts[:, 1].double())[draws].mean(1)


def _everything(counts: Tensor, draws: Tensor) -> Tensor:
    return _ratio(counts, torch.arange(len(counts)).expand_as(draws))


def _distinct(counts: Tensor, draws: Tensor) -> Tensor:
    return torch.cat([_ratio(counts, row.unique()[None]) for row in draws])


def _shared_total(a: Tensor, b: Tensor, draws: Tensor) -> Tensor:
    sums_a, sums_b = a.double()[draws].sum(1), b.double()[draws].sum(1)
    return 100 * (sums_a[:, 0] - sums_b[:, 0]) / sums_a[:, 1]


def _as_weights(counts: Tensor, draws: Tensor) -> Tensor:
    sums = draws.double() @ counts.double()
    return 100 * sums[:, 0] / sums[:, 1]


PAIRED_MISTAKES = mistakes(
    ("the draws read as how often each sentence counts",
     lambda a, b, draws: _as_weights(a, draws) - _as_weights(b, draws),
     "In the chapter `resample` gives such numbers. Here a row of `draws` holds the numbers of the "
     "drawn sentences themselves: index with it."),
    ("another draw for the second system",
     lambda a, b, draws: _ratio(a, draws) - _ratio(b, draws.roll(1, 0)),
     "Both systems are scored on the same sentences in every draw: that is what makes the test "
     "paired."),
    ("the second system not resampled",
     lambda a, b, draws: _ratio(a, draws) - _everything(b, draws),
     "Both systems are scored on the sentences that were drawn."),
    ("nothing resampled", lambda a, b, draws: _everything(a, draws) - _everything(b, draws),
     "Each row of `draws` names the sentences of one resampled test set, some of them several "
     "times."),
    ("each sentence at most once", lambda a, b, draws: _distinct(a, draws) - _distinct(b, draws),
     "A sentence that was drawn twice counts twice. Index with the draws; do not mask."),
    ("the mean of the sentences' scores",
     lambda a, b, draws: _by_sentence(a, draws) - _by_sentence(b, draws),
     "The counts of all drawn sentences are summed first, then divided: a corpus score."),
    ("the second minus the first", lambda a, b, draws: -paired(a, b, draws),
     "The difference is the score of `a` minus that of `b`."),
    ("differences without their sign", lambda a, b, draws: paired(a, b, draws).abs(),
     "Whether the second system wins in some draws is the very question: keep the sign."),
    ("only who wins", lambda a, b, draws: (paired(a, b, draws) > 0).double(),
     "Return the differences themselves. The share of wins can be read off them."),
    ("one number for all draws", lambda a, b, draws: paired(a, b, draws).mean(),
     "Return the difference of every draw, R numbers. Their spread is what one wants."),
    ("both divided by the words of the first", _shared_total,
     "Each system said a number of words of its own, and is divided by that."),
    ("both divided by the words of the second", lambda a, b, draws: -_shared_total(b, a, draws),
     "Each system said a number of words of its own, and is divided by that."),
    ("parts of 1, not per cent", lambda a, b, draws: paired(a, b, draws) / 100,
     "Scores are given from 0 to 100 here."),
    ("the first score alone", lambda a, b, draws: _ratio(a, draws),
     "This is how good the first system is in each draw. Take the second one's score off."),
)  # fmt: skip

# 14.4 the operations of a training


def _flops(
    n: int, d: int, f: int, v: int, src: int, tgt: int, *, each: int = 6, kv: str | None = "src",
    qo: str = "tgt", cross: int = 1, logits: str | None = "tgt", lookups: int = 0,
    attention: int = 4, matrices: int = 2,
) -> int:  # fmt: skip
    """The count with its parts as options, of which the defaults are right."""
    tokens = {"src": src, "tgt": tgt, None: 0}
    encoder = n * (attention * d * d + matrices * d * f) * src
    decoder = n * (attention * d * d + matrices * d * f) * tgt
    cross_kv = cross * n * 2 * d * d * tokens[kv]
    cross_qo = cross * n * (attention - 2) * d * d * tokens[qo]
    return each * (
        encoder + decoder + cross_kv + cross_qo + v * d * (tokens[logits] + lookups * (src + tgt))
    )


def training_flops(
    n_layers: int, d_model: int, d_ff: int, vocab_size: int, src_tokens: int, tgt_tokens: int
) -> int:
    layer = 4 * d_model**2 + 2 * d_model * d_ff
    on_src = n_layers * (layer + 2 * d_model**2)
    on_tgt = n_layers * (layer + 2 * d_model**2) + vocab_size * d_model
    return 6 * (on_src * src_tokens + on_tgt * tgt_tokens)


def _all_by_all(n: int, d: int, f: int, v: int, src: int, tgt: int) -> int:
    parameters = n * (12 * d * d + 4 * d * f) + v * d
    return 6 * parameters * (src + tgt)


def _flops_with(**changes: Any) -> Callable:
    return lambda *sizes: _flops(*sizes, **changes)


FLOPS_MISTAKES = mistakes(
    ("only forwards", _flops_with(each=2),
     "A training step also goes backwards, which costs twice as much as forwards: 6 in all, not "
     "2."),
    ("the way back as dear as the way there", _flops_with(each=4),
     "Backwards there are two products for each matrix, one for the gradient of its input and one "
     "for that of its weights: 2 + 4 = 6."),
    ("a multiplication with its addition counted as one", _flops_with(each=3),
     "A multiplication and an addition are two operations: 6 for each entry and token, not 3."),
    ("keys and values of the memory computed for target tokens", _flops_with(kv="tgt"),
     "In cross-attention keys and values are made from the memory: the source tokens."),
    ("all of cross-attention on the source tokens", _flops_with(qo="src"),
     "In cross-attention the queries and the output projection belong to the target tokens."),
    ("cross-attention forgotten", _flops_with(cross=0),
     "A decoder layer has two attentions: its own and the one to the memory."),
    ("keys and values of cross-attention forgotten", _flops_with(kv=None),
     "Cross-attention has four matrices as well. Two of them, for keys and values, meet the source "
     "tokens in every layer of the decoder."),
    ("the embedding matrix for source tokens as well",
     lambda n, d, f, v, src, tgt: training_flops(n, d, f, v, src, tgt) + 6 * v * d * src,
     "Source tokens have no logits, and to embed them is to read one row. Only target tokens are "
     "multiplied with the embedding matrix."),
    ("the embedding matrix twice for target tokens",
     lambda n, d, f, v, src, tgt: training_flops(n, d, f, v, src, tgt) + 6 * v * d * tgt,
     "To embed a token is to read one row. Target tokens are multiplied with the matrix once, when "
     "logits are made."),
    ("the logits forgotten", _flops_with(logits=None),
     "Each target token is multiplied with the whole embedding matrix, V rows of d_model."),
    ("logits of the source tokens", _flops_with(logits="src"),
     "Only target tokens are predicted: the logits are theirs."),
    ("looking up embeddings counted as a product", _flops_with(lookups=1),
     "To embed a token is to read one row. Nothing is multiplied with the matrix."),
    ("the output projections forgotten", _flops_with(attention=3),
     "An attention has four matrices: for queries, keys, values and the output."),
    ("one matrix in the feed-forward net", _flops_with(matrices=1),
     "The feed-forward net has two matrices: d_model by d_ff, and back."),
    ("one layer only", lambda n, *sizes: _flops(1, *sizes),
     "Encoder and decoder have n_layers layers each."),
    ("every weight for every token", _all_by_all,
     "Source tokens go through the encoder, target tokens through the decoder. Count each matrix "
     "for the tokens that meet it."),
)  # fmt: skip

# 14.5 an ensemble is not an average

Net = tuple[Tensor, Tensor]


def _probabilities(x: Tensor, net: Net) -> Tensor:
    return _logits(x, net).softmax(-1)


def _logits(x: Tensor, net: Net) -> Tensor:
    return torch.relu(x @ net[0]) @ net[1]


def _mean(tensors: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).mean(0)


def ensemble(x: Tensor, nets: list[Net]) -> Tensor:
    return _mean(_probabilities(x, net) for net in nets)


def ensemble_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(145)
    cases = []
    for b, d, f, v, n in ((3, 4, 5, 6, 3), (2, 3, 4, 5, 2), (1, 2, 3, 4, 1)):
        nets = [
            (torch.randn(d, f, generator=draw), torch.randn(f, v, generator=draw)) for _ in range(n)
        ]
        cases.append((torch.randn(b, d, generator=draw), nets))
    return cases


def _votes(x: Tensor, nets: list[Net]) -> Tensor:
    return _mean(
        torch.nn.functional.one_hot(_logits(x, net).argmax(-1), net[1].shape[1]).float()
        for net in nets
    )


ENSEMBLE_MISTAKES = mistakes(
    ("the weights averaged",
     lambda x, nets: _probabilities(x, (_mean(n[0] for n in nets), _mean(n[1] for n in nets))),
     "That is one net with averaged weights. An ensemble lets every net compute, and averages what "
     "comes out."),
    ("the logits averaged before the softmax",
     lambda x, nets: _mean(_logits(x, net) for net in nets).softmax(-1),
     "Each net gives its own probabilities first; then they are averaged. Averaged logits give the "
     "geometric mean."),
    ("logits instead of probabilities", lambda x, nets: _mean(_logits(x, net) for net in nets),
     "The softmax of each net is missing."),
    ("probabilities multiplied, not averaged",
     lambda x, nets: _mean(_probabilities(x, net).log() for net in nets).exp(),
     "The mean of log-probabilities is the log of a geometric mean; its rows do not sum to one."),
    ("the product of the probabilities, rescaled",
     lambda x, nets: (len(nets) * _mean(_logits(x, net) for net in nets)).softmax(-1),
     "Logits that are added, or probabilities that are multiplied, make another mixture. Here the "
     "probabilities are averaged."),
    ("log-probabilities", lambda x, nets: ensemble(x, nets).log(),
     "Return the averaged probabilities themselves."),
    ("the sum, not the mean", lambda x, nets: ensemble(x, nets) * len(nets),
     "Divide by the number of nets, or the rows do not sum to one."),
    ("a vote", _votes,
     "Each net gives only its first choice here. Its probabilities say more, and they are to be "
     "averaged."),
    ("the first net alone", lambda x, nets: _probabilities(x, nets[0]),
     "All nets take part, with the same weight."),
    ("the last net alone", lambda x, nets: _probabilities(x, nets[-1]),
     "All nets take part. Does a loop overwrite the result of the net before?"),
    ("softmax over the batch", lambda x, nets: _mean(_logits(x, net).softmax(0) for net in nets),
     "The softmax runs over the V tokens, the last axis."),
    ("softmax twice", lambda x, nets: ensemble(x, nets).softmax(-1),
     "The averaged probabilities already sum to one."),
    ("without the ReLU", lambda x, nets: _mean((x @ net[0] @ net[1]).softmax(-1) for net in nets),
     "Each net is softmax(relu(x w_1) w_2)."),
    ("the largest probability of any net",
     lambda x, nets: torch.stack([_probabilities(x, net) for net in nets]).amax(0),
     "Take the mean over the nets, not the maximum."),
)  # fmt: skip

# 14.6 beyond the noise


def beyond_noise(base: Sequence[float], rows: dict[str, float]) -> list[str]:
    middle, spread = mean(base), stdev(base)
    return sorted(name for name, score in rows.items() if abs(score - middle) > 2 * spread)


NOISE_CASES = [
    # mean 2, deviation 2: two of them are exactly two deviations away, which is not beyond
    ([0.0, 2.0, 4.0], {"at": 6.0, "below": -2.0, "off": 6.5, "near": 3.0}),
    # mean 25, sample deviation 1, population 0.816, standard error 0.577
    (
        [24.0, 25.0, 26.0],
        {"a": 22.5, "b": 23.2, "c": 23.9, "d": 26.1, "e": 26.8, "f": 27.5, "g": 26.3, "h": 24.8},
    ),
    # mean 20, sample deviation 0.2: smaller than its root, larger than its square
    (
        [19.8, 20.0, 20.2],
        {"a": 19.3, "b": 19.95, "c": 20.3, "d": 20.1, "e": 21.5, "f": 19.65, "g": 19.85},
    ),
    # the first seed is not in the middle
    ([31.0, 30.0, 29.6, 29.4], {"a": 31.2, "b": 28.4, "c": 32.0, "d": 29.0, "e": 30.9, "f": 31.6}),
]


def _rows_where(test: Callable) -> Callable:
    def answer(base: Sequence[float], rows: dict[str, float]) -> list[str]:
        return sorted(name for name, score in rows.items() if test(base, score))

    return answer


NOISE_MISTAKES = mistakes(
    ("one standard deviation", _rows_where(lambda b, x: abs(x - mean(b)) > stdev(b)),
     "The band is two standard deviations wide on each side."),
    ("the squared differences divided by n",
     _rows_where(lambda b, x: abs(x - mean(b)) > 2 * pstdev(b)),
     "The sample standard deviation divides by n - 1: with a few seeds this makes a difference. "
     "(`np.std` divides by n unless told `ddof=1`.)"),
    ("the variance in place of the deviation",
     _rows_where(lambda b, x: abs(x - mean(b)) > 2 * stdev(b) ** 2),
     "Take the root of the variance: a deviation is in BLEU, a variance in BLEU squared."),
    ("the standard error of the mean",
     _rows_where(lambda b, x: abs(x - mean(b)) > 2 * stdev(b) / math.sqrt(len(b))),
     "That says how well the base's mean is known. A row has one seed, and one seed scatters by "
     "the whole standard deviation."),
    ("only what is worse", _rows_where(lambda b, x: x - mean(b) < -2 * stdev(b)),
     "A row may lie above the base as well."),
    ("only what is better", _rows_where(lambda b, x: x - mean(b) > 2 * stdev(b)),
     "A row may lie below the base as well."),
    ("what lies outside of all seeds", _rows_where(lambda b, x: not min(b) <= x <= max(b)),
     "One more seed of the base itself may well lie outside of the few there are. Use the mean and "
     "the deviation."),
    ("measured from the first seed", _rows_where(lambda b, x: abs(x - b[0]) > 2 * stdev(b)),
     "Differences are taken from the mean of all seeds."),
    ("measured from the median", _rows_where(lambda b, x: abs(x - median(b)) > 2 * stdev(b)),
     "Differences are taken from the mean of the seeds."),
    ("measured from the best seed", _rows_where(lambda b, x: abs(x - max(b)) > 2 * stdev(b)),
     "Differences are taken from the mean of all seeds. The best one was lucky."),
    ("what lies within the noise", _rows_where(lambda b, x: abs(x - mean(b)) <= 2 * stdev(b)),
     "These are the rows of which one cannot say anything. Return the others."),
    ("every row", _rows_where(lambda b, x: True),
     "Every row differs from the base by something. Which differ by more than two standard "
     "deviations?"),
)  # fmt: skip


def _names(output: Any) -> Any:
    """The names in order; a set or a tuple is as good as a list."""
    if isinstance(output, Iterable) and not isinstance(output, str):
        return sorted(str(name) for name in output)
    return output


EXERCISES = [
    Exercise(
        number="14.1",
        title="which number may be reported",
        section="How not to choose",
        reference=reported,
        cases=REPORT_CASES,
        mistakes=REPORT_MISTAKES,
    ),
    Exercise(
        number="14.2",
        title="corpus BLEU",
        section="BLEU from sums",
        reference=corpus_bleu,
        cases=BLEU_CASES,
        mistakes=BLEU_MISTAKES,
        invariants=[
            Invariant(
                "a score lies between 0 and 100",
                lambda output, *case: 0 <= float(output) <= 100,
                "Precisions and brevity penalty are never above 1.",
            )
        ],
    ),
    Exercise(
        number="14.3",
        title="a paired bootstrap",
        section="How sure is a difference?",
        reference=paired,
        cases=paired_cases,
        mistakes=PAIRED_MISTAKES,
        invariants=[
            Invariant(
                "one difference for each draw",
                lambda output, a, b, draws: tuple(torch.as_tensor(output).shape) == (len(draws),),
                "`draws` has a row for each resampled test set, and each gives one difference.",
            )
        ],
    ),
    Exercise(
        number="14.4",
        title="the operations of a training",
        section="What it cost",
        reference=training_flops,
        cases=[(2, 8, 20, 50, 7, 11), (3, 16, 24, 90, 40, 13), (6, 512, 2048, 37_000, 900, 1100)],
        mistakes=FLOPS_MISTAKES,
        rtol=1e-6,
    ),
    Exercise(
        number="14.5",
        title="an ensemble",
        section="The curves",
        reference=ensemble,
        cases=ensemble_cases,
        mistakes=ENSEMBLE_MISTAKES,
        invariants=[
            Invariant(
                "rows sum to one",
                lambda output, x, nets: bool(
                    torch.allclose(
                        torch.as_tensor(output).double().sum(-1),
                        torch.ones(len(x)).double(),
                        atol=1e-4,
                    )
                ),
                "A mean of probabilities is again a probability.",
            )
        ],
    ),
    Exercise(
        number="14.6",
        title="beyond the noise",
        section="What each part is worth",
        reference=beyond_noise,
        cases=NOISE_CASES,
        mistakes=NOISE_MISTAKES,
        canonical=_names,
    ),
]
