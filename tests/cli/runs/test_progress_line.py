"""Progress line for pending operations."""

import io
import re

import pytest

from support.waiting import wait_until
from torchdeck.cli import terminal_ui as progress_line
from torchdeck.cli.terminal_ui import WIDEST


class Terminal(io.StringIO):
    """Standard error of a person."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds go by in no time."""
    monkeypatch.setattr(progress_line, "HINT_AFTER", 0.0)
    monkeypatch.setattr(progress_line, "_TICK", 0.001)


@pytest.mark.usefixtures("hurried")
def test_on_a_terminal_it_counts_and_says_how_to_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nothing more is reported; and it goes when it is over."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress_line.progress_line("tracing the model", "--no-trace: without it") as say:
        say("building it " + "x" * 100)
        hint = re.compile(r", \d+ s \(--no-trace: without it\)")
        wait_until(lambda: hint.search(terminal.getvalue()), 20, "the hint")
    lines = terminal.getvalue().split("\r")
    assert lines[-2:] == [" " * WIDEST, ""]
    assert {len(line) for line in lines[1:-1]} == {WIDEST}


@pytest.mark.usefixtures("hurried")
def test_elsewhere_two_lines_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """One at once, one when it takes long."""
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with progress_line.progress_line("tracing the model", "--no-trace: without it") as say:
        say("a")
        say("b")
        wait_until(lambda: stream.getvalue().count("\n") == 2, 20, "both lines")
    assert re.fullmatch(
        "torchdeck: tracing the model\n"
        r"torchdeck: still tracing the model: [ab] \(Ctrl-C cancels; --no-trace: without it\)\n",
        stream.getvalue(),
    )


def test_what_is_known_at_once_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said where nothing is waited for, and no hint where it is short."""
    terminal, stream = Terminal(), io.StringIO()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress_line.progress_line("tracing the model"):
        pass
    assert terminal.getvalue() == ""
    monkeypatch.setattr("sys.stderr", stream)
    with progress_line.progress_line("tracing the model", "hint") as say:
        say("a")
    assert stream.getvalue() == "torchdeck: tracing the model\n"
