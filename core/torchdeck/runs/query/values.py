"""Values of a run that can be asked for in a filter."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.runs.folders.notes import Note
from torchdeck.runs.folders.settings import Settings
from torchdeck.runs.query.expression import Value, Values
from torchdeck.runs.training_progress import TrainingProgress
from torchdeck.runs.view import RunView

NAMES = (
    "id", "name", "state", "program", "kind", "strategy", "ranks", "step", "epoch", "loss", "validation",
    "took", "tag", "note",
)  # fmt: skip
"""Keys besides those of run.toml."""


def values_of(
    view: RunView, settings: Settings, progress: TrainingProgress | None, note: Note | None = None
) -> Values:
    """Return key → values: those of `NAMES`, and every key that the run file or an override sets.

    Args:
        view: the run.
        settings: of the run.
        progress: of the run, if it is known.
        note: tags and note of the run.
    """
    took = None if view.started is None or view.ended is None else view.ended - view.started
    own: dict[str, Sequence[Value | None]] = {
        "id": (view.id,),
        "name": (view.name,),
        "state": (view.state.value,),
        "program": (view.target,),
        "kind": (view.kind,),
        "strategy": (view.strategy,),
        "ranks": (view.world_size,),
        "took": (took,),
        "tag": () if note is None else note.tags,
        "note": () if note is None else (note.text,),
    }
    if progress is not None:
        own |= {
            "step": (progress.step,),
            "epoch": (progress.epoch,),
            "loss": (progress.loss,),
            "validation": (progress.validation_loss,),
        }
    known = {key: tuple(each for each in values if each not in (None, "")) for key, values in own.items()}
    return {**{key: (value,) for key, value in settings.items()}, **known}
