"""The server as a process of its own: started detached, and no other process is ever stopped."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from support.values.golden_values import QUEUE
from torchdeck.contract.layout import Home
from torchdeck.contract.lock_file import is_held, try_lock
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.queue.queue_file import change_queue
from torchdeck.queue.state import QueueError
from torchdeck.use_cases.queue import server_process
from torchdeck.use_cases.queue.editing import move_last
from torchdeck.use_cases.queue.server_process import start_server, stop_server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    return made


@pytest.mark.processes
def test_a_server_is_started_once_and_stopped(home: Path) -> None:
    first = start_server(home)
    owner = ProcessIdentity.from_json(json.loads(Home(home).queue_lock.read_text()))
    assert owner == ProcessIdentity.of(first.pid)
    stop_server(home)
    assert first.wait(10.0)
    assert first.exit_code() == 0
    stop_server(home)  # none runs
    assert "serving the queue" in Home(home).queue_log.read_text()


@pytest.mark.processes
def test_a_server_that_ends_at_once_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_process, "COMMAND", ("-c", "raise SystemExit('no room')"))
    with pytest.raises(QueueError) as refused:
        start_server(home)
    assert (refused.value.what, refused.value.why) == ("the server ended at once", "no room")


def test_a_process_that_is_not_the_server_is_not_stopped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine's server, and one whose pid another process has now."""
    here = ProcessIdentity.of(os.getpid())
    assert here is not None
    lock = Home(home).queue_lock
    held = try_lock(lock, here._replace(boot="another machine").to_json())
    assert held is not None
    with pytest.raises(QueueError, match="does not run on this machine"):
        stop_server(home)
    lock.write_text("null")
    with pytest.raises(QueueError, match="does not run on this machine"):
        stop_server(home)
    monkeypatch.setattr(server_process, "STOP_LIMIT", 0.0)
    lock.write_text(json.dumps(here._replace(start_ticks=here.start_ticks - 1).to_json()))
    with pytest.raises(QueueError, match="has not ended"):
        stop_server(home)
    assert is_held(lock)
    os.close(held)


def test_the_last_place_is_behind_lower_priorities(home: Path) -> None:
    base = replace(QUEUE.find("q3"), after=())
    entries = [replace(base, id=f"q{n}", position=n, priority=priority) for n, priority in ((1, 5), (2, 0))]
    change_queue(home, lambda queue: replace(queue, entries=tuple(entries)))
    assert [(each.id, each.priority) for each in move_last(home, "q1").waiting()] == [("q2", 0), ("q1", 0)]
