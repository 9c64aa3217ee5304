"""Values that ranks exchange: JSON in byte tensors, bounded and parsed as data.

torch's object collectives unpickle received data, so any process in a process group could run code in every
rank. Here the lengths are exchanged first, and nothing longer than `LIMIT` is received.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from torchdeck.contract.bounded_json import LIMIT, JsonError, parse_json
from torchdeck.contract.byte_size import size

Group = dist.ProcessGroup | None
"""None: the default group. Its tensors are on the CPU."""


class PeerMessageError(RuntimeError):
    """A rank's message is not JSON within the bounds; the error names the rank."""


def all_gather(value: Any, group: Group = None) -> list[Any]:
    """Return the value of every rank, by rank.

    Raises:
        PeerMessageError: on every rank: a rank sent something else.
        RuntimeError: a rank is gone.
    """
    mine, lengths = _announced(value, group)
    received = [bytearray(max(lengths)) for _ in lengths]
    dist.all_gather([_tensor(item) for item in received], _padded(mine, max(lengths)), group=group)
    return _values(received, lengths)


def gather(value: Any, group: Group = None) -> list[Any]:
    """Return the value of every rank on rank 0, and nothing on the others. Raises as `all_gather`."""
    mine, lengths = _announced(value, group)
    first = dist.get_rank(group) == 0
    received = [bytearray(max(lengths)) for _ in lengths] if first else []
    places = [_tensor(item) for item in received] if first else None
    dist.gather(_padded(mine, max(lengths)), places, group=group, group_dst=0)
    return _values(received, lengths) if first else []


def scatter(values: Sequence[Any], group: Group = None) -> Any:
    """Return this rank's item of rank 0's `values`, which has one for each rank. Raises as `all_gather`."""
    first, world_size = dist.get_rank(group) == 0, dist.get_world_size(group)
    contents = [_encoded(value) for value in values] if first else [b""] * world_size
    lengths = _from_first([len(content) for content in contents], group)
    longest = max(lengths)
    received = bytearray(longest)
    pieces = [_padded(content, longest) for content in contents] if first else None
    dist.scatter(_tensor(received), pieces, group=group, group_src=0)
    return _value(received, lengths[dist.get_rank(group)], 0)


def broadcast(value: Any, group: Group = None) -> Any:
    """Return rank 0's value. Raises as `all_gather`."""
    content = _encoded(value) if dist.get_rank(group) == 0 else b""
    [length] = _from_first([len(content)], group)
    received = bytearray(content.ljust(length, b"\0"))
    dist.broadcast(_tensor(received), group=group, group_src=0)
    return _value(received, length, 0)


def _announced(value: Any, group: Group) -> tuple[bytes, list[int]]:
    """Return this rank's bytes, and the number of bytes each rank is about to send."""
    mine = _encoded(value)
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size(group))]
    dist.all_gather(lengths, torch.tensor([len(mine)], dtype=torch.int64), group=group)
    found = [int(length) for length in lengths]
    for rank, length in enumerate(found):
        _check_length(length, rank)
    return mine, found


def _from_first(lengths: Sequence[int], group: Group) -> list[int]:
    tensor = torch.tensor(lengths, dtype=torch.int64)
    dist.broadcast(tensor, group=group, group_src=0)
    found = [int(length) for length in tensor]
    for length in found:
        _check_length(length, 0)
    return found


def _check_length(length: int, sender: int) -> None:
    if not 0 < length <= LIMIT:
        raise PeerMessageError(f"rank {sender} sends {size(length)}; expected 1 B to {size(LIMIT)}")


def _encoded(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _padded(content: bytes, length: int) -> torch.Tensor:
    return _tensor(bytearray(content.ljust(length, b"\0")))


def _tensor(content: bytearray) -> torch.Tensor:
    """Return a tensor over the memory of `content`, which then holds what is received; numpy, which a node
    may lack, is not needed.
    """
    return torch.frombuffer(content, dtype=torch.uint8)


def _values(received: Sequence[bytearray], lengths: Sequence[int]) -> list[Any]:
    return [_value(*item, rank) for rank, item in enumerate(zip(received, lengths, strict=True))]


def _value(received: bytearray, length: int, sender: int) -> Any:
    try:
        return parse_json(bytes(received[:length]), file_names=True)
    except JsonError as error:
        raise PeerMessageError(f"what rank {sender} sent is refused: {error}") from error
