"""The leading host loses power: the run is lost, has an end here, and continues elsewhere."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hosts.hosts_run import HostsRun
from support.training.training import Training
from support.waiting import wait_until
from torchdeck.runs.follower import read_run

AcrossOf = Callable[..., HostsRun]
GRACE = 8
GIVEN_UP_LIMIT = 4 * GRACE
"""Seconds; twice launch.node_grace is expected, on an idle machine."""


def begun(hosts: HostsRun, folder: Path, *options: str, on: str = '["node1","node2"]') -> None:
    """A run on hosts that has saved where all see it; its controller is alone here."""
    training = Training(folder / "work", nproc=1, steps=4000, every=5)
    nodes = ("--set", f"distributed.nodes={on}", "--set", f"launch.node_grace={GRACE}")
    shared = ("--set", f"checkpoint.directory='{folder / 'shared'}'", "--set", "launch.kill_grace=3")
    file = training.write(0.05)
    started = hosts.command.run("--no-gui", "--trust", "--detach", *nodes, *shared, *options, file)
    assert started.returncode == 0, started.stderr
    hosts.wait_event(1, "checkpoint", 90)


@pytest.mark.soak  # when it is given up, and what is said then: tests/launching/control/test_lost_leader.py
def test_a_leader_that_never_returns_loses_the_run_and_no_more(across: AcrossOf, tmp_path: Path) -> None:
    """LOST with the reason; it continues elsewhere, and can be deleted here."""
    hosts = across(3)
    begun(hosts, tmp_path)
    hosts.made.lose_power(1)
    wait_until(lambda: read_run(hosts.run).is_over, GIVEN_UP_LIMIT, "the run to be given up")
    view = read_run(hosts.run)
    assert view.state == "LOST", view
    assert "node node1, the leader of the run, has not answered for" in view.why
    assert view.resumable
    hosts.wait_empty_on(2, 20, "link server")
    wait_until(lambda: not read_run(hosts.run).processes_alive, 10, "that to be known here")
    stopped = hosts.command.run("runs", "stop", "--now", hosts.run.root.name)
    assert (stopped.returncode, "LOST already" in stopped.stderr) == (3, True), stopped.stderr
    lost_run = hosts.run.root.name
    again = hosts.command.run("runs", "resume", lost_run, "--detach", "--nodes", "node3", "node2", timeout=90)
    assert again.returncode == 0, again.stderr
    assert hosts.run.root.name != lost_run
    started = hosts.wait_event(3, "launching", 60)
    assert started["resume"]["step"] >= view.checkpoint.step if view.checkpoint else False
    hosts.wait_event(3, "checkpoint", 60)
    assert hosts.command.run("runs", "stop", "--now", hosts.run.root.name).returncode == 0
    deleted = hosts.command.run("runs", "delete", "--here", lost_run)
    assert deleted.returncode == 0, deleted.stderr


@pytest.mark.soak  # when it is given up, and what is said then: tests/launching/control/test_lost_leader.py
def test_a_range_that_loses_its_leader_and_another_node_is_given_up_too(
    across: AcrossOf, tmp_path: Path
) -> None:
    """Two of the three nodes would be enough, but the two that could go on are those that are gone."""
    hosts = across(3)
    begun(hosts, tmp_path, on='"2:3"')
    for host in (1, 2):
        hosts.made.lose_power(host)
    wait_until(lambda: read_run(hosts.run).is_over, GIVEN_UP_LIMIT, "the run to be given up")
    view = read_run(hosts.run)
    assert (view.state, view.resumable) == ("LOST", True), view
    assert "nor has node2; no rank is left on node3" in view.why
    hosts.wait_empty_on(3, 20, "link server")
    again = hosts.command.run("runs", "resume", view.id, "--detach", "--nodes", "node3", timeout=90)
    assert again.returncode == 0, again.stderr
    hosts.wait_event(3, "checkpoint", 60)
    assert hosts.command.run("runs", "stop", "--now", hosts.run.root.name).returncode == 0


@pytest.mark.soak
def test_a_follower_that_was_rebooted_tells_that_the_leader_is_lost_too(
    across: AcrossOf, tmp_path: Path
) -> None:
    """Power fails for all, and the leader does not come back: the run does not wait for a person."""
    hosts = across(2)
    begun(hosts, tmp_path)
    for host in (1, 2):
        hosts.made.lose_power(host)
    hosts.made.boot(2)
    wait_until(lambda: read_run(hosts.run).is_over, 5 * GRACE, "the run to be given up")
    view = read_run(hosts.run)
    assert (view.state, "no rank is left on node2" in view.why, view.resumable) == ("LOST", True, True), view
    wait_until(lambda: not read_run(hosts.run).processes_alive, 20, "that to be known here")
    deleted = hosts.command.run("runs", "delete", "--here", hosts.run.root.name)
    assert deleted.returncode == 0, deleted.stderr


@pytest.mark.soak
def test_a_follower_that_was_rebooted_is_no_wait_without_the_key_of_the_run(
    across: AcrossOf, tmp_path: Path
) -> None:
    """This machine was off, too: its new controller cannot start an agent that the leader would know."""
    hosts = across(2)
    begun(hosts, tmp_path)
    os.kill(hosts.controller(), signal.SIGKILL)
    hosts.wait_controller_gone()
    for host in (1, 2):
        hosts.made.lose_power(host)
    hosts.made.boot(2)
    attached = hosts.command.run("runs", "attach", hosts.run.root.name, timeout=150)
    said = attached.stdout + attached.stderr
    assert attached.returncode == 1, said
    view = read_run(hosts.run)
    assert (view.state, "no rank is left on node2" in view.why) == ("LOST", True), view


@pytest.mark.soak
def test_a_stop_with_checkpoint_is_not_waited_for_without_end(across: AcrossOf, tmp_path: Path) -> None:
    """No node answers, so nothing stops; it arrives once one answers, and `stop --now` gives up the run."""
    hosts = across(2)
    begun(hosts, tmp_path)
    for host in (1, 2):
        hosts.made.cut(host)
    stopped = hosts.command.run("runs", "stop", hosts.run.root.name, timeout=90)
    assert stopped.returncode == 3, stopped.stderr
    assert "node1, node2 did not answer for 30 s" in stopped.stderr, stopped.stderr
    for host in (1, 2):
        hosts.made.heal(host)
    wait_until(lambda: read_run(hosts.run).is_over, 90, "the stop to arrive")
    hosts.wait_empty()


@pytest.mark.soak
def test_stop_now_has_an_end_though_no_node_ever_answers_again(across: AcrossOf, tmp_path: Path) -> None:
    """Nothing says what becomes of the ranks: the run is given up because a person asks for its end."""
    hosts = across(2)
    begun(hosts, tmp_path)
    for host in (1, 2):
        hosts.made.lose_power(host)
    stopped = hosts.command.run("runs", "stop", "--now", hosts.run.root.name, timeout=60)
    assert stopped.returncode == 0, stopped.stderr
    view = read_run(hosts.run)
    assert (view.state, "nor has node2; a stop was asked for" in view.why) == ("LOST", True), view
    deleted = hosts.command.run("runs", "delete", "--here", hosts.run.root.name)
    assert deleted.returncode == 0, deleted.stderr


@pytest.mark.soak  # on one machine: tests/launching/control/test_controller.py
def test_stop_now_has_an_end_though_the_leaders_agent_is_stopped(across: AcrossOf, tmp_path: Path) -> None:
    """Its host answers, so only its heartbeat tells. The other host has given it up and ended its ranks."""
    hosts = across(2)
    begun(hosts, tmp_path)
    (agent,) = hosts.processes(1)["agent"]
    os.kill(agent, signal.SIGSTOP)
    hosts.wait_event(2, "lead_lost", 60)
    hosts.wait_empty_on(2, 60, "link server")
    assert read_run(hosts.run).state == "RUNNING"
    stopped = hosts.command.run("runs", "stop", "--now", hosts.run.root.name, timeout=120)
    assert stopped.returncode == 0, stopped.stderr
    view = read_run(hosts.run)
    assert view.state == "CANCELLED", view
    hosts.wait_empty()
    deleted = hosts.command.run("runs", "delete", "--here", hosts.run.root.name)
    assert deleted.returncode == 0, deleted.stderr


@pytest.mark.soak  # what it is told, and when it ends: tests/launching/test_fence.py
def test_a_leader_that_comes_back_ends_though_no_controller_was_left(
    across: AcrossOf, tmp_path: Path
) -> None:
    """This machine was off meanwhile, say: whoever looks at the lost run starts a controller for it."""
    hosts = across(2)
    begun(hosts, tmp_path, "--set", "launch.max_restarts=5")
    hosts.made.cut(1)
    wait_until(lambda: read_run(hosts.run).state == "LOST", 2 * GRACE + 4, "the run to be given up")
    os.kill(hosts.controller(), signal.SIGKILL)
    hosts.wait_controller_gone()
    stopped = hosts.command.run("runs", "stop", hosts.run.root.name)
    assert (stopped.returncode, "node1 does not answer (" in stopped.stderr) == (3, True), stopped.stderr
    assert read_run(hosts.run).controller_alive
    os.kill(hosts.controller(), signal.SIGKILL)
    hosts.wait_controller_gone()
    shown = hosts.command.run("runs", "show", hosts.run.root.name)
    assert "node node1 has not answered since" in shown.stdout, shown.stdout
    wait_until(lambda: read_run(hosts.run).controller_alive, 20, "a controller of the lost run")
    assert "agent" in hosts.processes(1), "the old leader lives on"
    hosts.made.heal(1)
    hosts.wait_controller_gone(90)
    hosts.wait_empty()
    assert read_run(hosts.run).unfenced == ()
    again = hosts.command.run("runs", "stop", hosts.run.root.name)
    assert (again.returncode, "LOST already" in again.stderr) == (3, True), again.stderr


@pytest.mark.soak
def test_a_leader_that_comes_back_finds_that_it_was_replaced(across: AcrossOf, tmp_path: Path) -> None:
    """It was cut off and has gone on by itself; resumed meanwhile, the run continues and the old life
    ends.
    """
    hosts = across(2)
    begun(hosts, tmp_path, "--set", "launch.max_restarts=5")
    hosts.made.cut(1)
    wait_until(lambda: read_run(hosts.run).state == "LOST", 2 * GRACE + 4, "the run to be given up")
    resumed = hosts.command.run("runs", "resume", "--detach", hosts.run.root.name)
    assert resumed.returncode == 0, resumed.stderr
    assert "agent" in hosts.processes(1), "the old leader lives on"
    hosts.made.heal(1)
    replaced = hosts.wait_event(1, "finished", 90)
    assert "this part of the run was replaced" in replaced["why"]
    started = hosts.wait_event(1, "launching", 90, count=len(hosts.events(1, "launching")) + 1)
    assert started["reason"] == "first"
    wait_until(lambda: read_run(hosts.run).state == "RUNNING", 60, "the run to continue")
    hosts.wait_event(1, "checkpoint", 60, count=len(hosts.events(1, "checkpoint")) + 1)
    stopped = hosts.command.run("runs", "stop", hosts.run.root.name, timeout=60)
    assert stopped.returncode == 0, stopped.stderr
    hosts.wait_empty()
    assert read_run(hosts.run).state == "CANCELLED"
