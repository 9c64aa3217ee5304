"""Everything that there is to be seen in the window, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QFileDialog, QTabWidget, QWidget

from torchdeck.config.toml.merge import merge
from torchdeck.use_cases.batch_plans.in_process import PlanOptions
from torchdeck.use_cases.start import MissingSecrets
from torchdeck_app.launch.check.batch_plan_dialogs import BatchPlanDialog
from torchdeck_app.launch.files.file_dialogs import FolderDialog, MergeDialog
from torchdeck_app.nodes.window_asker import FingerprintDialog, SecretDialog
from torchdeck_app.runs.listing.column_chooser import ColumnChooser
from torchdeck_app.runs.plots.legend import RunNames
from torchdeck_app.runs.run_questions import RanksQuestion, ResumeQuestion
from torchdeck_app.widgets.secrets_dialog import SecretsDialog
from torchdeck_app.window.application import WindowApplication
from torchdeck_app.window.error_report import ErrorDialog

T = TypeVar("T")
Sight = tuple[str, QWidget]
"""A name, and the top-level widget that is looked at."""


def sights(made: WindowApplication) -> Iterator[Sight]:
    """Pages with their tabs, groups of the form, the text, and dialogs; the window is left as it was not."""
    yield from pages(made)
    yield from form(made)
    yield from dialogs(made)


def pages(made: WindowApplication) -> Iterator[Sight]:
    """Each page with each of its tabs."""
    window, stack = made.window, made.window.stack
    for name in stack.names:
        window.show_page(name)
        place = stack.places[name]
        yield name, window
        for tabs in place.findChildren(QTabWidget):
            for index in range(tabs.count() if tabs.isVisible() else 0):
                tabs.setCurrentIndex(index)
                yield f"{name}, {tabs.tabText(index).replace('&', '')}", window


def runs(made: WindowApplication, ids: Sequence[str]) -> Iterator[Sight]:
    """The pages of these runs, and the comparison of all."""
    made.window.show_page("Runs")
    place: Any = made.window.stack.places["Runs"]
    for run_id in ids:
        made.connections.open_run(run_id)
        _wait_until(partial(_shows, place, run_id))
        yield f"Runs, {place.page.header.state_word}", made.window
    place.table.list.selectAll()
    _wait_until(lambda: place.findChildren(RunNames) and place.findChildren(RunNames)[-1].isVisible())
    yield "Runs, compared", made.window
    made.connections.open_run(ids[0])


def _shows(place: Any, run_id: str) -> bool:
    page = place.page
    return page is not None and page.run_layout.root.name == run_id and bool(page.header.state_word)


def form(made: WindowApplication) -> Iterator[Sight]:
    """Groups of the form, the text, what changed, and the presets."""
    window = made.window
    window.show_page("Launch")
    launch: Any = window.stack.places["Launch"].current  # type: ignore[attr-defined]
    launch.form.more.setChecked(True)
    for box in launch.form.groups.values():
        box.set_open(is_open=True)
    yield "form", window
    launch.show_view("toml")
    launch.editor.open_find()
    yield "text", window
    launch.show_diff_to_run()
    yield "what changed", launch.findChildren(QDialog)[-1]
    launch.findChildren(QDialog)[-1].reject()
    launch.actions_here.new.trigger()
    yield "presets", window


def dialogs(made: WindowApplication) -> Iterator[Sight]:
    """What the actions of the window itself open."""
    own = {action.text().replace("&", ""): action for action in made.window.actions_by_page()[""]}
    for name in ("Settings…", "Keyboard shortcuts", "Command palette…"):
        before = set(QApplication.topLevelWidgets())
        own[name].trigger()
        QApplication.processEvents()
        for widget in set(QApplication.topLevelWidgets()) - before:
            if not isinstance(widget, QDialog):
                continue
            yield name, widget
            for tabs in widget.findChildren(QTabWidget):
                for index in range(1, tabs.count()):
                    tabs.setCurrentIndex(index)
                    yield f"{name}, {tabs.tabText(index).replace('&', '')}", widget
            widget.reject()
        yield name, made.window


def page_dialogs(made: WindowApplication) -> Iterator[Sight]:
    """What the actions of Runs, Nodes and Queue open that end with an ellipsis."""
    for page in ("Runs", "Nodes", "Queue"):
        made.window.show_page(page)
        for action in made.window.stack.places[page].actions_offered():
            text = action.text().replace("&", "")
            if not text.endswith("…") or not action.isEnabled():
                continue
            before = set(QApplication.topLevelWidgets())
            action.trigger()
            for widget in _new_dialogs(before):
                yield f"{page}, {text}", widget
                widget.reject()
                QApplication.processEvents()


def _new_dialogs(before: set[QWidget], seconds: float = 1.5) -> list[QDialog]:
    """What an action opens, some of it after a look at the disk."""

    def opened() -> list[QDialog]:
        QApplication.processEvents()
        now = set(QApplication.topLevelWidgets()) - before
        return [one for one in now if isinstance(one, QDialog) and one.isVisible()]

    found = _wait_until(opened, seconds) or []
    return [one for one in found if not isinstance(one, QFileDialog)]


def other_dialogs(made: WindowApplication) -> Iterator[Sight]:
    """Questions that need a state of their own."""
    window = made.window
    merged = merge("a = 1\nb = 1\n", "a = 2\nb = 1\n", "a = 3\nb = 2\n")
    for make in (
        lambda: ResumeQuestion("train.py", lambda _words, _keep: None, window),
        lambda: RanksQuestion(lambda _ranks: None, window),
        lambda: ColumnChooser(["training.lr", "loss"], [], window),
        lambda: FingerprintDialog("n", "host", "ssh-ed25519", "SHA256:x", window),
        lambda: SecretDialog("Passphrase", "of the key", again=True, can_remember=True, parent=window),
        lambda: SecretsDialog(
            MissingSecrets(("A", "B"), can_keep=True), lambda _v, _k: None, lambda: None, window
        ),
        lambda: ErrorDialog("ValueError: x", window),
        lambda: MergeDialog("run.toml", merged, window),
        lambda: FolderDialog(["run.toml"], Path.home(), window),
        lambda: BatchPlanDialog("plan", "run.toml", PlanOptions(1024), window),
    ):
        dialog = make()
        dialog.open()
        QApplication.processEvents()
        yield type(dialog).__name__, dialog
        dialog.reject()
        QApplication.processEvents()


def _wait_until(ready: Callable[[], T], seconds: float = 10) -> T:
    """What `ready` gives once it is true, or after `seconds`."""
    end = time.monotonic() + seconds
    while not (found := ready()) and time.monotonic() < end:
        QTest.qWait(20)
    return found
