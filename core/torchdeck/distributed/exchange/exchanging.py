"""Export and conversion, from any source layout."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from torchdeck.contract.atomic import sync_folder
from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError, Manifest, read_manifest
from torchdeck.distributed.checkpoints.files.metadata import METADATA_NAME
from torchdeck.distributed.checkpoints.files.tensor_archive import check_archive
from torchdeck.distributed.checkpoints.files.trainer_file import TrainerFile
from torchdeck.distributed.checkpoints.peers import refusal
from torchdeck.distributed.checkpoints.snapshot import MODEL_PREFIX
from torchdeck.distributed.checkpoints.tensors.model_state import bare_name, model_fingerprint
from torchdeck.distributed.exchange.safetensors_file import SafetensorsFile
from torchdeck.distributed.exchange.sharded import open_sharded, verified_manifest, write_sharded
from torchdeck.distributed.exchange.single import (
    MODEL_JSON,
    Contents,
    open_single,
    size_of,
    write_single,
)
from torchdeck.distributed.exchange.source_checkpoint import (
    InMemory,
    Progress,
    Renamed,
    Tensors,
    WholeCheckpoint,
    listing_of_specs,
    with_averages,
)
from torchdeck.distributed.strategies.base import STRATEGIES


def to_single(
    source: Path,
    target: Path,
    *,
    export: bool,
    optimizer: bool,
    ema: bool = False,
    dtype: str | None,
    max_file: int,
    trusted: bool,
    force: bool,
    progress: Progress,
) -> dict[str, Any]:
    """Create the folder `target` from a checkpoint: for other tools (`export`), or with everything.

    Args:
        source: a checkpoint's folder, or another source that `open_source` supports.
        target: folder to create.
        export: weights, and with `optimizer` the optimizers' states; otherwise everything needed to resume.
        optimizer: see `export`.
        ema: in an export, the moving average of the weights in place of these.
        dtype: dtype of the weights in an export, as torch names it; None: as saved.
        max_file: bytes above which tensors are split over several files.
        trusted: see `open_source`.
        force: replace an existing checkpoint or export.
        progress: called with the progress.

    Returns:
        A description of what was written.

    Raises:
        CheckpointError: with the fault; nothing was left then.
    """
    whole = open_source(source, 1, trusted=trusted, progress=progress)
    if not export:
        _check_resumable(source, whole)
    if ema:
        whole = with_averages(source, whole)
    contents = Contents(
        optimizer=optimizer or not export,
        resumable=not export,
        dtype=getattr(torch, dtype) if dtype is not None else None,
        max_file=max_file,
    )
    with output_folder(target, source=source, needed=size_of(whole, contents), force=force) as folder:
        manifest = write_single(whole, folder, contents, progress)
    return _told(target, manifest.step, manifest.size, len(manifest.files), whole.notice)


def to_sharded(
    source: Path, target: Path, *, parts: int | None, trusted: bool, force: bool, progress: Progress
) -> dict[str, Any]:
    """Create the folder `target` as a checkpoint that runs can resume from.

    Its world size and the ranks' random states are those of the source. Resuming at that world size is
    bit-exact; at another it follows the rule for changes of world size, whatever `parts` is.

    Args:
        source: a checkpoint's folder, or another source that `open_source` supports.
        target: folder to create.
        parts: tensor files; None: one.
        trusted: see `open_source`.
        force: replace an existing checkpoint.
        progress: called with the progress.

    Raises:
        CheckpointError: with the fault; nothing was left then.
    """
    whole = open_source(source, parts or 1, trusted=trusted, progress=progress)
    _check_resumable(source, whole)
    needed = sum(spec.size for spec in whole.tensors.specs.values())
    with output_folder(target, source=source, needed=needed, force=force) as folder:
        manifest = write_sharded(whole, folder, parts or 1, progress)
    return _told(target, manifest.step, manifest.size, len(manifest.files), whole.notice)


def open_source(source: Path, world_size: int, *, trusted: bool, progress: Progress) -> WholeCheckpoint:
    """Open a Torchdeck checkpoint in either layout, weights in one file, or a checkpoint of a strategy's
    library.

    Args:
        source: the source.
        world_size: number of ranks whose states are derived, if the source has none.
        trusted: allow reading such a library's pickles, which executes code in them.
        progress: called with the progress of checking.

    Raises:
        CheckpointError: it is none of these, damaged, or contains something that is never executed.
    """
    if source.is_file():
        return open_weights(source, world_size)
    if not (source / MANIFEST_NAME).exists():
        for strategy in STRATEGIES.values():
            if strategy.wrote(source):
                weights = InMemory(strategy.weights_of(source, trusted=trusted))
                return _of_weights(weights, source.name, world_size)
    manifest = verified_manifest(source, progress)
    # its location has changed: the duration of the save is no longer of interest
    manifest = replace(manifest, seconds=0.0)
    if METADATA_NAME in manifest.files:
        return open_sharded(source, manifest)
    if MODEL_JSON in manifest.files:
        return open_single(source, manifest)
    raise CheckpointError(f"{source} holds neither {METADATA_NAME} nor {MODEL_JSON}: it is no checkpoint")


def _check_resumable(source: Path, whole: WholeCheckpoint) -> None:
    if not whole.resumable:
        raise CheckpointError(
            f"{source} lacks what going on takes, as an export does: `torchdeck ckpt convert --to single` "
            "keeps all of a checkpoint"
        )


def _told(target: Path, step: int, size: int, files: int, notice: str) -> dict[str, Any]:
    return {"path": str(target), "step": step, "size": size, "files": files, "notice": notice}


# A folder that appears complete, or not at all.

_SPARE = 16 << 20
"""Bytes that must be free in addition: for headers, and for what others write in the meantime."""


@contextmanager
def output_folder(target: Path, *, source: Path, needed: int, force: bool) -> Iterator[Path]:
    """Yield a new folder next to `target` that is renamed to it if the block succeeds, and deleted otherwise.

    Args:
        target: the final folder; its parent must exist.
        source: folder read in the meantime.
        needed: bytes that will be written.
        force: an existing checkpoint or export is replaced; nothing else ever is.

    Raises:
        CheckpointError: `target` exists, or the disk has too little space; nothing was changed.
    """
    target = Path(os.path.abspath(target))  # noqa: PTH100 - a link in its place is not followed
    _check(target, source.resolve(), needed, force=force)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir()
        yield temporary
        sync_folder(temporary)
        _put(temporary, target)
    except OSError as error:
        raise CheckpointError(f"{target} could not be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check(target: Path, source: Path, needed: int, *, force: bool) -> None:
    parent = target.parent
    if not parent.is_dir():
        raise CheckpointError(f"there is no folder {parent} to write {target.name} into")
    real = parent.resolve() / target.name
    if real in (source, *source.parents) or source in real.parents:
        raise CheckpointError(f"{target} and {source} overlap: write elsewhere")
    if os.path.lexists(target):
        if not force:
            raise CheckpointError(f"{target} already exists: give --force to replace it")
        if target.is_symlink() or not _is_ours(target):
            raise CheckpointError(f"{target} is neither a checkpoint nor an export: it is not replaced")
    free = shutil.disk_usage(parent).free
    if free < needed + _SPARE:
        raise CheckpointError(
            f"{target} needs {needed / 2**20:.1f} MiB, and {free / 2**20:.1f} MiB are free in {parent}"
        )


def _is_ours(folder: Path) -> bool:
    """Return whether the folder has a valid manifest, and no files that it does not name."""
    try:
        names = {*read_manifest(folder).files, MANIFEST_NAME}
    except CheckpointError:
        return False
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()} <= names


def _put(temporary: Path, target: Path) -> None:
    aside = target.with_name(f".{target.name}.{os.getpid()}.replaced")
    if target.exists():
        target.rename(aside)
    try:
        temporary.rename(target)
    except OSError:
        if aside.exists():
            aside.rename(target)
        raise
    sync_folder(target.parent)
    shutil.rmtree(aside, ignore_errors=True)


# Checkpoints from files that other programs wrote.

WEIGHTS_ONLY = "it holds weights only: an optimizer starts over, and random state is derived from the file"
_INSIDE = ("model", "state_dict", "model_state_dict", "module")
"""Keys under which programs store the weights in a file."""


def open_weights(path: Path, world_size: int) -> WholeCheckpoint:
    """Open the weights in a `torch.save` file or a safetensors file, as a checkpoint before the first step.

    A pickle is read with `weights_only`: nothing in it is executed.

    Args:
        path: the file.
        world_size: number of ranks that get a random state in the checkpoint.

    Raises:
        CheckpointError: it contains no weights, or more than weights.
    """
    weights = SafetensorsFile(path) if path.suffix == ".safetensors" else InMemory(_from_pickle(path))
    return _of_weights(weights, path.name, world_size)


def _from_pickle(path: Path) -> dict[str, torch.Tensor]:
    try:
        with open_regular(path) as file:
            check_archive(file)
        value = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        raise CheckpointError(f"{path} cannot be read as weights alone: {refusal(error)}") from error
    inside = [value[key] for key in _INSIDE if isinstance(value, dict) and isinstance(value.get(key), dict)]
    weights = inside[0] if inside else value
    if not isinstance(weights, dict) or not weights:
        raise CheckpointError(f"{path} holds no weights: a {type(value).__name__}")
    for name, tensor in weights.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise CheckpointError(
                f"{path}: {name!r} is a {type(tensor).__name__}, not a tensor; save model.state_dict() alone"
            )
    if all(name.startswith("module.") for name in weights):  # saved inside DistributedDataParallel
        return {name.removeprefix("module."): tensor for name, tensor in weights.items()}
    return weights


def _of_weights(weights: Tensors, source: str, world_size: int) -> WholeCheckpoint:
    tensors = Renamed(weights, {MODEL_PREFIX + bare_name(name): name for name in weights.specs})
    listing = listing_of_specs(
        {name.removeprefix(MODEL_PREFIX): spec for name, spec in tensors.specs.items()}
    )
    trainer = TrainerFile(
        step=0, position={}, scheduler={}, scaler={}, extra={}, model=listing, optimizers=[]
    )
    fingerprint = model_fingerprint(listing)
    manifest = Manifest(
        step=0,
        world_size=world_size,
        strategy="imported",
        run_id=source,
        attempt=1,
        created=time.time(),
        seconds=0.0,
        position={},
        model_fingerprint=fingerprint,
        files={},
    )
    ranks = [
        {"rng": derived_rng(f"{fingerprint}/{rank}/{world_size}"), "buffers": {}}
        for rank in range(world_size)
    ]
    return WholeCheckpoint(manifest, trainer, tensors, ranks, WEIGHTS_ONLY)


def derived_rng(text: str) -> dict[str, Any]:
    """Return a random state like `rng.rng_state`, seeded by the first 8 bytes of SHA-256 over `text`."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    version, words, gauss = random.Random(seed).getstate()  # noqa: S311 - a training's, not a secret
    state = torch.Generator().manual_seed(seed % (1 << 63)).get_state()
    return {"python": [version, list(words), gauss], "torch": state, "numpy": None, "cuda": None}
