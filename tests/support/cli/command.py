"""The command line as a person uses it: real processes, real files."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.agents.bundle import lay_bundle
from support.waiting import wait_until
from torchdeck.contract.journal import Event, read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import ProcessIdentity, processes_of_run

COMMAND = [sys.executable, "-m", "torchdeck.cli.main"]


@dataclass(frozen=True)
class Command:
    """`torchdeck` with a home of its own."""

    home: Path

    def environment(self) -> dict[str, str]:
        return {**os.environ, "TORCHDECK_HOME": str(self.home), "COLUMNS": "160"}

    def _argv(self, arguments: Sequence[str | Path]) -> list[str]:
        if "--no-gui" in arguments:
            with suppress(OSError):  # a home that cannot be used is what the test is about
                lay_bundle(self.home)
        return [*COMMAND, *map(str, arguments)]

    def run(self, *arguments: str | Path, timeout: float = 120) -> "subprocess.CompletedProcess[str]":
        """Run to the end; never raises for an exit code."""
        return subprocess.run(
            self._argv(arguments),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def json(self, *arguments: str | Path) -> Any:
        """What a command that reads prints under --json."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @contextmanager
    def start(self, *arguments: str | Path) -> Iterator["subprocess.Popen[str]"]:
        """A front end in a session of its own; it is gone afterwards, its run may not be."""
        process = subprocess.Popen(
            self._argv(arguments),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=10)

    def runs(self) -> list[RunLayout]:
        """Directories of all runs, oldest first; what is hidden is a run that is being made."""
        return [RunLayout(path) for path in sorted((self.home / "runs").glob("[!.]*"))]

    def the_run(self, seconds: float = 60) -> RunLayout:
        """The one run of this home, once its directory is there."""
        return wait_until(self.runs, seconds, "a run directory")[-1]


def agent_events(run: RunLayout, name: str | None = None) -> list[Event]:
    """What the agent of the local node wrote, of one kind or all."""
    events = read_journal(run.node("localhost").journal)
    return [event for event in events if name in (None, event.name)]


def wait_for_event(run: RunLayout, name: str, seconds: float = 60, *, count: int = 1) -> Event:
    """The `count`-th event of a kind in the agent's journal."""
    return wait_until(
        lambda: agent_events(run, name)[count - 1 :],
        seconds,
        f"event {name!r} number {count} of {run.root.name}",
    )[0]


def wait_for_step(run: RunLayout, step: int, seconds: float = 60) -> None:
    """Until some rank of the newest attempt has reported `step`."""

    def reached() -> bool:
        beat = run.node("localhost").heartbeat
        try:
            ranks = json.loads(beat.read_text())["ranks"].values()
        except (OSError, ValueError, KeyError):
            return False
        return any((rank.get("step") or 0) >= step for rank in ranks)

    wait_until(reached, seconds, f"step {step} of {run.root.name}", every=0.05)


def wait_until_gone(run: RunLayout, seconds: float = 20) -> None:
    """Until no process carries the run's id in its environment."""
    wait_until(
        lambda: not processes_of_run(run.root.name), seconds, f"the processes of {run.root.name} to be gone"
    )


def identity_in(events: Sequence[Event], name: str) -> ProcessIdentity:
    """The process named by the newest event of a kind."""
    newest = [event for event in events if event.name == name][-1]
    identity = ProcessIdentity.from_json(newest.fields["identity"])
    assert identity is not None
    return identity


def rank_process(run: RunLayout, rank: int) -> ProcessIdentity:
    """The Python process of one rank: below its rank shim, above its helpers."""
    carried = [
        process
        for process in processes_of_run(run.root.name)
        if variable(process.pid, "RANK") == str(rank) and "python" in executable(process.pid)
    ]
    return min(carried, key=lambda process: (process.start_ticks, process.pid))


def variable(pid: int, name: str) -> str | None:
    """One variable of a living process's environment."""
    for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if entry.startswith(name.encode() + b"="):
            return entry.decode().split("=", 1)[1]
    return None


def executable(pid: int) -> str:
    """First word of a living process's command line."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()


def interrupt(process: "subprocess.Popen[str]") -> None:
    """Ctrl-C, as a terminal sends it to the front end."""
    process.send_signal(signal.SIGINT)
