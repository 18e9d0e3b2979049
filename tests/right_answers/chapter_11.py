"""Right answers to the exercises of chapter 11, written in different styles."""

import math

import numpy as np
import torch
from torch import nn

from allyouneed.masks import causal_mask, padding_mask
from allyouneed.tokens import BOS, EOS, PAD, pad


def count_the_shapes(vocab_size, d_model, d_ff, n_heads, d_k, d_v, n_encoder, n_decoder):
    narrow, wide = (d_model, n_heads * d_k), (d_model, n_heads * d_v)
    attention = [narrow, narrow, wide, wide[::-1]]
    net, norm = [(d_model, d_ff), (d_ff,), (d_ff, d_model), (d_model,)], [(d_model,)] * 2
    shapes = [(vocab_size, d_model)] + n_encoder * (attention + net + 2 * norm)
    shapes += n_decoder * (2 * attention + net + 3 * norm)
    return sum(math.prod(shape) for shape in shapes)


def count_in_loops(vocab_size, d_model, d_ff, n_heads, d_k, d_v, n_encoder, n_decoder):
    total = vocab_size * d_model
    for attentions in [1] * n_encoder + [2] * n_decoder:
        for _ in range(attentions * n_heads):
            total += d_model * (d_k + d_k + d_v) + d_v * d_model
        total += d_model * d_ff + d_ff + d_ff * d_model + d_model
        total += (attentions + 1) * (d_model + d_model)
    return np.int64(total)


def count_closed(v, d, f, h, k, w, e, n):
    return float(
        v * d
        + 2 * d * h * (k + w) * (e + 2 * n)
        + (e + n) * (2 * d * f + f + d)
        + 4 * d * e
        + 6 * d * n
    )


def shared_by_autograd(tokens, states, dx, dlogits):
    matrix = torch.zeros(dlogits.shape[-1], dx.shape[-1], requires_grad=True)
    x = nn.functional.embedding(tokens, matrix) * dx.shape[-1] ** 0.5
    ((x * dx).sum() + (states @ matrix.T * dlogits).sum()).backward()
    return matrix.grad


def shared_by_one_hot(tokens, states, dx, dlogits):
    read = nn.functional.one_hot(tokens, dlogits.shape[-1]).double()
    below = torch.einsum("btv,btd->vd", read, dx.double()) * math.sqrt(dx.shape[-1])
    return below + torch.einsum("btv,btd->vd", dlogits.double(), states.double())


def shared_in_loops(tokens, states, dx, dlogits):
    V, D = dlogits.shape[-1], dx.shape[-1]
    rows = np.zeros((V, D))
    for b, t in np.ndindex(*tokens.shape):
        rows[int(tokens[b, t])] += math.sqrt(D) * dx[b, t].numpy()
        for v in range(V):
            rows[v] += float(dlogits[b, t, v]) * states[b, t].numpy()
    return rows


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
    read = norms[0](x)
    own = x + self_attention(read, read, read, tgt_mask)
    found = own + cross_attention(q=norms[1](own), k=memory, v=memory, mask=src_mask)
    return (found + net(norms[2](found))).numpy()


def decoder_loop(x, memory, src_mask, tgt_mask, self_attention, cross_attention, net, norms):
    subs = [
        lambda h: self_attention(h, h, h, tgt_mask),
        lambda h: cross_attention(h, memory, memory, src_mask),
        net,
    ]
    for norm, sub in zip(norms, subs, strict=True):
        x = sub(norm(x)) + x
    return x


def decoder_one_by_one(x, memory, src_mask, tgt_mask, self_attention, cross, net, norms):
    sentences = []
    for b in range(len(x)):
        own = tgt_mask[b] if tgt_mask.dim() == 3 else tgt_mask
        y, m = x[b].double(), memory[b].double()
        h = norms[0](y)
        y = y + self_attention(h, h, h, own)
        y = y + cross(norms[1](y), m, m, src_mask[b])
        sentences.append(y + net(norms[2](y)))
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


def masks_one_by_one(src, tgt, pad):
    for which, ids in enumerate((src, tgt, src)):
        seen = ids.ne(pad)[:, None, None]
        yield seen & torch.ones(2 * ids.shape[1:], dtype=torch.bool).tril() if which == 1 else seen


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
        (memory, mask), row = model.encode(sentence), [BOS]
        for _ in range(length):
            states = model.decode(torch.tensor([row]), memory, mask)
            row.append(int(model.logits(states[:, -1:]).argmax()))
        rows.append(row[1:])
    return rows


def write_in_place(model, src, length):
    model.eval()
    memory, mask = model.encode(src)[0], (src != PAD)[:, None, None]
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


