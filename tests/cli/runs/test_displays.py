"""How a watched run is shown: plain lines, JSON objects, a terminal."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from support.values.histories import (
    ALIVE,
    DEAD,
    controller_journal,
    ended,
    event,
    finished,
    fold,
    running_run,
    started,
)
from support.values.metrics import write_rows
from torchdeck.cli.runs.display import JsonDisplay, PlainDisplay
from torchdeck.cli.runs.terminal import TerminalDisplay
from torchdeck.contract.journal import Event
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.links import UP, LinkState
from torchdeck.runs.rank_output import OutputLine
from torchdeck.runs.run_state import CheckpointSeen
from torchdeck.runs.training_progress import ProgressReader, TrainingProgress
from torchdeck.runs.view import RunView

PROGRESS = TrainingProgress(
    phase="training",
    step=120,
    total=300,
    loss=2.41312,
    validation_loss=2.5,
    tokens_per_s=12345.0,
    eta=80.4,
    memory_bytes=3 * 2**29,
    checkpoint_step=100,
)
TEXT = (
    "step 120/300  loss 2.4131  validation loss 2.5000  12.3k tokens/s  "
    "ETA 1 min 20 s  memory 1.5 GiB  checkpoint 100"
)


def view_of(node: list[Event], *, alive: bool = True) -> RunView:
    return fold("r", controller_journal(), {"localhost": node}, {}, ALIVE if alive else DEAD, 110.0)


def show(display: Any) -> None:
    """A run from its start to its end."""
    display.begin(view_of([]), "/runs/r")
    display.state(view_of(running_run()))
    display.output(OutputLine(1, 1, "stdout", "hello"))
    display.output(OutputLine(1, 0, "stdout", "step 3/300 loss 2.5 lr 0.1"))
    display.progress(PROGRESS)
    display.checkpoint(CheckpointSeen(100, "/c", 0.25))
    display.note("rank 1 has made no progress")
    display.tick()
    display.end(view_of([*running_run(), ended(), finished()], alive=False))


def test_progress_says_all_that_is_known() -> None:
    """Step, losses, throughput, time left, memory, last checkpoint; the phase where it is not training."""
    assert PROGRESS.text() == TEXT
    assert TrainingProgress("saving", 5, None).text() == "step 5  saving"
    assert TrainingProgress("loading", None, None).text() == "loading"


def test_progress_is_broken_between_its_parts() -> None:
    """On a narrow terminal no number is torn from its name; nothing is left of it in one long line."""
    rows = PROGRESS.text(60).splitlines()
    assert len(rows) > 1
    assert max(map(len, rows)) <= 60
    assert "  ".join(rows) == TEXT
    assert PROGRESS.text(3).splitlines()[0] == "step 120/300"


def test_time_left_is_not_said_at_the_end() -> None:
    """At the last step there is nothing to wait for."""
    assert TrainingProgress("evaluating", 9, 9, eta=0.4).text() == "step 9/9  evaluating"


def test_phase_before_the_first_step_is_progress(tmp_path: Path) -> None:
    """Loading and compiling may take minutes: they are said, of a recipe; a script has no phases."""
    reader = ProgressReader(RunLayout(tmp_path))
    rank = {"phase": "compiling", "step": 0, "total": 9, "t": 109.0, "still": 1.0, "pid": 5}
    beat = {"attempt": 1, "t": 109.0, "ranks": {"0": rank}}
    nodes = {"localhost": running_run()}
    view = fold("r", controller_journal(), nodes, {"localhost": beat}, ALIVE, 110.0)
    assert reader.read(view) == TrainingProgress("compiling", None, None)
    assert reader.read(dataclasses.replace(view, kind="script")) is None
    first = dataclasses.replace(view.ranks[0], phase="starting")
    assert reader.read(dataclasses.replace(view, ranks=(first,))) is None


def test_memory_of_a_rank_that_was_given_up_is_not_shown(tmp_path: Path) -> None:
    """It had more than those that continue; the rank that uses most of these is shown."""
    for attempt, of_ranks in enumerate(((1.0, 2.0, 9.0), (3.0, 4.0)), 1):
        for rank, memory in enumerate(of_ranks):
            write_rows(tmp_path, [(5, {"memory_bytes": memory})], rank=rank, attempt=attempt)
    progress = ProgressReader(RunLayout(tmp_path)).read(
        view_of([*running_run(), ended(1), started(2, 106.0)])
    )
    assert progress is not None
    assert progress.memory_bytes == 4.0


def test_later_attempt_says_where_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    """A resumed run names the attempt and the step of its checkpoint."""
    resumed = [*running_run(), ended(1, "failed"), started(2, 106.0, resume="/c/s", resume_step=40)]
    PlainDisplay().state(view_of(resumed))
    assert capsys.readouterr().out == "torchdeck: STARTING (attempt 2, from step 40)\n"


def test_diverged_loss_is_still_json() -> None:
    """NaN has no place in JSON: it is null there, and `nan` for people."""
    diverged = TrainingProgress("training", 5, None, loss=float("nan"))
    assert json.loads(json.dumps(diverged.to_json(), allow_nan=False))["loss"] is None
    assert "loss nan" in diverged.text()


def test_plain_display_has_ranks_lines_and_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """What ranks print has the rank in front; ours are marked; the summary ends it."""
    show(PlainDisplay())
    lines = capsys.readouterr().out.splitlines()
    assert "torchdeck: RUNNING" in lines
    assert "[rank 1] hello" in lines
    assert f"torchdeck: {TEXT}" in lines
    assert "torchdeck: rank 1 has made no progress" in lines
    assert any(line.startswith("SUCCEEDED") for line in lines)


def test_plain_display_keeps_streams_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard error of a rank goes to standard error."""
    PlainDisplay().output(OutputLine(1, 0, "stderr", "oh"))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "[rank 0] oh\n")


