"""In-memory data (tensors, arrays, data sets) as map-style data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, default_collate

from torchdeck.contract.arguments.errors import ArgumentError
from torchdeck.distributed.batches import SizedDataset

_RIGHT = "give tensors, numpy arrays, or a map-style data set, which has __len__ and __getitem__"


class Rows:
    """A batch taken from tensors in one piece, in place of a list of samples."""

    def __init__(self, batch: Any, size: int) -> None:
        self.batch = batch
        self._size = size

    def __len__(self) -> int:
        return self._size


def collate(samples: Any) -> Any:
    """Return Rows unchanged, and samples collated by torch's default_collate."""
    return samples.batch if isinstance(samples, Rows) else default_collate(samples)


class ArrayDataset:
    """Tensors whose rows are samples.

    Args:
        columns: a tensor, or a tuple or dict of such, nested to any depth; all of the same length.
    """

    def __init__(self, columns: Any) -> None:
        self._columns = columns
        lengths = [len(tensor) for tensor in _leaves(columns)]
        if len(set(lengths)) != 1:
            raise ArgumentError(
                "the arrays have different lengths",
                f"{', '.join(map(str, lengths))} samples",
                "give one value per sample in each",
            )
        self._size = lengths[0]

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Any:
        return _taken(self._columns, lambda tensor: tensor[index])


class RowsDataset(ArrayDataset):
    """The same, with a batch in one piece: for this module's `collate` only."""

    def __getitems__(self, ids: Sequence[int]) -> Rows:
        chosen = torch.as_tensor(ids)
        return Rows(_taken(self._columns, lambda tensor: tensor[chosen]), len(ids))


class Part:
    """Some samples of a data set.

    Args:
        data: the whole data set.
        ids: ids of the samples, shape (n,).
        fingerprint: distinguishes this part from other parts.
    """

    def __init__(self, data: SizedDataset, ids: np.ndarray[Any, Any], fingerprint: str) -> None:
        self._data = data
        self._ids = ids
        self.fingerprint = fingerprint
        many = getattr(data, "__getitems__", None)
        if many is not None:
            self.__getitems__: Callable[[Sequence[int]], Any] = lambda wanted: many(ids[wanted].tolist())
        set_epoch = getattr(data, "set_epoch", None)
        if set_epoch is not None:
            self.set_epoch = set_epoch
        names = getattr(data, "sample_names", None)
        if names is not None:
            self.sample_names = [names[row] for row in ids.tolist()]

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> Any:
        return self._data[int(self._ids[index])]


def as_dataset(x: Any, y: Any = None, *, in_rows: bool) -> SizedDataset:
    """Return `x`, with targets `y` if given, as a data set whose samples are (x, y), or x alone.

    numpy's float64 arrays are converted to torch's default dtype, which weights have; tensors are unchanged.

    Args:
        x: a tensor or array, a tuple or dict of such, or a map-style data set.
        y: a tensor or array, or a tuple or dict of such; None if `x` includes everything.
        in_rows: take batches in one piece, for this module's `collate`.

    Raises:
        TypeError: `x` or `y` is none of these.
        ValueError: their lengths differ, or an array has no length.
    """
    if y is None and not _is_arrays(x):
        return _checked(x)
    for name, value in (("x", x), ("y", y)):
        if value is not None and not _is_arrays(value):
            raise ArgumentError(
                f"{name} is {type(value).__name__}", fix="x and y must both be tensors or arrays"
            )
    columns = _tensors(x)
    if y is not None:
        inputs = columns if isinstance(columns, tuple) else (columns,)
        columns = (*inputs, _tensors(y))
    return RowsDataset(columns) if in_rows else ArrayDataset(columns)