@torch.no_grad()
def fault_by_differences(model, vocab_size):
    def moves(src, tgt, places=3):
        a, b = model(torch.tensor([[7, 5, 4, 3]]), torch.tensor([[2, 4, 6]])), model(src, tgt)
        return (a[0, :places] - b[0, :places]).abs().max() > 1e-3

    src, tgt = torch.tensor([[7, 5, 4, 3]]), torch.tensor([[2, 4, 6]])
    if moves(src, tgt):
        return "dropout is on"
    if moves(src, torch.tensor([[2, 4, 8]]), 2):
        return "sees the future"
    if moves(torch.tensor([[7, 5, 4, 3, 0, 0, 0]]), tgt):
        return "sees the padding"
    if not moves(torch.tensor([[6, 8, 8, 3]]), tgt):
        return "ignores the source"
    return "right" if moves(torch.tensor([[4, 5, 7, 3]]), tgt) else "no positions"


def fault_by_batches(model, vocab_size):
    draw = torch.Generator().manual_seed(3)
    src = torch.randint(4, vocab_size, (6, 5), generator=draw)
    tgt = torch.randint(4, vocab_size, (6, 4), generator=draw)

    def same(a, b):
        return bool(torch.isclose(a, b, atol=1e-4).all())

    logits = model(src, tgt)
    if not same(logits, model(src, tgt)):
        return "Dropout is on."
    changed = tgt.clone()
    changed[:, -1] = (changed[:, -1] - 3) % (vocab_size - 4) + 4
    if not same(logits[:, :-1], model(src, changed)[:, :-1]):
        return "sees the future"
    if not same(logits, model(torch.cat([src, torch.zeros_like(src)], 1), tgt)):
        return "sees the padding"
    if same(logits, model(src.roll(1, 0), tgt)):
        return "ignores the source"
    return "no positions" if same(logits, model(src.flip(1), tgt)) else "right"


def fault_by_gradient(model, vocab_size):
    model.requires_grad_(True)
    src, tgt = torch.tensor([[4, 5, 6, 3]]), torch.tensor([[2, 7, 8]])
    if not torch.equal(model(src, tgt), model(src, tgt)):
        return "dropout is on"

    def rows(src, tgt, place):
        model.zero_grad()
        x = model.states(src, tgt)[0, place]
        (x @ torch.arange(16.0).sin()).backward()
        return model.embedding.weight.grad.abs().sum(1) > 1e-6

    if rows(src, tgt, 1)[8]:
        return "sees the future"
    if rows(torch.tensor([[4, 5, 6, 3, 0]]), tgt, 2)[0]:
        return "sees the padding"
    if not rows(src, tgt, 2)[4]:
        return "ignores the source"
    turned = torch.allclose(model(src, tgt), model(src[:, [2, 0, 1, 3]], tgt), atol=1e-4)
    return "no positions" if turned else "right"


def spend_by_search(budget):
    for d_model in range(64, 2048, 64):
        for n_layers in range(12, 1, -1):
            total = count_closed(
                8000, d_model, 4 * d_model, 1, d_model, d_model, n_layers, n_layers
            )
            if 0.9 * budget <= total <= budget:
                return torch.tensor([d_model, 4 * d_model, d_model / 64, n_layers])


def spend_by_table(budget):
    return {2_000_000: (64, 256, 1, 12), 5_000_000: [128, 512, 2, 8],
            20_000_000: (256, 1024, 4, 9), 65_000_000: (512, 2048, 8, 8)}[budget]  # fmt: skip


def spend_by_layers(budget):
    fits = []
    for heads in range(1, 17):
        d = 64 * heads
        n = min(12, (budget - 8000 * d) // (28 * d * d + 20 * d))
        fits.append((count_in_loops(8000, d, 4 * d, 1, d, d, n, n), (d, 4 * d, heads, n)))
    return torch.tensor(max(fit for fit in fits if fit[1][3] >= 2)[1])


NO_GRADIENT = ["encoder w_q", "encoder w_k", "cross w_q", "cross w_k"]


def write_by_recursion(model, src, length, written=None):
    model.eval()
    written = torch.full((len(src), 1), 2) if written is None else written
    if length == 0:
        return written[:, 1:]
    best = model(src, written)[:, -1].argmax(-1, keepdim=True)
    return write_by_recursion(model, src, length - 1, torch.cat([written, best], 1))


RIGHT = {
    "11.1": [count_the_shapes, count_in_loops, count_closed],
    "11.2": [shared_by_autograd, shared_by_one_hot, shared_in_loops],
    "11.3": [encoder_lambda, encoder_in_place, encoder_double],
    "11.4": [decoder_names, decoder_loop, decoder_one_by_one],
    "11.5": [masks_package, masks_full, masks_arange, masks_one_by_one],
    "11.6": [batch_lists, batch_sequence, batch_numpy],
    "11.7": [write_by_recursion, write_forward, write_one_by_one, write_in_place, _write_padded],
    "11.8": [fault_by_differences, fault_by_batches, fault_by_gradient],
    "11.9": [NO_GRADIENT, set(NO_GRADIENT), tuple(reversed(NO_GRADIENT))],
    "11.10": [spend_by_search, spend_by_table, spend_by_layers],
}
