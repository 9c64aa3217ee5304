"""Log of all allocations and frees as seen from Python: storages are followed from operation to operation."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from torchdeck.tracing.kernel_memory import steps_inside, workspace

_CAST = torch.ops.aten._to_copy.default  # noqa: SLF001 - the operation's public name


@dataclass(frozen=True)
class Change:
    """Memory allocated or freed."""

    storage: int
    """Number of the storage, in order of first use."""
    size: int
    """Bytes, negative if freed."""


@dataclass(frozen=True)
class Mark:
    """Marker of a point in time: an `Event` value and the unit it is about."""

    kind: int
    unit: int


class StorageLog(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch: __init_subclass__
    """Log of each new storage that an operation returns while active, and of its release.

    A storage that is first seen as an argument existed before and is left out. Works alike on real tensors
    and under FakeTensorMode, if entered after it.

    Attributes:
        entries: events in order.
        operations: names of all operations, without namespace and overload.
        casts: numbers of storages that hold a copy of another one in another dtype → number of the original.
        kernels: numbers of the memory that kernels take for themselves.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries: list[Change | Mark] = []
        self.operations: set[str] = set()
        self.casts: dict[int, int] = {}
        self.kernels: set[int] = set()
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
        self._run_inside(func, args, result)
        after: list[Tensor] = []
        _collect(result, after)
        self.allocated(after)
        if func is _CAST:
            self.casts[self.number(result)] = self.number(args[0])
        return result

    def number(self, tensor: Tensor) -> int:
        """Return the number of the storage of `tensor`; one that is new here counts as 0 bytes."""
        storage = tensor.untyped_storage()
        known = self._known.get(storage._cdata)  # noqa: SLF001 - the only identity a storage has
        return known[1] if known is not None else self._add(storage, 0)

    def allocated(self, tensors: Iterable[Tensor]) -> None:
        """Count the storages of `tensors` as allocated now."""
        for tensor in tensors:
            self._note(tensor)

    def mark(self, kind: int, unit: int) -> None:
        """Log the begin or end of a phase."""
        self.entries.append(Mark(int(kind), unit))

    def _run_inside(self, func: Any, args: tuple[Any, ...], result: Any) -> None:
        """Count what the kernel of an operation takes, and its results in between."""
        steps = steps_inside(func, args, result)
        if not steps:
            return
        kept = workspace(func, args)
        if kept and not result[-1].numel():  # without memory torch gives it no size
            self.kernels.add(self._add(result[-1].untyped_storage(), kept))
        number, self._count = self._count, self._count + 1
        self.kernels.add(number)
        for step in steps:
            if isinstance(step, Tensor):
                self._note(step)
            else:
                self.entries.append(Change(number, step))

    def _note(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        known = self._known.get(storage._cdata)  # noqa: SLF001
        if known is None:
            self._add(storage, storage.nbytes())
        elif known[2] and storage.nbytes() != known[2] and known[1] not in self.kernels:  # resized in place
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
    """Collect the tensors of an operation's arguments or result, in half the time of torch's own
    tree_leaves.
    """
    if isinstance(value, Tensor):
        into.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _collect(item, into)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, into)
