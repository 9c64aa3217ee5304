"""Checks and launches off the GUI thread."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torchdeck.config.chosen_nodes import node_names
from torchdeck.config.loader import LoadedConfig
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.refusal import Refusal
from torchdeck.use_cases.check import CheckRequest, check
from torchdeck.use_cases.start import Differs, Started, StartRequest, start_agreed, start_previewed
from torchdeck.use_cases.ui import Ui
from torchdeck_app.launch.check.rows import CheckRow, check_rows, refusal_rows


@dataclass(frozen=True)
class Wanted:
    """Parameters of a start."""

    request: StartRequest
    previewed: LaunchPlan
    """Plan that the user has seen."""
    folder: Path
    """Base of relative paths; created if it does not exist."""


@dataclass(frozen=True)
class Refused:
    """Nothing was started."""

    rows: tuple[CheckRow, ...]


class Starter:
    """Starter of one run, once; `started` is set even if the caller did not wait for the end."""

    def __init__(self) -> None:
        self.started: Started | None = None

    def start(self, wanted: Wanted, ui: Ui) -> Started | Differs | Refused:
        """Check, and start the previewed plan if it is still current."""
        try:
            _make_folder(wanted.folder)
            outcome = start_previewed(wanted.request, wanted.previewed, ui)
        except Refusal as error:
            return Refused(refusal_rows(error, is_node=_is_node(wanted.request.loaded)))
        if isinstance(outcome, Started):
            self.started = outcome
        return outcome

    def start_agreed(self, wanted: Wanted, plan: LaunchPlan, ui: Ui) -> Started | Refused:
        """Start `plan`, which was checked and which the user has confirmed."""
        try:
            self.started = start_agreed(wanted.request, plan, ui)
        except Refusal as error:
            return Refused(refusal_rows(error))
        return self.started


def check_everything(request: CheckRequest, folder: Path, ui: Ui) -> tuple[CheckRow, ...]:
    """Return all checks before a start, and why no plan can be made."""
    try:
        _make_folder(folder)
        found = check(request, ui)
    except Refusal as error:
        return refusal_rows(error)
    problems = () if found.misfit is None else found.misfit.problems
    return check_rows(found.checks, problems, is_node=_is_node(request.loaded))


def _is_node(loaded: LoadedConfig) -> bool:
    """Return whether this machine is one of several nodes."""
    names = node_names(loaded.config)
    return LOCALHOST in names and len(names) > 1


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(
            f"{folder} cannot be made", error.strerror, "save the run file in a folder of yours"
        ) from error
