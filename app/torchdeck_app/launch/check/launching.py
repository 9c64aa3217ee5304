"""Checks and launches off the GUI thread: the previewed plan is started, and only once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, Protocol

from PySide6.QtCore import QObject, Signal

from torchdeck.config.chosen_nodes import node_names
from torchdeck.config.loader import LoadedConfig
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.connector import Connector
from torchdeck.use_cases.check import CheckRequest, check
from torchdeck.use_cases.nodes.host_keys import forget_secrets
from torchdeck.use_cases.start import (
    Differs,
    MissingSecrets,
    Started,
    StartRequest,
    keep_secrets,
    missing_secrets,
    start_agreed,
    start_previewed,
)
from torchdeck.use_cases.ui import Ui
from torchdeck_app.bridge.operations import Operation, Operations
from torchdeck_app.bridge.worker_ui import WorkerUi
from torchdeck_app.launch.check.check_rows import CheckRow, check_rows, problem_rows, refusal_rows
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.preview.preview_state import PreviewState

WAITING = "checking the last edit"


class LaunchPhase(Enum):
    """Phase of a launch."""

    IDLE = auto()
    WAITING = auto()
    """Waiting for the newest edit or the trace of the model."""
    ASKING = auto()
    """Waiting for the user's answer."""
    STARTING = auto()


class Preview(Protocol):
    """Interface of the PreviewService as used here."""

    @property
    def state(self) -> PreviewState: ...
    def trust(self, folder: Path) -> None: ...


