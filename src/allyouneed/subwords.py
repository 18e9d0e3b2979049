"""BPE-dropout: the same word cut in another way each time, so that a small corpus says more.

This module is plumbing written by hand; no chapter explains it. Provilkov, Emelianenko and Voita
(2020), https://arxiv.org/abs/1910.13267, section 3: while merges are applied to a word, each
possible merge is left out with probability p. With p = 0 the words are cut as always.
"""

from __future__ import annotations

import json
import random
from heapq import heapify, heappop, heappush

from allyouneed.checks import check_kind, check_probability
from allyouneed.tokens import UNK, Tokenizer

VARIANTS = 32  # ways in which a word is cut, drawn once; each use of the word takes one of them
LETTERS = 32_000  # of all ways together: a word of more than 1,000 letters has fewer


class BPEDropout:
    """Encode sentences as a tokenizer does, but with each merge left out with probability p.

    Which variants a word has follows from the word and `seed`. Raises ValueError unless p is a
    probability below 1, TypeError for what is no tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer, p: float, seed: int = 0):
        check_kind(Tokenizer, tokenizer=tokenizer)
        check_probability(p=p)
        self.tokenizer, self.p, self.seed = tokenizer, p, seed
        model = json.loads(tokenizer.bpe.to_str())["model"]
        pairs = [m if isinstance(m, list) else m.split(" ") for m in model["merges"]]
        self.ranks = {(left, right): rank for rank, (left, right) in enumerate(pairs)}
        self.ids = model["vocab"]
        self.variants: dict[str, list[list[int]]] = {}

    def encode(self, sentence: str, rng: random.Random) -> list[int]:
        """The ids of the sentence, without BOS and EOS; `rng` chooses among the variants."""
        bpe = self.tokenizer.bpe
        words = bpe.pre_tokenizer.pre_tokenize_str(bpe.normalizer.normalize_str(sentence))
        ids: list[int] = []
        for word, _ in words:
            if word not in self.variants:
                draws = random.Random(f"{self.seed}/{word}")
                most = VARIANTS if self.p else 1
                count = max(1, min(most, LETTERS // len(word)))
                self.variants[word] = [self._cut(word, draws) for _ in range(count)]
            ids += rng.choice(self.variants[word])
        return ids

    def _cut(self, word: str, draws: random.Random) -> list[int]:
        """Merge the pair of the lowest rank that is not left out, until none is left to merge."""
        end = len(word)
        pieces = [*word, ""]  # a piece stands where it begins; "" where none does
        left, right = list(range(-1, end)), [*range(1, end + 1), end]

        def rank_at(i: int) -> int | None:
            return self.ranks.get((pieces[i], pieces[right[i]]))

        merges = [(rank, i) for i in range(end) if (rank := rank_at(i)) is not None]
        heapify(merges)
        left_out = []
        while merges:
            rank, i = heappop(merges)
            if rank_at(i) != rank:  # one of the two was merged with another
                continue
            if draws.random() < self.p:
                left_out.append((rank, i))
                continue
            pieces[i], pieces[right[i]] = pieces[i] + pieces[right[i]], ""
            right[i] = right[right[i]]
            left[right[i]] = i
            possible = [(rank_at(k), k) for k in (left[i], i)]
            for merge in left_out + [m for m in possible if m[0] is not None]:
                heappush(merges, merge)
            left_out = []
        return [self.ids.get(piece, UNK) for piece in pieces if piece]
