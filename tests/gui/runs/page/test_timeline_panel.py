"""The timeline as a list that is filtered, and what of it the plots mark."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from support.values.histories import event
from support.values.made_runs import line
from support.values.run_homes import add_failed_run
from torchdeck.contract.journal import Event
from torchdeck.contract.layout import RunLayout
from torchdeck_app.runs.page.run_page import marks_of
from torchdeck_app.runs.page.timeline_panel import TimelineView
from torchdeck_app.theme.theme import Theme


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return add_failed_run(tmp_path, 1)


@pytest.fixture
def view(qtbot: QtBot, theme: Theme, layout: RunLayout) -> Iterator[TimelineView]:
    made = TimelineView(theme, layout)
    qtbot.addWidget(made)
    made.show()
    with qtbot.waitSignal(made.happened):
        made.follow(on=True)
    yield made
    made.closing()


def headings(view: TimelineView) -> list[str]:
    model = view.tree.model()
    return [str(model.index(row, 0).data()) for row in range(model.rowCount())]


def say(layout: RunLayout, *events: Event) -> None:
    with layout.journal.open("a") as file:
        file.write("".join(map(line, events)))


def test_attempts_are_headings(view: TimelineView) -> None:
    assert headings(view) == ["Before the first attempt", "Attempt 1"]
    assert [each.event for each in view.shown] == ["created", "attempt_started", "attempt_ended", "finished"]


def test_details_are_shown_when_asked_for_and_words_filter(view: TimelineView) -> None:
    view.all_details.setChecked(True)
    assert "rank_exited" in [each.event for each in view.shown]
    QTest.keyClicks(view.field, "SIGTERM")
    assert [each.text for each in view.shown] == ["rank 0 was ended by SIGTERM"]
    assert headings(view) == ["Attempt 1"]


def test_what_is_appended_appears(qtbot: QtBot, view: TimelineView, layout: RunLayout) -> None:
    say(layout, event("resumed", 200.0, origin="window", finished=1))
    qtbot.waitUntil(lambda: view.shown[-1].text == "resumed by the window")


def test_a_selected_line_moves_the_time_cursor(qtbot: QtBot, view: TimelineView) -> None:
    model = view.tree.model()
    with qtbot.waitSignal(view.cursor_moved) as caught:
        view.tree.setCurrentIndex(model.index(0, 0, model.index(1, 0)))
    assert caught.args == [101.0]


def test_plots_mark_attempts_saves_and_failures(view: TimelineView, layout: RunLayout) -> None:
    marks = marks_of(view.shown)
    assert [(mark.kind, mark.time) for mark in marks] == [("attempt", 101.0), ("failure", 104.0)]


def test_plots_mark_what_a_script_saved_by_itself(
    qtbot: QtBot, view: TimelineView, layout: RunLayout
) -> None:
    say(
        layout,
        event("checkpoint", 103.0, step=40, path="/out/checkpoint-40", size=4, kind="hf", changed=103.0),
    )
    qtbot.waitUntil(lambda: any(mark.kind == "checkpoint" for mark in marks_of(view.shown)))
    (mark,) = (mark for mark in marks_of(view.shown) if mark.kind == "checkpoint")
    assert (mark.step, mark.time) == (40, 103.0)
    assert "checkpoint-40" in mark.text


def test_what_is_selected_folded_and_in_sight_stays_when_something_is_appended(
    qtbot: QtBot, view: TimelineView, layout: RunLayout
) -> None:
    view.resize(500, 160)
    say(layout, *(event("resumed", 106.0 + at, origin="window", finished=1) for at in range(40)))
    qtbot.waitUntil(lambda: len(view.shown) == 44)
    model = view.tree.model()
    before, first = (model.index(row, 0) for row in (0, 1))
    view.tree.collapse(before)
    view.tree.setCurrentIndex(model.index(2, 0, first))
    view.tree.verticalScrollBar().setValue(3)
    moved: list[object] = []
    view.cursor_moved.connect(moved.append)
    reset = []
    model.modelReset.connect(lambda: reset.append(1))
    say(layout, event("resumed", 200.0, origin="window", finished=1))
    qtbot.waitUntil(lambda: view.shown[-1].text == "resumed by the window")
    assert view.tree.model() is model
    assert not view.tree.isExpanded(before)
    assert view.tree.currentIndex() == model.index(2, 0, first)
    assert view.tree.verticalScrollBar().value() == 3
    assert (moved, reset) == ([], [])
    view.tree.scrollToBottom()
    say(layout, event("resumed", 201.0, origin="window", finished=1))
    qtbot.waitUntil(lambda: len(view.shown) == 46)
    assert view.tree.verticalScrollBar().value() == view.tree.verticalScrollBar().maximum()


def test_what_comes_late_takes_its_place_and_the_selection_stays(
    qtbot: QtBot, view: TimelineView, layout: RunLayout
) -> None:
    model = view.tree.model()
    last = model.index(2, 0, model.index(1, 0))
    view.tree.setCurrentIndex(last)
    say(layout, event("resumed", 103.0, origin="window", finished=1))
    qtbot.waitUntil(lambda: [each.event for each in view.shown][2] == "resumed")
    assert [str(model.index(row, 3, model.index(1, 0)).data()) for row in range(4)] == [
        each.text for each in view.shown[1:]
    ]
    assert view.tree.currentIndex().siblingAtColumn(0) == model.index(3, 0, model.index(1, 0))
    view.field.setText("nothing has this")
    assert model.rowCount() == 0
    view.field.setText("")
    assert headings(view) == ["Before the first attempt", "Attempt 1"]
