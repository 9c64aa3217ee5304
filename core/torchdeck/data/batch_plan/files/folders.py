"""Output folder of a batch plan: written completely or not at all, and replaces nothing else."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from torchdeck.contract.atomic import sync_folder
from torchdeck.data.batch_plan.columns import BatchPlanError
from torchdeck.data.batch_plan.files.columns_file import COLUMNS_FILE, PLAN_FILE
from torchdeck.data.batch_plan.files.jsonl import EXTRAS_FILE, META_FILE
from torchdeck.data.batch_plan.files.source import SOURCE_FILE

_COLUMNS_PLAN = re.compile("|".join(map(re.escape, (PLAN_FILE, COLUMNS_FILE, SOURCE_FILE))))
_JSONL_PLAN = re.compile(
    "|".join([*map(re.escape, (META_FILE, EXTRAS_FILE, SOURCE_FILE)), r"epoch_\d+\.jsonl"])
)
_SHARD = re.compile(r"rank_\d+")


def is_plan(folder: Path) -> bool:
    """Return whether there is a plan in `folder`, of whatever layout."""
    return (folder / PLAN_FILE).is_file() or (folder / META_FILE).is_file()


def check_place(path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Raise BatchPlanError unless a plan, or shards, may be written at `path`."""
    place = Path(path)
    if place.name in ("", ".."):
        raise BatchPlanError(f"{place} cannot be a batch plan: give the name of a folder to make")
    above = next(folder for folder in place.absolute().parents if os.path.lexists(folder))
    if not above.is_dir():
        raise BatchPlanError(f"{above} is no folder: nothing can be written at {place}")
    if not place.is_symlink() and (not place.exists() or (place.is_dir() and not any(place.iterdir()))):
        return
    if not overwrite:
        raise BatchPlanError(f"{place} is there already: choose another place, or overwrite it")
    if place.is_symlink() or not place.is_dir():
        raise BatchPlanError(f"{place} is there already and is no folder: it is not overwritten")
    if not _nothing_but_a_plan(place) and not _nothing_but_shards(place):
        raise BatchPlanError(
            f"{place} is there already and is no batch plan, or more than that: it is not overwritten"
        )


def written_whole(path: Path, write: Callable[[Path], None], *, overwrite: bool) -> None:
    """Let `write` fill a folder, which is then atomically renamed to `path`.

    Raises:
        BatchPlanError: `path` exists, and is not to be overwritten.
        OSError: it cannot be written; nothing is left then.
    """
    check_place(path, overwrite=overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    try:
        # mkdtemp makes it for its owner alone; a plan is as readable as other files
        temporary.chmod(0o777 & ~_umask())
        write(temporary)
        _swap(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(path.parent)


def _nothing_but_a_plan(folder: Path) -> bool:
    """Return whether `folder` has only files of one plan; a run's own folder has a plan.json, too."""
    if folder.is_symlink() or not folder.is_dir() or not is_plan(folder):
        return False
    inner = list(folder.iterdir())
    return all(path.is_file() for path in inner) and any(
        all(names.fullmatch(path.name) for path in inner) for names in (_COLUMNS_PLAN, _JSONL_PLAN)
    )


def _nothing_but_shards(folder: Path) -> bool:
    return all(_SHARD.fullmatch(path.name) and _nothing_but_a_plan(path) for path in folder.iterdir())


def _swap(new: Path, path: Path) -> None:
    if not path.exists() or not any(path.iterdir()):
        new.replace(path)
        return
    old = new.with_name(new.name + ".old")
    path.replace(old)
    try:
        new.replace(path)
    except BaseException:
        old.replace(path)
        raise
    shutil.rmtree(old)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
