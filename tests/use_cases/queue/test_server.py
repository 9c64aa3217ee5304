"""The queue's server without processes: refused starts, ends, and what a killed server left."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.values.golden_values import QUEUE
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import Home, RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.queue.decision import RunNow
from torchdeck.queue.entry import Entry, Stage
from torchdeck.queue.queue_file import change_queue, read_queue
from torchdeck.queue.scheduling.ask import Ask, Place
from torchdeck.queue.state import NewerQueueError, Queue, QueueError
from torchdeck.runs.folders.run_directory import new_run_id
from torchdeck.runs.home import torchdeck_home
from torchdeck.use_cases.queue import server as server_module
from torchdeck.use_cases.queue import starting
from torchdeck.use_cases.queue.listing import list_queue
from torchdeck.use_cases.queue.server import TRIES, QueueServer, ServerRunsError, pause_after, serve
from torchdeck.use_cases.queue.starting import ChangedError, recover, start_entry
from torchdeck.use_cases.ui import QuietUi

NOW = 1795461170.5
WAITING = replace(
    QUEUE.find("q3"), id="q1", ask=Ask(("localhost",), 0, 0), paused=False, note="", after=(), places=()
)


@pytest.fixture
def home() -> Path:
    return torchdeck_home()


def put(home: Path, *entries: Entry) -> Queue:
    return change_queue(home, lambda queue: replace(queue, entries=entries))


def make_run(home: Path, token: str, created: float = NOW + 2) -> str:
    """Make a run directory that names the start of an entry; return its id."""
    layout = RunLayout(Home(home).runs / new_run_id("later", created))
    layout.root.mkdir(parents=True)
    with JournalWriter(layout.journal) as journal:
        journal.append("created", run_id=layout.root.name, queued=token)
    return layout.root.name


def test_a_start_without_a_run_waits_again_and_one_with_a_run_runs(home: Path) -> None:
    here = (Place("localhost"),)
    lost = replace(WAITING, stage=Stage.STARTING, starts=2, begun=NOW, places=here)
    made = replace(lost, id="q2")
    run = make_run(home, made.token)
    make_run(home, replace(lost, starts=1).token)
    make_run(home, replace(lost, begun=NOW - 60).token)  # of a queue whose file was lost
    recover(put(home, lost, made), home)
    first, second = read_queue(home).entries
    assert (first.stage, first.places, first.starts) == (Stage.WAITING, (), 2)
    assert (second.stage, second.run) == (Stage.RUNNING, run)


def test_an_entry_that_was_changed_meanwhile_is_not_started(home: Path) -> None:
    put(home, replace(WAITING, priority=1))
    with pytest.raises(ChangedError):
        start_entry(WAITING, (Place("localhost"),), home, QuietUi(), NOW)
    assert read_queue(home).find("q1").stage is Stage.WAITING


def test_a_refused_start_is_tried_again_and_then_paused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Refusal("the disk is full")

    monkeypatch.setattr(starting, "start", refuse)
    monkeypatch.setattr(starting, "start_request", lambda *_: None)
    monkeypatch.setattr(server_module, "AGAIN_AFTER", 0.0)
    put(home, WAITING)
    reports: list[str] = []
    server = QueueServer(home, QuietUi(), reports.append)
    for _ in range(TRIES):
        server.look()
    server.look()
    entry = read_queue(home).find("q1")
    assert (entry.stage, entry.paused, entry.note) == (Stage.WAITING, True, "the disk is full")
    assert len(reports) == TRIES
    assert reports[-1] == "q1 (later) is paused, as it could not start: the disk is full"


@pytest.mark.parametrize("starts", [True, False])
def test_a_start_whose_second_write_failed_is_put_right_at_the_next_look(
    home: Path, monkeypatch: pytest.MonkeyPatch, *, starts: bool
) -> None:
    def created(*_: object) -> SimpleNamespace:
        if not starts:
            raise Refusal("a check failed")
        entry = read_queue(home).find("q1")
        run = make_run(home, entry.token, entry.begun or 0.0)
        return SimpleNamespace(layout=Home(home).run(run))

    def cannot_write(*_: object) -> None:
        raise QueueError("the queue cannot be written", "no space left")

    monkeypatch.setattr(starting, "start", created)
    monkeypatch.setattr(starting, "start_request", lambda *_: None)
    put(home, WAITING)
    server = QueueServer(home, QuietUi(), lambda _text: None)
    with monkeypatch.context() as full, suppress(QueueError):
        full.setattr(starting, "_update", cannot_write)
        server.look()
    assert read_queue(home).find("q1").stage is Stage.STARTING
    monkeypatch.setattr(
        server._runs, "look", lambda ids: dict.fromkeys(ids, RunNow("RUNNING", is_over=False))
    )
    server.look()
    entry = read_queue(home).find("q1")
    assert (entry.stage, bool(entry.run)) == (Stage.RUNNING if starts else Stage.WAITING, starts)


@pytest.mark.parametrize(
    ("run", "stage", "outcome"),
    [
        (RunNow("RUNNING", is_over=False), Stage.RUNNING, ""),
        (RunNow("FAILED", is_over=True, ended=NOW), Stage.ENDED, "FAILED"),
        (RunNow("FAILED", is_over=True, refused=True), Stage.WAITING, ""),
        (None, Stage.ENDED, "DELETED"),
    ],
)
def test_the_end_of_a_run_ends_its_entry(
    home: Path, monkeypatch: pytest.MonkeyPatch, run: RunNow | None, stage: Stage, outcome: str
) -> None:
    """Unless nothing of it has run, because another run had the devices."""
    running = replace(
        WAITING, stage=Stage.RUNNING, run="20261123T191246Z-golden-bb7c16", places=(Place("localhost"),)
    )
    put(home, running)
    server = QueueServer(home, QuietUi(), lambda _text: None)
    monkeypatch.setattr(server._runs, "look", lambda ids: dict.fromkeys(ids, run))
    server.look()
    entry = read_queue(home).find("q1")
    assert (entry.stage, entry.outcome) == (stage, outcome)


def test_an_entry_that_loses_its_devices_again_waits_longer(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = replace(
        WAITING, stage=Stage.RUNNING, run="20261123T191246Z-golden-bb7c16", places=(Place("localhost"),)
    )
    lost = RunNow("FAILED", is_over=True, refused=True)
    losses: list[int] = []

    def count(before: int) -> float:
        losses.append(before)
        return 60.0

    monkeypatch.setattr(server_module, "pause_after", count)
    server = QueueServer(home, QuietUi(), lambda _text: None)
    monkeypatch.setattr(server._runs, "look", lambda ids: dict.fromkeys(ids, lost))
    for _ in range(3):
        put(home, running)
        server.look()
    assert losses == [0, 1, 2]


def test_pauses_double_up_to_an_hour() -> None:
    pauses = [pause_after(losses) for losses in (0, 1, 2, 5, 6, 5000)]
    assert pauses == [60.0, 120.0, 240.0, 1920.0, 3600.0, 3600.0]


def test_one_server_per_home_and_its_decisions_are_listed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = replace(WAITING, ask=Ask(("nowhere",), 0, 2))
    put(home, never)
    assert not list_queue(home).server.is_running
    stopped = threading.Event()

    def look_once(look: Callable[[QueueServer], bool]) -> Callable[[QueueServer], bool]:
        def looked(server: QueueServer) -> bool:
            look(server)
            (listed,) = list_queue(home).entries
            assert listed.why == "unknown node: nowhere"
            with pytest.raises(ServerRunsError, match="runs already, process"):
                serve(home, QuietUi(), lambda _text: None, stopped)
            stopped.set()
            return False

        return looked

    monkeypatch.setattr(QueueServer, "look", look_once(QueueServer.look))
    reports: list[str] = []
    serve(home, QuietUi(), reports.append, stopped)
    assert reports == [f"serving the queue of {home}", "stopped; runs that were started continue"]


def test_a_queue_that_cannot_be_written_is_reported_once_and_tried_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = "20261123T191246Z-golden-bb7c16"
    put(home, replace(WAITING, stage=Stage.RUNNING, run=run, places=(Place("localhost"),)))
    stopped = threading.Event()
    failures = iter([QueueError("the queue cannot be written")] * 2)

    def write(home: Path, change: Callable[[Queue], Queue]) -> Queue:
        if (failure := next(failures, None)) is not None:
            raise failure
        stopped.set()
        return change_queue(home, change)

    monkeypatch.setattr(server_module, "change_queue", write)
    monkeypatch.setattr(server_module, "TICK", 0.0)
    reports: list[str] = []
    serve(home, QuietUi(), reports.append, stopped)
    assert reports[1:] == [
        "the queue cannot be written (the server tries again)",
        "q1 (later) is over: DELETED",
        "stopped; runs that were started continue",
    ]
    assert read_queue(home).find("q1").is_over


def test_a_start_that_cannot_be_written_is_decided_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def cannot_write(entry: Entry, *_: object) -> None:
        tried.append(entry.id)
        raise QueueError("the queue cannot be written")

    monkeypatch.setattr(server_module, "start_entry", cannot_write)
    put(home, WAITING)
    server = QueueServer(home, QuietUi(), lambda _text: None)
    for _ in range(TRIES + 1):
        with pytest.raises(QueueError):
            server.look()
    assert tried == ["q1"] * (TRIES + 1)
    assert not read_queue(home).find("q1").paused


def test_a_server_ends_if_a_newer_torchdeck_wrote_the_queue(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def newer(_: QueueServer) -> bool:
        raise NewerQueueError("the queue was written by a newer Torchdeck")

    put(home, WAITING)
    monkeypatch.setattr(QueueServer, "look", newer)
    with pytest.raises(NewerQueueError):
        serve(home, QuietUi(), lambda _text: None, threading.Event())
