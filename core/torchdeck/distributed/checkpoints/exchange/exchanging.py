"""Export and conversion, from whatever layout a source has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError
from torchdeck.distributed.checkpoints.exchange.imported import open_deepspeed, open_weights
from torchdeck.distributed.checkpoints.exchange.output_folder import output_folder
from torchdeck.distributed.checkpoints.exchange.sharded import open_sharded, verified_manifest, write_sharded
from torchdeck.distributed.checkpoints.exchange.single import (
    MODEL_JSON,
    Contents,
    open_single,
    size_of,
    write_single,
)
from torchdeck.distributed.checkpoints.exchange.whole import Progress, WholeCheckpoint, with_averages
from torchdeck.distributed.checkpoints.files.deepspeed_import import is_deepspeed
from torchdeck.distributed.checkpoints.files.metadata import METADATA_NAME


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
    """Make the folder `target` of a checkpoint: for other tools (`export`), or all of it.

    Args:
        source: a checkpoint's folder, or what `open_source` knows.
        target: is made.
        export: weights, and with `optimizer` the optimizers' states; otherwise all that resuming takes.
        optimizer: see `export`.
        ema: in an export, the moving average of the weights in place of these.
        dtype: of the weights in an export, as torch names it; None: as saved.
        max_file: bytes above which tensors are divided among files.
        trusted: see `open_source`.
        force: replace a checkpoint or export that lies there.
        progress: told how far it is.

    Returns:
        What was written, for whoever asked.

    Raises:
        CheckpointError: with what is wrong; nothing was left then.
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
    """Make the folder `target` a checkpoint that runs resume from.

    The world size that it names is the source's, and so are the ranks' random states: resuming at that world
    size is bit-exact, at another it follows the rule for changes of world size, whatever `parts` is.

    Args:
        source: a checkpoint's folder, or what `open_source` knows.
        target: is made.
        parts: tensor files; None: one.
        trusted: see `open_source`.
        force: replace a checkpoint that lies there.
        progress: told how far it is.

    Raises:
        CheckpointError: with what is wrong; nothing was left then.
    """
    whole = open_source(source, parts or 1, trusted=trusted, progress=progress)
    _check_resumable(source, whole)
    needed = sum(spec.size for spec in whole.tensors.specs.values())
    with output_folder(target, source=source, needed=needed, force=force) as folder:
        manifest = write_sharded(whole, folder, parts or 1, progress)
    return _told(target, manifest.step, manifest.size, len(manifest.files), whole.notice)


def open_source(source: Path, world_size: int, *, trusted: bool, progress: Progress) -> WholeCheckpoint:
    """A checkpoint of Torchdeck's in either layout, weights in one file, or a folder that DeepSpeed wrote.

    Args:
        source: it.
        world_size: for what holds no ranks' states: for how many they are derived.
        trusted: DeepSpeed's pickles may be read, which executes what is in them.
        progress: told how far checking is.

    Raises:
        CheckpointError: it is none of these, damaged, or holds what is never executed.
    """
    if source.is_file():
        return open_weights(source, world_size)
    if not (source / MANIFEST_NAME).exists() and is_deepspeed(source):
        return open_deepspeed(source, world_size, trusted=trusted)
    manifest = verified_manifest(source, progress)
    # where it lies now is not where it was: how long saving took is of no interest any more
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
