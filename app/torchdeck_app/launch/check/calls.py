"""What checking and launching do off the GUI thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from torchdeck.config.chosen_nodes import node_names
from torchdeck.config.loader import LoadedConfig
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.all_checks import all_checks
from torchdeck.launching.checked_plan import PreflightError, checked_plan
from torchdeck.launching.chosen_nodes import knocking
from torchdeck.launching.control.early_controller import EarlyController, early_controller
from torchdeck.launching.facts.looks import Looks
from torchdeck.launching.launcher import Intent, LaunchError, start_run
from torchdeck.launching.prepare import survey
from torchdeck.nodes.connector import Connector
from torchdeck.runs.home import torchdeck_home
from torchdeck_app.bridge.operations import Cancel
from torchdeck_app.launch.check.plan_changes import plan_changes
from torchdeck_app.launch.check.rows import CheckRow, check_rows, refusal_rows

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """What is to be started: what was previewed, and what the user wrote."""

    loaded: LoadedConfig
    plan: LaunchPlan
    text: str
    source: str
    """The file the text is in; empty where it is in none."""
    folder: Path
    """What relative paths are relative to; made where it is not there."""


@dataclass(frozen=True)
class Started:
    """The run is there, and its controller under way."""

    run_id: str


@dataclass(frozen=True)
class Differs:
    """Another plan is made now than was previewed; nothing was started."""

    plan: LaunchPlan
    changes: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """Nothing was started."""

    rows: tuple[CheckRow, ...]


class Starter:
    """Starts one run, once; `started` says so even where nobody waited for the end of the call.

    Args:
        home: TORCHDECK_HOME.
        reach: how nodes are reached; None: nobody is asked for a login.
    """

    def __init__(self, home: Path, reach: Connector | None = None) -> None:
        self._home = home
        self._reach = reach
        self.started: Started | None = None

    def start(self, wanted: Wanted, progress: Progress, cancel: Cancel) -> Started | Differs | Refused:
        """Check, and start what was previewed, if that is still what would be started."""
        try:
            home = torchdeck_home(self._home)
            _make_folder(wanted.folder)
            progress("checking")
            loaded = wanted.loaded
            config, locate, files = loaded.config, loaded.locate, loaded.files
            with (
                early_controller(config, home) as early,
                knocking(config, self._reach, early) as kept,
            ):
                plan, _ = checked_plan(config, home, locate, progress, files, kept)
                # what else lies in the folder may change at any time, and is copied as it is then
                changes = (
                    plan_changes(wanted.plan, plan) if plan.fingerprint != wanted.plan.fingerprint else ()
                )
                if changes:
                    return Differs(plan, changes)
                return self._create(wanted, plan, home, progress, cancel, early)
        except PreflightError as error:
            return Refused(check_rows(error.checks, is_node=_is_node(wanted.loaded)))
        except Refusal as error:
            return Refused(refusal_rows(error))

    def start_plan(
        self, wanted: Wanted, plan: LaunchPlan, progress: Progress, cancel: Cancel
    ) -> Started | Differs | Refused:
        """Start `plan`, which was checked and which the user has agreed to."""
        try:
            return self._create(wanted, plan, torchdeck_home(self._home), progress, cancel)
        except Refusal as error:
            return Refused(refusal_rows(error))

    def _create(
        self,
        wanted: Wanted,
        plan: LaunchPlan,
        home: Path,
        progress: Progress,
        cancel: Cancel,
        early: EarlyController | None = None,
    ) -> Started:
        progress("starting the run")
        cancel.check()
        # the controller has nobody to ask: what was asked for here goes to it by a pipe
        logins = None if self._reach is None else self._reach.credentials.to_json()
        intent = Intent(wanted.text, wanted.source)
        layout, _controller = start_run(plan, intent, home, logins=logins, early=early)
        self.started = Started(layout.root.name)
        return self.started


def check_everything(
    loaded: LoadedConfig, folder: Path, home: Path, progress: Progress, reach: Connector | None = None
) -> tuple[CheckRow, ...]:
    """Every check before a start, and why no plan can be made; `reach` says how nodes are reached."""
    try:
        home = torchdeck_home(home)
        _make_folder(folder)
        with nullcontext(None) if reach is None else reach.keeping_talks() as kept:
            looks = Looks(home, kept)
            found = survey(loaded.config, on_progress=progress, looks=looks, files=loaded.files)
            checks, misfit = all_checks(
                loaded.config, found, home, loaded.locate, progress, loaded.files, kept
            )
    except Refusal as error:
        return refusal_rows(error)
    return check_rows(checks, () if misfit is None else misfit.problems, is_node=_is_node(loaded))


def _is_node(loaded: LoadedConfig) -> bool:
    """Whether this machine is one of several nodes."""
    names = node_names(loaded.config)
    return LOCALHOST in names and len(names) > 1


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LaunchError(
            f"{folder} cannot be made", error.strerror, "save the run file in a folder of yours"
        ) from error
