"""Every allocation and its end, seen from Python: storages are followed from operation to operation."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_CAST = torch.ops.aten._to_copy.default  # noqa: SLF001 - the operation's public name


@dataclass(frozen=True)
class Change:
    """Memory taken, or given back."""

    storage: int
    """Number of the storage, in order of first sight."""
    size: int
    """Bytes, negative when given back."""


@dataclass(frozen=True)
class Mark:
    """A point in time with a meaning: an `Event` value and the unit it is about."""

    kind: int
    unit: int


class StorageLog(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch: __init_subclass__
    """While active, notes each new storage that an operation returns, and when it is freed.

    A storage that is first seen as an argument was there before and is left out. Works alike on real tensors
    and under FakeTensorMode, when entered after it.

    Attributes:
        entries: what happened, in order.
        operations: names of all operations, without namespace and overload.
        casts: numbers of storages that hold a copy of another one in another type → what they are a copy of.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries: list[Change | Mark] = []
        self.operations: set[str] = set()
        self.casts: dict[int, int] = {}
        self._known: dict[int, tuple[weakref.ref[Any], int, int]] = {}
        """Address of a live storage → a reference that tells its end, its number, bytes counted."""
        self._count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        before: list[Tensor] = []
        _collect(args, before)
        _collect(kwargs, before)
        for tensor in before:
            self.number(tensor)
        result = func(*args, **kwargs)
        self.operations.add(func.overloadpacket.__name__)
        after: list[Tensor] = []
        _collect(result, after)
        self.allocated(after)
        if func is _CAST:
            self.casts[self.number(result)] = self.number(args[0])
        return result

    def number(self, tensor: Tensor) -> int:
        """The number of the storage that `tensor` lies in; one that is new here counts as 0 bytes."""
        storage = tensor.untyped_storage()
        known = self._known.get(storage._cdata)  # noqa: SLF001 - the only identity a storage has
        return known[1] if known is not None else self._add(storage, 0)

    def allocated(self, tensors: Iterable[Tensor]) -> None:
        """Count what `tensors` lie in as allocated now."""
        for tensor in tensors:
            self._note(tensor)

    def mark(self, kind: int, unit: int) -> None:
        """Note that something begins or ends."""
        self.entries.append(Mark(int(kind), unit))

    def _note(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        known = self._known.get(storage._cdata)  # noqa: SLF001
        if known is None:
            self._add(storage, storage.nbytes())
        elif known[2] and storage.nbytes() != known[2]:  # resized in place
            self.entries.append(Change(known[1], storage.nbytes() - known[2]))
            self._known[storage._cdata] = (known[0], known[1], storage.nbytes())  # noqa: SLF001

    def _add(self, storage: torch.UntypedStorage, size: int) -> int:
        address, number = storage._cdata, self._count  # noqa: SLF001
        self._count += 1
        self._known[address] = (weakref.ref(storage, lambda _: self._freed(address)), number, size)
        if size:
            self.entries.append(Change(number, size))
        return number

    def _freed(self, address: int) -> None:
        _, number, size = self._known.pop(address)
        if size:
            self.entries.append(Change(number, -size))


def _collect(value: Any, into: list[Tensor]) -> None:
    """The tensors of an operation's arguments or result; half the time of torch's own tree_leaves."""
    if isinstance(value, Tensor):
        into.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _collect(item, into)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, into)
