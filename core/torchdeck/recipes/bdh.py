"""Recipe bdh: the Dragon Hatchling in its GPU form, on bytes.

Kosowski, Uznański, Chorowski, Stamirowska and Bartoszkiewicz, "The Dragon Hatchling: The Missing Link
between the Transformer and Models of the Brain", arXiv 2509.26507 (2025): BDH-GPU as in the code listing in
appendix E, and the authors' program (github.com/pathwaycom/bdh, bdh.py). The angles of the rotation and the
standard deviation of initial weights, 0.02, are from the latter.

With n neurons, width d, h heads (section 4.1), time t from 0, LN(x) = (x - mean) / √(variance + 10⁻⁵) over
the width without weights of its own, and (z)₊ = max(z, 0):

    v₀,t = LN(E[token t])                                    E: 256 × d
    in every layer l, all with the same weights, and in every head, of n / h neurons each:
        x  = (v Dₓ)₊                                         Dₓ: d × n / h       sparse and positive
        aₜ = Σ over s < t of ⟨Rₜ xₜ, Rₛ xₛ⟩ vₛ               linear attention without normalisation
        y  = (LN(a) D_y)₊ ⊙ x                                D_y: d × n / h
    v ← LN(v + LN(y B))                                      y of all heads concatenated; B: n × d
    logits = v U                                             U: d × 256

Definition 4 (equation 4, and 8 as a state space) differs only in where a layer adds to the previous one:
there x ← x + (v Dₓ)₊ and v ← LN(y B). Listing and program add to v, and so does this recipe. Dropout, of y,
is as in them too.

Rₜ, of which the U of equation 4 is one step, rotates neurons 2k and 2k + 1 of a head, as a point of the
plane, by t · θ^(-2k / (n / h)) radians, θ = 2¹⁶: RoPE (Su et al., 2021). The same attention step by step
(equation 5) has a state ρ of n / h × d per head: aₜ = (Rₜ xₜ) ρ, then ρ ← ρ + (Rₜ xₜ)ᵀ vₜ. Trainable numbers:
3 n d + 2 · 256 d (section 3.2), regardless of the number of layers and heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes.generation.sampling import GeneratingModel
from torchdeck.recipes.next_token import build_data, data_options, loss
from torchdeck.recipes.text_bytes import BYTES

__all__ = [
    "DragonHatchling",
    "Layer",
    "blocks",
    "build_data",
    "build_model",
    "data_options",
    "init_names",
    "loss",
    "parameter_count",
]

_INITIAL_STD = 0.02
_THETA = 2.0**16


class Layer(nn.Module):
    """One round of attention and neurons. It has no weights of its own: all layers receive the same ones.

    Shared weights belong to the model, which gathers them once and reduces their gradient once. A layer can
    still be recomputed in backward by itself.
    """

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout

    def forward(
        self, v: Tensor, decoder_x: Tensor, decoder_y: Tensor, encoder: Tensor, turn: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Return the next v.

        Args:
            v: shape (batch, 1, time, width).
            decoder_x: Dₓ, shape (heads, width, neurons / heads).
            decoder_y: D_y, of the same shape.
            encoder: B, shape (neurons, width).
            turn: cosines and sines of the rotation, each of shape (time, neurons / heads / 2).
        """
        x = functional.relu(v @ decoder_x)
        turned = rotated(x, turn)
        a = (turned @ turned.mT).tril(-1) @ v
        y = functional.relu(normalised(a) @ decoder_y) * x
        y = functional.dropout(y.transpose(1, 2).flatten(2), self.dropout, self.training)
        return normalised(v + normalised(y @ encoder).unsqueeze(1))


