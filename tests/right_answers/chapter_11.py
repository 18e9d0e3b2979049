"""Right answers to the exercises of chapter 11, written in different styles."""

import math

import numpy as np
import torch
from torch import nn

from allyouneed.masks import causal_mask, padding_mask
from allyouneed.tokens import BOS, EOS, PAD, pad
from allyouneed.transformer import Transformer, TransformerConfig


def count_the_model(vocab_size, d_model, d_ff, n_layers, norm_first):
    sizes = {"d_model": d_model, "d_ff": d_ff, "n_heads": 1, "n_layers": n_layers}
    model = Transformer(TransformerConfig(vocab_size, **sizes, norm_first=norm_first))
    return sum(p.numel() for p in model.parameters())


def count_in_loops(vocab_size, d_model, d_ff, n_layers, norm_first):
    total = vocab_size * d_model
    for _ in range(n_layers):
        for attentions in (1, 2):
            total += attentions * 4 * d_model * d_model
            total += d_model * d_ff + d_ff + d_ff * d_model + d_model
            total += (attentions + 1) * (d_model + d_model)
    if norm_first:
        total += 4 * d_model
    return np.int64(total)


def count_closed(v, d, f, n, first):
    return v * d + n * (12 * d**2 + 4 * d * f + 2 * f + 12 * d) + 4 * d * int(first)


def in_out_module(tokens, states, table, places):
    embedding = nn.Embedding.from_pretrained(table)
    last = nn.Linear(*table.T.shape, bias=False)
    last.weight = embedding.weight
    x = embedding(tokens) * table.shape[-1] ** 0.5
    return [x + places[None, : x.shape[1]], last(states).detach()]


def in_out_loops(tokens, states, table, places):
    x = torch.zeros(*tokens.shape, table.shape[1], dtype=torch.float64)
    logits = np.zeros((*tokens.shape, len(table)))
    for b, t in np.ndindex(*tokens.shape):
        x[b, t] = math.sqrt(table.shape[1]) * table[tokens[b, t]] + places[t]
        for i, row in enumerate(table):
            logits[b, t, i] = row @ states[b, t]
    return x, logits


def in_out_einsum(tokens, states, table, places):
    one_hot = nn.functional.one_hot(tokens, len(table)).to(table.dtype)
    x = torch.einsum("btv,vd->btd", one_hot, table)
    x.mul_(table.shape[1] ** 0.5).add_(places[: tokens.shape[1]])
    return x, torch.einsum("btd,vd->btv", states, table)


def encoder_lambda(x, mask, attention, feed_forward, norms, norm_first):
    subs = (lambda h: attention(h, h, h, mask), feed_forward)
    for sub, norm in zip(subs, norms, strict=True):
        x = x + sub(norm(x)) if norm_first else norm(x + sub(x))
    return x


def encoder_in_place(x, mask, attention, feed_forward, norms, norm_first):
    h = norms[0](x) if norm_first else x.clone()
    x += attention(q=h, k=h, v=h, mask=mask)
    if not norm_first:
        x = norms[0](x)
    h = norms[1](x) if norm_first else x
    x = feed_forward(h) + x
    return x if norm_first else norms[1](x)


def encoder_double(x, mask, attention, feed_forward, norms, norm_first):
    x = x.double()
    around = (lambda x, f, n: x + f(n(x))) if norm_first else (lambda x, f, n: n(f(x) + x))
    x = around(x, lambda h: attention(h, h, h, mask), norms[0])
    return around(x, feed_forward, norms[1])


def decoder_names(x, memory, src_mask, tgt_mask, self_attention, cross_attention, net, norms):
    own = norms[0](x + self_attention(x, x, x, tgt_mask))
    found = norms[1](own + cross_attention(q=own, k=memory, v=memory, mask=src_mask))
    return norms[2](found + net(found)).numpy()


def decoder_loop(x, memory, src_mask, tgt_mask, self_attention, cross_attention, net, norms):
    subs = [
        lambda h: self_attention(h, h, h, tgt_mask),
        lambda h: cross_attention(h, memory, memory, src_mask),
        net,
    ]
    for norm, sub in zip(norms, subs, strict=True):
        x = norm(sub(x) + x)
    return x


def decoder_one_by_one(x, memory, src_mask, tgt_mask, self_attention, cross, net, norms):
    sentences = []
    for b in range(len(x)):
        own = tgt_mask[b] if tgt_mask.dim() == 3 else tgt_mask
        y, m = x[b].double(), memory[b].double()
        y = norms[0](y + self_attention(y, y, y, own))
        y = norms[1](y + cross(y, m, m, src_mask[b]))
        sentences.append(norms[2](y + net(y)))
    return torch.stack(sentences)


