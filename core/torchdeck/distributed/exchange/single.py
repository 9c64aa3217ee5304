"""A checkpoint as a single file for other tools: safetensors, and JSON next to it.

The folder contains `model.safetensors`, the weights under their names in the model, and `model.json`,
everything else. Weights too large for one file are laid out as Hugging Face does:
`model-00001-of-00003.safetensors`, … and
`model.safetensors.index.json`. A complete checkpoint has `optimizer.safetensors` in the same way, and
`ranks.safetensors`, each rank's random state and buffers. A manifest names all of them with their hashes, as
in every checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from torchdeck.contract.bounded_json import parse_json
from torchdeck.contract.checkpoints.manifest import CheckpointError, FileEntry, Manifest, read_document
from torchdeck.distributed.checkpoints.files.trainer_file import TrainerFile, read_trainer_file
from torchdeck.distributed.checkpoints.snapshot import MODEL_PREFIX
from torchdeck.distributed.checkpoints.tensors.model_state import (
    Listing,
    listing_from_json,
    listing_to_json,
    model_fingerprint,
)
from torchdeck.distributed.exchange import safetensors_file
from torchdeck.distributed.exchange.safetensors_file import SafetensorsFile
from torchdeck.distributed.exchange.sharded import Advance, commit
from torchdeck.distributed.exchange.source_checkpoint import (
    InMemory,
    Progress,
    Tensors,
    TensorSpec,
    WholeCheckpoint,
    listing_of_specs,
)

MODEL_JSON = "model.json"
_LARGEST = 96 << 20
"""Maximum bytes of it."""
_MODEL, _OPTIMIZER, _RANKS = "model", "optimizer", "ranks"
_SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Contents:
    """Parts of a checkpoint to include in the folder."""

    optimizer: bool = True
    """Include the optimizers' states."""
    resumable: bool = True
    """Include trainer state and each rank's own state, so that it can be converted back to a checkpoint."""
    dtype: torch.dtype | None = None
    """Dtype of floating-point weights; None: as saved."""
    max_file: int = 5 << 30
    """Bytes above which tensors are split over several files."""

    def converted(self, spec: TensorSpec) -> TensorSpec:
        floating = spec.dtype.is_floating_point and self.dtype is not None
        return TensorSpec(spec.shape, self.dtype) if floating and self.dtype is not None else spec


def size_of(whole: WholeCheckpoint, contents: Contents) -> int:
    """Return the bytes of the tensors that `write_single` would write."""
    return sum(spec.size for part in _parts(whole.tensors, contents).values() for spec in part.values())


def write_single(whole: WholeCheckpoint, folder: Path, contents: Contents, progress: Progress) -> Manifest:
    """Write `whole` into the empty `folder`; it is on disk when this returns.

    Raises:
        CheckpointError: a tensor does not match the source's description, or the format cannot represent it.
        OSError: the disk is full or gone.
    """
    parts = _parts(whole.tensors, contents)
    advance = Advance("writing", size_of(whole, contents), progress)
    written: dict[str, FileEntry] = {}
    for part, specs in parts.items():
        prefix = MODEL_PREFIX if part == _MODEL else ""

        def read(name: str, prefix: str = prefix, specs: Mapping[str, TensorSpec] = specs) -> torch.Tensor:
            return whole.tensors.read(prefix + name).to(specs[name].dtype)

        files = _divided(part, specs, contents.max_file)
        for file, names in files.items():
            chosen = {name: specs[name] for name in names}
            written[file] = safetensors_file.write(folder / file, chosen, read, {"format": "pt"}, advance)
        if len(files) > 1:
            index = {
                "metadata": {"total_size": sum(spec.size for spec in specs.values())},
                "weight_map": {name: file for file, names in files.items() for name in names},
            }
            (folder / f"{part}{_SUFFIX}.index.json").write_text(json.dumps(index, indent=2))
    if contents.resumable:
        tensors, states = _ranks_apart(whole.ranks)
        ranks = InMemory(tensors)
        written[_RANKS + _SUFFIX] = safetensors_file.write(
            folder / (_RANKS + _SUFFIX), ranks.specs, ranks.read, {}, lambda _: None
        )
    else:
        states = []
    listing = listing_of_specs(parts[_MODEL])
    said = _said(whole, contents, listing, states)
    (folder / MODEL_JSON).write_text(json.dumps(said, ensure_ascii=False, indent=1))
    return commit(folder, whole.manifest, model_fingerprint(listing), written)


