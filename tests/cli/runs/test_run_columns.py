"""Columns of `torchdeck runs list`: epoch, throughput and phase of runs that have them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from support.values.histories import event
from support.values.made_runs import line
from support.values.metrics import write_rows
from support.values.run_homes import add_live_run, add_run, run_id
from torchdeck.cli.main import main
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.script_state import ScriptState, write_script_state

ALL = ["ID", "NAME", "STATE", "STARTED", "TOOK", "STEP", "EPOCH", "LOSS", "VALIDATION", "RATE", "LEFT"]
HANG = {"attempt": 1, "rank": 1, "phase": "evaluating", "step": 20, "still": 60.0, "limit": 30.0}


@pytest.fixture(autouse=True)
def _a_pipe_without_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest-xdist sets COLUMNS in its workers."""
    monkeypatch.delenv("COLUMNS", raising=False)


def add_script(home: Path, number: int, phase: str = "training") -> RunLayout:
    """A script that trains, with everything that a list shows."""
    layout = add_live_run(home, number)
    layout.journal.write_text(layout.journal.read_text().replace('"recipe"', '"script"'))
    write_rows(layout.root, [(20, {"train_loss": 1.5, "eval_loss": 2.5})])
    rank = layout.attempt(1).rank(0)
    write_script_state(rank.script, ScriptState(20, 60, 0.754, rate=2.0))
    ranks = {"0": {"phase": phase, "step": 20, "total": 60, "still": 1.0, "pid": 5}}
    beat = {"v": 1, "attempt": 1, "t": time.time(), "ranks": ranks}
    layout.node("localhost").heartbeat.write_text(json.dumps(beat))
    return layout


def listed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["runs", "list"]) == 0
    return capsys.readouterr().out.splitlines()


def cell(lines: list[str], heading: str, row: int = 1) -> str:
    """Text of a row below a heading."""
    at = lines[0].index(heading)
    return lines[row][at:].split("  ")[0].strip()


def test_epoch_and_throughput_have_columns(torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_script(torchdeck_home, 1)
    lines = listed(capsys)
    assert lines[0].split() == ALL
    assert {heading: cell(lines, heading) for heading in ALL[5:]} == {
        "STEP": "20/60",
        "EPOCH": "0.754",
        "LOSS": "1.5000",
        "VALIDATION": "2.5000",
        "RATE": "2 steps/s",
        "LEFT": "20 s",
    }


def test_columns_without_a_value_are_left_out(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_run(torchdeck_home, 1)
    assert listed(capsys)[0].split() == [name for name in ALL if name not in ("EPOCH", "VALIDATION", "RATE")]


@pytest.mark.parametrize(
    ("narrower", "missing"),
    [(0, set[str]()), (1, {"RATE"}), (12, {"RATE", "EPOCH"}), (100, {"RATE", "EPOCH"})],
)
def test_a_narrow_terminal_has_no_room_for_some(
    torchdeck_home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    narrower: int,
    missing: set[str],
) -> None:
    """First the throughput gives way, then the epoch; no line is wider than the terminal while that helps."""
    add_script(torchdeck_home, 1)
    width = max(map(len, listed(capsys)))
    monkeypatch.setenv("COLUMNS", str(width - narrower))
    lines = listed(capsys)
    assert lines[0].split() == [name for name in ALL if name not in missing]
    assert narrower == 100 or max(map(len, lines)) <= width - narrower


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("training", "RUNNING"),
        ("running", "RUNNING"),
        ("evaluating", "RUNNING, evaluating"),
        ("saving", "RUNNING, saving"),
        ("done", "RUNNING, finishing"),
    ],
)
def test_the_state_names_a_phase_other_than_training(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str], phase: str, state: str
) -> None:
    add_script(torchdeck_home, 1, phase)
    assert cell(listed(capsys), "STATE") == state


def test_a_hang_is_shown_instead_of_the_phase(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = add_script(torchdeck_home, 1, "evaluating")
    with layout.node("localhost").journal.open("a") as file:
        file.write(line(event("hang", **HANG)))
    assert cell(listed(capsys), "STATE") == "RUNNING, hung"


def test_a_script_that_is_over_keeps_its_epoch(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Next to runs without one."""
    add_run(torchdeck_home, 1)
    layout = add_run(torchdeck_home, 2, kind="script")
    state = layout.attempt(1).rank(0).script
    state.parent.mkdir(parents=True, exist_ok=True)
    write_script_state(state, ScriptState(60, 60, 3.0, rate=2.0))
    lines = listed(capsys)
    assert lines[1].startswith(run_id(2))
    assert [cell(lines, "EPOCH", row) for row in (1, 2)] == ["3", "-"]
    assert "RATE" not in lines[0]
