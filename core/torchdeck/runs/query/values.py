"""Values of a run that can be asked for in a filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchdeck.runs.folders.notes import Note
from torchdeck.runs.folders.settings import Settings
from torchdeck.runs.query.expression import Value, Values
from torchdeck.runs.query.metric_values import METRIC
from torchdeck.runs.training_progress import TrainingProgress
from torchdeck.runs.view import RunView

NAMES = (
    "id", "name", "state", "program", "kind", "strategy", "ranks", "step", "epoch", "loss", "validation",
    "took", "started", "left", "throughput", "tag", "note", "pinned", "archived",
)  # fmt: skip
"""Keys besides those of run.toml."""


def values_of(
    view: RunView,
    settings: Settings,
    progress: TrainingProgress | None,
    note: Note | None = None,
    metrics: Mapping[str, float] | None = None,
) -> Values:
    """Return key → values: those of `NAMES`, every key that the run file or an override sets, and metrics.

    Args:
        view: the run.
        settings: of the run.
        progress: of the run, if it is known.
        note: tags and note of the run.
        metrics: name → value, as `metric_values` returns them.
    """
    note = note or Note()
    took = None if view.started is None or view.ended is None else view.ended - view.started
    own: dict[str, Sequence[Value | None]] = {
        "id": (view.id,),
        "name": (note.name or view.name,),
        "state": (view.state.value,),
        "program": (view.target,),
        "kind": (view.kind,),
        "strategy": (view.strategy,),
        "ranks": (view.world_size,),
        "took": (took,),
        "started": (view.started or view.created,),
        "tag": note.tags,
        "note": (note.text,),
        "pinned": ("yes" if note.pinned else "no",),
        "archived": ("yes" if note.archived else "no",),
    }
    if progress is not None:
        pace = (progress.tokens_per_s, progress.samples_per_s, progress.steps_per_s)
        own |= {
            "step": (progress.step,),
            "epoch": (progress.epoch,),
            "loss": (progress.loss,),
            "validation": (progress.validation_loss,),
            "left": (None if view.is_over else progress.eta,),
            "throughput": (next((each for each in pace if each is not None), None),),
        }
    known = {key: tuple(each for each in values if each not in (None, "")) for key, values in own.items()}
    measured = {f"{METRIC}{key}": (value,) for key, value in (metrics or {}).items()}
    return {**measured, **{key: (value,) for key, value in settings.items()}, **known}