def open_single(folder: Path, manifest: Manifest) -> WholeCheckpoint:
    """Open the checkpoint or export in `folder`, whose hashes were checked against `manifest`.

    Raises:
        CheckpointError: its parts contradict each other.
    """
    try:
        said = parse_json(
            read_document(folder / MODEL_JSON, "description"), limit=_LARGEST, python_numbers=True
        )
        states = list(said["ranks"]) if said["resumable"] else []
        listing = listing_from_json(said["model"])
        trainer = (
            read_trainer_file(folder, MODEL_JSON)
            if said["resumable"]
            else TrainerFile(manifest.step, dict(manifest.position), {}, {}, {}, listing, [])
        )
    except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise CheckpointError(f"{folder / MODEL_JSON} does not describe a checkpoint: {error}") from None
    tensors = _FilesTensors(folder, manifest)
    found = {name.removeprefix(MODEL_PREFIX): spec for name, spec in tensors.specs.items() if _is_model(name)}
    fits = listing_of_specs(found) == trainer.model
    if not fits or model_fingerprint(trainer.model) != manifest.model_fingerprint:
        raise CheckpointError(f"{folder}: {MODEL_JSON} and the tensors are not of the same save")
    ranks = _ranks_together(SafetensorsFile(folder / (_RANKS + _SUFFIX)), states, folder) if states else []
    return WholeCheckpoint(manifest, trainer, tensors, ranks)


class _FilesTensors:
    """All tensors of the files of model and optimizer."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._homes: dict[str, tuple[SafetensorsFile, str]] = {}
        for file in manifest.files:
            part = next((part for part in (_MODEL, _OPTIMIZER) if file.startswith(part)), None)
            if part is not None and file.endswith(_SUFFIX):
                opened = SafetensorsFile(folder / file)
                prefix = MODEL_PREFIX if part == _MODEL else ""
                self._homes |= {prefix + name: (opened, name) for name in opened.specs}
        self.specs = {name: file.specs[inner] for name, (file, inner) in self._homes.items()}

    def read(self, name: str) -> torch.Tensor:
        file, inner = self._homes[name]
        return file.read(inner)


def _is_model(name: str) -> bool:
    return name.startswith(MODEL_PREFIX)


def _parts(tensors: Tensors, contents: Contents) -> dict[str, dict[str, TensorSpec]]:
    """Return the tensors of each kind of file, as they will be written."""
    model = {
        name.removeprefix(MODEL_PREFIX): contents.converted(spec)
        for name, spec in tensors.specs.items()
        if _is_model(name)
    }
    if not contents.optimizer:
        return {_MODEL: model}
    return {_MODEL: model, _OPTIMIZER: {n: s for n, s in tensors.specs.items() if not _is_model(n)}}


def _divided(part: str, specs: Mapping[str, TensorSpec], largest: int) -> dict[str, list[str]]:
    """Return file name → its tensors; each file holds at most `largest` bytes, or a single tensor."""
    groups: list[list[str]] = [[]]
    filled = 0
    for name, spec in specs.items():
        if groups[-1] and filled + spec.size > largest:
            groups.append([])
            filled = 0
        groups[-1].append(name)
        filled += spec.size
    if len(groups) == 1:
        return {part + _SUFFIX: groups[0]}
    total = len(groups)
    return {
        f"{part}-{number:05d}-of-{total:05d}{_SUFFIX}": names for number, names in enumerate(groups, start=1)
    }


def _said(
    whole: WholeCheckpoint, contents: Contents, listing: Listing, states: Sequence[Any]
) -> dict[str, Any]:
    manifest = whole.manifest
    said: dict[str, Any] = {
        "format": "torchdeck",
        "resumable": contents.resumable,
        "run_id": manifest.run_id,
        "attempt": manifest.attempt,
        "strategy": manifest.strategy,
        "world_size": manifest.world_size,
        "created": manifest.created,
        "metrics": dict(manifest.current_metrics),
        "step": whole.trainer.step,
        "position": whole.trainer.position,
        "model": listing_to_json(listing),
    }
    if contents.optimizer:
        said["optimizers"] = whole.trainer.optimizers
    if contents.resumable:
        said = {**json.loads(whole.trainer.render()), **said, "ranks": list(states)}
    return said


def _ranks_apart(ranks: Sequence[Mapping[str, Any]]) -> tuple[dict[str, torch.Tensor], list[Any]]:
    """Return each rank's state, tensors by path, separate from the JSON values."""
    tensors: dict[str, torch.Tensor] = {}

    def apart(path: str, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            tensors[path] = value.contiguous()
            return {"tensor": path}
        if isinstance(value, Mapping):
            return {"object": {key: apart(f"{path}.{key}", item) for key, item in value.items()}}
        return {"value": value}

    states = [apart(str(rank), state) for rank, state in enumerate(ranks)]
    return tensors, states


def _ranks_together(file: SafetensorsFile, states: Sequence[Any], folder: Path) -> list[dict[str, Any]]:
    left = set(file.specs)  # used once: repeats could take unlimited memory

    def together(value: Any) -> Any:
        if "tensor" in value:
            left.remove(value["tensor"])
            return file.read(value["tensor"])
        if "object" in value:
            return {key: together(item) for key, item in value["object"].items()}
        return value["value"]

    try:
        ranks = [together(state) for state in states]
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{folder / MODEL_JSON} does not describe its ranks: {error}") from None
    if not all(isinstance(state, dict) and {"rng", "buffers"} <= state.keys() for state in ranks):
        raise CheckpointError(f"{folder / MODEL_JSON} does not describe its ranks")
    return ranks
