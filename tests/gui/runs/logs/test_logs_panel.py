"""The logs of a run, as a person uses them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.log_times import ROW
from torchdeck_app.runs.logs import log_reader as reader
from torchdeck_app.runs.logs.logs_panel import LogView
from torchdeck_app.runs.logs.messages import Search, level
from torchdeck_app.theme.theme import Theme


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return RunLayout(tmp_path / "run")


@pytest.fixture
def view(theme: Theme, layout: RunLayout, qtbot: QtBot) -> Iterator[LogView]:
    made = LogView(theme, layout)
    qtbot.addWidget(made)
    made.resize(900, 300)
    made.show()
    made.entered()
    yield made
    made.closing()


def say(layout: RunLayout, rank: int, text: str, stream: str = "stdout") -> None:
    folder = layout.attempt(1).rank(rank).root
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{stream}.log").open("a") as file:
        file.write(text)


def note_times(layout: RunLayout, *rows: tuple[float, int]) -> None:
    """When rank 0 had printed how many bytes; before it does, as lines are taken in once, with their time."""
    folder = layout.attempt(1).rank(0).root
    folder.mkdir(parents=True, exist_ok=True)
    layout.attempt(1).rank(0).log_times.write_bytes(b"".join(ROW.pack(at, size, 0) for at, size in rows))


def shown(view: LogView) -> list[str]:
    """The rows in sight."""
    area = view.area
    first = area.verticalScrollBar().value()
    lines = [area._line(row) for row in range(first, min(area._total, first + area._rows))]
    return [line.text for line in lines if line is not None]


def test_what_is_printed_appears_and_its_end_is_followed(
    view: LogView, layout: RunLayout, qtbot: QtBot
) -> None:
    assert not view.area.isVisible()
    say(layout, 0, "hello\n")
    qtbot.waitUntil(lambda: shown(view) == ["hello"])
    say(layout, 0, "".join(f"step {number}\n" for number in range(1000)))
    qtbot.waitUntil(lambda: shown(view)[-1:] == ["step 999"])
    assert view.bar.follow.isChecked()
    qtbot.keyClick(view.area, Qt.Key.Key_Home)
    qtbot.waitUntil(lambda: shown(view)[:1] == ["hello"])
    assert not view.bar.follow.isChecked()
    say(layout, 0, "later\n")
    qtbot.waitUntil(lambda: view.area._total == 1002)
    assert shown(view)[0] == "hello"
    view.bar.follow.click()
    qtbot.waitUntil(lambda: shown(view)[-1:] == ["later"])


def test_one_rank_or_stream_can_be_chosen(view: LogView, layout: RunLayout, qtbot: QtBot) -> None:
    say(layout, 0, "zero\n")
    say(layout, 1, "one\n")
    say(layout, 1, "warned\n", "stderr")
    qtbot.waitUntil(lambda: len(shown(view)) == 3)
    view.bar.rank.setCurrentIndex(view.bar.rank.findData(1))
    view.bar.rank.activated.emit(2)
    qtbot.waitUntil(lambda: sorted(shown(view)) == ["one", "warned"])
    view.bar.stream.setCurrentText("Errors")
    view.bar.stream.activated.emit(2)
    qtbot.waitUntil(lambda: shown(view) == ["warned"])


def test_a_search_counts_goes_on_and_filters(view: LogView, layout: RunLayout, qtbot: QtBot) -> None:
    say(layout, 0, "".join(f"step {number}\n" for number in range(5000)))
    qtbot.waitUntil(lambda: view.area._total == 5000)
    qtbot.keyClicks(view.bar.search, r"step \d*77$")
    qtbot.waitUntil(lambda: view.bar.count.text() == "50 found")
    view.area.go_to(0)
    qtbot.keyClick(view.bar.search, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: view.area.current == 77)
    assert view.bar.count.text() in ("50 found", "1 of 50")
    qtbot.waitUntil(lambda: view.bar.count.text() == "1 of 50")
    qtbot.keyClick(view.bar.search, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.waitUntil(lambda: view.area.current == 4977)
    view.bar.only_matches.click()
    qtbot.waitUntil(lambda: view.area._total == 50)
    say(layout, 0, "step 5077\n")
    qtbot.waitUntil(lambda: view.area._total == 51)
    qtbot.waitUntil(lambda: "step 5077" in shown(view) or not view.area.follows)


def test_what_is_no_regular_expression_is_said(view: LogView, layout: RunLayout, qtbot: QtBot) -> None:
    say(layout, 0, "text\n")
    qtbot.keyClicks(view.bar.search, "(")
    qtbot.waitUntil(lambda: "no regular expression" in view.bar.search.toolTip())
    qtbot.keyClick(view.bar.search, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: "Lines that" in view.bar.search.toolTip())


def test_the_first_error_is_a_press_away(view: LogView, layout: RunLayout, qtbot: QtBot) -> None:
    say(layout, 0, "".join(f"step {number}\n" for number in range(3000)))
    say(layout, 0, "ValueError: 7 is no rank\nKeyError: later\n", "stderr")
    qtbot.waitUntil(lambda: view.area._total == 3002)
    view.area.go_to(0)
    view.bar.first_error.click()
    qtbot.waitUntil(lambda: "ValueError: 7 is no rank" in shown(view))
    assert view.area.current == 3000


def test_lines_are_copied_as_they_are(view: LogView, layout: RunLayout, qtbot: QtBot) -> None:
    say(layout, 0, "one\ttwo\n" + "x" * 1000 + "\n")
    qtbot.waitUntil(lambda: view.area._total == 2)
    qtbot.keyClick(view.area, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(view.area, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    wanted = "one\ttwo\n" + "x" * 1000 + "\n"
    qtbot.waitUntil(lambda: QGuiApplication.clipboard().text() == wanted)


def test_the_time_cursor_goes_both_ways(view: LogView, layout: RunLayout, qtbot: QtBot) -> None:
    note_times(layout, *((100.0 + second, 500 * (second + 1)) for second in range(10)))
    say(layout, 0, "".join(f"{number:04d}\n" for number in range(1000)))
    qtbot.waitUntil(lambda: view.area._total == 1000)
    view.set_cursor(105.0)
    qtbot.waitUntil(lambda: "0500" in shown(view))
    assert view.area._marked == 500
    row = view.area._rows // 2
    with qtbot.waitSignal(view.cursor_moved) as moved:
        qtbot.mouseClick(
            view.area.viewport(),
            Qt.MouseButton.LeftButton,
            pos=view.area.viewport().rect().center(),
        )
    assert moved.args is not None
    assert moved.args[0] in (104.0, 105.0, 106.0), row


def test_away_and_back_shows_what_was_chosen(view: LogView, layout: RunLayout, qtbot: QtBot) -> None:
    say(layout, 0, "zero\n")
    say(layout, 1, "one\n")
    qtbot.waitUntil(lambda: len(shown(view)) == 2)
    view.bar.rank.setCurrentIndex(view.bar.rank.findData(1))
    view.bar.rank.activated.emit(2)
    qtbot.waitUntil(lambda: shown(view) == ["one"])
    view.left()
    say(layout, 1, "meanwhile\n")
    view.set_cursor(1.0)
    view.entered()
    qtbot.waitUntil(lambda: shown(view) == ["one", "meanwhile"])
    view.bar.rank.setCurrentIndex(0)
    view.bar.rank.activated.emit(0)
    qtbot.waitUntil(lambda: len(shown(view)) == 3)
    ranks = [view.bar.rank.itemText(at) for at in range(view.bar.rank.count())]
    assert ranks == ["All ranks", "Rank 0", "Rank 1"]
    assert view.area.follows


def test_a_time_cursor_that_leaves_puts_the_log_back(view: LogView, layout: RunLayout, qtbot: QtBot) -> None:
    note_times(layout, *((100.0 + second, 500 * (second + 1)) for second in range(10)))
    say(layout, 0, "".join(f"{number:04d}\n" for number in range(1000)))
    qtbot.waitUntil(lambda: shown(view)[-1:] == ["0999"])
    view.set_cursor(103.0)
    qtbot.waitUntil(lambda: "0300" in shown(view))
    assert view.area.follows
    view.set_cursor(None)
    qtbot.waitUntil(lambda: shown(view)[-1:] == ["0999"])
    assert view.area.follows


def test_a_search_that_fits_nothing_says_so_and_enter_does_not_wait(
    view: LogView, layout: RunLayout, qtbot: QtBot
) -> None:
    say(layout, 0, "".join(f"step {number}\n" for number in range(5000)))
    qtbot.waitUntil(lambda: view.area._total == 5000)
    view.area.go_to(0)
    view.bar.search.setText("step 4321")
    view.bar.search.textEdited.emit("step 4321")
    qtbot.keyClick(view.bar.search, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: view.area.current == 4321)
    view.bar.first_error.click()
    qtbot.waitUntil(lambda: view.bar.count.text() == "no error found")


def test_too_much_is_copied_in_part_and_said(
    view: LogView, layout: RunLayout, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "COPY_LINES", 2000)
    say(layout, 0, "".join(f"{number}\n" for number in range(5000)))
    qtbot.waitUntil(lambda: view.area._total == 5000)
    view.area.copy_asked.emit(0, 4999)
    qtbot.waitUntil(lambda: view.bar.count.text() == "2,000 lines copied; 3,000 more are too many")
    assert QGuiApplication.clipboard().text().count("\n") == 2000


def test_a_replay_shows_what_was_there_then(view: LogView, layout: RunLayout, qtbot: QtBot) -> None:
    note_times(layout, (100.0, 6), (200.0, 11))
    say(layout, 0, "early\nlate\n")
    qtbot.waitUntil(lambda: shown(view) == ["early", "late"])
    view.set_until(150.0)
    qtbot.waitUntil(lambda: shown(view) == ["early"])
    view.set_until(None)
    qtbot.waitUntil(lambda: shown(view) == ["early", "late"])


def test_a_folder_that_is_gone_is_said_and_the_window_stays(
    view: LogView, layout: RunLayout, qtbot: QtBot
) -> None:
    say(layout, 0, "text\n")
    qtbot.waitUntil(lambda: shown(view) == ["text"])
    path = layout.attempt(1).rank(0).stdout
    path.unlink()
    path.mkdir()
    qtbot.waitUntil(lambda: "cannot be read" in view._problem.text())
    assert view._problem.isVisible()


def test_what_was_chosen_is_there_again(theme: Theme, view: LogView, layout: RunLayout, qtbot: QtBot) -> None:
    say(layout, 0, "text\n")
    qtbot.waitUntil(lambda: shown(view) == ["text"])
    qtbot.keyClicks(view.bar.search, "te")
    other = LogView(theme, layout)
    qtbot.addWidget(other)
    other.restore_state(view.save_state())
    other.entered()
    qtbot.waitUntil(lambda: other.bar.count.text() == "1 found")
    other.closing()
    elsewhere = LogView(theme, RunLayout(layout.root.with_name("another")))
    qtbot.addWidget(elsewhere)
    elsewhere.restore_state({**view.save_state(), "only_matches": True})
    assert elsewhere.bar.sought == Search()  # another run's log is not hidden by it
    elsewhere.closing()


def test_the_search_has_room_whatever_there_is_to_choose(qtbot: QtBot, view: LogView) -> None:
    bar = view.bar
    view.show()
    for width in (700, 800, 900, 1000):
        view.resize(width, 400)
        for attempts in ((), (1, 2)):
            bar.attempt.setVisible(bool(attempts))
            bar._arrange()
            qtbot.waitUntil(lambda: bar.search.width() >= 140)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("step 1 loss 2", "text"),
        ("[rank0] WARNING: slow", "warn"),
        ("UserWarning: deprecated", "warn"),
        ("RuntimeError: no", "bad"),
        ("2026 ERROR x", "bad"),
        ("DEBUG x", "quiet"),
    ],
)
def test_levels_have_a_colour(text: str, name: str) -> None:
    assert level(text) == name


def test_an_expression_that_takes_too_long_is_given_up_with_a_sentence(
    view: LogView, layout: RunLayout, qtbot: QtBot
) -> None:
    say(layout, 0, "a" * 5000 + "!\n")
    qtbot.waitUntil(lambda: len(shown(view)) == 1)
    view.bar.search.setText("(a+)+$")
    view.bar.only_matches.click()
    # seconds of the processor: on a busy machine they are many times as many by the clock
    qtbot.waitUntil(
        lambda: view._problem.text().startswith("This expression takes too long"), timeout=120_000
    )
    assert view._problem.isVisible()
    assert view.area._highlight.spans("a" * 5000 + "!") == []
    say(layout, 0, "later\n")  # the thread continues
    qtbot.waitUntil(lambda: shown(view)[-1:] == ["later"])
    view.bar.search.setText("later")
    view.bar.only_matches.click()
    qtbot.waitUntil(lambda: view.bar.count.text() == "1 found")
    assert not view._problem.isVisible()


def test_what_would_act_on_a_terminal_is_left_out(view: LogView, layout: RunLayout, qtbot: QtBot) -> None:
    """Escape sequences go, what hides or turns text is replaced, and HTML is text."""
    say(layout, 0, "a\x1b]52;c;aGk=\x07b\x1b[2J\x1b[31mred\x1b[0m \u202egnp.exe \x07<img src='x'>\n")
    qtbot.waitUntil(lambda: shown(view) == ["abred �gnp.exe �<img src='x'>"])
