"""What is previewed and what is known of it, as values that never change. Without Qt's widgets."""

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
    """What is needed of a `launch.document.run_document.CheckedDocument`."""

    @property
    def version(self) -> int: ...
    @property
    def loaded(self) -> LoadedConfig | None: ...
    @property
    def problems(self) -> tuple[Problem, ...]: ...


@dataclass(frozen=True)
class PreviewState:
    """What is to be shown now."""

    preview: Preview | None = None
    """None where nothing could be previewed yet."""
    plan: LaunchPlan | None = None
    """The preview's; what a launch starts, unless `stale`."""
    loaded: LoadedConfig | None = None
    """What the plan was made of."""
    problems: tuple[Problem, ...] = ()
    """Of the document, or why its plan does not fit the machines; the newest document's, preview or not."""
    tracing: str = ""
    """What the tracing of the model does now; empty where none goes on."""
    held: Held | None = None
    """What would have to run to say more, and may not yet."""
    error: Refusal | None = None
    """Why no preview could be made though nothing is wrong with the document."""
    stale: bool = False
    """The preview is of an earlier document."""
    version: int = -1
    """Of the document that was looked at."""
    board: RankGridModel | None = None
    """The preview's ranks on the machines that could be used."""
    waiting: str = ""
    """What the next preview waits for, where that takes long."""
    cancelled: bool = False
    """The user has ended the tracing; `refresh` begins it anew."""