def masks_package(src, tgt, pad):
    hidden = padding_mask(src, pad)
    return hidden, padding_mask(tgt, pad) & causal_mask(tgt.shape[1]), hidden


def masks_full(src, tgt, pad):
    (b, s), t = src.shape, tgt.shape[1]
    encoder, decoder, cross = (
        torch.zeros(b, 1, *size, dtype=torch.bool) for size in ((s, s), (t, t), (t, s))
    )
    for i in range(b):
        for k in range(s):
            encoder[i, 0, :, k] = cross[i, 0, :, k] = bool(src[i, k] != pad)
        for k in range(t):
            decoder[i, 0, k:, k] = bool(tgt[i, k] != pad)
    return [encoder, decoder, cross]


def masks_arange(src, tgt, pad):
    t = torch.arange(tgt.shape[1])
    real = tgt.ne(pad).unsqueeze(1).unsqueeze(1)
    src_mask = src.ne(pad).unsqueeze(1).unsqueeze(1)
    return src_mask, torch.logical_and(real, t[:, None] >= t[None]), src_mask.clone()


def batch_lists(pairs):
    rows = [[], [], []]
    for source, target in pairs:
        rows[0].append(source + [EOS])
        rows[1].append([BOS] + target)
        rows[2].append(target + [EOS])
    for part in rows:
        width = max(len(row) for row in part)
        for row in part:
            row += [PAD] * (width - len(row))
    return tuple(rows)


def batch_sequence(pairs):
    from torch.nn.utils.rnn import pad_sequence

    src = [torch.tensor([*s, EOS]) for s, _ in pairs]
    tgt = [torch.tensor([BOS, *t, EOS]) for _, t in pairs]
    parts = (src, [row[:-1] for row in tgt], [row[1:] for row in tgt])
    return [pad_sequence(part, batch_first=True, padding_value=PAD) for part in parts]


def batch_numpy(pairs):
    sources, targets = zip(*pairs, strict=True)
    src = np.zeros((len(pairs), max(map(len, sources)) + 1), dtype=np.int32)
    read = np.zeros((len(pairs), max(map(len, targets)) + 1), dtype=np.int64)
    labels = read.copy()
    read[:, 0] = BOS
    for i, (source, target) in enumerate(pairs):
        src[i, : len(source)], src[i, len(source)] = source, EOS
        read[i, 1 : len(target) + 1] = labels[i, : len(target)] = target
        labels[i, len(target)] = EOS
    return src, read, labels


@torch.inference_mode()
def write_forward(model, src, length):
    model = model.eval()
    written = torch.full((src.shape[0], 1), BOS)
    for _ in range(length):
        logits = model(src, written)[:, -1]
        written = torch.cat((written, logits.softmax(-1).argmax(-1, keepdim=True)), 1)
    return written[:, 1:].clone()


def write_one_by_one(model, src, length):
    model.train(False)
    rows = []
    for sentence in src:
        sentence = sentence[sentence != PAD][None]
        memory, row = model.encode(sentence), [BOS]
        for _ in range(length):
            states = model.decode(torch.tensor([row]), memory, padding_mask(sentence, PAD))
            row.append(int(model.logits(states[:, -1:]).argmax()))
        rows.append(row[1:])
    return rows


def write_in_place(model, src, length):
    model.eval()
    memory, mask = model.encode(src), (src != PAD)[:, None, None]
    tgt = torch.full((len(src), length + 1), PAD)
    tgt[:, 0] = BOS
    for t in range(length):
        last = model.decode(tgt[:, : t + 1], memory, mask)[:, t : t + 1]
        tgt[:, t + 1] = model.logits(last).argmax(-1).squeeze(1)
    return tgt[:, 1:]


def _write_padded(model, src, length):
    return write_in_place(
        model, pad([[i for i in row if i != PAD] for row in src.tolist()]), length
    )


RIGHT = {
    "11.1": [count_the_model, count_in_loops, count_closed],
    "11.2": [in_out_module, in_out_loops, in_out_einsum],
    "11.3": [encoder_lambda, encoder_in_place, encoder_double],
    "11.4": [decoder_names, decoder_loop, decoder_one_by_one],
    "11.5": [masks_package, masks_full, masks_arange],
    "11.6": [batch_lists, batch_sequence, batch_numpy],
    "11.7": [write_forward, write_one_by_one, write_in_place, _write_padded],
}
