"""Remove checkpoints that a rule does not keep."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.layout import Home, RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.folders.checkpoints import by_directory
from torchdeck.runs.registry import RunRegistry
from torchdeck.runs.table.space import Surplus
from torchdeck.use_cases.checkpoints.here import delete_checkpoint


class Freed(NamedTuple):
    """Result of a removal."""

    checkpoints: int
    size: int
    """Bytes."""
    problems: tuple[str, ...]
    """Why a checkpoint is still there, one sentence each."""


def free_space(
    chosen: Sequence[Surplus],
    progress: Callable[[str], object] = lambda _: None,
    check: Callable[[], None] = lambda: None,
) -> Freed:
    """Remove checkpoints; one that cannot be removed does not keep back the others.

    The notes and the runs that use its folder are read again before each: another window may have pinned or
    resumed one since.

    Args:
        chosen: as previewed by `surplus`.
        progress: called with a sentence for each.
        check: called before each; an exception from it ends the removal.
    """
    count, size, problems = 0, 0, []
    groups = by_directory(_runs_of(each.run.row.entry.layout.home.root for each in chosen))
    for each in chosen:
        check()
        info = each.checkpoint.info
        if not info.path.exists():
            problems.append(f"{info.path} is gone already")
            continue
        progress(f"removing {info.path.name} of {each.run.row.label}")
        try:
            layout = each.run.row.entry.layout
            sharing = groups.get(Path(os.path.realpath(info.path.parent)), ())
            delete_checkpoint(layout, info.path, [other for other in sharing if other != layout])
        except (Refusal, OSError) as error:
            problems.append(f"{info.path} is not removed: {error}")
            continue
        count, size = count + 1, size + each.size
    return Freed(count, size, tuple(problems))


def _runs_of(homes: Iterable[Path]) -> list[RunLayout]:
    return [Home(home).run(run_id) for home in set(homes) for run_id in RunRegistry(home).ids()]
