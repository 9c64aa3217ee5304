"""Hosts that are cut from each other for up to five times launch.node_grace: the run goes on by itself."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hosts.hosts_run import HostsRun
from support.training.held_training import hold
from support.training.training import Training, losses
from support.waiting import wait_until
from torchdeck.runs.follower import read_run

AcrossOf = Callable[..., HostsRun]
GRACE = 5


@pytest.mark.soak  # test_run_cut.py has a cut that heals in every run
@pytest.mark.parametrize(
    ("between", "graces"),
    [
        *(("them", many) for many in (0.5, 1.0, 2.0, 2.5, 5.0)),
        *(("the leader and all", many) for many in (0.5, 1.25)),
    ],
)
def test_a_cut_costs_one_restart_however_long_it_is(
    across: AcrossOf, tmp_path: Path, between: str, graces: float
) -> None:
    """Both sides wait for each other; attempts that start no rank use up no restart."""
    hosts = across(2)
    training = Training(tmp_path / "work", nproc=1, steps=20, every=5)
    options = ("--set", 'distributed.nodes=["node1","node2"]', "--set", f"launch.node_grace={GRACE}")
    restarts = ("--set", "launch.max_restarts=1", "--set", "launch.kill_grace=2")
    file = hold(training.write(0.02), step=8, gate=tmp_path / "continue")
    started = hosts.command.run("--no-gui", "--trust", "--detach", *options, *restarts, file)
    assert started.returncode == 0, started.stderr
    hosts.wait_event(1, "checkpoint", 90)
    if between == "them":
        hosts.made.block_port(1, "1024-65535", sender=hosts.made.address(2))
    else:
        hosts.made.cut(1)
    healed = time.monotonic() + graces * GRACE
    wait_until(lambda: time.monotonic() >= healed, 10 * GRACE, "the end of the cut")
    if between == "them":
        hosts.made.unblock_ports(1)
    else:
        hosts.made.heal(1)
    (tmp_path / "continue").touch()
    wait_until(lambda: read_run(hosts.run).is_over, 90, f"the run's end: {read_run(hosts.run)}")
    view = read_run(hosts.run)
    assert view.state == "SUCCEEDED", view
    reasons = [event.fields["reason"] for event in hosts.events(1, "restarting")]
    assert reasons[1:] == ["never_ran"] * (len(reasons) - 1)
    restarted = reasons[:1] == ["restart"]
    assert restarted or not reasons, reasons
    if graces != 1.0:  # at the limit itself both are right
        assert restarted is (graces > 1), reasons
    assert len(hosts.events(1, "running")) == 1 + restarted
    assert [attempt.resume_step for attempt in view.attempts][-1] == (5 if restarted else None)
    assert sorted(losses(hosts.run)) == list(range(1, 21))
    hosts.wait_empty()
