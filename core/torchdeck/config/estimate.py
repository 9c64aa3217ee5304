"""The [estimate] table: a model that cannot be traced, in a few numbers."""

from __future__ import annotations

from typing import Literal

from torchdeck.options import Section, option

_SCRIPT = "training of a script"


class Estimate(Section):
    """A decoder-only transformer by its size, to estimate memory if the model itself is not available."""

    parameters: float | None = option(
        "Number of parameters, such as 7e9. Blocks are scaled to match it.",
        default=None,
        unit="parameters",
        ge=1,
        le=1e14,
        right="a whole number from 1 to 1e14, such as 7e9",
    )
    config: str | None = option(
        "A Hugging Face config.json to read the numbers from. Keys given here win.",
        label="Hugging Face config",
        default=None,
        path=True,
        min_length=1,
        right="the path of a config.json of a llama, mistral, qwen2, qwen3 or gpt2 model",
    )
    architecture: Literal["llama", "gpt2"] = option(
        "Kind of block: gated and without biases (llama), or GELU with biases and learned positions (gpt2).",
        default="llama",
    )
    layers: int | None = option(
        "Transformer blocks. Default: computed from parameters and width.", default=None, ge=1, le=10_000
    )
    width: int | None = option(
        "Size of the hidden state. Default: computed from parameters and layers.",
        default=None,
        ge=1,
        le=2**20,
    )
    heads: int | None = option(
        "Attention heads per block. Default: one for each 128 of width.", default=None, ge=1, le=2**16
    )
    kv_heads: int | None = option(
        "Key and value heads. Default: as many as heads.",
        label="Key/value heads",
        default=None,
        ge=1,
        le=2**16,
    )
    mlp_width: int | None = option(
        "Inner size of a block's MLP. Default: 8/3 × width up to a multiple of 256 (llama), 4 × "
        "width (gpt2).",
        label="MLP width",
        default=None,
        ge=1,
        le=2**22,
    )
    vocabulary: int | None = option(
        "Vocabulary size. Default: 32000 (llama), 50257 (gpt2).", default=None, ge=1, le=2**24
    )
    context: int | None = option(
        "Tokens per sample. Default: 4096 (llama), 1024 (gpt2).",
        label="Context length",
        default=None,
        ge=1,
        le=2**24,
        unit="tokens",
    )
    tie_weights: bool | None = option(
        "The output layer shares the embedding's weights. Default: false (llama), true (gpt2).", default=None
    )
    attention: Literal["sdpa", "eager"] = option(
        "Attention that does not store its matrix (sdpa, flash), or that does (eager).", default="sdpa"
    )
    dropout: bool = option("Blocks use dropout, whose masks are kept for the backward pass.", default=False)
    microbatch: int | None = option(
        "Samples in one forward and backward pass of a rank. Default: 8. A recipe uses training.microbatch.",
        label="Batch size per GPU",
        default=None,
        ge=1,
        le=2**20,
        unit="samples",
        group=_SCRIPT,
    )
    precision: Literal["fp32", "bf16", "fp16"] | None = option(
        "Number format of forward and backward passes. Default: fp32. A recipe uses training.precision.",
        label="Mixed precision",
        default=None,
        group=_SCRIPT,
    )
    checkpointing: bool | None = option(
        "Blocks are recomputed in the backward pass. Default: false. A recipe uses "
        "training.activation_checkpointing.",
        label="Activation checkpointing",
        default=None,
        group=_SCRIPT,
    )
    optimizer: Literal["adamw", "adam", "sgd"] | None = option(
        "The optimizer. Default: adamw. A recipe uses training.optimizer.", default=None, group=_SCRIPT
    )
