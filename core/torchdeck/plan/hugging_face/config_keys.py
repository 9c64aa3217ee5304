"""Numbers of a Hugging Face config.json, and the layers that its models are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torchdeck.plan.memory.model_shape import ModelShape, ModelWeights, Weight
from torchdeck.plan.memory.shape_derivation import UnknownModelError

Values = Mapping[str, Any]
_MOST = 2**31


def number(values: Values, *names: str, default: int | None = None) -> int:
    """Return the first of `names` that is given; raises UnknownModelError if none is, or it is no number."""
    name = next((name for name in names if values.get(name) is not None), names[0])
    value = default if values.get(name) is None else values[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
        wrong = f"{name} is {value!r}" if value is not None else f"it has no {name}"
        raise UnknownModelError(f"{wrong}; expected: a whole number of 1 or more")
    return value


def flag(values: Values, name: str, *, default: bool) -> bool:
    value = values.get(name)
    return value if isinstance(value, bool) else default


_IN_PARTS = ("gelu_new", "gelu_fast", "quick_gelu", "openai-gelu")
"""Activation functions of several operations, which keep three tensors more than a fused one."""


def kept_by_activation(values: Values) -> int:
    """Return how many tensors of the MLP's size the activation function keeps besides its input."""
    keys = ("hidden_activation", "hidden_act", "activation_function")
    name = next((values[key] for key in keys if values.get(key)), "")
    if name == "relu":  # its output is enough
        return -1
    return 3 if name in _IN_PARTS else 0


def linear(name: str, rows: int, columns: int, bias: bool) -> Iterator[Weight]:  # noqa: FBT001 - as torch's
    yield f"{name}.weight", (rows, columns)
    if bias:
        yield f"{name}.bias", (rows,)


def norm(name: str, width: int, bias: bool) -> Iterator[Weight]:  # noqa: FBT001 - as torch's
    yield f"{name}.weight", (width,)
    if bias:
        yield f"{name}.bias", (width,)


@dataclass(frozen=True)
class Head:
    """Outputs of a model: one logit per token and word, one per label, or hidden states."""

    labels: int | None
    """Labels of a classifier; None: the vocabulary, or nothing."""
    words: bool
    """Whether the output layer of a language model follows."""


def head_of(values: Values, usual: str) -> Head:
    """Return the head of the first of `architectures`; `usual` if none is given."""
    given = values.get("architectures")
    name = given[0] if isinstance(given, list) and given and isinstance(given[0], str) else usual
    if "Classification" in name:
        labels = values.get("id2label")
        count = (
            len(labels) if isinstance(labels, dict) and labels else number(values, "num_labels", default=2)
        )
        return Head(count, words=False)
    return Head(None, words="LMHead" in name or not name.endswith("Model"))


def decoder(
    shape: ModelShape,
    values: Values,
    blocks: list[list[Weight]],
    *,
    before: list[Weight],
    after: list[Weight],
    head_bias: bool = False,
) -> ModelWeights:
    """Return a decoder with its head; `after` is what follows the blocks besides it."""
    head = head_of(values, "ForCausalLM")
    if head.words:
        if not shape.tied:
            after = [*after, *linear("head", shape.vocabulary, before[0][1][1], head_bias)]
        return ModelWeights(shape, before, blocks, after)
    outputs = 1 if head.labels is None else head.labels
    if head.labels is not None:
        after = [*after, ("head.weight", (head.labels, before[0][1][1]))]
    return ModelWeights(replace(shape, vocabulary=outputs, tied=False), before, blocks, after)
