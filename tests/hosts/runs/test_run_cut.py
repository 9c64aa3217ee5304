"""A link that is cut in mid-run: what goes on, what is said, and what is there once it is back."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from support.hosts.hosts_run import HostsRun
from support.training.held_training import hold
from support.training.training import Training, losses
from support.waiting import wait_until
from torchdeck.runs.follower import read_run

AcrossOf = Callable[..., HostsRun]
TWO = ("--no-gui", "--trust", "--set", 'distributed.nodes=["node1","node2"]')


@pytest.mark.parametrize("seconds", [1, pytest.param(60, marks=pytest.mark.soak)])
def test_cut_and_healed_in_mid_run(across: AcrossOf, tmp_path: Path, seconds: int) -> None:
    """The run continues, the terminal says since when; what was missed arrives, no gap, no step twice."""
    hosts = across(2)
    training, gate = Training(tmp_path / "work", nproc=1, steps=60, every=20), tmp_path / "continue"
    with hosts.command.start(*TWO, hold(training.write(0.1), step=30, gate=gate)) as front:
        hosts.wait_begun(front)
        hosts.wait_step(5, host=2)
        hosts.made.cut(2)
        said = wait_until(partial(_lost_for, hosts, seconds), 60 + seconds, "that the link is lost")
        assert "last seen step" in said
        silent = hosts.wait_event(1, "node_silent", 30)
        assert silent["node"] == "node2"
        assert 15 <= silent["seconds"] < 60  # not after launch.node_grace
        shown = hosts.command.run("runs", "show", hosts.run.root.name)
        assert "node2: link lost" in shown.stdout, shown.stdout
        assert read_run(hosts.run).state == "RUNNING"
        hosts.made.heal(2)
        hosts.wait_event(1, "node_back", 90)
        wait_until(hosts.run_is_followed, 90, "the link to be back")  # tried less often with time
        gate.touch()
        output, _ = front.communicate(timeout=150)
    assert front.returncode == 0, output
    assert 1 <= output.count("node node2: link lost") <= 4, output  # not once a second
    assert "node node2: link is back after" in output
    assert "node node2 has been silent to the other nodes for" in output
    assert "node node2 answers the others again after" in output
    hosts.wait_empty()
    hosts.assert_mirrored()
    assert len(hosts.events(1, "attempt_started")) == 1
    assert hosts.events(1, "node_back")
    assert sorted(losses(hosts.run)) == list(range(1, 61))


@pytest.mark.soak
def test_a_node_that_stays_away_ends_the_gang(across: AcrossOf, tmp_path: Path) -> None:
    """After node_grace the run ends and names the node; the node ends its ranks by itself."""
    hosts = across(2)
    training = Training(tmp_path / "work", nproc=1, steps=2000, every=20)
    with hosts.command.start(*TWO, "--set", "launch.node_grace=6", training.write(0.1)) as front:
        hosts.wait_begun(front)
        hosts.wait_step(5, host=2)
        hosts.made.cut(2)
        lost = hosts.wait_event(1, "node_lost", 40)
        assert lost["node"] == "node2"
        finished = hosts.wait_event(1, "finished", 40)
        assert "node2" in finished["why"]
        assert "has not answered for" in finished["why"]
        output, _ = front.communicate(timeout=60)
        assert front.returncode == 1, output
        assert "node2" in output
        hosts.wait_empty_on(1, 20, "link server")
        hosts.wait_empty_on(2, 60, "link server", "agent")
        hosts.made.heal(2)
    hosts.wait_empty(60)
    hosts.wait_controller_gone(60)
    hosts.assert_mirrored()


@pytest.mark.soak
def test_goes_on_without_a_node_that_stays_away(across: AcrossOf, tmp_path: Path) -> None:
    """With a range of nodes and checkpoints on a path that all share the rest continues from the last one."""
    hosts = across(2)
    training = Training(tmp_path / "work", nproc=1, steps=60, every=10)
    elastic = ("--set", 'distributed.nodes="1:2"', "--set", "launch.node_grace=6")
    more = ("--set", f"checkpoint.directory='{tmp_path / 'shared'}'")
    with hosts.command.start("--no-gui", "--trust", *elastic, *more, training.write(0.1)) as front:
        hosts.wait_begun(front)
        hosts.wait_step(12, host=2)
        hosts.made.cut(2)
        started = hosts.wait_event(1, "attempt_started", 90, count=2)
        assert started["world_size"] == 1
        output, _ = front.communicate(timeout=120)
    assert front.returncode == 0, output
    assert sorted(losses(hosts.run)) == list(range(1, 61))
    hosts.made.heal(2)
    hosts.wait_empty(60)


def _lost_for(hosts: HostsRun, seconds: int) -> str:
    """What the run's view says of the second node's link, once it is lost for so long."""
    for text in read_run(hosts.run).warnings:
        found = re.match(r"node node2: link lost (\d+) s ago", text)
        if found and int(found[1]) >= seconds:
            return text
    return ""
