"""Published weights: what others call them, how they store them, and where they are fetched.

This module is plumbing written by hand. It knows names and shapes; `families` and `today` have the
classes that the weights are for.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import safetensors.torch
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor

from allyouneed.data import load_published, load_quantized

GPT2_NAMES = {
    "h": "layers",
    "wte": "embedding",
    "wpe.weight": "positions.table",
    "ln_1": "residuals.0.norm",
    "ln_2": "residuals.1.norm",
    "attn.c_proj": "self_attention.w_o",
    "mlp.c_fc": "feed_forward.w_1",
    "mlp.c_proj": "feed_forward.w_2",
    "ln_f": "norm",
}
BERT_NAMES = {
    "embeddings.word_embeddings": "embedding",
    "embeddings.position_embeddings.weight": "positions.table",
    "embeddings.token_type_embeddings": "segments",
    "embeddings.LayerNorm": "norm",
    "encoder.layer": "layers",
    "attention.self.query": "self_attention.w_q",
    "attention.self.key": "self_attention.w_k",
    "attention.self.value": "self_attention.w_v",
    "attention.output.dense": "self_attention.w_o",
    "attention.output.LayerNorm": "residuals.0.norm",
    "intermediate.dense": "feed_forward.w_1",
    "output.dense": "feed_forward.w_2",
    "output.LayerNorm": "residuals.1.norm",
    "cls.predictions.transform.dense": "transform",
    "cls.predictions.transform.LayerNorm": "transform_norm",
    "cls.predictions.bias": "bias",
}
LLAMA_NAMES = {
    "model.embed_tokens.": "embedding.",
    "model.layers.": "layers.",
    "model.norm.": "norm.",
    "lm_head.": "output.",
    ".self_attn.q_proj.": ".self_attention.w_q.",
    ".self_attn.k_proj.": ".self_attention.w_k.",
    ".self_attn.v_proj.": ".self_attention.w_v.",
    ".self_attn.o_proj.": ".self_attention.w_o.",
    ".self_attn.q_norm.": ".self_attention.q_norm.",
    ".self_attn.k_norm.": ".self_attention.k_norm.",
    ".mlp.gate_proj.": ".feed_forward.w_1.",
    ".mlp.up_proj.": ".feed_forward.w_3.",
    ".mlp.down_proj.": ".feed_forward.w_2.",
    ".input_layernorm.": ".residuals.0.norm.",
    ".post_attention_layernorm.": ".residuals.1.norm.",
    "norm.weight": "norm.gamma",
}
LLAMA_SIZES = {
    "vocab_size": "vocab_size",
    "d_model": "hidden_size",
    "d_ff": "intermediate_size",
    "n_heads": "num_attention_heads",
    "n_layers": "num_hidden_layers",
    "eps": "rms_norm_eps",
}
GGUF_NAMES = {  # what a GGUF file calls the weights of a Llama, and `transformers`
    "token_embd.": "model.embed_tokens.",
    "output_norm.": "model.norm.",
    "output.": "lm_head.",
    "blk.": "model.layers.",
    ".attn_norm.": ".input_layernorm.",
    ".attn_q.": ".self_attn.q_proj.",
    ".attn_k.": ".self_attn.k_proj.",
    ".attn_v.": ".self_attn.v_proj.",
    ".attn_output.": ".self_attn.o_proj.",
    ".ffn_norm.": ".post_attention_layernorm.",
    ".ffn_gate.": ".mlp.gate_proj.",
    ".ffn_up.": ".mlp.up_proj.",
    ".ffn_down.": ".mlp.down_proj.",
}
GGUF_SIZES = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "rope.dimension_count",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": "rope.freq_base",
    "vocab_size": "vocab_size",
}
GGUF_PLAIN = {  # the family, and the tokenizer, that `read_gguf` knows
    "general.architecture": "llama",
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
}
PLAIN = {  # what must be so, or must not be there, for the sizes of a Llama to say all
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "rope_scaling": None,
    "use_sliding_window": False,
}


def rename_weight(name: str, names: dict[str, str]) -> str:
    """Our name of a published weight: each part that `names` knows is replaced."""
    for theirs, ours in names.items():
        name = re.sub(rf"(^|\.){re.escape(theirs)}(?=\.|$)", rf"\g<1>{ours}", name)
    if re.search(r"norm\.\w+$", name):
        name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
    return name


def check_state(state: object) -> None:
    """Raise TypeError unless there are weights by their names, and not the model that has them."""
    if not isinstance(state, Mapping):
        raise TypeError(
            f"state: expected a dict, such as state_dict() gives, got {type(state).__name__}"
        )


def check_tied(state: dict[str, Tensor], output: str, embedding: str) -> None:
    """Raise ValueError if there is a matrix for the logits that is not the embedding matrix."""
    check_state(state)
    if output in state and not torch.equal(state[output], state[embedding]):
        raise ValueError(f"state: expected {output} to be equal to {embedding}, got another")


# A chapter lists these two: at most 88 columns, as in what it exports.


def convert_gpt2(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a GPT-2, named as in the published file or in `transformers`, as ours.

    There, matrices stand the other way round than in `nn.Linear`, and those of queries, keys and
    values side by side in one. Raises ValueError if embeddings and logits share no matrix.
    """
    check_tied(state, "lm_head.weight", "transformer.wte.weight")
    ours = {}
    for name, x in state.items():
        name = name.removeprefix("transformer.")
        # a causal mask
        if name == "lm_head.weight" or re.search(r"\.attn\.(masked_)?bias$", name):
            continue
        if ".c_" in name and x.dim() == 2:
            x = x.T
        if "c_attn" in name:
            for letter, piece in zip("qkv", x.chunk(3), strict=True):
                one = name.replace("attn.c_attn", f"self_attention.w_{letter}")
                ours[rename_weight(one, GPT2_NAMES)] = piece
        else:
            ours[rename_weight(name, GPT2_NAMES)] = x
    return ours


