"""Remove checkpoints that a rule does not keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.folders.notes import Note, read_notes
from torchdeck.runs.table.space import Surplus
from torchdeck.use_cases.checkpoints_here import delete_checkpoint


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

    The notes and the run are read again before each: another window may have pinned or resumed the run since.

    Args:
        chosen: as previewed by `surplus`.
        progress: called with a sentence for each.
        check: called before each; an exception from it ends the removal.
    """
    count, size, problems = 0, 0, []
    for each in chosen:
        check()
        info = each.checkpoint.info
        if not info.path.exists():
            problems.append(f"{info.path} is gone already")
            continue
        progress(f"removing {info.path.name} of {each.run.row.label}")
        try:
            _refuse_pinned(each.run.row.entry.layout)
            delete_checkpoint(each.run.row.entry.layout, info.path)
        except (Refusal, OSError) as error:
            problems.append(f"{info.path} is not removed: {error}")
            continue
        count, size = count + 1, size + each.size
    return Freed(count, size, tuple(problems))


def _refuse_pinned(layout: RunLayout) -> None:
    if read_notes(layout.home.root).get(layout.root.name, Note()).pinned:
        raise Refusal("the run is pinned")
