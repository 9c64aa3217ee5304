"""Runs with a spare node, which takes the place of one that is lost for good."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.held_training import hold
from support.hosts_run import HostsRun
from support.training import Training, losses

AcrossOf = Callable[..., HostsRun]
SPARE = (
    *("--set", 'distributed.nodes=["node1","node[2-3]"]'),
    *("--set", "distributed.spare=1"),
    *("--set", "launch.node_grace=4"),
)


@pytest.mark.soak
def test_a_spare_replaces_a_node_that_loses_power(across: AcrossOf, tmp_path: Path) -> None:
    """As many ranks as before go on from the newest checkpoint of a folder that all nodes share."""
    hosts = across(3, shared_home=True)
    training = Training(tmp_path / "work", nproc=1, steps=20, every=3)
    gate = tmp_path / "go on"
    with hosts.command.start(
        "--no-gui", "--trust", *SPARE, hold(training.write(0.05), step=10, gate=gate)
    ) as front:
        hosts.wait_begun(front)
        hosts.wait_step(8, host=2)
        assert "rank" not in hosts.processes(3)
        hosts.made.power_off(2)
        hosts.wait_event(1, "node_lost")
        gate.touch()
        output, _ = front.communicate(timeout=240)
    assert front.returncode == 0, output
    view = hosts.command.json("runs", "show", hosts.run.root.name)
    first, second = view["attempts"]
    assert (first["world_size"], second["world_size"], second["reason"]) == (2, 2, "replaced")
    assert second["resume_step"] >= 6
    assert "node node2 has not answered" in second["given_up"]
    assert second["given_up"].endswith("; node node3 takes its place")
    assert sorted(losses(hosts.run)) == list(range(1, 21))
    assert "node node3 takes its place" in output