def convert_bert(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a BERT, named as in the published file or in `transformers`, as ours.

    What belongs to its second task, whether two sentences follow each other, is left out. Raises
    ValueError as `convert_gpt2` does.
    """
    words = "bert.embeddings.word_embeddings.weight"
    check_tied(state, "cls.predictions.decoder.weight", words)
    unused = ("pooler.", "cls.seq_relationship.", "cls.predictions.decoder.")
    names = {name: name.removeprefix("bert.") for name in state}
    return {
        rename_weight(names[name], BERT_NAMES): x
        for name, x in state.items()
        if not names[name].startswith(unused) and not name.endswith("position_ids")
    }


def llama_sizes(config: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `LlamaConfig` from a published config.json: a Llama, Mistral, Qwen2 or Qwen3.

    Raises ValueError for another family, for a size that is not there, and for what this book has
    not built, such as stretched rotary angles.
    """
    if not isinstance(config, Mapping):
        raise TypeError(f"config: expected a dict, as config.json, got {type(config).__name__}")
    family = config.get("model_type")
    if family not in ("llama", "mistral", "qwen2", "qwen3"):
        raise ValueError(f"model_type: expected llama, mistral, qwen2 or qwen3, got {family!r}")
    for name, plain in PLAIN.items():
        if config.get(name, plain) != plain:
            raise ValueError(f"{name}: expected {plain!r}, got {config[name]!r}")
    rotary = config.get("rope_parameters") or {}
    if rotary.get("rope_type", "default") != "default":
        raise ValueError(f"rope_type: expected 'default', got {rotary['rope_type']!r}")
    if lost := [name for name in LLAMA_SIZES.values() if name not in config]:
        raise ValueError(f"{lost[0]}: expected it in the config, got none")
    sizes = {ours: config[theirs] for ours, theirs in LLAMA_SIZES.items()}
    return sizes | dict(
        n_groups=config.get("num_key_value_heads") or sizes["n_heads"],
        d_k=config.get("head_dim") or sizes["d_model"] // sizes["n_heads"],
        theta=float(rotary.get("rope_theta", config.get("rope_theta", 10000.0))),
        tied=config.get("tie_word_embeddings", False),
        qkv_bias=family == "qwen2",
        qk_norm=family == "qwen3",
        window=config.get("sliding_window") if family == "mistral" else None,
    )


def convert_llama(state: dict[str, Tensor], tied: bool) -> dict[str, Tensor]:
    """The weights of a Llama, named as in `transformers`, as ours; `tied`: the embedding matrix
    also gives the logits, and is left out where it stands a second time."""
    check_state(state)
    ours = {}
    for name, x in state.items():
        if name == "lm_head.weight" and tied:
            continue
        for theirs, here in LLAMA_NAMES.items():
            name = name.replace(theirs, here)
        ours[name] = x
    return ours


def fetch_weights(name: str) -> tuple[dict[str, Tensor], tokenizers.Tokenizer]:
    """Published weights, under their own names, and their tokenizer; as `load_published`."""
    content, tokenizer = load_published(name)
    return safetensors.torch.load(content), tokenizers.Tokenizer.from_str(tokenizer.decode())


def fetch_quantized(
    name: str,
) -> tuple[dict[str, Tensor], dict[str, Any], tokenizers.Tokenizer]:
    """A published Llama of few bits for each weight; as `load_quantized` and `read_gguf`."""
    return read_gguf(load_quantized(name))


def read_gguf(
    content: bytes,
) -> tuple[dict[str, Tensor], dict[str, Any], tokenizers.Tokenizer]:
    """The Llama of a GGUF file: weights in float32, named and ordered as in `transformers`, the
    sizes of its config.json, and its tokenizer.

    In the file rotary pairs are neighbours; here they are halves. Raises ValueError if it is no
    GGUF file, one of another family or with another kind of tokenizer, or if a size is missing.
    """
    if content[:4] != b"GGUF":
        raise ValueError(f"content: expected a GGUF file, got one that begins with {content[:4]!r}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.gguf")
        path.write_bytes(content)
        reader = gguf.GGUFReader(path)
        told = {name: field.contents() for name, field in reader.fields.items()}
        state = {  # copied, for what has 32 bits is a view of the file
            x.name: torch.tensor(gguf.dequantize(x.data, x.tensor_type)) for x in reader.tensors
        }
        del reader  # it holds the file, which Windows would not remove
    for name, plain in GGUF_PLAIN.items():
        if told.get(name) != plain:
            raise ValueError(f"{name}: expected {plain!r}, got {told.get(name)!r}")
    if lost := [name for name in GGUF_SIZES.values() if f"llama.{name}" not in told]:
        raise ValueError(f"llama.{lost[0]}: expected it in the file, got none")
    sizes = {theirs: told[f"llama.{name}"] for theirs, name in GGUF_SIZES.items()}
    config = {"model_type": "llama", "tie_word_embeddings": "output.weight" not in state, **sizes}
    renamed = {}
    for name, x in state.items():
        if ".attn_q." in name or ".attn_k." in name:  # (head, pair, member of the pair, d_model)
            x = x.unflatten(0, (-1, config["head_dim"] // 2, 2)).transpose(1, 2).flatten(0, 2)
        for theirs, here in GGUF_NAMES.items():
            name = re.sub(rf"(^|(?<=\d)){re.escape(theirs)}", here, name)
        renamed[name] = x
    return renamed, config, _byte_level(told)


def _byte_level(told: dict[str, Any]) -> tokenizers.Tokenizer:
    """The tokenizer of a GGUF file: byte pairs, as in GPT-2, and each digit by itself."""
    tokens = told["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in told["tokenizer.ggml.merges"]]
    tokenizer = tokenizers.Tokenizer(
        models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, told["tokenizer.ggml.token_type"], strict=True)
    tokenizer.add_special_tokens([token for token, kind in kinds if kind == 3])
    return tokenizer
