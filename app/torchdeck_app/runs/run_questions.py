"""Questions to the user about runs: before steps or files are lost, for the arguments of a resume, and for
the ranks of a profile.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import PurePath
from typing import NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QLineEdit,
    QMessageBox,
    QVBoxLayout,
    QWidget,
)

from torchdeck.agent.probe.run_folders import room_of
from torchdeck.contract.doctor.rank_profile import MOST_RANKS
from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import size
from torchdeck.runs.run_list import RunEntry
from torchdeck.runs.unsaved import unsaved_steps, what_is_lost
from torchdeck.runs.view import RunView
from torchdeck.shown_text import shown
from torchdeck.use_cases.ranks.profile import MOST_CHOSEN, ranks_in
from torchdeck.use_cases.start import MissingSecrets
from torchdeck_app.bridge.operations import Cancel, Operations
from torchdeck_app.runs.abilities import is_being_saved
from torchdeck_app.runs.page.run_page import RunPage
from torchdeck_app.runs.run_commands import HeldRun, RunCommands
from torchdeck_app.runs.run_watch import RunSeen
from torchdeck_app.runs.shown_runs import ShownRuns
from torchdeck_app.widgets.dialogs import Choice, ask, begin_with
from torchdeck_app.widgets.panel import label
from torchdeck_app.widgets.secrets_dialog import SecretsDialog

_REJECT = QMessageBox.ButtonRole.RejectRole
_NAMED = 6
"""Maximum number of runs named in a question."""


class Pressed(NamedTuple):
    """Run on which Stop now was pressed."""

    layout: RunLayout
    known: RunSeen | RunEntry
    under_way: frozenset[str]
    """Pending requests of the run."""

    @property
    def losing(self) -> RunView | None:
        """Return the view of the run if steps would be lost that the pending stop is about to save."""
        view = self.known.view
        if view is None or not is_being_saved(view, self.under_way):
            return None
        return view if unsaved_steps(view, self.known.progress) else None


class StopNow:
    """Confirmation if steps would be lost that the pending stop is about to save; else Stop now applies at
    once.

    Without a stop requested before, Stop now is deliberate: its tooltip lists what is lost.
    """

    def __init__(self, owner: QWidget, shown: ShownRuns, carry_out: Callable[[RunLayout], None]) -> None:
        self._owner = owner
        self._carry_out = carry_out
        self._open: dict[frozenset[str], QMessageBox] = {}
        """Questions by the ids of the runs that they are about."""
        shown.page_changed.connect(lambda: self._look_at(shown.page))

    def press(self, runs: Sequence[Pressed]) -> None:
        """Stop runs now; those that would lose steps are stopped after one confirmation for all."""
        losing = [(run, view) for run in runs if (view := run.losing) is not None]
        for run in runs:
            if run.losing is None:
                self._carry_out(run.layout)
        asked = {run_id: box for ids, box in self._open.items() for run_id in ids}
        for box in {asked[view.id] for _, view in losing if view.id in asked}:
            box.raise_()
        if new := [(run, view) for run, view in losing if view.id not in asked]:
            self._ask(new)

    def _ask(self, losing: Sequence[tuple[Pressed, RunView]]) -> None:
        def stop_all() -> None:
            for run, _ in losing:
                self._carry_out(run.layout)

        it = "it has" if len(losing) == 1 else "they have"
        which = losing[0][1].name if len(losing) == 1 else f"{len(losing):,} runs"
        box = ask(
            self._owner,
            f"Stop {which} now, before {it} saved?",
            _told(losing),
            [
                Choice("Stop now", QMessageBox.ButtonRole.DestructiveRole, stop_all),
                Choice("Let it save" if len(losing) == 1 else "Let them save", _REJECT, lambda: None),
            ],
            default=1,
        )
        ids = frozenset(view.id for _, view in losing)
        self._open[ids] = box
        box.finished.connect(lambda: self._open.pop(ids, None))

    def _look_at(self, page: RunPage | None) -> None:
        """Close the question when its run is over."""
        seen = None if page is None else page.seen_last
        box = None if seen is None else self._open.get(frozenset({seen.view.id}))
        if seen is not None and box is not None and seen.view.is_over:
            box.reject()


def _told(losing: Sequence[tuple[Pressed, RunView]]) -> str:
    lost = [(view.name, what_is_lost(view, run.known.progress)) for run, view in losing]
    if len(lost) == 1:
        return f"It is being stopped, and saves a checkpoint first. If every process ends now, {lost[0][1]}."
    lines = [f"{name}: {what}" for name, what in lost[:_NAMED]]
    if len(lost) > _NAMED:
        lines.append(f"and of {len(lost) - _NAMED:,} more, what came after their last checkpoints")
    told = "They are being stopped, and save a checkpoint first. If every process ends now:"
    return "\n".join((told, *lines))


def ask_results(
    owner: QWidget, held: Sequence[HeldRun], delete: Callable[[Sequence[HeldRun]], None]
) -> QMessageBox:
    """Ask before runs are deleted with files of their programs that are nowhere else."""
    which = f'"{held[0].name}"' if len(held) == 1 else f"{len(held):,} runs"
    lines = [run.why if len(held) == 1 else f"{run.name}: {run.why}" for run in held[:_NAMED]]
    if len(held) > _NAMED:
        lines.append(f"and of {len(held) - _NAMED:,} more")
    return ask(
        owner,
        f"Delete {which} with the files that {'its' if len(held) == 1 else 'their'} program wrote?",
        "\n".join(f"{line}." for line in lines),
        [
            Choice("Delete", QMessageBox.ButtonRole.DestructiveRole, lambda: delete(held)),
            Choice("Cancel", _REJECT, lambda: None),
        ],
        default=1,
    )


class RunQuestions:
    """Questions of the page that a command answers."""

    def __init__(self, owner: QWidget, commands: RunCommands) -> None:
        self._owner, self._commands = owner, commands

    def ask_ranks(self, run: RunLayout) -> None:
        """Ask which ranks to profile."""
        RanksQuestion(partial(self._commands.profile, run), self._owner).open()

    def ask_arguments(self, run: RunLayout, program: str) -> None:
        """Ask how a script continues from its checkpoint."""

        def answered(arguments: list[str], keep: bool) -> None:  # noqa: FBT001 - a callback of the dialog
            self._commands.resume(run, arguments, keep=keep)

        ResumeQuestion(program, answered, self._owner).open()

    def ask_secrets(self, missing: MissingSecrets, resume: Callable[[], None]) -> SecretsDialog:
        """Ask for values of secrets, then resume the run."""

        def entered(values: dict[str, str], keep: bool) -> None:  # noqa: FBT001 - a callback of the dialog
            self._commands.use_secrets(values, keep=keep)
            resume()

        dialog = SecretsDialog(missing, entered, lambda: None, self._owner, resumes=True)
        dialog.open()
        return dialog

    def ask_results(self, held: Sequence[HeldRun]) -> None:
        """Ask before runs are deleted with files that are nowhere else."""

        def delete(runs: Sequence[HeldRun]) -> None:
            self._commands.delete([(run.name, run.layout) for run in runs], results=True)

        ask_results(self._owner, held, delete)


Named = Sequence[tuple[str, RunLayout]]
"""Runs with their names."""


class DeleteQuestion:
    """Asks before runs are deleted, with the room that they take."""

    def __init__(
        self,
        owner: QWidget,
        operations: Operations,
        delete: Callable[[Named], None],
    ) -> None:
        self._owner, self._operations, self._delete = owner, operations, delete

    def ask(self, runs: Named) -> None:
        """Ask about runs once they are measured, which can be cancelled."""
        if not runs:
            return

        def measure(progress: Callable[[str], None], cancel: Cancel) -> int:
            total = 0
            for name, layout in runs:
                progress(f"measuring {name}")
                total += room_of(layout.root, cancel.check)
            return total

        self._operations.run("measuring the runs", measure, done=lambda total: self._open(runs, total))

    def _open(self, runs: Named, total: int) -> None:
        which = f'"{runs[0][0]}"' if len(runs) == 1 else f"{len(runs):,} runs"
        takes = "It takes" if len(runs) == 1 else "They take"
        ask(
            self._owner,
            f"Delete {which}?",
            f"{takes} {size(total)} here. Deleted runs can be restored for 30 days.",
            [
                Choice("Delete", QMessageBox.ButtonRole.DestructiveRole, lambda: self._delete(runs)),
                Choice("Cancel", _REJECT, lambda: None),
            ],
        )


_SIZE = 560, 200


class ResumeQuestion(QDialog):
    """Asked once: the answer may be kept in the run file."""

    def __init__(
        self, program: str, answered: Callable[[list[str], bool], None], parent: QWidget | None = None
    ) -> None:
        """Ask about a script or module; `answered` is called with the arguments, and whether to keep them."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Resume")
        self._answered = answered
        self.arguments = QLineEdit()
        self.arguments.setPlaceholderText("--resume @{checkpoint}")
        self.arguments.setAccessibleName("Arguments to resume with")
        self.arguments.textChanged.connect(self._check)
        self.keep = QCheckBox("Keep them in the run file, for its restarts and next runs")
        self.keep.setChecked(True)
        self.problem = label("", role="secondary", wrap=True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.resume = buttons.addButton("Resume", QDialogButtonBox.ButtonRole.AcceptRole)
        self.resume.setDefault(True)
        buttons.accepted.connect(self._accept)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.addWidget(
            label(shown(f"How does {PurePath(program).name} continue from its checkpoint?"), wrap=True)
        )
        told = "Enter the arguments to add to its own. @{checkpoint} stands for the newest checkpoint's path."
        column.addWidget(label(told, role="secondary", wrap=True))
        for widget in (self.arguments, self.keep, self.problem, buttons):
            column.addWidget(widget)
        begin_with(self, *_SIZE)
        self._check()

    def _words(self) -> list[str] | None:
        try:
            return shlex.split(self.arguments.text())
        except ValueError:
            return None

    def _check(self) -> None:
        words = self._words()
        self.problem.setText("A quotation mark is not closed." if words is None else "")
        self.resume.setEnabled(bool(words))

    def _accept(self) -> None:
        words = self._words()
        if words:
            self._answered(words, self.keep.isChecked())
            self.accept()


class RanksQuestion(QDialog):
    """Asks which ranks to profile; empty: the usual ones."""

    def __init__(self, answered: Callable[[tuple[int, ...]], None], parent: QWidget | None = None) -> None:
        """Ask; `answered` is called with the ranks."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Profile ranks")
        self._answered = answered
        self.ranks = QLineEdit()
        self.ranks.setPlaceholderText("0,3-5")
        self.ranks.setAccessibleName("Ranks to profile")
        self.ranks.textChanged.connect(self._check)
        self.problem = label("", role="secondary", wrap=True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.profile = buttons.addButton("Profile for 5 s", QDialogButtonBox.ButtonRole.AcceptRole)
        self.profile.setDefault(True)
        buttons.accepted.connect(self._accept)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.addWidget(label("Which ranks?", wrap=True))
        usual = f"Left empty: all ranks of up to {MOST_CHOSEN}, else rank 0."
        column.addWidget(label(usual, role="secondary", wrap=True))
        for widget in (self.ranks, self.problem, buttons):
            column.addWidget(widget)
        begin_with(self, *_SIZE)

    def _chosen(self) -> tuple[int, ...] | None:
        try:
            return ranks_in(self.ranks.text())
        except ValueError:
            return None

    def _check(self) -> None:
        is_wrong = self._chosen() is None
        expected = f"Expected: up to {MOST_RANKS} ranks, such as 0,3-5." if is_wrong else ""
        self.problem.setText(expected)
        self.profile.setEnabled(not is_wrong)

    def _accept(self) -> None:
        ranks = self._chosen()
        if ranks is not None:
            self._answered(ranks)
            self.accept()