class Launching(QObject):
    """Launch in progress, one at a time; a second press during a launch does nothing."""

    progressed = Signal(str)
    """Emitted with the pending step; empty when it is over."""
    refused = Signal(object)
    """Emitted if nothing was started, with a tuple of CheckRow with the reasons."""
    trust_wanted = Signal(object)
    """Emitted with a Held, the code that would run; answered by `go_on_trusting` or `cancel`."""
    agreement_wanted = Signal(object)
    """Emitted with the differences from the preview, a tuple of sentences; answered by `go_on_agreeing` or
    `cancel`.
    """
    secrets_wanted = Signal(object)
    """Emitted with MissingSecrets; answered by `go_on_with_secrets` or `cancel`."""
    secrets_kept_no_more = Signal(str)
    """Emitted with a sentence once secrets are forgotten, or why the keyring still has them."""
    secrets_not_kept = Signal(str)
    """Emitted with the reason why the keyring did not take secrets; the run is started all the same."""
    started = Signal(str)
    """Emitted with the id of the run."""

    def __init__(
        self,
        document: RunDocument,
        preview: Preview,
        operations: Operations,
        home: Path,
        source: Callable[[], str],
        parent: QObject | None = None,
        *,
        connector: Connector | None = None,
    ) -> None:
        """Args:
        document: the edited document.
        preview: its preview; report changes to `preview_updated`.
        operations: runs slow work.
        home: TORCHDECK_HOME.
        source: returns the file of the text; empty if there is none.
        parent: Qt parent.
        connector: connects to nodes; None: without prompting for logins.
        """
        super().__init__(parent)
        self._connector = Connector(home) if connector is None else connector
        self._document, self._preview, self._operations = document, preview, operations
        self._home, self._source = home, source
        self._phase = LaunchPhase.IDLE
        self._trusting: Path | None = None
        self._operation: Operation[Any] | None = None
        self._agreed: tuple[Wanted, LaunchPlan] | None = None
        self._secrets: dict[str, str] = {}
        """Values that the user has entered, until the window is closed."""
        self._looked_for: frozenset[str] = frozenset()
        """Secrets that are known to have a value in the environment or the keyring."""

    @property
    def is_busy(self) -> bool:
        """Return whether a launch is running or waits for an answer."""
        return self._phase != LaunchPhase.IDLE

    def launch(self) -> None:
        """Start the previewed run as soon as the newest edit is previewed."""
        if self._phase == LaunchPhase.IDLE:
            self._phase = LaunchPhase.WAITING
            self._advance()

    def preview_updated(self) -> None:
        """Handle a changed preview."""
        if self._phase == LaunchPhase.WAITING:
            self._advance()

    def go_on_trusting(self, folder: Path) -> None:
        """Continue after the user trusted the folder."""
        if self._phase == LaunchPhase.ASKING:
            self._phase, self._trusting = LaunchPhase.WAITING, folder
            self.progressed.emit(WAITING)
            self._preview.trust(folder)

    def go_on_with_secrets(self, values: Mapping[str, str], *, keep: bool) -> None:
        """Continue with values that the user has entered; `keep`: put them into the keyring, too."""
        if self._phase != LaunchPhase.ASKING:
            return
        self._secrets.update(values)
        if keep:
            self._operations.run(
                "saving secrets in the keyring",
                lambda _progress, _cancel: keep_secrets(values, self._home),
                failed=lambda error: self.secrets_not_kept.emit(str(error)),
            )
        self._phase = LaunchPhase.WAITING
        self._advance()

    def forget_secrets(self) -> None:
        """Forget the secrets of the run, in the keyring, too; emits `secrets_kept_no_more`."""
        if self.is_busy:
            return
        checked = self._document.newest
        loaded = None if checked is None else checked.loaded
        names = sorted({*self._secrets, *(() if loaded is None else loaded.config.secrets)})
        self._secrets.clear()
        self._operations.run(
            "removing secrets from the keyring",
            lambda _progress, _cancel: forget_secrets(self._home, names),
            done=self._forgotten,
            failed=self._not_forgotten,
        )

    def _forgotten(self, _names: list[str]) -> None:
        self.secrets_kept_no_more.emit("The next launch asks for secrets that no variable has.")

    def _not_forgotten(self, error: Exception) -> None:
        self.secrets_kept_no_more.emit(str(error))

    def go_on_agreeing(self) -> None:
        """Continue after the user confirmed the differences."""
        if self._phase != LaunchPhase.ASKING or self._agreed is None:
            return
        wanted, plan = self._agreed
        starter = Starter()
        self._run(starter, lambda ui: starter.start_agreed(wanted, plan, ui))

    def cancel(self) -> None:
        """Cancel the launch; a run that is already created continues."""
        if self._operation is not None:
            self._operation.cancel()
        elif self._phase != LaunchPhase.IDLE:
            self._end()

    def _advance(self) -> None:
        state, checked = self._preview.state, self._document.newest
        newest = checked is not None and checked.version == self._document.version
        if checked is None or not newest or checked.path != self._document.path:
            self.progressed.emit(WAITING)
        elif checked.loaded is None:
            self._refuse(problem_rows(checked.problems))
        elif state.version != checked.version:
            self.progressed.emit(WAITING)
        elif state.held is not None and not state.held.can_be_trusted:
            self._refuse((CheckRow("permissions", "failed", state.held.what, state.held.fix),))
        elif state.held is not None and state.held.folder == self._trusting:
            if state.error is not None:  # the trust list could not be written
                self._refuse(refusal_rows(state.error, "trust"))
        elif state.held is not None:
            self._phase = LaunchPhase.ASKING
            self.progressed.emit("")
            self.trust_wanted.emit(state.held)
        elif state.tracing:
            self.progressed.emit(state.tracing)
        elif state.plan is None or state.stale or state.loaded is None:
            self._refuse(_why_no_plan(state))
        elif state.loaded is not checked.loaded:
            self.progressed.emit(WAITING)
        elif unknown := set(state.loaded.config.secrets) - {*self._secrets, *self._looked_for}:
            self._look_for(sorted(unknown))
        else:
            source, secrets = self._source(), dict(self._secrets)
            request = StartRequest(state.loaded, checked.text, source, home=self._home, secrets=secrets)
            self._start(Wanted(request, state.plan, checked.folder))

    def _look_for(self, names: Sequence[str]) -> None:
        """Find out which secrets the user must enter."""
        self._phase = LaunchPhase.STARTING
        self.progressed.emit("looking for secrets")

        def found(missing: MissingSecrets) -> None:
            self._operation = None
            self._looked_for = frozenset(names) - set(missing.names)
            if missing.names:
                self._phase = LaunchPhase.ASKING
                self.progressed.emit("")
                self.secrets_wanted.emit(missing)
            else:
                self._phase = LaunchPhase.WAITING
                self._advance()

        self._operation = self._operations.run(
            "looking for secrets",
            lambda _progress, _cancel: missing_secrets(names, self._home),
            done=found,
            failed=self._failed,
        )
        self._operation.cancelled.connect(self._end)

    def _start(self, wanted: Wanted) -> None:
        self._agreed = (wanted, wanted.previewed)
        starter = Starter()
        self._run(starter, lambda ui: starter.start(wanted, ui))

    def _run(self, starter: Starter, call: Callable[[Ui], Started | Differs | Refused]) -> None:
        self._phase = LaunchPhase.STARTING
        self.progressed.emit("checking")
        operation = self._operations.run(
            "starting a run",
            lambda progress, cancel: call(WorkerUi(self._connector, progress, cancel)),
            done=self._done,
            failed=self._failed,
        )
        operation.progressed.connect(self.progressed)
        operation.cancelled.connect(lambda: self._cancelled(starter))
        self._operation = operation

    def _done(self, outcome: Started | Differs | Refused) -> None:
        if isinstance(outcome, Started):
            self._end()
            self.started.emit(outcome.layout.root.name)
        elif isinstance(outcome, Refused):
            self._refuse(outcome.rows)
        else:
            self._operation = None
            self._phase = LaunchPhase.ASKING
            if self._agreed is not None:
                self._agreed = (self._agreed[0], outcome.plan)
            self.progressed.emit("")
            self.agreement_wanted.emit(outcome.changes)

    def _failed(self, error: Exception) -> None:
        what = f"{type(error).__name__}: {error}"
        self._refuse((CheckRow("start", "failed", what, "see the terminal in which Torchdeck was started"),))

    def _cancelled(self, starter: Starter) -> None:
        """Handle the cancellation, which was too late if the run is already created."""
        self._end()
        if starter.started is not None:
            self.started.emit(starter.started.layout.root.name)

    def _refuse(self, rows: tuple[CheckRow, ...]) -> None:
        self._end()
        self.refused.emit(rows)

    def _end(self) -> None:
        self._phase = LaunchPhase.IDLE
        self._operation, self._agreed, self._trusting = None, None, None
        self._looked_for = frozenset()  # a variable or the keyring may have changed by the next launch
        self.progressed.emit("")


def _why_no_plan(state: PreviewState) -> tuple[CheckRow, ...]:
    if state.problems:
        return problem_rows(state.problems)
    error = state.error or Refusal("there is no plan to start", fix="press Check to see why")
    return refusal_rows(error, "preview")


# Checks and launches off the GUI thread.


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
            make_folder(wanted.folder)
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
        make_folder(folder)
        found = check(request, ui)
    except Refusal as error:
        return refusal_rows(error)
    problems = () if found.misfit is None else found.misfit.problems
    return check_rows(found.checks, problems, is_node=_is_node(request.loaded))


def _is_node(loaded: LoadedConfig) -> bool:
    """Return whether this machine is one of several nodes."""
    names = node_names(loaded.config)
    return LOCALHOST in names and len(names) > 1


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(
            f"{folder} cannot be created", error.strerror, "save the run file in a folder of yours"
        ) from error
