"""The project with einsum: one tensor for all heads, sizes in one object, an encoder that decoding
calls once, other names and other orders of the arguments."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def attend(values, keys, queries, attn_mask):
    scores = torch.einsum("...td,...sd->...ts", queries, keys) / math.sqrt(keys.shape[-1])
    scores[~attn_mask.expand_as(scores)] = -torch.inf
    parts = (scores - scores.amax(-1, keepdim=True)).exp()
    return torch.einsum("...ts,...sd->...td", parts / parts.sum(-1, keepdim=True), values)


class MultiHead(nn.Module):
    def __init__(self, num_heads, embed_dim):
        super().__init__()
        width = embed_dim // num_heads
        self.into = nn.Parameter(torch.randn(3, embed_dim, embed_dim) * embed_dim**-0.5)
        self.out = nn.Parameter(torch.randn(num_heads, width, embed_dim) * embed_dim**-0.5)
        self.num_heads = num_heads

    def forward(self, query, key, value, mask):
        q, k, v = (
            torch.einsum("btd,dhk->bhtk", x, w.unflatten(1, (self.num_heads, -1)))
            for x, w in zip((query, key, value), self.into, strict=True)
        )
        return torch.einsum("bhtk,hkd->btd", attend(v, k, q, mask), self.out)


def look_ahead_mask(n):
    return ~torch.ones(n, n).triu(1).bool()


def pad_mask(x, pad_idx):
    return torch.where(x == pad_idx, False, True)[:, None, None]


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=300):
        super().__init__()
        even = torch.exp(-math.log(10000.0) * torch.arange(0, d_model, 2) / d_model)
        angles = torch.outer(torch.arange(max_len), even)
        table = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        self.register_buffer("table", table[None])

    def forward(self, x):
        return x + self.table[:, : x.size(1)]


class Add(nn.Module):
    def __init__(self, d, p):
        super().__init__()
        self.a, self.b, self.p = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d)), p

    def forward(self, x, y):
        x = x + F.dropout(y, self.p, self.training)
        mean, var = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
        return (x - mean) / (var + 1e-5).sqrt() * self.a + self.b


class EncoderBlock(nn.Module):
    def __init__(self, d_model, d_ff, n_heads, dropout):
        super().__init__()
        self.add2, self.add1 = Add(d_model, dropout), Add(d_model, dropout)
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.mha = MultiHead(n_heads, d_model)

    def forward(self, x, mask):
        x = self.add1(x, self.mha(x, x, x, mask))
        return self.add2(x, self.net(x))


class DecoderBlock(EncoderBlock):
    def __init__(self, d_model, d_ff, n_heads, dropout):
        super().__init__(d_model, d_ff, n_heads, dropout)
        self.add3, self.look = Add(d_model, dropout), MultiHead(n_heads, d_model)

    def forward(self, tgt_mask, src_mask, memory, x):
        x = self.add1(x, self.mha(x, x, x, tgt_mask))
        x = self.add2(x, self.look(x, memory, memory, src_mask))
        return self.add3(x, self.net(x))


class Seq2Seq(nn.Module):
    def __init__(self, config):
        super().__init__()
        sizes = config.d_model, config.d_ff, config.n_heads, config.dropout
        self.E = nn.Parameter(torch.randn(config.vocab_size, config.d_model) / 4)
        self.pe = PositionalEncoding(config.d_model)
        self.drop = nn.Dropout(config.dropout)
        self.up = nn.ModuleList([EncoderBlock(*sizes) for _ in range(config.n_layers)])
        self.down = nn.ModuleList([DecoderBlock(*sizes) for _ in range(config.n_layers)])

    def embed(self, ids):
        return self.drop(self.pe(F.embedding(ids, self.E) * self.E.shape[1] ** 0.5))

    def encode(self, src):
        x, mask = self.embed(src), pad_mask(src, 0)
        for block in self.up:
            x = block(x, mask)
        return x, mask

    def decode(self, memory, mask, tgt):
        x = self.embed(tgt)
        for block in self.down:
            x = block(look_ahead_mask(tgt.shape[1]), mask, memory, x)
        return F.linear(x, self.E)

    def forward(self, tgt, src):
        return self.decode(*self.encode(src), tgt)


def criterion(targets, logits, eps):
    size = logits.shape[-1]
    keep = targets.flatten() != 0
    log_p = F.log_softmax(logits.flatten(0, -2)[keep], -1)
    nll = F.nll_loss(log_p, targets.flatten()[keep])
    rest = -log_p[:, 1:].sum(-1).mean() / (size - 1)
    return (1 - eps) * nll + eps * rest


def lr(warmup, d_model, step):
    return 1 / math.sqrt(d_model) * min(1 / math.sqrt(step), step / warmup**1.5)


def train_model(d_model, warmup, model, loader):
    net = model.train()
    optimizer = torch.optim.Adam(net.parameters(), lr=1, betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: lr(warmup, d_model, i + 1))
    for src, tgt in loader:
        optimizer.zero_grad(set_to_none=True)
        criterion(tgt[:, 1:], net(src=src, tgt=tgt[:, :-1]), 0.1).backward()
        optimizer.step()
        schedule.step()


@torch.inference_mode()
def greedy_search(model, max_length, src):
    model.eval()
    kept = model.encode(src)
    ids = torch.full((len(src), 1), 2)
    while ids.shape[1] <= max_length and not (ids == 3).any(1).all():
        ids = torch.cat([ids, model.decode(*kept, ids)[:, -1:].argmax(-1)], 1)
    return [row[1 : (row == 3).nonzero()[0, 0] if (row == 3).any() else None] for row in ids]


@torch.inference_mode()
def beam_search(model, src, alpha, beam_size, max_length):
    model.eval()
    results = []
    for one in src:
        memory, mask = model.encode(one[None])
        live, done = {(2,): 0.0}, {}
        while live and len(next(iter(live))) <= max_length and len(done) < beam_size:
            ids = torch.tensor(list(live))
            logits = model.decode(
                memory.expand(len(ids), -1, -1), mask.expand(len(ids), -1, -1, -1), ids
            )
            total = logits[:, -1].log_softmax(-1) + torch.tensor(list(live.values()))[:, None]
            best, places = total.flatten().topk(2 * beam_size)
            grown = {}
            for rank, (p, place) in enumerate(zip(best.tolist(), places.tolist(), strict=True)):
                row = (*ids[place // total.shape[1]].tolist(), place % total.shape[1])
                if row[-1] != 3 and len(grown) < beam_size:
                    grown[row] = p
                elif row[-1] == 3 and rank < beam_size:
                    done[row] = p
            live = grown
        pool = done or live
        best = max(pool, key=lambda row: pool[row] / ((4 + len(row)) / 6) ** alpha)
        results.append([i for i in best[1:] if i != 3])
    return results
