"""Opens and writes batch plans in any layout."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.atomic import sync_folder
from torchdeck.data.batch_plan.columns import BatchPlanError
from torchdeck.data.batch_plan.files.columns_file import COLUMNS_FILE, PLAN_FILE, read_columns, write_columns
from torchdeck.data.batch_plan.files.jsonl import EXTRAS_FILE, META_FILE, read_jsonl, write_jsonl
from torchdeck.data.batch_plan.files.source_data import SOURCE_FILE, DataSource, write_source
from torchdeck.data.batch_plan.plan import BatchPlan, check_plan

Layout = Literal["columns", "jsonl"]


@arguments(own_checks=True)
def load_batch_plan(
    path: str | os.PathLike[str],
    *,
    verify: bool = False,
    expect_dataset: str | None = None,
    expect_tokenizer: str | None = None,
) -> BatchPlan:
    """Open the batch plan in the folder `path`: Torchdeck's columns, or `meta.json` and `epoch_N.jsonl`.

    Columns are memory-mapped and must not be written to while the plan is in use. A truncated file is
    always refused.

    Args:
        path: the folder.
        verify: also hash the columns and check every sample id; the JSON layout is always checked
            completely.
        expect_dataset: fingerprint of the data set that the plan must have been built for.
        expect_tokenizer: fingerprint of the tokenizer that the plan must have been built for.

    Raises:
        BatchPlanError: there is no plan, it is damaged, or it was built for something else.
        OSError: a file cannot be read.
    """
    folder = Path(path)
    if (folder / PLAN_FILE).is_file():
        plan = read_columns(folder, verify=verify)
        if verify:
            _check(folder, plan)
    elif (folder / META_FILE).is_file():
        plan = read_jsonl(folder)
        _check(folder, plan)
    else:
        raise BatchPlanError(
            f"there is no batch plan in {folder}: it would have a {PLAN_FILE} or a {META_FILE}"
        )
    expected = (
        ("data set", expect_dataset, plan.meta.dataset_fingerprint),
        ("tokenizer", expect_tokenizer, plan.meta.tokenizer_fingerprint),
    )
    for what, now, then in expected:
        if now is not None and now != then:
            raise BatchPlanError(
                f"the batch plan in {folder} is stale: it was built for the {what} {_short(then)}, but the "
                f"{what} is now {_short(now)}; build it again"
            )
    return plan


@arguments(own_checks=True)
def save_batch_plan(
    plan: BatchPlan,
    path: str | os.PathLike[str],
    *,
    layout: Layout = "columns",
    overwrite: bool = False,
    source: DataSource | None = None,
) -> None:
    """Write `plan` to the folder `path`, atomically.

    Args:
        plan: the plan to write.
        path: must not exist, or be an empty folder.
        layout: "columns", which is fast to open, or "jsonl", for other tools.
        overwrite: replace an existing batch plan.
        source: the data it was made from, recorded with it: a run then refuses the plan if the data has
            changed.

    Raises:
        BatchPlanError: the folder is not empty, or `layout` is unknown.
        OSError: it cannot be written.
    """

    def write(folder: Path) -> None:
        write_plan(plan, folder, layout)
        if source is not None:
            write_source(source, folder)

    written_whole(Path(path), write, overwrite=overwrite)


def write_plan(plan: BatchPlan, folder: Path, layout: Layout, *, durable: bool = True) -> None:
    """Write `plan` into the empty folder `folder`; same errors as `save_batch_plan`."""
    writers = {"columns": write_columns, "jsonl": write_jsonl}
    if layout not in writers:
        raise BatchPlanError(f"layout must be one of {', '.join(writers)}, not {layout!r}")
    writers[layout](plan, folder, durable=durable)


def _check(folder: Path, plan: BatchPlan) -> None:
    problems = check_plan(plan)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise BatchPlanError(f"the batch plan in {folder} is not sound: {problems[0]}{more}")


def _short(fingerprint: str) -> str:
    if not fingerprint:
        return "without fingerprint"
    return fingerprint if len(fingerprint) <= 28 else fingerprint[:24] + "…"


# Output folder of a batch plan: written completely or not at all, and replaces nothing else.

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
        raise BatchPlanError(f"{place} already exists: choose another place, or overwrite it")
    if place.is_symlink() or not place.is_dir():
        raise BatchPlanError(f"{place} already exists and is no folder: it is not overwritten")
    if not _nothing_but_a_plan(place) and not _nothing_but_shards(place):
        raise BatchPlanError(
            f"{place} already exists and is no batch plan, or more than that: it is not overwritten"
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
