"""State of the preview as immutable values. Without Qt's widgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torchdeck.config.loader import LoadedConfig
from torchdeck.config.problems import Problem
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.refusal import Refusal
from torchdeck.plan.preview import Preview
from torchdeck.trust.held import Held
from torchdeck_app.launch.preview.rank_grid_model import RankGridModel


class Checked(Protocol):
    """Interface of a `launch.document.run_document.CheckedDocument` as used here."""

    @property
    def version(self) -> int: ...
    @property
    def loaded(self) -> LoadedConfig | None: ...
    @property
    def problems(self) -> tuple[Problem, ...]: ...


@dataclass(frozen=True)
class PreviewState:
    """Current state of the preview."""

    preview: Preview | None = None
    """None if nothing could be previewed yet."""
    plan: LaunchPlan | None = None
    """Plan of the preview, which a launch starts unless `stale`."""
    loaded: LoadedConfig | None = None
    """Config from which the plan was made."""
    problems: tuple[Problem, ...] = ()
    """Problems of the newest document, previewed or not, or why its plan does not fit the machines."""
    tracing: str = ""
    """Current step of the model's tracing; empty if none is running."""
    held: Held | None = None
    """Code that would have to run to show more, and is not trusted yet."""
    error: Refusal | None = None
    """Why no preview could be created although the document has no problems."""
    stale: bool = False
    """Whether the preview is of an earlier document."""
    version: int = -1
    """Version of the processed document."""
    board: RankGridModel | None = None
    """Ranks of the preview on the machines that could be used."""
    waiting: str = ""
    """Pending step of the next preview, if that takes long."""
    cancelled: bool = False
    """Whether the user has cancelled the tracing; `refresh` restarts it."""
