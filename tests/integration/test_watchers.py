"""Watching a run: the keys at a terminal, and a controller that is killed meanwhile."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.agents.controlled_run import controller_events, controllers, nothing_left, wait_for_state
from support.cli.command import COMMAND, Command
from support.waiting import wait_until
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.follower import read_run

LEAVE, STOP = b"\x03", b"\x1c"
"""Ctrl-C and Ctrl-\\, as a terminal gets them."""
WAITING = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    home = tmp_path / "home"
    with nothing_left(home):
        yield Command(home)


class Terminal:
    """A terminal in which a person runs one command."""

    def __init__(self, process: subprocess.Popen[bytes], ours: int) -> None:
        self._process, self._ours = process, ours
        self.seen = ""

    def read(self, seconds: float = 0.1) -> str:
        if select.select([self._ours], [], [], seconds)[0]:
            self.seen += os.read(self._ours, 65536).decode(errors="replace")
        return self.seen

    def press(self, key: bytes) -> int:
        """Press a key; the exit code of the command, which must end of it."""
        os.write(self._ours, key)
        limit = time.monotonic() + 60
        while self._process.poll() is None and time.monotonic() < limit:
            try:
                self.read()
            except OSError:  # the command has closed it
                break
        return self._process.wait(20)


@contextmanager
def terminal(command: Command, *words: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *words],
        env={**command.environment(), "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - its keys send signals
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def kill_controller(run: RunLayout, others: int) -> None:
    """Kill the one there is, and wait for the next; `others`: how many there have been before."""
    wait_until(lambda: read_run(run).controller_alive, 60, "a controller")
    os.kill(controllers(run)[-1].pid, signal.SIGKILL)
    wait_until(lambda: len(controller_events(run, "controller_started")) > others, 60, "another controller")


def test_a_key_for_each_and_another_controller(command: Command, tmp_path: Path) -> None:
    """Ctrl-C leaves a run that was attached to, Ctrl-\\ stops it; `attach` and `show` see to it."""
    waiting = tmp_path / "waiting.py"
    waiting.write_text(WAITING)
    started = command.run("--no-gui", "--detach", "--script", waiting, "--nproc", "1")
    assert started.returncode == 0, started.stderr
    run = command.the_run()
    wait_for_state(run, "RUNNING")
    with terminal(command, "runs", "attach", "latest") as attached:
        wait_until(lambda: "Ctrl-C leaves, Ctrl-\\ stops" in attached.read(), 60, "the keys to be named")
        kill_controller(run, 1)
        assert attached.press(LEAVE) == 130
        assert "the run continues: torchdeck runs attach" in attached.seen
    assert read_run(run).state == "RUNNING"
    with command.start("runs", "show", "latest", "--follow") as shown:
        assert shown.stdout is not None
        assert "RUNNING" in shown.stdout.readline()
        time_to_be_seen = time.monotonic() + 2
        wait_until(lambda: time.monotonic() > time_to_be_seen, 10, "it to have seen the controller")
        kill_controller(run, 2)
        with terminal(command, "runs", "attach", "latest") as attached:
            wait_until(lambda: "Ctrl-\\ stops" in attached.read(), 60, "the keys to be named")
            assert attached.press(STOP) == 130
            assert "CANCELLED" in attached.seen
        output, _ = shown.communicate(timeout=30)
    assert shown.returncode == 0
    assert "CANCELLED" in output


def test_following_the_logs_starts_a_killed_controller_again(command: Command, tmp_path: Path) -> None:
    """Until the run is over, of which the last lines are printed."""
    waiting = tmp_path / "waiting.py"
    waiting.write_text(WAITING)
    started = command.run("--no-gui", "--detach", "--script", waiting, "--nproc", "1")
    assert started.returncode == 0, started.stderr
    run = command.the_run()
    wait_for_state(run, "RUNNING")
    with command.start("runs", "logs", "latest", "--follow") as followed:
        assert followed.stdout is not None
        assert followed.stdout.readline() == "[rank 0] up\n"  # by then it has seen the controller
        kill_controller(run, 1)
        assert command.run("runs", "stop", "latest", "--now").returncode == 0
        assert followed.wait(30) == 0
    assert len(controller_events(run, "controller_started")) == 2
