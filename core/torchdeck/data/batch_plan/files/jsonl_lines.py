"""The lines of one `epoch_N.jsonl`, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchdeck.contract.bounded_file import open_regular
from torchdeck.data.batch_plan.errors import BatchPlanError
from torchdeck.data.batch_plan.meta import parsed_json
from torchdeck.data.batch_plan.settings import LARGEST

Sample = int | str
"""A sample's number, or its name where this is no number."""
_SAMPLES = ("samples", "sample_ids", "ids")
_INDEX = ("index", "mb_idx", "microbatch_idx")
_LONGEST_NUMBER = 18
"""Digits of a sample's number."""


@dataclass
class EpochLines:
    """Microbatches in order; each list but `samples` has one item a microbatch."""

    samples: list[Sample] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    max_len: list[int] = field(default_factory=list)
    bucket_id: list[int] = field(default_factory=list)
    tokens: list[int | None] = field(default_factory=list)
    row_sizes: list[list[int] | None] = field(default_factory=list)


@dataclass(frozen=True)
class _Line:
    samples: list[Sample]
    max_len: int
    bucket_id: int
    tokens: int | None
    row_sizes: list[int] | None
    index: int | None


def read_epoch(path: Path, epoch: int) -> EpochLines:
    """The microbatches in `path`, by ascending index where they have one.

    Raises:
        BatchPlanError: a line is none, an index occurs twice, or the header counts others.
    """
    header: Mapping[str, Any] = {}
    lines: list[_Line] = []
    with open_regular(path) as file:
        for number, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                value = parsed_json(text)
                if not isinstance(value, Mapping):
                    raise BatchPlanError(f"it must be an object, not {type(value).__name__}")
                if number == 1 and not any(name in value for name in (*_SAMPLES, "packs")):
                    header = value
                    continue
                lines.append(_line(value))
            except ValueError as error:
                raise BatchPlanError(f"{path}, line {number} is no microbatch: {error}") from error
    if not header and not lines:
        raise BatchPlanError(f"{path} is empty: it was cut short")
    _check_header(path, header, lines, epoch)
    result = EpochLines()
    for line in _ordered(path, lines):
        result.samples += line.samples
        result.sizes.append(len(line.samples))
        result.max_len.append(line.max_len)
        result.bucket_id.append(line.bucket_id)
        result.tokens.append(line.tokens)
        result.row_sizes.append(line.row_sizes)
    return result


def _line(value: Mapping[str, Any]) -> _Line:
    packs = value.get("packs")
    row_sizes = None
    listed = next((value[name] for name in _SAMPLES if value.get(name) is not None), None)
    samples = [] if listed is None else _samples(listed)
    if packs is not None:
        if not isinstance(packs, list):
            raise BatchPlanError(f"packs must be a list of lists of samples, not {packs!r}")
        rows = [_samples(pack) for pack in packs]
        packed = [sample for row in rows for sample in row]
        if listed is not None and sorted(map(str, packed)) != sorted(map(str, samples)):
            raise BatchPlanError("its packs hold other samples than it lists")
        samples, row_sizes = packed, [len(row) for row in rows]
        if not all(row_sizes):
            raise BatchPlanError("a pack is empty")
    if not samples:
        raise BatchPlanError(f"it lists no samples (in {' or '.join(_SAMPLES)})")
    size = value.get("batch_size")
    if size is not None and size != len(samples):
        raise BatchPlanError(f"batch_size is {size!r}, but it lists {len(samples)} samples")
    max_len = _whole(value, ("max_len", "max_length"), 1)
    if max_len is None:
        raise BatchPlanError("max_len is missing")
    return _Line(
        samples,
        max_len,
        _whole(value, ("bucket_id", "bucket"), 0) or 0,
        _whole(value, ("tokens", "num_tokens"), 0),
        row_sizes,
        _whole(value, _INDEX, 0),
    )


def _samples(listed: Any) -> list[Sample]:
    if not isinstance(listed, list):
        raise BatchPlanError(f"samples must be a list, not {listed!r}")
    return [_sample(sample) for sample in listed]


def _sample(value: Any) -> Sample:
    if type(value) is int and 0 <= value < 10**_LONGEST_NUMBER:
        return value
    if not isinstance(value, str):
        raise BatchPlanError(f"a sample must be a name or a whole number from 0, not {value!r}")
    plain = value.isascii() and value.isdecimal() and len(value) <= _LONGEST_NUMBER
    # "007" is a name: as a number it would be written back as another
    return int(value) if plain and str(int(value)) == value else value


def _whole(value: Mapping[str, Any], names: tuple[str, ...], least: int) -> int | None:
    for name in names:
        found = value.get(name)
        if found is None:
            continue
        if type(found) is not int or not least <= found <= LARGEST:
            raise BatchPlanError(f"{name} must be a whole number from {least} to {LARGEST}, not {found!r}")
        return found
    return None


def _check_header(path: Path, header: Mapping[str, Any], lines: list[_Line], epoch: int) -> None:
    said = header.get("epoch")
    if said is not None and said != epoch:
        raise BatchPlanError(f"{path}, line 1 says epoch {said!r}; by its name it is epoch {epoch}")
    counts = {"num_microbatches": len(lines), "total_samples": sum(len(line.samples) for line in lines)}
    for name, found in counts.items():
        if header.get(name) is not None and header[name] != found:
            raise BatchPlanError(
                f"{path} was cut short or edited: line 1 says {name} {header[name]}, but there are {found}"
            )


def _ordered(path: Path, lines: list[_Line]) -> list[_Line]:
    indices = [line.index for line in lines]
    if all(index is None for index in indices):
        return lines
    seen: set[int] = set()
    for index in indices:
        if index is None:
            raise BatchPlanError(
                f"{path} has microbatches with an index and without: all or none must have one"
            )
        if index in seen:
            raise BatchPlanError(f"{path} has microbatch {index} twice")
        seen.add(index)
    return sorted(lines, key=lambda line: -1 if line.index is None else line.index)