class DragonHatchling(GeneratingModel):
    """Tokens (batch, time) int64 → logits (batch, time, vocabulary); the context may be of any length.

    Args:
        layers: number of layers, which share their weights.
        heads: attention heads; twice their number divides `neurons`.
        width: d.
        neurons: n, of all heads together.
        dropout: fraction of y that is dropped in training.
        vocabulary: number of tokens.
    """

    def __init__(
        self, *, layers: int, heads: int, width: int, neurons: int, dropout: float, vocabulary: int = BYTES
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.decoder_x = nn.Parameter(torch.empty(heads, width, neurons // heads))
        self.decoder_y = nn.Parameter(torch.empty(heads, width, neurons // heads))
        self.encoder = nn.Parameter(torch.empty(neurons, width))
        self.readout = nn.Parameter(torch.empty(width, vocabulary))
        self.layers = nn.ModuleList(Layer(dropout) for _ in range(layers))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=_INITIAL_STD)

    def forward(self, tokens: Tensor) -> Tensor:
        v = normalised(self.embedding(tokens)).unsqueeze(1)
        turn = rotation(tokens.shape[1], self.decoder_x.shape[-1], tokens.device)
        for layer in self.layers:
            v = layer(v, self.decoder_x, self.decoder_y, self.encoder, turn)
        return v.squeeze(1) @ self.readout


def normalised(x: Tensor) -> Tensor:
    """Apply LN over the last axis, without weights."""
    return functional.layer_norm(x, x.shape[-1:])


def rotation(time: int, neurons: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of t · θ^(-2k / neurons), each of shape (time, neurons / 2)."""
    # the angle reaches thousands of radians, of which 16 bits would keep no fraction
    pairs = torch.arange(0, neurons, 2, dtype=torch.float32, device=device)
    angles = torch.outer(torch.arange(time, dtype=torch.float32, device=device), _THETA ** (-pairs / neurons))
    return angles.cos(), angles.sin()


def rotated(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Return `x`, shape (…, time, neurons), with each pair of neurons rotated by the angle of its time."""
    cosine, sine = turn
    first, second = x[..., ::2], x[..., 1::2]
    # each product is rounded to 16 bits if x has them, and not its factors, as in the authors' program
    turned = (
        (first * cosine).to(x.dtype) - (second * sine).to(x.dtype),
        (second * cosine).to(x.dtype) + (first * sine).to(x.dtype),
    )
    return torch.stack(turned, dim=-1).flatten(-2)


def parameter_count(*, width: int, neurons: int, vocabulary: int = BYTES) -> int:
    """Return 3 n d + 2 · vocabulary · d, as in section 3.2 of the paper."""
    return 3 * neurons * width + 2 * vocabulary * width


def build_model(options: dict[str, Any]) -> DragonHatchling:
    """Build the model of a [model] table: layers, heads, width, neurons, dropout, vocabulary.

    Raises:
        RecipeError: the neurons cannot be divided among the heads in pairs.
    """
    sizes = {"layers": 4, "heads": 4, "width": 64, "neurons": 1024, "dropout": 0.0} | options
    sizes.pop("context", None)  # for the data: the model takes any length
    if sizes["neurons"] % (2 * sizes["heads"]):
        raise RecipeError(
            f"model.neurons {sizes['neurons']} cannot be shared out to {sizes['heads']} heads in pairs: make "
            f"it a multiple of {2 * sizes['heads']}"
        )
    return DragonHatchling(**sizes)


def blocks(model: nn.Module) -> Iterable[nn.Module]:
    """Return the layers, which activation checkpointing recomputes one by one. Their weights are the
    model's.
    """
    assert isinstance(model, DragonHatchling)  # noqa: S101 - the recipe's own model; narrows the type
    return model.layers


_REFERENCE_NAMES = {
    "embed.weight": "embedding.weight",
    "encoder": "decoder_x",
    "encoder_v": "decoder_y",
    "decoder": "encoder",
    "lm_head": "readout",
    "attn.freqs": "",  # angles of the rotation, which follow from the sizes
}


def init_names(names: Sequence[str]) -> Mapping[str, str]:
    """Return the names of the authors' program (github.com/pathwaycom/bdh, bdh.py) if `names` are these.

    Its `encoder` is Dₓ, its `encoder_v` D_y and its `decoder` B of the equations above. Shapes are the same.
    """
    return _REFERENCE_NAMES if {"encoder_v", "lm_head"} <= {*names} else {}
