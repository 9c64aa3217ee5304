"""The list of runs, as a person uses it."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from support.values.run_entries import FAILED, entry, live_view, over_view, progress, run_id
from torchdeck.runs.folders.notes import Note
from torchdeck.runs.run_list import RunEntry, RunsSeen
from torchdeck_app.runs.listing.cells import GAP, StateDelegate
from torchdeck_app.runs.listing.column_chooser import ColumnChooser
from torchdeck_app.runs.run_columns import KEYS
from torchdeck_app.runs.run_table import RunTable
from torchdeck_app.theme.theme import Theme

LOSSES = {1: 3.0, 2: float("nan"), 3: 1.0}


def entries(*numbers: int) -> tuple[RunEntry, ...]:
    return tuple(
        entry(number, progress=progress(loss=LOSSES.get(number, 9.0)))
        for number in sorted(numbers, reverse=True)
    )


@pytest.fixture
def table(qtbot: QtBot, theme: Theme) -> RunTable:
    made = RunTable(theme)
    qtbot.addWidget(made)
    made.resize(420, 400)
    made.show()
    made.set_seen(RunsSeen(entries(1, 2, 3)))
    return made


def names(table: RunTable) -> list[str]:
    arranged = table.model
    return [
        arranged.index(row, 0).data(Qt.ItemDataRole.UserRole).entry.id for row in range(arranged.rowCount())
    ]


def header_click(table: RunTable, key: str) -> None:
    header = table.list.header()
    at = header.sectionViewportPosition(KEYS.index(key)) + 20
    click = header.viewport().rect().center()
    click.setX(at)
    QTest.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=click)


def test_selection_stays_while_runs_come_change_and_go(table: RunTable) -> None:
    assert table.select(run_id(2))
    table.set_seen(RunsSeen(entries(2, 3, 4, 5)))
    assert [item.id for item in table.selected()] == [run_id(2)]
    table.set_seen(RunsSeen((entry(2, live_view(run_id(2))),)))
    assert [item.is_live for item in table.selected()] == [True]


def test_an_expression_filters_by_settings_and_says_what_is_wrong(table: RunTable) -> None:
    lrs = {3: "0.001", 2: "0.01", 1: "0.1"}  # the newest first
    table.set_seen(RunsSeen(tuple(entry(n, settings={"training.lr": lr}) for n, lr in lrs.items())))
    table.filter_bar.field.setText("lr >= 0.01")
    assert sorted(names(table)) == [run_id(1), run_id(2)]
    assert not table.filter_bar.problem.isVisible()
    table.filter_bar.field.setText("lr >=")
    assert len(names(table)) == 3
    assert "expected a value" in table.filter_bar.problem.text()
    assert table.filter_bar.problem.isVisible()


def test_what_runs_of_one_program_differ_in_is_told_with_their_names(table: RunTable) -> None:
    """Also of those that are there already when another one comes."""

    def shown() -> list[str]:
        return [table.model.index(row, KEYS.index("name")).data() for row in range(table.model.rowCount())]

    one, two = (
        entry(n, settings={"training.lr": lr, "training.steps": "5"}) for n, lr in ((1, "0.1"), (2, "0.2"))
    )
    table.set_seen(RunsSeen((one,)))
    assert shown() == ["gpt"]
    table.set_seen(RunsSeen((two, one)))
    assert sorted(shown()) == ["gpt · lr 0.1", "gpt · lr 0.2"]
    table.set_seen(RunsSeen((two,)))
    assert shown() == ["gpt"]


def test_a_click_on_a_heading_sorts_and_what_has_no_number_comes_last(qtbot: QtBot, table: RunTable) -> None:
    table.resize(900, 400)
    qtbot.waitUntil(lambda: not table.list.isColumnHidden(KEYS.index("loss")))
    header_click(table, "loss")
    first = names(table)
    header_click(table, "loss")
    assert names(table)[:2] == first[:2][::-1]
    assert first[2] == names(table)[2] == run_id(2)


def test_typing_filters_and_escape_shows_all_again(table: RunTable) -> None:
    table.set_notes({run_id(3): Note(("best",))})
    QTest.keyClicks(table.filter_bar.field, "best")
    assert names(table) == [run_id(3)]
    QTest.keyClicks(table.filter_bar.field, "xx")
    nothing = table.findChild(QLabel, "nothing fits")
    assert isinstance(nothing, QLabel)
    assert nothing.isVisible()
    assert names(table) == []
    QTest.keyClick(table.filter_bar.field, Qt.Key.Key_Escape)
    assert len(names(table)) == 3


def test_a_chip_shows_only_its_states(table: RunTable) -> None:
    table.set_seen(RunsSeen((entry(4, over_view(run_id(4), FAILED)), *entries(1, 2, 3))))
    chip = table.filter_bar.chip("failed")
    assert chip.text() == "✕ 1"
    QTest.mouseClick(chip, Qt.MouseButton.LeftButton)
    assert names(table) == [run_id(4)]


def test_runs_that_nobody_follows_have_a_chip_while_there_are_any(table: RunTable) -> None:
    chip = table.filter_bar.chip("unknown")
    assert not chip.isVisible()
    unfollowed = replace(live_view(run_id(4)), followed_until=1000.0)
    table.set_seen(RunsSeen((entry(4, unfollowed), *entries(1, 2, 3))))
    assert (chip.isVisible(), chip.text(), table.filter_bar.chip("live").text()) == (True, "? 1", "● 0")
    QTest.mouseClick(chip, Qt.MouseButton.LeftButton)
    assert names(table) == [run_id(4)]
    table.set_seen(RunsSeen(entries(1, 2, 3)))
    assert (chip.isVisible(), names(table)) == (True, []), "what is filtered by can be taken back"


def test_the_keyboard_goes_from_the_filter_into_the_list(qtbot: QtBot, table: RunTable) -> None:
    table.filter_bar.field.setFocus()
    QTest.keyClick(table.filter_bar.field, Qt.Key.Key_Down)
    qtbot.waitUntil(table.list.hasFocus)
    assert [item.id for item in table.selected()] == [run_id(3)]
    QTest.keyClick(table.list, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    assert len(table.selected()) == 2


def test_opening_a_run_that_the_filter_hides_clears_the_filter(table: RunTable) -> None:
    table.filter_bar.field.setText("nothing like this")
    assert table.select(run_id(1))
    assert [item.id for item in table.selected()] == [run_id(1)]
    assert not table.select("another")


def test_columns_follow_the_width(qtbot: QtBot, table: RunTable) -> None:
    def shown() -> list[str]:
        return [key for column, key in enumerate(KEYS) if not table.list.isColumnHidden(column)]

    table.resize(1600, 400)
    qtbot.waitUntil(lambda: len(shown()) == len(KEYS))
    table.resize(280, 400)
    qtbot.waitUntil(lambda: shown() == ["state", "name"])


def test_a_slow_drive_is_said_and_the_old_list_stays(table: RunTable) -> None:
    table.set_waiting(4.2)
    assert "takes 4 s" in table.notice.text()
    assert table.notice.isVisible()
    assert len(names(table)) == 3
    table.set_waiting(0.0)
    assert not table.notice.isVisible()


def test_sorting_and_filter_are_restored(qtbot: QtBot, theme: Theme, table: RunTable) -> None:
    header_click(table, "name")
    table.filter_bar.field.setText("gpt")
    other = RunTable(theme)
    qtbot.addWidget(other)
    other.restore_state({"sort": 3, "groups": 4, "text": None})
    other.restore_state(table.save_state())
    assert other.save_state() == table.save_state()


def test_a_thousand_runs_are_shown_and_followed_quickly(table: RunTable) -> None:
    many = entries(*range(1, 1001))
    table.set_seen(RunsSeen(many))
    assert table.model.rowCount() == 1000
    paints: list[int] = []
    table.model.dataChanged.connect(lambda first, last: paints.append(last.row() - first.row() + 1))
    changed = entry(1000, live_view(run_id(1000)))
    table.set_seen(RunsSeen((changed, *many[1:])))
    assert paints == [1], "only the row that changed is told"


@pytest.mark.parametrize("short", [False, True])
def test_the_longest_state_is_not_cut(table: RunTable, qtbot: QtBot, short: bool) -> None:
    """`succeeded` is wider than `evaluating`; a narrow list has the symbol alone."""
    evaluates = progress(loss=1.0, epoch=1.5)
    live = entry(2, live_view(run_id(2)), progress=replace(evaluates, phase="evaluating"))
    table.set_seen(RunsSeen((live, entry(1, progress=evaluates))))
    table.resize(360 if short else 1500, 400)
    qtbot.waitUntil(lambda: table.list.isColumnHidden(KEYS.index("epoch")) == short)
    shown = []
    for row in range(2):
        index = table.model.index(row, KEYS.index("state"))
        delegate = table.list.itemDelegateForIndex(index)
        assert isinstance(delegate, StateDelegate)
        room = table.list.visualRect(index).width() - 2 * GAP
        shown.append(delegate.fitted(index.data(), table.list.fontMetrics(), room))
    assert shown == (["●", "✓"] if short else ["● evaluating", "✓ succeeded"])


def seeds(table: RunTable) -> None:
    found = [
        entry(
            at, settings={"training.seed": str(at % 2)}, progress=progress(loss=float(at)), metrics={"gn": at}
        )
        for at in (3, 2, 1)
    ]
    table.set_seen(RunsSeen(tuple(found)))


def test_chosen_columns_are_shown_sorted_by_and_restored(qtbot: QtBot, theme: Theme, table: RunTable) -> None:
    seeds(table)
    wanted: list[frozenset[str]] = []
    table.metrics_wanted.connect(wanted.append)
    table.choose_columns(table.mapToGlobal(table.rect().center()))
    (chooser,) = table.findChildren(ColumnChooser)
    for text in ("training.seed", "gn:best", "loss@20"):
        chooser.field.setText(text)
        QTest.keyClick(chooser.field, Qt.Key.Key_Return)
    assert {"training.seed", "gn:best", "loss@20"} <= set(table.list.shown_keys())
    assert wanted[-1] == {"gn:best", "loss@20"}
    seed = table.model.keys.index("training.seed")
    assert not table.list.isColumnHidden(seed)
    table.list.sortByColumn(seed, Qt.SortOrder.AscendingOrder)
    assert names(table) == [run_id(2), run_id(3), run_id(1)]
    other = RunTable(theme)
    qtbot.addWidget(other)
    other.restore_state(table.save_state())
    assert other.view == table.view
    chooser.usual.click()
    assert table.view.columns is None
    assert len(table.model.keys) == len(KEYS)


def test_groups_collapse_and_tell_mean_and_deviation(table: RunTable) -> None:
    seeds(table)
    assert table.select(run_id(1))
    table.set_group("seed")
    first = table.model.index(0, KEYS.index("name"))
    loss = first.siblingAtColumn(KEYS.index("loss"))
    assert (first.data(), loss.data()) == ("seed 1 · 2 runs", "2.0000 ± 1.4142")
    assert [each.id for each in table.selected()] == [run_id(1)]
    assert table.model.rowCount(table.model.index(0, 0)) == 2
    table.list.setCurrentIndex(table.model.index(0, 0))
    assert [each.id for each in table.selected()] == [run_id(3), run_id(1)], "a group stands for its runs"
    table.set_group("")
    assert len(names(table)) == 3


def test_pinned_runs_are_on_top_and_archived_ones_hidden(table: RunTable) -> None:
    table.set_notes({run_id(1): Note(pinned=True), run_id(2): Note(archived=True)})
    assert names(table) == [run_id(1), run_id(3)]
    table.view_menu.archived_asked.emit(True)
    assert names(table) == [run_id(1), run_id(3), run_id(2)]
    assert table.view.filter.archived
    table.view_menu.archived_asked.emit(False)
    assert table.select(run_id(2)), "a run that is opened is shown though it is archived"


def test_columns_that_go_take_nothing_of_a_selected_run_in_a_group_along(table: RunTable) -> None:
    seeds(table)
    table.set_columns(("training.seed", "gn"))
    table.set_group("seed")
    assert table.select(run_id(1))
    table.set_columns(None)
    assert [each.id for each in table.selected()] == [run_id(1)]
    table.set_group("")
    assert [each.id for each in table.selected()] == [run_id(1)]
    assert table.model.data(table.model.index(0, len(KEYS) - 1)) == ""
