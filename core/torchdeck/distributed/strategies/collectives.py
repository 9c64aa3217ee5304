"""Values that the ranks of a strategy exchange: tensors, numbers and small JSON values."""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar, overload

import torch
import torch.distributed as dist
from torch import Tensor

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError, shown
from torchdeck.contract.bounded_json import LIMIT, JsonError, parse_json
from torchdeck.contract.byte_size import size
from torchdeck.data.checked import whole_number
from torchdeck.distributed.group.json_collectives import PeerMessageError
from torchdeck.distributed.strategies.membership import Membership

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from torchdeck.distributed.strategies.prepared_loader import PreparedDataLoader

T = TypeVar("T")
Json = TypeVar("Json", bound=float | str | Sequence[Any] | Mapping[str, Any] | None)
Batch = TypeVar("Batch")
Op = Literal["sum", "mean", "min", "max"]

_OPS = {
    "sum": dist.ReduceOp.SUM,
    "mean": dist.ReduceOp.SUM,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
}


class Collectives(Membership):
    """Exchange of values between ranks. All ranks call the same methods together, else MissingCallError names
    those that did not.
    """

    @overload
    def gather(self, value: Tensor) -> Tensor: ...
    @overload
    def gather(self, value: Json) -> list[Json]: ...
    @arguments(own_checks=True)
    def gather(self, value: Any) -> Any:
        """Return the values of all ranks, on every rank.

        Args:
            value: a tensor, of which ranks may have different numbers of rows; or a JSON value (a number, a
                text, a list, a dict).

        Returns:
            For tensors one tensor, with the rows of rank 0 first; a tensor without dimensions counts as one
            row. Otherwise a list, by rank.

        Raises:
            MissingCallError: a rank did not call this, or with another kind of tensor.
            ArgumentError: the value cannot be sent.
        """
        if not isinstance(value, Tensor):
            content = _encoded(value)
            self.group.call("gather", "a value")
            return [_decoded(part, rank) for rank, part in enumerate(self._all_bytes(content))]
        rows = value.detach().reshape(1) if value.dim() == 0 else value.detach()
        self.group.call("gather", _kind(rows, rows.shape[1:]))
        return self._all_rows(rows).to(value.device)

    @overload
    def reduce(self, value: Tensor, op: Op = "sum") -> Tensor: ...
    @overload
    def reduce(self, value: float, op: Op = "sum") -> float: ...
    @arguments()
    def reduce(self, value: Tensor | float, op: Op = "sum") -> Tensor | float:
        """Return the sum, mean, minimum or maximum over all ranks, on every rank; `value` does not change.

        Args:
            value: a tensor of the same shape on every rank, reduced element by element; or a number.
            op: "sum", "mean", "min" or "max".

        Raises:
            MissingCallError: a rank did not call this, or with another `op`, shape or type.
        """
        if not isinstance(value, Tensor):
            number = torch.tensor(value, dtype=torch.float64, device=self.device)
            return float(self.reduce(number, op))
        self.group.call("reduce", f"{op} of {_kind(value, value.shape)}")
        total = value.detach().to(self.device, copy=True)
        if self.world_size > 1:
            dist.all_reduce(total, _OPS[op])
        return (total / self.world_size if op == "mean" else total).to(value.device)

    @arguments(own_checks=True)
    def broadcast(self, value: T, source: int = 0) -> T:
        """Return the value of rank `source`, on every rank.

        Args:
            value: a tensor of the same shape on every rank; or a JSON value, which only `source` needs.
            source: the rank whose value counts.

        Raises:
            MissingCallError: a rank did not call this, or with another `source`, shape or type.
            ArgumentError: the value cannot be sent, or there is no such rank.
        """
        source = whole_number("source", source, 0, self.world_size - 1, rule="world_size - 1")
        if not isinstance(value, Tensor):
            content = _encoded(value) if self.rank == source else b"null"
            self.group.call("broadcast", f"a value from rank {source}")
            found: T = _decoded(self._all_bytes(content)[source], source)
            return found
        self.group.call("broadcast", f"{_kind(value, value.shape)} from rank {source}")
        sent = value.detach().to(self.device, copy=True)
        if self.world_size > 1:
            dist.broadcast(sent, source)
        return sent.to(value.device)  # type: ignore[return-value]  # T is Tensor

    @arguments(own_checks=True)
    def print(
        self,
        *values: object,
        sep: str = " ",
        end: str = "\n",
        file: IO[str] | None = None,
        flush: bool = True,
    ) -> None:
        """Print on rank 0, as the built-in function does; nothing on the others."""
        if self.is_main_process:
            builtins.print(*values, sep=sep, end=end, file=file, flush=flush)

    @arguments()
    def prepare_dataloader(self, loader: DataLoader[Batch], *, seed: int = 0) -> PreparedDataLoader[Batch]:
        """Return a loader of this rank's share of a loader's samples, with batches on this rank's device.

        Each rank draws batches of the loader's size from its own samples, so that the global batch is world
        size times as large. Every pass is a new epoch with a new order, if the loader shuffles.

        Args:
            loader: over all samples, the same on every rank; batch size, workers and collate function are
                kept. A loader that has a DistributedSampler keeps it.
            seed: of the order, the same on every rank.

        Raises:
            ArgumentError: it has no data set of known size, or a sampler of its own.
        """
        from torchdeck.distributed.strategies.prepared_loader import PreparedDataLoader

        return PreparedDataLoader(
            loader, rank=self.rank, world_size=self.world_size, device=self.device, seed=seed
        )

    def _all_rows(self, rows: Tensor) -> Tensor:
        """Return the rows of all ranks, on this rank's device."""
        if self.world_size == 1:
            return rows.clone()
        mine = rows.to(self.device).contiguous()
        counts = self._all_counts(len(mine))
        padded = mine.new_zeros((max(counts), *mine.shape[1:]))
        padded[: len(mine)] = mine
        received = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(received, padded)
        return torch.cat([part[:count] for part, count in zip(received, counts, strict=True)])

    def _all_counts(self, count: int) -> list[int]:
        mine = torch.tensor([count], device=self.device)
        received = [torch.empty_like(mine) for _ in range(self.world_size)]
        dist.all_gather(received, mine)
        return [int(each) for each in received]

    def _all_bytes(self, content: bytes) -> Sequence[bytes]:
        """Return the bytes of every rank, by rank.

        Raises:
            PeerMessageError: a rank sends more than a message may have.
        """
        if self.world_size == 1:
            return [content]
        counts = self._all_counts(len(content))
        for rank, count in enumerate(counts):
            if not 0 < count <= LIMIT:
                raise PeerMessageError(f"rank {rank} sends {size(count)}; expected 1 B to {size(LIMIT)}")
        mine = torch.frombuffer(bytearray(content.ljust(max(counts), b"\0")), dtype=torch.uint8)
        received = [torch.empty_like(mine, device=self.device) for _ in counts]
        dist.all_gather(received, mine.to(self.device))
        return [part[:count].cpu().numpy().tobytes() for part, count in zip(received, counts, strict=True)]


def _kind(tensor: Tensor, shape: Sequence[int]) -> str:
    return f"a {str(tensor.dtype).removeprefix('torch.')} tensor of shape {tuple(shape)}"


def _encoded(value: object) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":")).encode()
    except (TypeError, ValueError):
        raise ArgumentError(
            f"value is {shown(value)}", fix="give a tensor, a number, a text, or a list or dict of these"
        ) from None


def _decoded(content: bytes, sender: int) -> Any:
    try:
        return parse_json(content, python_numbers=True)
    except JsonError as error:
        raise PeerMessageError(f"what rank {sender} sent is refused: {error}") from error
