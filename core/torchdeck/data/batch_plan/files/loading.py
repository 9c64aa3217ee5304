"""Opens and writes batch plans in any layout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from torchdeck.data.batch_plan.columns import BatchPlanError
from torchdeck.data.batch_plan.files.columns_file import PLAN_FILE, read_columns, write_columns
from torchdeck.data.batch_plan.files.folders import written_whole
from torchdeck.data.batch_plan.files.jsonl import META_FILE, read_jsonl, write_jsonl
from torchdeck.data.batch_plan.files.source import DataSource, write_source
from torchdeck.data.batch_plan.plan import BatchPlan
from torchdeck.data.batch_plan.verify import check_plan

Layout = Literal["columns", "jsonl"]


def load_batch_plan(
    path: str | os.PathLike[str],
    *,
    verify: bool = False,
    expect_dataset: str | None = None,
    expect_tokenizer: str | None = None,
) -> BatchPlan:
    """Open the batch plan in the folder `path`: Torchdeck's columns, or `meta.json` and `epoch_N.jsonl`.

    Columns are memory-mapped and must not be written to while the plan is in use. A truncated file is
    always
    refused.

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
