"""Values of `torchdeck.log` that are no numbers. Standard library: arrays are recognised by behaviour."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from torchdeck.contract.bounded_file import read_bounded
from torchdeck.contract.metrics.media_format import (
    BINS_LIMIT,
    BODY_LIMIT,
    CELL_LIMIT,
    TEXT_LIMIT,
    MediaError,
    histogram_of,
    png_size,
    table_of,
    text_of,
)
from torchdeck.telemetry.media.png import encode_png

_CUT = "…"


class Media(ABC):
    """A value of `torchdeck.log` that is no number."""

    kind: ClassVar[str]

    def __init__(self, caption: str = "") -> None:
        self.caption = str(caption)[:CELL_LIMIT]

    @abstractmethod
    def encode(self) -> bytes:
        """Return the body of a record.

        Raises:
            MediaError: the value is not of this kind, or too large; the message says what is.
        """


class Image(Media):
    """An image.

    Args:
        data: array or tensor of shape (height, width) or (height, width, 1, 3 or 4), or for a tensor
            (1, 3 or 4, height, width): whole numbers from 0 to 255, or fractions from 0 to 1. Or a PNG: its
            bytes or its path. Or a picture of PIL, or a figure of Matplotlib.
        caption: text below it.
    """

    kind = "image"

    def __init__(self, data: Any, caption: str = "") -> None:
        super().__init__(caption)
        self._data = data

    def encode(self) -> bytes:
        body = _png_of(self._data)
        png_size(body)
        if len(body) > BODY_LIMIT:
            raise MediaError(f"the image has {len(body):,} bytes as a PNG, at most {BODY_LIMIT:,} are logged")
        return body


class Text(Media):
    """A text, such as a generated sample; more than 64 KiB are cut at the end."""

    kind = "text"

    def __init__(self, text: str, caption: str = "") -> None:
        super().__init__(caption)
        self._text = text

    def encode(self) -> bytes:
        body = str(self._text).encode("utf-8", "replace")
        if len(body) > TEXT_LIMIT:
            kept = body[: TEXT_LIMIT - len(_CUT.encode())].decode("utf-8", "ignore")
            body = (kept + _CUT).encode()
        text_of(body)
        return body


class Histogram(Media):
    """How values are distributed; values that are not finite are counted apart.

    Args:
        values: numbers, an array or a tensor.
        bins: number of equally wide bins.
        caption: text below it.
    """

    kind = "histogram"

    def __init__(self, values: Any, bins: int = 64, caption: str = "") -> None:
        super().__init__(caption)
        self._values, self._bins = values, bins

    def encode(self) -> bytes:
        if type(self._bins) is not int or not 1 <= self._bins <= BINS_LIMIT:
            raise MediaError(f"a histogram has 1 to {BINS_LIMIT} bins, not {self._bins!r}")
        array = _as_array(self._values)
        counted = _counted if array is None else _counted_array
        edges, counts, left_out = counted(self._values if array is None else array, self._bins)
        body = json.dumps({"edges": edges, "counts": counts, "left_out": left_out}).encode()
        histogram_of(body)
        return body


class Table(Media):
    """A small table.

    Args:
        columns: names of the columns.
        rows: texts, numbers, booleans and None; other values become texts.
        caption: text below it.
    """

    kind = "table"

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> None:
        super().__init__(caption)
        self._columns, self._rows = columns, rows

    def encode(self) -> bytes:
        rows = [[_cell(value) for value in row] for row in self._rows]
        columns = [str(name)[:CELL_LIMIT] for name in self._columns]
        body = json.dumps({"columns": columns, "rows": rows}, ensure_ascii=False).encode("utf-8", "replace")
        if len(body) > BODY_LIMIT:
            raise MediaError(f"the table has {len(body):,} bytes, at most {BODY_LIMIT:,} are logged")
        table_of(body)
        return body


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 1 << 63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return _cell(value.item())
    text = str(value)
    return text if len(text) <= CELL_LIMIT else text[: CELL_LIMIT - 1] + _CUT


def _as_array(value: Any) -> Any:
    """Return a NumPy array of an array or a tensor; None for anything else."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
        value = value.float().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy()
    numpy = sys.modules.get("numpy")
    return value if numpy is not None and isinstance(value, numpy.ndarray) else None


def _png_of(data: Any) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, (str, os.PathLike)):
        return read_bounded(Path(data), BODY_LIMIT)
    array = _as_array(data)
    if array is not None:
        return _png_of_array(array, channels_first=hasattr(data, "detach"))
    file = io.BytesIO()
    if hasattr(data, "savefig"):
        data.savefig(file, format="png")
    elif hasattr(data, "save") and hasattr(data, "getbands"):
        data.save(file, "PNG")
    else:
        raise MediaError(
            f"an image is an array, a tensor, a PNG, a picture or a figure, not {type(data).__name__}"
        )
    return file.getvalue()


def _png_of_array(array: Any, *, channels_first: bool) -> bytes:
    if array.ndim == 3 and channels_first and array.shape[0] in (1, 3, 4):
        array = array.transpose(1, 2, 0)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise MediaError(
            f"an image has shape (height, width) or (height, width, 1, 3 or 4), not {array.shape}"
        )
    if array.dtype.kind == "f":
        array = array.clip(0, 1) * 255 + 0.5
        array[array != array] = 0  # NaN
    elif array.dtype.kind == "b":
        array = array * 255
    elif array.dtype.kind not in "ui":
        raise MediaError(f"an image has numbers, not {array.dtype}")
    else:
        array = array.clip(0, 255)
    height, width, channels = array.shape
    return encode_png(width, height, channels, array.astype("uint8").tobytes())


Counted = tuple[list[float], list[int], int]
"""Edges, counts, and the number of values that are not finite."""


def _counted_array(array: Any, bins: int) -> Counted:
    numpy = sys.modules["numpy"]
    flat = array.reshape(-1).astype("float64")
    finite = flat[numpy.isfinite(flat)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    counts, edges = numpy.histogram(finite, bins=bins, range=_range(low, high))
    return edges.tolist(), counts.tolist(), int(flat.size - finite.size)


def _counted(values: Any, bins: int) -> Counted:
    numbers = [float(value) for value in values]
    finite = [value for value in numbers if math.isfinite(value)]
    low, high = _range(min(finite, default=0.0), max(finite, default=1.0))
    counts = [0] * bins
    for value in finite:
        counts[min(bins - 1, int((value - low) / (high - low) * bins))] += 1
    edges = [low + (high - low) * edge / bins for edge in range(bins)] + [high]
    return edges, counts, len(numbers) - len(finite)


def _range(low: float, high: float) -> tuple[float, float]:
    """Return the range of the bins: half a unit around a single value."""
    if not math.isfinite(high - low):
        raise MediaError("the values of the histogram are too far apart")
    around = max(0.5, abs(low) * 1e-6)
    return (low, high) if low < high else (low - around, high + around)
