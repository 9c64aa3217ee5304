"""By keyboard and by ear: every page and dialog has names, can be reached by Tab, and shows the focus."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from support.gui.accessible import interactive, nameless, twins
from support.gui.focus_ring import LEAST, changed_pixels
from support.gui.focus_walk import activate, mouse_only, stops, walk
from support.gui.full_home import ENDED, FAILED, LIVE, fill
from support.gui.sights import Sight, dialogs, form, other_dialogs, page_dialogs, pages, runs
from support.gui.whole_window import close, opened, path_of
from support.values.gpus import node_report, process_here
from support.values.run_homes import run_id
from torchdeck_app.nodes.gpus.gpus_view import GpusView
from torchdeck_app.theme.theme import Theme
from torchdeck_app.window.application import WindowApplication

SLOW = 30_000
KINDS = ("nameless", "twins", "mouse only", "not reached", "backwards", "invisible focus")
SAME = ("Add a node …",)
"""Buttons that are there twice, and do the same."""


class Audit:
    """What is wrong, by kind."""

    def __init__(self) -> None:
        self.found: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self.looked_at: list[str] = []
        self._walked: set[frozenset[int]] = set()
        self._rings: set[tuple[object, ...]] = set()

    def look(self, sight: Sight) -> None:
        """Look at names, and where Tab leads."""
        name, root = sight
        self.looked_at.append(name)
        activate(root)
        nodes = [node for node in interactive(root) if node.name not in SAME]
        self._add("nameless", name, nameless(nodes))
        self._add("twins", name, twins(nodes))
        self._add("mouse only", name, mouse_only(root))
        self._walk(sight)

    def _walk(self, sight: Sight) -> None:
        name, root = sight
        wanted = stops(root)
        if not wanted or frozenset(map(id, wanted)) in self._walked:
            return
        self._walked.add(frozenset(map(id, wanted)))
        done = walk(root, wanted[0])
        missed = [each for each in wanted if isValid(each) and each.isVisible() and each not in done.met]
        self._add("not reached", name, [path_of(widget) for widget in missed])
        if not done.is_round:
            last = path_of(done.met[-1]) if done.met else f"{path_of(wanted[0])}, which takes no focus"
            self._add("not reached", name, [f"Tab does not lead on from {last}"])
        self._add("backwards", name, done.backwards)

    def rings(self, sight: Sight, mode: str) -> None:
        """Look for the focus of one widget of each kind."""
        name, root = sight
        activate(root)
        for widget in stops(root):
            if not isValid(widget):
                continue
            kind = (mode, type(widget), type(widget.parentWidget()), widget.property("role"))
            changed = -1 if kind in self._rings else changed_pixels(widget)
            if changed >= 0:
                self._rings.add(kind)
            if 0 <= changed < LEAST:
                self._add("invisible focus", name, [f"{mode}: {changed} pixels of {path_of(widget)}"])

    def _add(self, kind: str, name: str, found: list[str]) -> None:
        self.found[kind] |= {f"{name}: {one}" for one in found}


@pytest.fixture(scope="module")
def audit(
    tmp_path_factory: pytest.TempPathFactory, qapp: QApplication, request: pytest.FixtureRequest
) -> Iterator[Audit]:
    """All sights, looked at once, because opening the window takes seconds."""
    folder = tmp_path_factory.mktemp("audit")
    flash = qapp.cursorFlashTime()
    qapp.setCursorFlashTime(0)  # a blinking cursor would be taken for the focus, or not
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        made = window(folder / "home", qapp, QtBot(request))
        found = Audit()
        try:
            ids = [run_id(number) for number in (ENDED, FAILED, LIVE)]
            every = (
                pages(made),
                runs(made, ids),
                form(made),
                page_dialogs(made),
                dialogs(made),
                other_dialogs(made),
            )
            for sight in chain(*every):
                found.look(sight)
                found.rings(sight, "light")
            theme_of(made).set_mode("dark")
            for sight in chain(pages(made), form(made), dialogs(made)):
                found.rings(sight, "dark")
            yield found
        finally:
            theme_of(made).set_mode("light")
            close(made)
            qapp.setCursorFlashTime(flash)


def window(home: Path, qapp: QApplication, bot: QtBot) -> WindowApplication:
    """With a preset being edited, and the page of a run that has ended open."""
    home.mkdir(mode=0o700)
    fill(home)
    made = opened(home, qapp, bot)
    made.connections.open_run(run_id(ENDED))
    tabs: Any = made.window.stack.places["Launch"]
    runs: Any = made.window.stack.places["Runs"]
    tabs.new_from_preset("quickstart")
    bot.waitUntil(lambda: tabs.current.has_document, timeout=SLOW)
    bot.waitUntil(lambda: tabs.current.service.state.preview is not None, timeout=SLOW)
    tabs.current.service.cancel_tracing()
    bot.waitUntil(lambda: runs.page is not None, timeout=SLOW)
    return made


def theme_of(made: WindowApplication) -> Theme:
    return made.window.stack._theme


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_in_the_way(audit: Audit, kind: str) -> None:
    assert len(audit.looked_at) > 40, audit.looked_at
    assert not audit.found[kind], "\n".join(sorted(audit.found[kind]))


def test_a_home_without_anything(
    qapp: QApplication, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    made = opened(tmp_path / "home", qapp, qtbot)
    found = Audit()
    try:
        for sight in pages(made):
            found.look(sight)
    finally:
        close(made)
    assert {kind: wrong for kind, wrong in found.found.items() if wrong} == {}


def test_gpus_and_the_page_of_one(qtbot: QtBot, theme: Theme) -> None:
    """With GPUs, which machines of tests rarely have."""
    view = GpusView(theme, dict)
    qtbot.addWidget(view)
    view.resize(1200, 640)
    view.show()
    view.show_names(["node-a"])
    view.show_nodes([node_report(process_here())])
    view.show_now()
    view.grid.view.setCurrentIndex(view.model.index(0))
    found = Audit()
    for sight in ("grid", "page"):
        found.look((sight, view))
        found.rings((sight, view), "light")
        if sight == "grid":
            QTest.keyClick(view.grid.view, Qt.Key.Key_Return)
    assert {kind: wrong for kind, wrong in found.found.items() if wrong} == {}
