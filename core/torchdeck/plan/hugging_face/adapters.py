"""Tensors of a model that is trained whole, or by LoRA adapters on frozen and perhaps quantized weights.

LoRA adds to a matrix of n × m two of r × m and n × r (Hu et al. 2021, arXiv:2106.09685); peft keeps both in
fp32. bitsandbytes stores a 4-bit weight as half a byte per element and an fp32 scale per 64 elements
(Dettmers et al. 2023, arXiv:2305.14314); an 8-bit weight as a byte per element and an fp32 scale per row.
Embeddings and output layers stay whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from torchdeck.contract.plan.model_profile import ITEM_SIZES, TensorInfo
from torchdeck.plan.memory.model_shape import ModelWeights

EVERY_LINEAR = ("all-linear", "all")
_USUAL = ("q_proj", "v_proj")
_USUAL_OF: Mapping[str, tuple[str, ...]] = {
    "gpt2": ("c_attn",),
    "gpt_neox": ("query_key_value",),
    "bert": ("query", "value"),
    "roberta": ("query", "value"),
    "phi": ("q_proj", "v_proj", "fc1", "fc2"),
}
"""Targets of peft by `model_type`, if none are given (`peft.utils.constants`)."""
_PARTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("q_proj", "query"), ("attention.query.",)),
    **dict.fromkeys(("k_proj", "key"), ("attention.key.",)),
    **dict.fromkeys(("v_proj", "value"), ("attention.value.",)),
    **dict.fromkeys(("qkv_proj", "query_key_value", "c_attn"), ("attention.query_key_value.",)),
    **dict.fromkeys(("o_proj", "out_proj"), ("attention.out.",)),
    "gate_proj": ("mlp.gate.",),
    "gate_up_proj": ("mlp.gate_up.",),
    **dict.fromkeys(("up_proj", "fc1", "c_fc", "dense_h_to_4h"), ("mlp.up.",)),
    **dict.fromkeys(("down_proj", "fc2", "dense_4h_to_h"), ("mlp.down.",)),
    "c_proj": ("attention.out.", "mlp.down."),
}
"""Name of a module → weights of a block."""
_DENSE: Mapping[str, tuple[str, ...]] = {
    "bert": ("attention.out.", "mlp.up.", "mlp.down."),
    "roberta": ("attention.out.", "mlp.up.", "mlp.down."),
}
"""Weights that `dense` names, by `model_type`; else attention's output."""
_BLOCK_4BIT = 64
_MATRIX = 2


@dataclass(frozen=True)
class LoraTargets:
    """Matrices that get adapters."""

    rank: int
    prefixes: tuple[str, ...]
    """Beginnings of the names of a block's weights."""
    unknown: tuple[str, ...] = ()
    """Names of modules that are not known here."""

    def elements(self, name: str, size: tuple[int, ...]) -> int:
        """Return the number of elements that adapters of a block's weight have."""
        if len(size) != _MATRIX or not name.endswith(".weight") or not name.startswith(self.prefixes):
            return 0
        return self.rank * sum(size)


def lora_targets(kind: str, rank: int, given: str) -> LoraTargets:
    """Return the targets that a program names, in words; by default those of peft for this `model_type`."""
    words = tuple(given.strip("[]").replace(",", " ").replace("'", " ").replace('"', " ").split())
    if any(word in EVERY_LINEAR for word in words):
        return LoraTargets(rank, tuple(prefix for found in _PARTS.values() for prefix in found))
    names = words or _USUAL_OF.get(kind, _USUAL)
    table = {**_PARTS, "dense": _DENSE.get(kind, ("attention.out.",))}
    known = [prefix for name in names for prefix in table.get(name, ())]
    return LoraTargets(rank, tuple(known), tuple(name for name in names if name not in table))


def whole_tensors(weights: ModelWeights, dtype: str) -> tuple[TensorInfo, ...]:
    """Return the tensors of a model that is trained whole."""
    return tuple(TensorInfo(name, size, dtype, True, unit) for name, size, unit in weights.named())  # noqa: FBT003 - trainable


def adapted_tensors(
    weights: ModelWeights, dtype: str, targets: LoraTargets, bits: int | None, *, flat: bool = False
) -> tuple[TensorInfo, ...]:
    """Return frozen weights with their adapters.

    Args:
        weights: weights of the model.
        dtype: type of the frozen weights.
        targets: matrices with adapters.
        bits: 4 or 8 if the frozen matrices of blocks are quantized.
        flat: quantized weights are counted as elements of `dtype`, as all weights are under DeepSpeed.
    """
    found: list[TensorInfo] = []
    for name, size, unit in weights.named():
        inner = name.partition(".")[2].partition(".")[2] if unit else ""
        matrix = unit > 0 and len(size) == _MATRIX and name.endswith(".weight")
        frozen = _frozen(name, size, dtype, unit, bits if matrix else None)
        found += [_counted_as(each, dtype) for each in frozen] if flat else frozen
        if unit and targets.elements(inner, size):
            adapters = {"lora_A": (targets.rank, size[1]), "lora_B": (size[0], targets.rank)}
            found += [
                TensorInfo(f"{name}.{part}", shape, "float32", True, unit)  # noqa: FBT003 - trainable
                for part, shape in adapters.items()
            ]
    return tuple(found)


def _frozen(name: str, size: tuple[int, ...], dtype: str, unit: int, bits: int | None) -> list[TensorInfo]:
    def made(suffix: str, shape: tuple[int, ...], kind: str) -> TensorInfo:
        return TensorInfo(name + suffix, shape, kind, False, unit)  # noqa: FBT003 - frozen

    elements = prod(size)
    match bits:
        case 4:
            scales = -(-elements // _BLOCK_4BIT)
            return [
                made("", (-(-elements // 2), 1), "uint8"),
                made(".absmax", (scales,), "float32"),
            ]
        case 8:
            return [made("", size, "int8"), made(".SCB", (size[0],), "float32")]
        case _:
            return [made("", size, dtype)]


def _counted_as(tensor: TensorInfo, dtype: str) -> TensorInfo:
    if tensor.dtype == dtype:
        return tensor
    return replace(tensor, shape=(-(-tensor.size // ITEM_SIZES[dtype]),), dtype=dtype)


def adapter_gradients(weights: ModelWeights, targets: LoraTargets) -> dict[str, int]:
    """Return the bytes of the adapters' gradients, by the name of the weight in its block."""
    full = ITEM_SIZES["float32"]
    return {
        name: count * full
        for block in weights.blocks
        for name, size in block
        if (count := targets.elements(name, size))
    }


def largest_matrix(weights: ModelWeights) -> int:
    """Return the elements of the largest matrix of a block, which is dequantized for each use."""
    sizes = (prod(size) for block in weights.blocks for _, size in block if len(size) == _MATRIX)
    return max(sizes, default=0)
