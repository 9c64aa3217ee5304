"""Training across hosts: stopped and resumed, sharded, with uneven nodes, with this machine as one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli.command import Command
from support.hosts.hosts_run import HostsRun
from support.system.listening_sockets import listening
from support.training.held_training import hold
from support.training.training import Training, losses, uninterrupted
from torchdeck.contract.checkpoints.listing import list_checkpoints

AcrossOf = Callable[..., HostsRun]
TWO = ("--no-gui", "--trust", "--set", 'distributed.nodes=["node1","node2"]')


def stopped_after_12(hosts: HostsRun, training: Training, gate: Path) -> None:
    """Started, and stopped some steps after the twelfth: it goes no further before the stop is known."""
    with hosts.command.start(*TWO, hold(training.write(0.05), step=14, gate=gate)) as front:
        hosts.wait_begun(front)
        hosts.wait_step(12)
        assert_listens_narrowly(hosts)
        with hosts.command.start("runs", "stop", hosts.run.root.name) as stopped:
            hosts.wait_event(1, "request")
            gate.touch()
            said, _ = stopped.communicate(timeout=120)
        assert stopped.returncode == 0, said
        output, _ = front.communicate(timeout=60)
    assert front.returncode == 130, output


def assert_listens_narrowly(hosts: HostsRun) -> None:
    """Every socket is on a training address or loopback; store and leader are on the first node's."""
    attempt, leader = (hosts.events(1, name)[-1].fields for name in ("attempt_started", "listening"))
    for host in range(1, hosts.made.count + 1):
        pids = [pid for found in hosts.processes(host).values() for pid in found]
        found = listening(pids)
        own = hosts.made.address(host)
        assert {address for address, _ in found} <= {own, "127.0.0.1", "127.0.0.2"}, found
        assert own in {address for address, _ in found}, found
        if host == 1:
            assert {(own, attempt["port"]), (own, leader["port"])} <= found
        controller = listening([hosts.controller()])
        assert controller == set(), f"the controller listens: {controller}"


def test_ddp_is_stopped_and_resumed(across: AcrossOf, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Each node has its part of a checkpoint on its own disk; under --soak losses are those of ranks here."""
    hosts = across(2)
    training = Training(tmp_path / "work", nproc=1, steps=30)
    stopped_after_12(hosts, training, tmp_path / "continue")
    hosts.wait_empty()
    hosts.assert_mirrored()
    for host in (1, 2):
        newest = list_checkpoints(hosts.on(host).checkpoints)[-1]
        assert newest.complete
        assert newest.step >= 12
    resumed = hosts.command.run("runs", "resume", hosts.run.root.name)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    hosts.wait_empty()
    hosts.assert_mirrored()
    assert hosts.events(1, "attempt_started")[-1].fields["resume_step"] >= 12
    assert sorted(losses(hosts.run)) == list(range(1, 31))
    if request.config.getoption("--soak"):
        here = uninterrupted(Command(tmp_path / "other"), Training(tmp_path / "2", steps=30))
        assert losses(hosts.run) == losses(here)


UNEVEN = {1: {"max_ranks": 2}, 2: {"max_ranks": 1}}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("strategy", "entries", "per_node"),
    [
        pytest.param("fsdp", {}, (1, 1), id="fsdp"),
        pytest.param("ddp", UNEVEN, (2, 1), id="uneven"),
        pytest.param("fsdp", UNEVEN, (2, 1), id="uneven fsdp"),
        pytest.param("ddp", {2: {"jump": ["node1"]}}, (1, 1), id="through a jump host"),
        pytest.param("fsdp", {}, (2, 2, 2), id="three nodes"),
    ],
)
def test_trains_and_saves(
    across: AcrossOf, tmp_path: Path, strategy: str, entries: dict[int, Any], per_node: tuple[int, ...]
) -> None:
    """All ranks take part; every loss is here, and each node has its part of the checkpoints."""
    hosts = across(len(per_node), entries)
    training = Training(tmp_path / "work", strategy=strategy, nproc=max(per_node), steps=6, every=3)
    nodes = [f"node{host}" for host in range(1, len(per_node) + 1)]
    these = ("--set", f"distributed.nodes={json.dumps(nodes)}")
    done = hosts.command.run("--no-gui", "--trust", *these, training.write(0.0), timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    hosts.wait_empty()
    hosts.assert_mirrored()
    assert sorted(losses(hosts.run)) == list(range(1, 7))
    assert hosts.events(1, "attempt_started")[0].fields["world_size"] == sum(per_node)
    for host in range(1, len(per_node) + 1):
        found = list_checkpoints(hosts.on(host).checkpoints)
        assert [info.step for info in found if info.complete] == [3, 6]


@pytest.mark.soak
def test_nodes_share_a_home(across: AcrossOf, tmp_path: Path) -> None:
    """As over NFS: one run directory for both, checkpoints in one folder, stopped and resumed."""
    hosts = across(2, shared_home=True)
    training = Training(tmp_path / "work", nproc=1, steps=30)
    stopped_after_12(hosts, training, tmp_path / "continue")
    resumed = hosts.command.run("runs", "resume", hosts.run.root.name)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    hosts.wait_empty()
    hosts.assert_mirrored()
    assert sorted(losses(hosts.run)) == list(range(1, 31))
    newest = list_checkpoints(hosts.on(1).checkpoints)[-1]
    assert (newest.step, newest.complete) == (30, True)


@pytest.mark.soak
def test_this_machine_takes_part(across: AcrossOf, tmp_path: Path) -> None:
    """This machine leads and needs no link; the other node is reached over one."""
    hosts = across(1)
    training = Training(tmp_path / "work", nproc=1, steps=6, every=3)
    nodes = 'distributed.nodes=["localhost","node1"]'
    done = hosts.command.run("--no-gui", "--trust", "--set", nodes, training.write(0.0))
    assert done.returncode == 0, done.stdout + done.stderr
    hosts.wait_empty()
    hosts.assert_mirrored()
    assert sorted(losses(hosts.run)) == list(range(1, 7))
