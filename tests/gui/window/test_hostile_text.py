"""Names, reasons and output that strangers wrote, in the whole window: shown as they are, not obeyed."""

import html
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QAbstractItemModel, QAbstractListModel, QModelIndex, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QComboBox,
    QGroupBox,
    QLabel,
    QPlainTextEdit,
    QTabWidget,
    QWidget,
)
from pytestqt.qtbot import QtBot

from support.gui.whole_window import close, opened, path_of
from support.values.histories import agent_started, ended, event, failure, finished, started
from support.values.run_homes import add_run, run_id
from torchdeck.shown_text import shown
from torchdeck_app.launch.text.code_area import CodeArea
from torchdeck_app.runs.page.node_links import NodeLinks
from torchdeck_app.window.application import WindowApplication

EVIL = "<img src='x'><b>evil\u202egnp\x1b]52;c;aGk=\x07\u200b</b>&amp"
SLOW = 30_000


def add_hostile_run(home: Path) -> None:
    """One that failed, and wherever a node or a script may say something it says `EVIL`."""
    first = failure(message=f"RuntimeError: {EVIL}", traceback=f"Traceback:\n{EVIL}", host=EVIL)
    node = [
        agent_started(),
        started(world_size=2),
        event("rank_exited", attempt=1, rank=1, code=1, signal=None),
        ended(outcome="failed", first=first),
        finished("FAILED", why=f"rank 1 failed: {EVIL}", resumable=True, checkpoint=f"/x/{EVIL}/step_1"),
    ]
    layout = add_run(home, 1, node, name=EVIL, target=EVIL, recipe=EVIL, host=EVIL, user=EVIL, tags=[EVIL])
    for stream in ("stdout", "stderr"):
        path = layout.attempt(1).rank(0).root / f"{stream}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{EVIL}\nERROR {EVIL}\n")
    layout.config.write_text(f'# {EVIL}\n[run]\nrecipe = "byte-gpt"\nname = "x"\n', encoding="utf-8")


@pytest.fixture
def window(
    tmp_path: Path, qapp: QApplication, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WindowApplication]:
    """With a stranger's run file being edited, and the page of a stranger's run open."""
    monkeypatch.setenv("HOME", str(tmp_path))
    add_hostile_run(tmp_path / "home")
    file = tmp_path / "a<b>\u202e.toml"
    file.write_text(f"[run]\nrecipe = {EVIL.encode()!r}\nscript = 3\n'{html.escape('<b>')}' = 1\n")
    made = opened(tmp_path / "home", qapp, qtbot)
    made.connections.open_run(run_id(1))
    launch: Any = made.window.stack.places["Launch"]
    runs: Any = made.window.stack.places["Runs"]
    launch.open_path(file)
    qtbot.waitUntil(lambda: runs.page is not None, timeout=SLOW)
    qtbot.waitUntil(lambda: launch.current.has_document, timeout=SLOW)
    yield made
    close(made)


def texts(widget: QWidget) -> Iterator[str]:
    """All that a widget shows of itself as plain text."""
    yield widget.windowTitle()
    if isinstance(widget, (QLabel, QAbstractButton)):
        yield widget.text()
    if isinstance(widget, QGroupBox):
        yield widget.title()
    if isinstance(widget, QPlainTextEdit) and not isinstance(widget, CodeArea):
        yield widget.toPlainText()  # an editor has a file as it is, or would save another
    if isinstance(widget, QComboBox):
        yield from (widget.itemText(at) for at in range(widget.count()))
    if isinstance(widget, QTabWidget):
        yield from (widget.tabText(at) for at in range(widget.count()))
    if isinstance(widget, QAbstractItemView) and widget.model() is not None:
        yield from cells(widget.model(), QModelIndex(), Qt.ItemDataRole.DisplayRole)


def tips(widget: QWidget) -> Iterator[str]:
    """Its tooltips, in which Qt takes for HTML what looks like it."""
    yield widget.toolTip()
    if isinstance(widget, QAbstractItemView) and widget.model() is not None:
        yield from cells(widget.model(), QModelIndex(), Qt.ItemDataRole.ToolTipRole)


def cells(model: QAbstractItemModel, parent: QModelIndex, role: Qt.ItemDataRole) -> Iterator[str]:
    for row in range(min(model.rowCount(parent), 200)):
        for column in range(1 if isinstance(model, QAbstractListModel) else model.columnCount(parent)):
            yield str(model.data(model.index(row, column, parent), role) or "")
        yield from cells(model, model.index(row, 0, parent), role)


def sights(made: WindowApplication) -> Iterator[str]:
    """Every place and tab, one after the other."""
    for name in made.window.stack.names:
        made.window.show_page(name)
        QApplication.processEvents()
        yield name
        for tabs in made.window.stack.places[name].findChildren(QTabWidget):
            for at in range(tabs.count()):
                tabs.setCurrentIndex(at)
                QApplication.processEvents()
                yield f"{name}, {tabs.tabText(at)}"


def test_nothing_in_the_window_obeys_a_stranger(window: WindowApplication, qtbot: QtBot) -> None:
    """No character that hides or turns text in any place and tab, and no HTML of theirs in a tooltip."""
    runs: Any = window.window.stack.places["Runs"]
    qtbot.waitUntil(lambda: any("evil" in text for text in all_texts(runs)), timeout=SLOW)
    faults, seen = set(), 0
    for sight in sights(window):
        for widget in window.window.findChildren(QWidget):
            for text in (*texts(widget), *tips(widget)):
                seen += "evil" in text
                if shown(text) != text:
                    faults.add(f"{sight}: {path_of(widget)}: {text[:120]!r}")
            faults |= {f"{sight}: {path_of(widget)}: {tip[:120]!r}" for tip in tips(widget) if "<img" in tip}
    assert sorted(faults) == []
    assert seen > 10, "the stranger's texts are not to be seen"


def all_texts(root: QWidget) -> list[str]:
    return [text for widget in root.findChildren(QWidget) for text in texts(widget)]


def test_every_label_shows_text_as_it_is(window: WindowApplication) -> None:
    """One kind alone has HTML, of our own making."""
    for sight in sights(window):
        loose = {
            f"{sight}: {path_of(each)}: {each.text()!r}"
            for each in window.window.findChildren(QLabel)
            if each.textFormat() is not Qt.TextFormat.PlainText
            and not isinstance(each, NodeLinks)
            and "<" in each.text()
        }
        assert sorted(loose) == []
