"""Files that an earlier version wrote: this one reads them as that one did, and writes the same bytes.

Each folder beside this file is what one version left behind; `make.sh` made it.
"""

import functools
import json
import os
import re
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from support.cli.command import Command, agent_events
from support.cli.command_here import CommandHere
from support.values.golden_reading import EXPECTED, layout_in, what_is_read
from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.checkpoints.listing import newest_complete
from torchdeck.contract.checkpoints.manifest import read_manifest
from torchdeck.contract.journal import JournalWriter, read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.progress import ProgressFile, read_progress
from torchdeck.contract.metrics.segment_format import decode_header
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.data import CheckpointPosition, load_batch_plan
from torchdeck.data.batch_plan.files.plan_files import save_batch_plan
from torchdeck.data.sample_log import SampleLog, SampleLogWriter
from torchdeck.launching import taking_over
from torchdeck.nodes.inventory.file import read_inventory
from torchdeck.nodes.inventory.file_edits import with_group, with_node
from torchdeck.runs.follower import read_run
from torchdeck.runs.run_state import RunState
from torchdeck.telemetry.table import Table
from torchdeck.use_cases.attach import attach
from torchdeck.use_cases.resume import resume
from torchdeck.use_cases.ui import QuietUi
from torchdeck_app.window.saved_session import read_session

HERE = Path(__file__).parent
FOLDERS = [path for path in sorted(HERE.iterdir()) if (path / EXPECTED).is_file()]


@pytest.fixture(params=FOLDERS, ids=[folder.name for folder in FOLDERS])
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, as files here are never written to."""
    return Path(shutil.copytree(request.param, tmp_path / "golden"))


@pytest.fixture
def controllers(monkeypatch: pytest.MonkeyPatch) -> list[RunLayout]:
    """Runs for which a controller would be started; none is, as the machine of the files is another."""
    started: list[RunLayout] = []
    monkeypatch.setattr(taking_over, "start_controller", lambda layout, **_: started.append(layout))
    return started


class Clock:
    """Stands still at the moment that a file says."""

    def __init__(self, wall: float, monotonic: float = 0.0) -> None:
        self._wall, self._monotonic = wall, monotonic

    def time(self) -> float:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic


def test_all_that_an_earlier_version_wrote_is_read_as_it_was_then(golden: Path) -> None:
    expected = json.loads((golden / EXPECTED).read_text())
    assert without_new_defaults(what_is_read(golden), expected) == expected


def without_new_defaults(read: Any, expected: Any) -> Any:
    """Leave out fields that the earlier version did not have, and whose value is empty."""
    if not isinstance(read, dict) or not isinstance(expected, dict):
        return read
    return {
        name: without_new_defaults(value, expected.get(name))
        for name, value in read.items()
        if name in expected or value not in (None, "", [], {})
    }


def test_its_runs_are_listed_and_shown(golden: Path) -> None:
    """By the command, as a person looks at them."""
    command = CommandHere(golden)
    run = layout_in(golden).root.name
    assert run in command.run("runs", "list", "--json").stdout
    assert "succeeded" in command.run("runs", "show", run).stdout.lower()


@pytest.mark.processes
def test_its_checkpoints_are_trained_on_from(golden: Path, torchdeck_home: Path) -> None:
    """By a real run, whose ranks load all parts of it."""
    pytest.importorskip("torch", reason="ranks train with it")
    command = Command(torchdeck_home)
    checkpoint = layout_in(golden).checkpoints / "final"
    settings = ("--set", f'checkpoint.resume="{checkpoint}"', "--set", "training.steps=8")
    done = command.run("--no-gui", "--trust", golden / "run.toml", *settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert agent_events(command.the_run(), "attempt_started")[0].fields["resume_step"] == 6


def test_its_run_that_lost_its_machine_is_resumed(golden: Path, controllers: list[RunLayout]) -> None:
    """Its plan and journals are enough for another session, which begins at the checkpoint in its folder."""
    run = layout_in(golden)
    without_end(run)
    before = run.node("localhost").journal.read_bytes()
    assert read_run(run).state is RunState.LOST
    resume(run, "terminal", QuietUi())
    assert controllers == [run]
    after = run.node("localhost").journal.read_bytes()
    assert after.startswith(before)
    (end,) = [event for event in read_journal(run.node("localhost").journal) if event.name == "finished"]
    assert (end.fields["state"], end.fields["resumable"], end.fields["attempt"]) == ("FAILED", True, 1)
    assert read_journal(run.journal)[-1].name == "resumed"
    assert not read_run(run).is_over
    newest = newest_complete(run.checkpoints)
    assert newest is not None
    assert newest.step == 3


def test_its_run_whose_agent_lives_is_attached_to(golden: Path, controllers: list[RunLayout]) -> None:
    """Its journal has no end, and its controller is gone: one is started, and the run is read as running."""
    run = layout_in(golden)
    without_end(run)
    assert (read_run(run).state, attach(run, QuietUi())) == (RunState.LOST, None)
    agent_is(run, os.getpid())
    attach(run, QuietUi())
    assert controllers == [run]
    view = read_run(run)
    assert (view.state, view.attempt, view.is_over) == (RunState.RUNNING, 1, False)
    with pytest.raises(taking_over.NotResumableError, match="RUNNING"):
        resume(run, "terminal", QuietUi())


def without_end(run: RunLayout) -> None:
    """Cut the journals as if the machine had lost power just after the first checkpoint."""
    for path, last in (
        (run.journal, '"controller_started"'),
        (run.node("localhost").journal, '"event": "running"'),
    ):
        lines = path.read_text().splitlines(keepends=True)
        (end,) = (number for number, line in enumerate(lines) if last in line)
        path.write_text("".join(lines[: end + 1]))
    shutil.rmtree(run.checkpoints / "final")
    (run.attempt(1).node("localhost").root / "exit.json").unlink()
    for rank in (0, 1):
        run.attempt(1).rank(rank).exit.unlink()


def agent_is(run: RunLayout, pid: int) -> None:
    """Name a living process as the agent in the journal."""
    path, identity = run.node("localhost").journal, ProcessIdentity.of(pid)
    assert identity is not None
    values = [json.loads(line) for line in path.read_text().splitlines()]
    values[0]["identity"] = identity.to_json()
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values))


def test_json_files_are_written_byte_for_byte(golden: Path) -> None:
    run = layout_in(golden)
    for path, read in (
        (run.plan, lambda value: LaunchPlan.from_json(value).document()),
        (golden / "position.json", lambda value: CheckpointPosition.from_json(value).to_json()),
        (next(run.nodes.glob("*/heartbeat.json")), lambda value: value),
    ):
        before = path.read_bytes()
        write_json(path, read(read_json(path)))
        assert path.read_bytes() == before, path.name
    session = golden / "window.json"
    assert read_session(json.loads(session.read_text())).to_text() == session.read_text()


def test_manifests_are_written_byte_for_byte(golden: Path) -> None:
    found = list(layout_in(golden).checkpoints.glob("*/manifest.json"))
    assert found
    for path in found:
        assert read_manifest(path.parent).render() == path.read_bytes()


def test_the_node_inventory_is_written_byte_for_byte(golden: Path) -> None:
    path = golden / "nodes.toml"
    node_inventory, text = read_inventory(path), ""
    for name, entry in node_inventory.nodes.items():
        text = with_node(text, name, entry)
    for name, group in node_inventory.groups.items():
        text = with_group(text, name, group)
    assert text == path.read_text()


def test_a_batch_plan_is_written_byte_for_byte(golden: Path, tmp_path: Path) -> None:
    folder = golden / "batch_plan"
    save_batch_plan(load_batch_plan(folder), tmp_path / "again")
    for name in ("plan.json", "columns.bin"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_journals_are_written_byte_for_byte(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that they had; after it, each line ends with its checksum."""
    run = layout_in(golden)
    for number, path in enumerate([run.journal, *run.nodes.glob("*/journal.jsonl")]):
        again = tmp_path / str(number)
        with JournalWriter(again) as writer:
            for event in read_journal(path):
                monkeypatch.setattr(f"{JournalWriter.__module__}.time", Clock(event.time, event.monotonic))
                writer.append(event.name, **event.fields)
        assert (
            re.sub(rb', "crc": "[0-9a-f]{8}"}$', b"}", again.read_bytes(), flags=re.MULTILINE)
            == path.read_bytes()
        )


