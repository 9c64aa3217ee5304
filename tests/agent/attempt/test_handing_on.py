"""What an agent was handed, told again to who asks in its inbox: named pipes, and real agents."""

import os
import stat
from pathlib import Path

import pytest

from support.agents.agent_run import cleaning, script
from support.agents.gang_run import TOKEN, GangRun, make_gang_plan
from support.waiting import wait_until
from torchdeck.agent.attempt.handover import Handover, HandoverAsk, hand_on, handover_from
from torchdeck.agent.link.server import Asking

SLEEPS = "import time; time.sleep(600)"
KNOWN = Handover("a token", ("10.0.0.1", 4711), {"KEY": 'a "secret"\n' + "x" * 30_000})


def test_who_asks_is_told_and_nothing_stays(tmp_path: Path) -> None:
    ask = HandoverAsk(tmp_path)
    (pipe,) = tmp_path.iterdir()
    assert stat.S_IMODE(pipe.stat().st_mode) == 0o600
    assert ask.read() is None
    hand_on(tmp_path, KNOWN)
    line = ask.read()
    assert line is not None
    assert handover_from(line) == KNOWN
    assert list(tmp_path.iterdir()) == []
    ask.close()


def test_two_who_ask_are_both_told(tmp_path: Path) -> None:
    asks = [HandoverAsk(tmp_path) for _ in range(2)]
    hand_on(tmp_path, KNOWN)
    assert [ask.read() for ask in asks] == [KNOWN.line()] * 2
    for ask in asks:
        ask.close()


def test_an_agent_that_looks_while_a_pipe_is_made_does_not_take_it_for_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = os.mkfifo

    def looked_at(path: Path, mode: int) -> None:
        make(path, mode)
        hand_on(tmp_path, KNOWN)

    monkeypatch.setattr(os, "mkfifo", looked_at)
    ask = HandoverAsk(tmp_path)
    hand_on(tmp_path, KNOWN)
    assert ask.read() == KNOWN.line()
    assert list(tmp_path.iterdir()) == []
    ask.close()


def test_a_pipe_that_nobody_reads_is_removed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"handover-{'a' * 32}.pipe")
    hand_on(tmp_path, KNOWN)
    assert list(tmp_path.iterdir()) == []


def test_a_link_server_that_starts_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    """Where no agent lives no one else would; who asks at this moment is not disturbed."""
    os.mkfifo(tmp_path / f"handover-{'a' * 32}.pipe")
    (tmp_path / "stop.json").touch()
    ask = HandoverAsk(tmp_path)
    Asking(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    hand_on(tmp_path, KNOWN)
    assert ask.read() == KNOWN.line()
    ask.close()
    assert [path.name for path in tmp_path.iterdir()] == ["stop.json"]


@pytest.mark.parametrize("kind", ["file", "link", "link to a pipe"])
def test_nothing_is_written_into_what_is_no_pipe(tmp_path: Path, kind: str) -> None:
    """A secret would lie on the disk, or go elsewhere."""
    inbox, other = tmp_path / "inbox", tmp_path / "other"
    inbox.mkdir()
    path = inbox / f"handover-{'b' * 32}.pipe"
    if kind == "link to a pipe":
        os.mkfifo(other)
        reading = os.open(other, os.O_RDONLY | os.O_NONBLOCK)
    else:
        other.touch()
        reading = os.open(other, os.O_RDONLY)
    if kind == "file":
        os.link(other, path)
    else:
        path.symlink_to(other)
    hand_on(inbox, KNOWN)
    assert os.read(reading, 10) == b""
    os.close(reading)
    assert list(inbox.iterdir()) == []


@pytest.mark.processes
def test_agents_of_a_gang_tell_it_while_they_run(tmp_path: Path) -> None:
    """The leader and a follower, through an inbox that only the user enters."""
    plan = make_gang_plan(script(tmp_path, SLEEPS), tmp_path, secrets=("KEY",))
    run = GangRun(tmp_path / "homes", plan, {"KEY": "a secret"})
    with cleaning([run]):
        run.start()
        run.wait("attempt_started")
        for name in run.names:
            assert handed(run, name).token == TOKEN
            assert handed(run, name).secrets == {"KEY": "a secret"}
            assert not list(run.node(name).inbox.glob("*.pipe"))
        run.request("stop_now")
        run.finished()


def handed(run: GangRun, name: str) -> Handover:
    ask = HandoverAsk(run.node(name).inbox)
    try:
        return handover_from(wait_until(ask.read, 20, f"the agent of {name} to answer") or b"")
    finally:
        ask.close()
