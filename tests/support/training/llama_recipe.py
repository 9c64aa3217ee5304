"""A recipe of a model built like Llama: RMSNorm, rotary positions, grouped heads, gated MLP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

SAMPLES = 64


class Block(nn.Module):
    """Attention whose heads share keys and values in groups, and SwiGLU, without biases."""

    def __init__(self, width: int, heads: int, kv_heads: int, mlp_width: int) -> None:
        super().__init__()
        self.head_size = width // heads
        self.attention_norm, self.mlp_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, kv_heads * self.head_size, bias=False) for _ in range(2))
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, mlp_width, bias=False) for _ in range(2))
        self.down = nn.Linear(mlp_width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.attention_norm(x)
        query, key, value = (self._split(layer(y)) for layer in (self.query, self.key, self.value))
        mixed = functional.scaled_dot_product_attention(
            _rotated(query), _rotated(key), value, is_causal=True, enable_gqa=True
        )
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y = self.mlp_norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))  # type: ignore[no-any-return]

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], -1, self.head_size).transpose(1, 2)


def _rotated(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2], device=x.device)[:, None] / (
        10_000 ** torch.linspace(0, 1, x.shape[-1])
    )
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * angles.cos().to(x.dtype) + turned * angles.sin().to(x.dtype)


class LlamaLike(nn.Module):
    """Tokens (batch, time) → logits (batch, time, vocabulary)."""

    def __init__(
        self, layers: int, width: int, heads: int, kv_heads: int, mlp_width: int, vocabulary: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, kv_heads, mlp_width) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


class Zeros(Dataset[tuple[Tensor, Tensor]]):
    """Samples of `context` zeros and their targets."""

    def __init__(self, context: int) -> None:
        self.context = context

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, _index: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(self.context, dtype=torch.long), torch.zeros(self.context, dtype=torch.long)


def build_model(options: dict[str, Any]) -> LlamaLike:
    """All of `LlamaLike`'s numbers."""
    return LlamaLike(**options)


def build_data(options: dict[str, Any], split: str) -> Zeros | None:
    """Zeros to train on, nothing held out."""
    return Zeros(options["context"]) if split == "train" else None


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    """Mean cross entropy, and the number of tokens."""
    tokens, targets = batch
    return functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()), targets.numel()


def blocks(model: nn.Module) -> Iterable[nn.Module]:
    """What FSDP gathers as one unit each."""
    assert isinstance(model, LlamaLike)
    return model.blocks
