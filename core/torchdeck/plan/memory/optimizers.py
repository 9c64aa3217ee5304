"""State that an optimizer keeps of each parameter, in bytes.

- adamw, adam: two moments in the parameter's type and a step count (`torch.optim.adam`, `_init_group`).
- sgd: a momentum buffer, if there is momentum. lion, adagrad, rmsprop: one tensor.
- 8 bit: a byte per element and moment and an fp32 scale per 256 of them; in fp32 for tensors of fewer than
  4096 elements (bitsandbytes, `Optimizer8bit`; Dettmers et al. 2021, arXiv:2110.02861) and for embeddings, as
  the Hugging Face Trainer sets it.
- adafactor: sums of rows and of columns in fp32; of vectors a whole tensor (Shazeer and Stern 2018,
  arXiv:1804.04235; transformers' `Adafactor` without first moment).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from torchdeck.contract.plan.model_profile import ITEM_SIZES

_FULL = 4
_BLOCK = 256
_SMALL = 4096
_STEP = 4

_MOMENTS: Mapping[str, int] = {"adamw": 2, "adam": 2, "lion": 1, "adamw_8bit": 2, "lion_8bit": 1}
EIGHT_BIT = ("adamw_8bit", "lion_8bit")
OTHERS = ("lion", "adafactor", *EIGHT_BIT)
"""Optimizers that programs have, and recipes have not."""

_NAMES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("adamw", "adam", "adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused"),
            *("adamw_anyprecision", "paged_adamw_32bit", "paged_adamw", "fusedadam", "adamw_bnb_32bit"),
        ),
        "adamw",
    ),
    **dict.fromkeys(
        ("adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit", "adamw_torch_8bit"),
        "adamw_8bit",
    ),
    **dict.fromkeys(("lion", "lion_32bit", "paged_lion_32bit", "rmsprop", "adagrad"), "lion"),
    **dict.fromkeys(("lion_8bit", "paged_lion_8bit"), "lion_8bit"),
    "adafactor": "adafactor",
    "sgd": "sgd",
}


def known_optimizer(name: str) -> str | None:
    """Return the optimizer whose state that of `name` resembles, a program's name for it; None if unknown."""
    return _NAMES.get(name.lower())


def moments(optimizer: str, momentum: float) -> int:
    """Return how many tensors of a parameter's size the optimizer keeps per parameter."""
    return (1 if momentum else 0) if optimizer == "sgd" else _MOMENTS.get(optimizer, 1)


def flat_bytes(optimizer: str, momentum: float, elements: int) -> int:
    """Return the bytes of the moments of fp32 elements in one flat tensor, as DeepSpeed has them."""
    count = moments(optimizer, momentum)
    return (
        count * (elements + _FULL * -(-elements // _BLOCK))
        if optimizer in EIGHT_BIT
        else (count * _FULL * elements)
    )


def state_bytes(optimizer: str, name: str, shape: tuple[int, ...], dtype: str) -> int:
    """Return the bytes of the state of one tensor, or of a rank's rows, for an optimizer of `OTHERS`."""
    elements = prod(shape)
    if not elements:
        return 0
    if optimizer == "adafactor":
        matrix = len(shape) >= 2
        return _FULL * (prod(shape[:-1]) + prod(shape[:-2]) * shape[-1] if matrix else elements)
    count = _MOMENTS[optimizer]
    if optimizer in EIGHT_BIT:
        if elements < _SMALL or name.startswith(("embedding.", "positions.", "token_types.")):
            return count * _FULL * elements
        return count * (elements + _FULL * -(-elements // _BLOCK))
    return count * ITEM_SIZES[dtype] * elements + _STEP
