"""Texts of tensors and of the rows that a rank holds of them. No Qt."""

from __future__ import annotations

from collections.abc import Iterable

from torchdeck.contract.plan.model_profile import TensorInfo
from torchdeck.plan.preview.tensors import HeldRows
from torchdeck_app.launch.preview.parameters.tree import ParameterTree

_SHORTENED = 10_000
_LEAST = 0.005
_HEAD = ("name", "shape", "dtype", "bytes", "first row held", "rows held", "bytes held")


def shape_text(tensor: TensorInfo) -> str:
    """Return `4,096 × 1,024`; `scalar` for a tensor without dimensions."""
    return " × ".join(f"{length:,}" for length in tensor.shape) or "scalar"


def type_text(tensor: TensorInfo) -> str:
    """Return `bfloat16` or `float32, frozen`."""
    return tensor.dtype if tensor.trainable else f"{tensor.dtype}, frozen"


def rows_text(first: int, rows: int, length: int) -> str:
    """Return `all 4,096`, `0–1,023 of 4,096` or `none of 10`."""
    if rows == length:
        return f"all {length:,}"
    if rows == 0:
        return f"none of {length:,}"
    last = first + rows - 1
    which = f"{first:,}" if rows == 1 else f"{first:,}–{last:,}"
    return f"{which} of {length:,}"


def share_text(share: float) -> str:
    """Return a short `74 %` or `< 1 %` for a column."""
    return "< 1 %" if 0 < share < _LEAST else f"{share * 100:.0f} %"


def number_text(number: int) -> str:
    """Return a parameter count as used in model names: `1,016`, `873.2k`, `6.48B`."""
    if number >= 10**9:
        return f"{number / 10**9:,.2f}B"
    if number >= 10**6:
        return f"{number / 10**6:.1f}M"
    return f"{number / 1000:.1f}k" if number >= _SHORTENED else f"{number:,}"


def as_text(tree: ParameterTree, held: HeldRows | None, nodes: Iterable[int]) -> str:
    """Return the tensors below `nodes`, each once, as tab-separated lines below a heading."""
    chosen = sorted({index for node in nodes for index in range(int(tree.first[node]), int(tree.end[node]))})
    lines = ["\t".join(_HEAD)]
    for index in chosen:
        tensor = tree.table.tensors[index]
        shape = "×".join(map(str, tensor.shape))
        part = ("", "", "")
        if held is not None:
            part = (str(held.first_row[index]), str(held.rows[index]), str(held.sizes[index]))
        lines.append("\t".join((tensor.name, shape, tensor.dtype, str(tensor.size), *part)))
    return "\n".join(lines) + "\n"