def test_progress_is_written_byte_for_byte(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = layout_in(golden).attempt(1).rank(0).progress
    before, said = path.read_bytes(), read_progress(path)
    assert said is not None
    path.unlink()
    monkeypatch.setattr(f"{ProgressFile.__module__}.time", Clock(said.time, said.monotonic))
    monkeypatch.setattr(os, "getpid", lambda: said.pid)
    ProgressFile(path).report(said.phase, said.step, total=said.total, slow_step=said.slow_step)
    assert path.read_bytes() == before


def test_sample_logs_are_written_byte_for_byte(golden: Path, tmp_path: Path) -> None:
    path = layout_in(golden).attempt(1).rank(1).samples
    log = SampleLog(path)
    writer = SampleLogWriter(tmp_path / "again", log.header)
    for record in log.records():
        ids, parts = record.ids.astype("i8"), []
        for count in record.counts.tolist():
            parts.append(ids[:count])
            ids = ids[count:]
        writer.write(record.step, record.epoch, record.tokens, parts)
    writer.close()
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_metric_segments_are_written_byte_for_byte(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = sorted(layout_in(golden).root.rglob("*.metrics"))
    assert segments
    for number, path in enumerate(segments):
        content = path.read_bytes()
        header = decode_header(content)
        assert header is not None
        monkeypatch.setattr(f"{Table.__module__}.time", Clock(header.created))
        again = tmp_path / str(number)
        monkeypatch.setattr(os, "getpid", functools.partial(int, header.pid))
        table = Table(header.keys, spilled=False)
        table.open(header.source, functools.partial(Path, again))
        for row in struct.iter_unpack(f"<qd{len(header.keys)}d", content[header.length :]):
            table.write(table.pack(*row))
        table.close()
        assert again.read_bytes() == content