def split(data: SizedDataset, share: float, seed: int) -> tuple[SizedDataset, SizedDataset]:
    """Split `data` at random into (training, validation), without overlap; the same for the same seed.

    Args:
        data: at least 2 samples.
        share: fraction of the samples for validation, above 0 and below 1; at least one sample.
        seed: seed of the split.

    Raises:
        ValueError: `share` is out of range, or there are too few samples.
    """
    if not 0 < share < 1:
        raise ArgumentError(
            f"validation_split is {share!r}", fix="expected a share above 0 and below 1, such as 0.1"
        )
    size = len(data)
    if size < 2:
        raise ArgumentError(
            f"{size} samples cannot be split into training and validation data", fix="give two or more"
        )
    held_out = min(size - 1, max(1, round(size * share)))
    shuffled = np.random.Generator(np.random.Philox(key=seed)).permutation(size)
    whole = getattr(data, "fingerprint", "")
    name = f"{whole if isinstance(whole, str) else ''} split by seed {seed}, {held_out} of {size}".strip()
    training, validation = np.sort(shuffled[held_out:]), np.sort(shuffled[:held_out])
    return Part(data, training, f"{name}: training"), Part(data, validation, f"{name}: validation")


def training_and_validation(
    x: Any, y: Any, validation_data: Any, share: float | None, *, seed: int, in_rows: bool
) -> tuple[SizedDataset, SizedDataset | None]:
    """Return the arguments of `fit` as data sets; None if there is no validation data.

    Raises:
        TypeError, ValueError: it cannot be used.
    """
    data = as_dataset(x, y, in_rows=in_rows)
    if validation_data is None:
        return (data, None) if share is None else split(data, share, seed)
    if share is not None:
        raise ArgumentError(
            "validation_data and validation_split are given", fix="give one of them, not both"
        )
    if y is None:
        return data, as_dataset(validation_data, in_rows=in_rows)
    if not isinstance(validation_data, (tuple, list)) or len(validation_data) != 2:
        raise ArgumentError("validation_data is no pair", fix="give (x, y) of the same kind as x and y")
    return data, as_dataset(*validation_data, in_rows=in_rows)


def _checked(data: Any) -> SizedDataset:
    if isinstance(data, DataLoader):
        raise ArgumentError(
            "data is a DataLoader",
            fix="give its data set, as the trainer makes the batches of every rank itself",
        )
    # an iterable data set may have a length, and inherits a __getitem__ that only raises
    if isinstance(data, (IterableDataset, str, bytes)) or not (
        hasattr(data, "__len__") and hasattr(data, "__getitem__")
    ):
        raise ArgumentError(f"data is {type(data).__name__}", fix=_RIGHT)
    return data  # type: ignore[no-any-return]  # has what a SizedDataset has


def _is_arrays(value: Any) -> bool:
    """Return whether it is a tensor or array, or a tuple or dict of them; a list is a data set of samples."""
    if isinstance(value, (Tensor, np.ndarray)):
        return True
    if isinstance(value, Mapping):
        return bool(value) and all(map(_is_arrays, value.values()))
    return isinstance(value, tuple) and bool(value) and all(map(_is_arrays, value))


def _tensors(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_tensors, value))
    if isinstance(value, Mapping):
        return {key: _tensors(item) for key, item in value.items()}
    if value.ndim == 0:
        raise ArgumentError("an array has no dimensions", "the first one counts samples", "give it one")
    if isinstance(value, np.ndarray):
        # a read-only array could be written through its tensor
        value = torch.from_numpy(value if value.flags.writeable else value.copy())
        return value.to(torch.get_default_dtype()) if value.dtype == torch.float64 else value
    return value


def _leaves(columns: Any) -> Iterator[Tensor]:
    if isinstance(columns, Tensor):
        yield columns
        return
    for item in columns.values() if isinstance(columns, Mapping) else columns:
        yield from _leaves(item)


def _taken(columns: Any, take: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(columns, Tensor):
        return take(columns)
    if isinstance(columns, Mapping):
        return {key: _taken(item, take) for key, item in columns.items()}
    return tuple(_taken(item, take) for item in columns)
