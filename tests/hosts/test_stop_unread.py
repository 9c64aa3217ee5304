"""`torchdeck runs stop` of a live run on other machines whose journal here cannot be read."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hosts.hosts_run import HostsRun
from support.training.training import Training
from support.waiting import wait_until
from torchdeck.contract.processes import ProcessIdentity

AcrossOf = Callable[..., HostsRun]
NEWER = b'{"v": 99, "t": 1, "m": 1, "event": "x"}\n'
TWO = ("--set", 'distributed.nodes=["node1","node2"]')


def begun(hosts: HostsRun, folder: Path) -> None:
    """A run on two hosts that trains."""
    training = Training(folder / "work", nproc=1, steps=4000, every=1000)
    started = hosts.command.run("--no-gui", "--trust", "--detach", *TWO, training.write(0.05))
    assert started.returncode == 0, started.stderr
    hosts.wait_step(5)


def end_controller(hosts: HostsRun) -> None:
    identity = ProcessIdentity.of(hosts.controller())
    assert identity is not None
    os.kill(identity.pid, signal.SIGKILL)
    wait_until(lambda: not identity.is_alive(), 10, "the controller to end")


@pytest.mark.soak  # tests/integration/test_stop_unread.py stops such a run on one node
def test_a_journal_of_a_newer_format(across: AcrossOf, tmp_path: Path) -> None:
    """Its controller ends by that line; the nodes are asked to stop, and waited for."""
    hosts = across(2)
    begun(hosts, tmp_path)
    before = hosts.run.journal.read_bytes()
    controller = ProcessIdentity.of(hosts.controller())
    with hosts.run.journal.open("ab") as file:
        file.write(NEWER)
    wait_until(lambda: controller is None or not controller.is_alive(), 20, "the controller to end")
    stopped = hosts.command.run("runs", "stop", hosts.run.root.name)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert "node node1: waiting for the run to end there" in stopped.stderr
    assert "no process is alive on node1, node2" in stopped.stdout
    hosts.wait_empty(5)
    ended = [
        line for line in hosts.on(1).node("node1").journal.read_text().splitlines() if "finished" in line
    ]
    assert "CANCELLED" in ended[-1], ended
    again = hosts.command.run("runs", "stop", hosts.run.root.name)
    assert again.returncode == 3, again.stdout + again.stderr
    assert "no process of run" in again.stderr
    hosts.run.journal.write_bytes(before)  # so that what is left of the run can be looked for


@pytest.mark.soak
def test_a_damaged_journal_and_no_controller(across: AcrossOf, tmp_path: Path) -> None:
    """Another controller is started, which reads how the run goes from what its nodes say."""
    hosts = across(2)
    begun(hosts, tmp_path)
    end_controller(hosts)
    before = hosts.run.journal.read_bytes()
    hosts.run.journal.write_bytes(b"\xff" * len(before) + b"\n")
    stopped = hosts.command.run("runs", "stop", "--now", hosts.run.root.name)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert "CANCELLED" in stopped.stdout
    hosts.wait_empty(5)
