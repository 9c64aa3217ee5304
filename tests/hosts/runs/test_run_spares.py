"""Runs with a spare node, which takes the place of one that is lost for good."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.hosts.hosts_run import HostsRun
from support.training.held_training import hold
from support.training.training import Training, losses
from support.waiting import wait_until
from torchdeck.contract.checkpoints.listing import list_checkpoints
from torchdeck.contract.checkpoints.verification import verify
from torchdeck.runs.follower import read_run

AcrossOf = Callable[..., HostsRun]
GRACE = ("--set", "launch.node_grace=4")
STEPS = 16


def loses_power(hosts: HostsRun, host: int, folder: Path, *settings: str) -> dict[str, Any]:
    """A run that ends well though a host is switched off for good after some checkpoints; how it is shown."""
    training = Training(folder / "work", strategy="fsdp", nproc=1, steps=STEPS, every=3)
    gate = folder / "continue"
    run_file = hold(training.write(0.0), step=8, gate=gate)
    sets = [word for setting in settings for word in ("--set", setting)]
    with hosts.command.start("--no-gui", "--trust", *GRACE, *sets, run_file) as front:
        hosts.wait_begun(front)
        hosts.wait_event(1, "checkpoint", count=2)
        hosts.made.power_off(host)
        hosts.wait_event(1, "node_lost")
        gate.touch()
        output, _ = front.communicate(timeout=240)
    assert front.returncode == 0, output
    view: dict[str, Any] = hosts.command.json("runs", "show", hosts.run.root.name)
    assert [attempt["resume_step"] for attempt in view["attempts"]] == [None, 6]
    assert f"node node{host} has not answered" in view["attempts"][1]["given_up"]
    assert sorted(losses(hosts.run)) == list(range(1, STEPS + 1))
    return view


def test_a_lost_node_costs_nothing_but_time(across: AcrossOf, tmp_path: Path) -> None:
    """No disk is shared: the spare takes its place, and what was saved there comes from its copy."""
    hosts = across(3)
    nodes = 'distributed.nodes=["node1","node[2-3]"]'
    view = loses_power(hosts, 2, tmp_path, nodes, "distributed.spare=1", "checkpoint.replicas=1")
    first, second = view["attempts"]
    assert (first["world_size"], second["world_size"], second["reason"]) == (2, 2, "replaced")
    assert second["given_up"].endswith("; node node3 takes its place")
    hosts.wait_empty_on(3, 20, "link server")  # which waits for what the lost node has
    for host in (1, 3):
        found = list_checkpoints(hosts.on(host).checkpoints)[-1]
        assert found.manifest is not None
        assert (found.step, found.complete, verify(found.path)) == (STEPS, True, [])
        assert len(found.manifest.parts_here) == 2


@pytest.mark.soak
def test_a_spare_needs_no_copies_where_nodes_share_a_folder(across: AcrossOf, tmp_path: Path) -> None:
    """The same over a home that all nodes have."""
    hosts = across(3, shared_home=True)
    nodes = 'distributed.nodes=["node1","node[2-3]"]'
    view = loses_power(hosts, 2, tmp_path, nodes, "distributed.spare=1")
    assert view["attempts"][1]["reason"] == "replaced"


@pytest.mark.soak
def test_a_range_goes_on_with_fewer_from_copies(across: AcrossOf, tmp_path: Path) -> None:
    """Without a spare: two of three nodes have all that three have saved."""
    hosts = across(3)
    view = loses_power(hosts, 3, tmp_path, 'distributed.nodes="2:3"', "checkpoint.replicas=1")
    second = view["attempts"][1]
    assert (second["world_size"], second["reason"]) == (2, "smaller")


@pytest.mark.soak
def test_a_spare_that_is_off_is_passed_over(across: AcrossOf, tmp_path: Path) -> None:
    """One that died before it was needed is passed over; one that was off at the start is named."""
    hosts = across(5)
    hosts.made.power_off(5)
    settings = ('distributed.nodes=["node[1-5]"]', "distributed.spare=3", "checkpoint.replicas=1")
    training = Training(tmp_path / "work", strategy="fsdp", nproc=1, steps=STEPS, every=3)
    gate = tmp_path / "continue"
    sets = [word for setting in settings for word in ("--set", setting)]
    run_file = hold(training.write(0.0), step=8, gate=gate)
    with hosts.command.start("--no-gui", "--trust", *GRACE, *sets, run_file) as front:
        hosts.wait_begun(front)
        hosts.wait_event(1, "checkpoint", count=2)
        hosts.made.power_off(3)
        hosts.wait_event(1, "node_lost")
        hosts.made.power_off(2)
        hosts.wait_event(1, "node_lost", count=2)
        gate.touch()
        output, _ = front.communicate(timeout=240)
    assert front.returncode == 0, output
    assert "node node5 is left out" in output
    view = hosts.command.json("runs", "show", hosts.run.root.name)
    given_up = view["attempts"][1]["given_up"]
    assert given_up.endswith("; spare node node3 does not answer; node node4 takes its place")
    assert sorted(losses(hosts.run)) == list(range(1, STEPS + 1))


@pytest.mark.soak
def test_a_resumed_run_begins_without_the_node_that_is_gone(across: AcrossOf, tmp_path: Path) -> None:
    """Stopped after a node was lost, and resumed while that is still off: the spare begins in its place."""
    hosts = across(3)
    settings = ('distributed.nodes=["node[1-3]"]', "distributed.spare=1", "checkpoint.replicas=1")
    sets = [word for setting in settings for word in ("--set", setting)]
    training = Training(tmp_path / "work", strategy="fsdp", nproc=1, steps=STEPS, every=3)
    gate = tmp_path / "continue"
    run_file = hold(training.write(0.0), step=8, gate=gate)
    with hosts.command.start("--no-gui", "--trust", *GRACE, *sets, run_file) as front:
        hosts.wait_begun(front)
        hosts.wait_event(1, "checkpoint", count=2)
        with hosts.command.start("runs", "stop", "--now", hosts.run.root.name) as stopped:
            stopped.communicate(timeout=120)
        front.communicate(timeout=60)
    hosts.wait_empty()
    hosts.made.power_off(2)
    gate.touch()
    resumed = hosts.command.run("runs", "resume", hosts.run.root.name, timeout=240)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    view = hosts.command.json("runs", "show", hosts.run.root.name)
    last = view["attempts"][-1]
    assert (last["world_size"], last["resume_step"]) == (2, 6)
    assert last["given_up"].endswith("; node node3 takes its place")
    assert sorted(losses(hosts.run)) == list(range(1, STEPS + 1))


@pytest.mark.soak
def test_a_lost_leader_takes_no_checkpoint_along(across: AcrossOf, tmp_path: Path) -> None:
    """A run that is lost with its leader continues as a new one where copies are, and on a node without
    any.
    """
    hosts = across(3)
    settings = (
        'distributed.nodes=["node1","node2"]',
        "checkpoint.replicas=1",
        'checkpoint.directory="/dev/shm/saved"',  # of each host alone, under one path
        "launch.kill_grace=3",
    )
    sets = [word for setting in settings for word in ("--set", setting)]
    training = Training(tmp_path / "work", strategy="fsdp", nproc=1, steps=STEPS, every=3)
    gate = tmp_path / "continue"
    run_file = hold(training.write(0.0), step=8, gate=gate)
    started = hosts.command.run("--no-gui", "--trust", "--detach", *GRACE, *sets, run_file)
    assert started.returncode == 0, started.stderr
    hosts.wait_event(1, "checkpoint", 90, count=2)
    wait_until(lambda: len(hosts.events(2, "checkpoint")) == 2, 30, "the same on the other node")
    lost = hosts.run.root.name
    hosts.made.power_off(1)
    wait_until(lambda: read_run(hosts.run).is_over, 60, "the run to be given up")
    gate.touch()
    again = hosts.command.run("runs", "resume", lost, "--nodes", "node3", "node2", timeout=240)
    assert again.returncode == 0, again.stdout + again.stderr
    assert hosts.run.root.name != lost
    assert hosts.wait_event(3, "launching")["resume"]["step"] == 6
    assert sorted(losses(hosts.run)) == list(range(7, STEPS + 1))
