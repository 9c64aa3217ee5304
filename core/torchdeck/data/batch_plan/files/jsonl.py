"""The layout `meta.json` + `epoch_N.jsonl`, as written by chuk-lazarus (its version "1.0").

An epoch's file has a header line (`epoch`, `seed`, `total_samples`, `total_tokens`, `num_microbatches`) and
then one microbatch per line: `samples` (names), `packs` (lists of names, or null), `bucket_id`, `max_len`,
`index`. Its reader rejects further keys, so the other data of a Torchdeck plan is stored next to it in
`torchdeck.json`.

Reading is lenient: keys in any order, unknown ones skipped, `sample_ids` for `samples`, `mb_idx` for `index`,
numbers for names, and optional `tokens`. Without them a microbatch counts as full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from torchdeck.contract.atomic import sync_folder
from torchdeck.contract.bounded_file import open_regular
from torchdeck.data.batch_plan.columns import BatchPlanError, EpochColumns, narrow, offsets_of
from torchdeck.data.batch_plan.files.columns_file import read_object, sync_file
from torchdeck.data.batch_plan.lengths import id_type
from torchdeck.data.batch_plan.meta import PlanCounts, PlanMeta, canonical_json, parsed_json
from torchdeck.data.batch_plan.plan import BatchPlan
from torchdeck.data.batch_plan.plan_settings import LARGEST, MOST_BUCKETS, PlanSettings

META_FILE = "meta.json"
EXTRAS_FILE = "torchdeck.json"
LAYOUT_VERSION = "1.0"
_PAD_POLICIES = {"longest": "pad_to_max", "bucket": "pad_to_bucket"}


def write_jsonl(plan: BatchPlan, folder: Path, *, durable: bool) -> None:
    """Write `plan` into the empty folder `folder`; `durable` syncs it."""
    settings = plan.meta.settings
    meta = {
        "dataset_hash": plan.meta.dataset_fingerprint,
        "tokenizer_hash": plan.meta.tokenizer_fingerprint,
        "bucket_edges": list(plan.meta.bounds[:-1]),
        "overflow_max": plan.meta.bounds[-1],
        "token_budget": settings.token_budget,
        "pad_policy": _PAD_POLICIES[settings.pad_to],
        "pack_config": None,
        "num_epochs": plan.epochs,
        "base_seed": settings.seed,
        "created_at": "",  # the same plan gives the same file
        "version": LAYOUT_VERSION,
    }
    _write(folder / META_FILE, [meta], durable=durable)
    for epoch in range(plan.epochs):
        _write_epoch(plan, epoch, folder / f"epoch_{epoch}.jsonl", durable=durable)
    tokens = [plan.epoch_columns(epoch).tokens.tolist() for epoch in range(plan.epochs)]
    extras = {"v": 1, "fingerprint": plan.fingerprint, "meta": plan.meta.to_json(), "tokens": tokens}
    _write(folder / EXTRAS_FILE, [{**extras, "names": plan.names}], durable=durable)
    if durable:
        sync_folder(folder)


def read_jsonl(folder: Path) -> BatchPlan:
    """Return the plan in `folder`.

    Raises:
        BatchPlanError: it is incomplete, a line is not a microbatch (with file and line), or it was edited
            since Torchdeck wrote it.
    """
    value = read_object(folder / META_FILE)
    paths = _epoch_paths(folder, value)
    epochs = [read_epoch(path, epoch) for epoch, path in enumerate(paths)]
    extras = read_object(folder / EXTRAS_FILE) if (folder / EXTRAS_FILE).exists() else None
    if extras is not None:
        return _with_extras(folder, epochs, extras)
    names = _names(epochs)
    number = None if names is None else {name: index for index, name in enumerate(names)}
    numbered = [_numbers(lines.samples, number) for lines in epochs]
    size = len(names) if names is not None else 1 + max((max(ids) for ids in numbered if ids), default=-1)
    packed = any(rows is not None for lines in epochs for rows in lines.row_sizes)
    made = [_columns(lines, ids, size, packed=packed) for lines, ids in zip(epochs, numbered, strict=True)]
    return BatchPlan(_meta(folder / META_FILE, value, made, size), made, names=names)


def _with_extras(folder: Path, epochs: Sequence[EpochLines], extras: dict[str, Any]) -> BatchPlan:
    """Return a plan written by Torchdeck, restored exactly."""
    path = folder / EXTRAS_FILE
    if extras.get("v") != 1:
        raise BatchPlanError(f"{path} has version {extras.get('v')!r}; this Torchdeck reads version 1")
    try:
        meta = PlanMeta.from_json(extras["meta"])
        names = extras["names"]
        number = None if names is None else {name: index for index, name in enumerate(names)}
        made = []
        for lines, tokens in zip(epochs, extras["tokens"], strict=True):
            lines.tokens[:] = tokens
            made.append(
                _columns(lines, _numbers(lines.samples, number), meta.size, packed=meta.settings.pack)
            )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BatchPlanError(f"{path} is damaged: {error}") from error
    plan = BatchPlan(meta, made, names=names)
    if plan.fingerprint != extras.get("fingerprint"):
        raise BatchPlanError(
            f"the batch plan in {folder} was edited or is damaged: its fingerprint is another than "
            f"{path.name} says; build it again, or delete {path.name} if the edit is meant"
        )
    return plan


def _meta(path: Path, value: dict[str, Any], made: Sequence[EpochColumns], size: int) -> PlanMeta:
    longest = max((int(columns.max_len.max()) for columns in made if len(columns)), default=1)
    fullest = max((int(columns.padded_tokens.max()) for columns in made if len(columns)), default=1)
    edges = value.get("bucket_edges")
    try:
        bounds = sorted({*map(int, edges or ()), int(value.get("overflow_max") or longest)})
        settings = PlanSettings(
            token_budget=int(value.get("token_budget") or min(fullest, LARGEST)),
            seed=int(value.get("base_seed") or value.get("seed") or 0) % 2**64,
            epochs=len(made),
            buckets=tuple(bounds[:MOST_BUCKETS]),
            pack=made[0].row_sizes is not None,
            pad_to="bucket" if value.get("pad_policy") == _PAD_POLICIES["bucket"] else "longest",
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise BatchPlanError(f"{path} is not that of a batch plan: {error}") from error
    used = max((len(columns.sample_ids) for columns in made), default=0)
    dataset, tokenizer = (
        str(value.get(f"{what}_hash") or value.get(f"{what}_fingerprint") or "")
        for what in ("dataset", "tokenizer")
    )
    return PlanMeta(settings, size, tuple(bounds), dataset, tokenizer, PlanCounts(used=used))


def _columns(lines: EpochLines, ids: list[int], size: int, *, packed: bool) -> EpochColumns:
    rows = [
        ([1] * count if sizes is None else sizes)
        for sizes, count in zip(lines.row_sizes if packed else [], lines.sizes, strict=False)
    ]
    counts = [len(sizes) for sizes in rows] if packed else lines.sizes
    filled = [
        most * count if tokens is None else tokens
        for tokens, most, count in zip(lines.tokens, lines.max_len, counts, strict=True)
    ]
    flat = np.array([size for sizes in rows for size in sizes], dtype=np.int32)
    columns = EpochColumns(
        np.array(ids, dtype=id_type(size)),
        offsets_of(np.array(lines.sizes, dtype=np.int64)),
        np.array(lines.max_len, dtype=np.int32),
        narrow(np.array(filled, dtype=np.int64)),
        np.array(lines.bucket_id, dtype=np.int32),
        row_offsets=offsets_of(np.array(counts, dtype=np.int64)) if packed else None,
        row_sizes=flat if packed else None,
    )
    columns.check()
    return columns


def _names(epochs: Sequence[EpochLines]) -> list[str] | None:
    """Return the names of the samples in order; None if they are all numbers."""
    found = {sample for lines in epochs for sample in lines.samples if isinstance(sample, str)}
    if not found:
        return None
    return sorted(found | {str(sample) for lines in epochs for sample in lines.samples})


def _numbers(samples: Sequence[Sample], number: dict[str, int] | None) -> list[int]:
    return [int(sample) if number is None else number[str(sample)] for sample in samples]


def _epoch_paths(folder: Path, meta: dict[str, Any]) -> list[Path]:
    said = meta.get("num_epochs")
    there = {path.name for path in folder.glob("epoch_*.jsonl")}
    count = said if type(said) is int else len(there)
    names = (f"epoch_{epoch}.jsonl" for epoch in range(count))
    missing = next((name for name in names if name not in there), None)
    if missing is not None:
        raise BatchPlanError(f"{folder} is not whole: {missing} is missing ({count} epochs are planned)")
    paths = [folder / f"epoch_{epoch}.jsonl" for epoch in range(count)]
    if not paths:
        raise BatchPlanError(f"{folder} has no epoch_0.jsonl: there is no batch plan in it")
    return paths


def _write_epoch(plan: BatchPlan, epoch: int, path: Path, *, durable: bool) -> None:
    columns = plan.epoch_columns(epoch)
    header = {
        "epoch": epoch,
        "seed": plan.meta.settings.seed,
        "total_samples": len(columns.sample_ids),
        "total_tokens": int(columns.tokens.sum(dtype=np.int64)),
        "num_microbatches": len(columns),
    }

    def named(ids: Any) -> list[str]:
        return [str(index) if plan.names is None else plan.names[index] for index in ids.tolist()]

    lines = (
        {
            "samples": named(microbatch.sample_ids),
            "packs": None if microbatch.packs is None else [named(pack) for pack in microbatch.packs],
            "bucket_id": microbatch.bucket_id,
            "max_len": microbatch.max_len,
            "index": microbatch.index,
        }
        for microbatch in columns.iterate()
    )
    _write(path, [header], lines, durable=durable)


def _write(path: Path, *groups: Any, durable: bool) -> None:
    with path.open("wb") as file:
        for values in groups:
            for value in values:
                file.write(canonical_json(value) + b"\n")
        sync_file(file, durable=durable)


# Validated lines of one `epoch_N.jsonl`.

Sample = int | str
"""A sample's number, or its name if that is not a number."""
_SAMPLES = ("samples", "sample_ids", "ids")
_INDEX = ("index", "mb_idx", "microbatch_idx")
_LONGEST_NUMBER = 18
"""Maximum digits of a sample's number."""


@dataclass
class EpochLines:
    """Microbatches in order; each list except `samples` has one item per microbatch."""

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
    """Return the microbatches in `path`, by ascending index if they have one.

    Raises:
        BatchPlanError: a line is not a microbatch, an index occurs twice, or the header has other counts.
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
    # "007" is a name: as a number it would be written back differently
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