def test_plain_progress_is_not_a_flood(capsys: pytest.CaptureFixture[str]) -> None:
    """A line every few seconds; the last one is never swallowed."""
    display = PlainDisplay()
    for step in range(50):
        display.progress(TrainingProgress("training", step, 50))
    display.end(view_of([*running_run(), ended(), finished()], alive=False))
    lines = [line for line in capsys.readouterr().out.splitlines() if "step" in line]
    assert lines == ["torchdeck: step 0/50", "torchdeck: step 49/50"]


def test_json_display_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Every line is an object with event, time and run; the last tells how it ended."""
    show(JsonDisplay("r"))
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["event"] for row in rows] == [
        "run",
        "state",
        "output",
        "output",
        "progress",
        "checkpoint",
        "note",
        "end",
    ]
    assert {row["run"] for row in rows} == {"r"}
    assert rows[4]["loss"] == 2.41312
    assert (rows[-1]["state"], rows[-1]["exit_code"]) == ("SUCCEEDED", 0)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_terminal_shows_progress_in_place_at_any_width(width: int) -> None:
    """Nothing is cut off on a narrow terminal; the trainer's own lines stand in place, not in the scroll."""
    shown = io.StringIO()
    show(TerminalDisplay(Console(file=shown, force_terminal=True, width=width, height=40, highlight=False)))
    text = shown.getvalue()
    for expected in ("RUNNING", "hello", "loss 2.4131", "checkpoint", "Ctrl-C stops", "SUCCEEDED"):
        assert expected in text
    assert "lr 0.1" not in text
    assert text.endswith("\n")
    assert "\x1b[?25h" in text  # the cursor is back


def test_terminal_says_what_the_next_interrupt_does() -> None:
    """Once a stop is asked for, Ctrl-C no longer means to save first."""
    shown = io.StringIO()
    display = TerminalDisplay(Console(file=shown, force_terminal=True, width=160, highlight=False))
    display.begin(view_of([]), "/runs/r")
    display.state(
        view_of([*running_run(), event("stopping", 103.0, kind="graceful", why="user", request="q")])
    )
    display.end(view_of(running_run()))
    assert "Ctrl-C ends it now" in shown.getvalue()
    assert "Ctrl-C stops" not in shown.getvalue()


def test_terminal_shows_a_scripts_own_lines() -> None:
    """Of a script nothing is left out, and its escapes other than colours do not reach the terminal."""
    shown = io.StringIO()
    display = TerminalDisplay(Console(file=shown, force_terminal=True, width=80, highlight=False))
    journal = [event("created", **{**controller_journal()[0].fields, "kind": "script"})]
    display.state(fold("r", journal, {}, {}, ALIVE, 110.0))
    display.output(OutputLine(1, 0, "stdout", "step 3/300 loss 2.5 lr 0.1"))
    display.output(OutputLine(1, 0, "stdout", "\x1b[2Jcleared\x1b[31mred"))
    assert "lr 0.1" in shown.getvalue()
    assert "\x1b[2J" not in shown.getvalue()
    assert "cleared" in shown.getvalue()


CODE = [LinkState(node, UP, code_sent=34 << 20, code_size=120 << 20) for node in "bc"]


def test_code_under_way_is_said_of_each_node(capsys: pytest.CaptureFixture[str]) -> None:
    """In plain lines now and then, not with each beat; as JSON with each."""
    plain = PlainDisplay()
    for _ in range(3):
        plain.sending(CODE)
    plain.sending(())
    said = [f"torchdeck: sending code to node {node}: 34.0 MiB of 120.0 MiB" for node in "bc"]
    assert capsys.readouterr().out.splitlines() == said
    JsonDisplay("r").sending(CODE[:1])
    found = json.loads(capsys.readouterr().out)
    assert {**found, "time": 0} == {
        "event": "code",
        "time": 0,
        "run": "r",
        "node": "b",
        "sent": 34 << 20,
        "size": 120 << 20,
    }


def test_code_under_way_stands_below_on_a_terminal() -> None:
    """As long as it is; of many nodes some, and how many more."""
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=40)
    display = TerminalDisplay(console)
    display.state(view_of(running_run()))
    display.sending([LinkState(f"n{at}", UP, code_sent=1, code_size=2) for at in range(10)])
    lines = [str(line) for line in display._lines()]
    assert "sending code to node n0: 1 B of 2 B" in lines
    assert lines[-1] == "and to 2 more nodes"
    display.sending(())
    assert not any("code" in str(line) for line in display._lines())


def test_a_reason_is_not_repeated_as_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    """A hang is the reason of the state, and one of the warnings."""
    hang = event(
        "hang", 103.0, attempt=1, rank=1, still=34.0, limit=30.0, kind="slow", detail="Rank 1 hangs."
    )
    view, display = view_of([*running_run(), hang]), PlainDisplay()
    display.state(view)
    for warning in view.warnings:
        display.note(warning)
    display.note("another matter")
    shown = capsys.readouterr().out
    assert shown.count("Rank 1 hangs.") == 1
    assert "torchdeck: another matter\n" in shown
