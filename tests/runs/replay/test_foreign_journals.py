"""Journals that are damaged, hostile or very large: the run and all others stay readable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.values.histories import (
    agent_started,
    controller_journal,
    ended,
    event,
    finished,
    running_run,
    started,
)
from support.values.made_runs import IDS, line, make_run
from torchdeck.contract.journal import LINE_LIMIT, READ_LIMIT, JournalReader, NodeJournalReader
from torchdeck.runs.folders.deletion import set_aside
from torchdeck.runs.follower import read_run
from torchdeck.runs.registry import RunRegistry
from torchdeck.runs.run_list import RunList
from torchdeck.runs.run_state import RunState
from torchdeck.runs.run_timeline import TimelineReader

PLAN = {
    "version": 1,
    "name": "gpt",
    "kind": "recipe",
    "target": "byte-gpt",
    "strategy": "ddp",
    "world_size": 2,
    "fingerprint": "f",
}
CANCELLED = [
    *running_run(),
    event("stopping", 103.0, kind="graceful", why="user"),
    ended(outcome="stopped"),
    finished("CANCELLED", why="stop requested"),
]
GOOD = '{"v": 1, "t": 1, "m": 1, "event": "x"'


def test_a_damaged_created_line_is_rebuilt_from_the_plan(tmp_path: Path) -> None:
    whole = make_run(tmp_path, controller_journal(), CANCELLED, plan=PLAN)
    before = read_run(whole)
    content = whole.journal.read_bytes()
    whole.journal.write_bytes(b"\x00\xff" + content[2:])
    after = read_run(whole)
    for name in ("name", "kind", "target", "strategy", "world_size", "fingerprint", "state", "started"):
        assert getattr(after, name) == getattr(before, name)
    assert after.created == min(1795664695.0, after.started or 0.0)  # what the run's id says, in unix seconds
    assert any("1 line of journal.jsonl" in warning for warning in after.warnings)


def test_damage_in_a_nodes_journal_is_reported_and_no_failure(tmp_path: Path) -> None:
    layout = make_run(tmp_path, controller_journal(), CANCELLED, plan=PLAN)
    journal = layout.node("localhost").journal
    journal.write_bytes(journal.read_bytes().replace(b"CANCELLED", b"CANC\xffLLED"))
    view = read_run(layout)
    assert view.state is RunState.CANCELLED
    assert any("nodes/localhost/journal.jsonl" in warning for warning in view.warnings)


@pytest.mark.parametrize(
    "hostile",
    [
        '{"v": 99, "t": 1, "m": 1, "event": "x"}\n',
        GOOD + ', "n": ' + "9" * 400 + "}\n",
        GOOD + ', "n": ' + "[" * 100_000 + "]" * 100_000 + "}\n",
        GOOD + ', "n": NaN}\n',
        '{"v": 1, "t": 1e308, "m": 1, "event": "finished", "state": "FAILED"}\n',
        GOOD + ', "n": "' + "a" * (2 * LINE_LIMIT) + '"}\n',
        "\n" * 100_000 + "x\n" * 100_000,
    ],
    ids=["newer", "digits", "deep", "nan", "late", "long", "many"],
)
def test_a_hostile_node_takes_nothing_away(tmp_path: Path, hostile: str) -> None:
    """The run is listed, shown, told as a timeline and deleted, and so are the others."""
    layout = make_run(tmp_path, controller_journal(), CANCELLED, plan=PLAN)
    make_run(tmp_path, controller_journal(), CANCELLED, run_id=IDS[1], plan=PLAN)
    other = layout.node("bad")
    other.root.mkdir(parents=True)
    other.journal.write_text(hostile + line(event("rank_exited", attempt=1, rank=0, code=0)))
    other.heartbeat.write_text(hostile)
    entries = RunList(tmp_path).look().entries
    assert [(entry.state, entry.why) for entry in entries] == [(RunState.CANCELLED, "")] * 2
    warnings = entries[1].view.warnings if entries[1].view is not None else ()
    assert any("nodes/bad/journal.jsonl" in warning for warning in warnings)
    assert RunRegistry(tmp_path).find(IDS[0]) == layout
    assert TimelineReader(layout).refresh()
    assert set_aside(layout).exists()


def test_what_is_no_file_is_reported(tmp_path: Path) -> None:
    layout = make_run(tmp_path, controller_journal(), CANCELLED, plan=PLAN)
    other = layout.node("bad")
    other.root.mkdir(parents=True)
    os.mkfifo(other.journal)
    other.heartbeat.mkdir()
    view = read_run(layout)
    assert view.state is RunState.CANCELLED
    assert any("nodes/bad/journal.jsonl cannot be read" in warning for warning in view.warnings)


def test_a_node_of_a_newer_version_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(GOOD + "}\n" + GOOD.replace('"v": 1', '"v": 2') + "}\n")
    reader = NodeJournalReader(path)
    assert [each.name for each in reader.read_new()] == ["x"]
    assert "newer Torchdeck" in reader.problem


def test_a_line_that_is_too_long_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(GOOD + "}\n" + "a" * (3 * LINE_LIMIT) + "\n" + GOOD + "}\n")
    reader = JournalReader(path)
    assert len(list(reader.read_new())) == 2
    assert reader.torn == 1
    with path.open("a") as file:
        file.write("b" * LINE_LIMIT)
    assert list(reader.read_new()) == []
    with path.open("a") as file:
        file.write("b\n" + GOOD + "}\n")
    assert len(list(reader.read_new())) == 1
    assert reader.torn == 2


def _large(path: Path, size: int) -> None:
    """Two starts of a run that was stopped twice, with `size` bytes of checkpoints in each."""
    first = [agent_started(), started(), event("running", attempt=1)]
    second = [agent_started(106.0), started(2, 107.0), ended(2), finished()]
    with path.open("w") as file:
        file.writelines(map(line, first))
        for end in (["CANCELLED"], []):
            saved = line(event("checkpoint", step=1, path="/x/step_00000001", seconds=1.5, size=123_456))
            file.write(saved * (size // len(saved)))
            file.writelines(line(each) for state in end for each in (ended(), finished(state)))
        file.writelines(map(line, second))


def test_the_milestones_of_a_large_journal_are_found(tmp_path: Path) -> None:
    journal = [*controller_journal(), event("resumed", 105.5, finished=1)]
    layout = make_run(tmp_path, journal, [], plan=PLAN)
    _large(layout.node("localhost").journal, READ_LIMIT)
    view = read_run(layout)
    assert (view.state, view.finishes, len(view.attempts)) == (RunState.SUCCEEDED, 2, 2)
    assert any("large" in warning for warning in view.warnings)


MEASURED = """
import json, sys
from pathlib import Path
from torchdeck.runs.run_list import RunList
def bytes_read():
    return int(Path("/proc/self/io").read_text().split()[1])
begun = bytes_read()
seen = RunList(Path(sys.argv[1])).look()
taken = bytes_read() - begun
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
peak = 1024 * int(status["VmHWM"].split()[0])
print(json.dumps([taken, peak, [entry.state for entry in seen.entries], seen.unread]))
"""


@pytest.mark.processes
@pytest.mark.parametrize("of_node", [True, False])
def test_a_list_over_a_journal_of_150_mb_reads_it_once_and_stays_small(tmp_path: Path, of_node: bool) -> None:
    """It is read once, and little of it is kept. The benchmark `small_costs` says how fast."""
    layout = make_run(tmp_path, controller_journal(), CANCELLED, plan=PLAN)
    if of_node:
        _large(layout.node("localhost").journal, 75_000_000)
    else:
        noise = line(event("request", id="1-stop-0", kind="stop"))
        with layout.journal.open("a") as file:
            file.write(noise * (150_000_000 // len(noise)))
    answer = subprocess.run([sys.executable, "-c", MEASURED, tmp_path], capture_output=True, check=True)
    taken, peak, states, unread = json.loads(answer.stdout)
    assert (states, unread) == ([RunState.CANCELLED], 0)
    assert taken < 160e6, "more than once"
    assert peak < 200e6
