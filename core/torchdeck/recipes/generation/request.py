"""A request for text, and its settings, as plain values. Does not need torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GENERATING = ("byte-gpt", "byte-finetune", "bdh")
"""Recipes whose models continue a text."""
MOST_TOKENS = 1_000_000


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen, and how many are.

    Raises:
        ValueError: a value is out of range.
    """

    max_tokens: int = 200
    """Most tokens of an answer."""
    temperature: float = 1.0
    """Divides the logits: below 1 likely tokens become likelier. 0: always the likeliest."""
    top_k: int | None = None
    """Choose among this many of the likeliest tokens; None: among all."""
    seed: int | None = None
    """Equal seeds give equal answers on one machine; None: a new answer every time."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_tokens <= MOST_TOKENS:
            raise ValueError(f"max_tokens is {self.max_tokens}: expected 1 to {MOST_TOKENS:,}")
        if not 0 <= self.temperature <= 100:
            raise ValueError(f"temperature is {self.temperature:g}: expected 0 to 100")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k is {self.top_k}: expected 1 or more")
        if self.seed is not None and not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed is {self.seed}: expected 0 to 2⁶³ - 1")


@dataclass(frozen=True)
class TextRequest:
    """A prompt for a trained model."""

    source: str
    """Checkpoint, export or file of weights: a path."""
    recipe: str
    """One of GENERATING."""
    model: Mapping[str, Any]
    """[model] table that it was trained with."""
    prompt: str
    sampling: Sampling = field(default_factory=Sampling)
    ema: bool = False
    """Use the moving average of the weights."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TextRequest:
        return cls(**{**value, "sampling": Sampling(**value["sampling"])})
