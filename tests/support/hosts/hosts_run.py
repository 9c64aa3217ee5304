"""Runs across hosts, as a person starts them: the command here, real sshd and torchrun there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomlkit

from support.agents.bundle import lay_bundle
from support.cli.command import Command, variable
from support.hosts.hosts import TestHosts
from support.waiting import wait_until
from torchdeck.agent.link.names import mirrored
from torchdeck.contract.journal import Event, read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.follower import read_run
from torchdeck.runs.links import UP, read_links

HOME = ".local/share/torchdeck"
"""Of Torchdeck, in a host's home."""
OF_THE_HOST = ("unshare", "bash", "sleep", "/usr/sbin/sshd")
"""What runs on a host when nothing does: see hosts.sh."""


class HostsRun:
    """The command with the hosts in its node inventory, and what its one run does on each of them.

    Hosts have the runtime bundle, as after an earlier run, unless an entry names another home.

    Args:
        made: the hosts; `node1` is the first, and so on.
        home: TORCHDECK_HOME here.
        entries: host → what to add to its entry.
    """

    def __init__(self, made: TestHosts, home: Path, entries: Mapping[int, Mapping[str, Any]] | None = None):
        self.made = made
        self._homes = {host: Path(more["home"]) for host, more in (entries or {}).items() if more.get("home")}
        self.command = Command(home)
        made.trust(home)
        if made.homes_are_seen_here:
            for host in {*range(1, made.count + 1)} - {*self._homes}:
                lay_bundle(made.home(host) / HOME)
        write_inventory(made, home, entries or {})

    @property
    def run(self) -> RunLayout:
        return self.command.runs()[-1]

    def wait_begun(self, front: subprocess.Popen[str]) -> None:
        """Until the run that `front` starts has its directory; what it said instead, if it ends before."""

        def begun() -> bool:
            if front.poll() is not None and not self.command.runs():
                raise AssertionError(front.communicate(timeout=10)[0])
            return bool(self.command.runs())

        wait_until(begun, 90, "a run directory")

    def on(self, host: int) -> RunLayout:
        """The run's directory on a host, seen from here."""
        home = self._homes.get(host, self.made.home(host) / HOME)
        return RunLayout(home / "runs" / self.run.root.name)

    def events(self, host: int, name: str = "") -> list[Event]:
        """What the agent of a host has said, as far as it is here."""
        found = read_journal(self.run.node(f"node{host}").journal)
        return [event for event in found if name in ("", event.name)]

    def wait_event(self, host: int, name: str, seconds: float = 60, *, count: int = 1) -> Mapping[str, Any]:
        """Fields of the `count`-th such event, once it is here."""
        what = f"{name!r} of node{host}, number {count}"
        found = wait_until(lambda: self.events(host, name)[count - 1 :], seconds, what)
        return found[0].fields

    def wait_step(self, step: int, seconds: float = 120, host: int = 1) -> None:
        """Until some rank of a host is here seen to have reported `step`."""
        beat = self.run.node(f"node{host}").heartbeat

        def reached() -> bool:
            try:
                ranks = json.loads(beat.read_text())["ranks"].values()
            except (OSError, ValueError, KeyError):
                return False
            return any((rank.get("step") or 0) >= step for rank in ranks)

        wait_until(reached, seconds, f"step {step} on node{host}", every=0.05)

    def processes(self, host: int) -> dict[str, list[int]]:
        """What of runs lives on a host, by what it is; pids as they are here."""
        found: dict[str, list[int]] = {}
        for pid in self.made.pids(host):
            kind = _kind(pid)
            if kind:
                found.setdefault(kind, []).append(pid)
        return found

    def controller(self) -> int:
        started = [event for event in read_journal(self.run.journal) if event.name == "controller_started"]
        return int(started[-1].fields["identity"]["pid"])

    def kill(self, host: int, kind: str) -> None:
        """SIGKILL all processes of a kind on a host."""
        pids = self.processes(host).get(kind)
        assert pids, f"no {kind} on node{host}: {self.processes(host)}"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def wait_empty(self, seconds: float = 20) -> None:
        """Until nothing of any run lives on any host."""
        for host in range(1, self.made.count + 1):
            self.wait_empty_on(host, seconds)

    def wait_empty_on(self, host: int, seconds: float = 20, *but: str) -> None:
        """The same of one host; `but`: what may live."""
        limit = time.monotonic() + seconds
        while found := {kind: pids for kind, pids in self.processes(host).items() if kind not in but}:
            assert time.monotonic() < limit, f"still on node{host} after {seconds} s: {found}"
            time.sleep(0.1)

    def run_is_followed(self) -> bool:
        """The links to all nodes are up, and a living controller says so."""
        links = read_links(self.run)
        return (
            links is not None
            and time.time() - links.time < 3.0
            and all(state.state == UP for state in links.nodes.values())
            and read_run(self.run).controller_alive
        )

    def wait_controller_gone(self, seconds: float = 20) -> None:
        """Until the run's controller has ended."""
        wait_until(lambda: not read_run(self.run).controller_alive, seconds, "the controller to end")

    def assert_mirrored(self) -> None:
        """Every file that a host has for this side is here, byte for byte, and none that it has not."""
        compared = 0
        for host in range(1, self.made.count + 1):
            there = self.on(host).root
            for file in sorted(there.rglob("*")):
                path = str(file.relative_to(there))
                if not file.is_file() or mirrored(path, f"node{host}") is None:
                    continue
                compared += 1
                assert (self.run.root / path).read_bytes() == file.read_bytes(), path
        assert compared >= 10


def write_inventory(made: TestHosts, home: Path, entries: Mapping[int, Mapping[str, Any]]) -> None:
    """The node inventory with all hosts; `entries`: what to add to a host's entry, or to take out by None."""
    each = {f"node{host}": made.entry(host, **entries.get(host, {})) for host in range(1, made.count + 1)}
    (home / "nodes.toml").write_text(tomlkit.dumps({"version": 1, "nodes": each}))


def _kind(pid: int) -> str:
    """`agent`, `rank shim` and so on, or its command line; empty for what is the host's own."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        rank = variable(pid, "RANK")
    except OSError:
        return ""
    line = " ".join(words)
    if not line.strip() or words[0] in OF_THE_HOST or words[0].startswith("sshd:"):
        return ""
    named = {
        "rank_holder.sh": "rank holder",
        "processes/shim.py": "holder",  # which is told how to start an agent
        "agent/__main__.py": "agent",
        "distributed/torchrun.py": "torchrun",
    }
    for part, kind in named.items():
        if part in line and (kind != "rank holder" or rank is not None):
            return kind
    if rank is not None:
        return "rank"
    is_link = name == "torchdeck-link" or words[1:4] == ["-I", "-B", "-c"]
    return "link server" if is_link else line[:200]


@contextmanager
def nothing_left_here(home: Path) -> Iterator[None]:
    """Afterwards no controller and no part of a run on this machine itself is alive, whatever happened."""
    from support.agents.controlled_run import nothing_left

    with nothing_left(home):
        yield
