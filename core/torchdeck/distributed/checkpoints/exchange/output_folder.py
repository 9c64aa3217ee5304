"""A folder that appears whole, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchdeck.contract.atomic import sync_folder
from torchdeck.contract.checkpoints.manifest import MANIFEST_NAME, CheckpointError, read_manifest

_SPARE = 16 << 20
"""Bytes that must be free besides: for headers, and for what others write meanwhile."""


@contextmanager
def output_folder(target: Path, *, source: Path, needed: int, force: bool) -> Iterator[Path]:
    """A new folder beside `target` that takes its name when the block ends well, and goes otherwise.

    Args:
        target: what shall be there in the end; its parent must exist.
        source: what is read meanwhile.
        needed: bytes that will be written.
        force: a checkpoint or export that lies there already is replaced; nothing else ever is.

    Raises:
        CheckpointError: something lies there, or the disk has too little room; nothing was changed.
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
            raise CheckpointError(f"{target} is there already: give --force to replace it")
        if target.is_symlink() or not _is_ours(target):
            raise CheckpointError(f"{target} is neither a checkpoint nor an export: it is not replaced")
    free = shutil.disk_usage(parent).free
    if free < needed + _SPARE:
        raise CheckpointError(
            f"{target} needs {needed / 2**20:.1f} MiB, and {free / 2**20:.1f} MiB are free in {parent}"
        )


def _is_ours(folder: Path) -> bool:
    """A sound manifest lies there, and nothing but what it names."""
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
