"""What stands in the way of a run on a node is said before it starts, or ends it with the node's name.

All under --soak. Refusals of a node without torch, ports or room are in test_refused_launch.py, on one set of
hosts; here is what changes a host, or comes later.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hosts.hosts_run import HostsRun
from support.training.training import Training, losses

AcrossOf = Callable[..., HostsRun]
TWO = ("--no-gui", "--trust", "--set", 'distributed.nodes=["node1","node2"]')
REFUSED_LIMIT = 120.0
"""Seconds on a busy machine; torchrun itself would wait a quarter of an hour. bench_refusals measures it."""


@pytest.mark.soak
def test_blocked_ephemeral_ports_are_refused(across: AcrossOf, tmp_path: Path) -> None:
    """A firewall stops the ports that the kernel gives and no others: the node and a port are named."""
    hosts = across(2)
    hosts.made.block_port(2, "32768-60999")
    run_file = Training(tmp_path / "work", nproc=1).write(0.0)
    refused = hosts.command.run(*TWO, run_file, timeout=REFUSED_LIMIT)
    assert refused.returncode == 3, refused.stdout + refused.stderr
    assert "node2" in refused.stderr
    assert "port" in refused.stderr
    assert hosts.command.runs() == []


@pytest.mark.soak
def test_a_disk_that_fills_in_mid_run_stops_it(across: AcrossOf, tmp_path: Path) -> None:
    """The run stops with a checkpoint, and says which node's disk it was."""
    hosts = across(2, home_size="48m")
    training = Training(tmp_path / "work", nproc=1, steps=400, every=1000)
    limit = ("--set", "limits.min_free_disk='16MiB'")
    with hosts.command.start(*TWO, *limit, training.write(0.1)) as front:
        hosts.wait_begun(front)
        hosts.wait_step(5)
        ballast = hosts.made.home(2) / "ballast"
        hosts.made.enter(2, ["dd", "if=/dev/zero", f"of={ballast}", "bs=1M", "count=36"])
        output, _ = front.communicate(timeout=90)
    assert front.returncode == 1, output
    assert "disk" in output
    hosts.wait_empty()
    assert hosts.events(1, "finished")[-1].fields["resumable"] is True


@pytest.mark.soak
@pytest.mark.parametrize("host", [1, 2])
def test_a_shifted_clock_is_corrected(across: AcrossOf, tmp_path: Path, host: int) -> None:
    """A node whose clock is 300 s ahead is warned of and trains, and the run's times are by this clock."""
    hosts = across(2)
    hosts.made.shift_clock(host, 300)
    training = Training(tmp_path / "work", nproc=1, steps=6, every=3)
    before = time.time()
    # libfaketime makes time.sleep fail in torchrun and ranks: theirs is the real clock
    done = hosts.command.run(*TWO, "--set", "run.env.LD_PRELOAD=''", training.write(0.0))
    after = time.time()
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"node node{host}: its clock is 300.0 s ahead" in done.stderr
    view = hosts.command.json("runs", "show", hosts.run.root.name)
    assert before <= view["created"] <= view["started"] < view["ended"] <= after
    (attempt,) = view["attempts"]
    assert view["started"] <= attempt["started"] < attempt["ended"] <= view["ended"]
    assert view["started"] < view["checkpoint"]["time"] <= view["ended"]
    offset = hosts.wait_event(1, "clock")["offset"]
    assert offset == pytest.approx(300 if host == 2 else -300, abs=5)
    assert sorted(losses(hosts.run)) == list(range(1, 7))


@pytest.mark.soak
def test_a_node_whose_agent_cannot_start_ends_the_run(across: AcrossOf, tmp_path: Path) -> None:
    """Its home became unwritable after the checks: the run ends and names it."""
    hosts = across(2)
    training = Training(tmp_path / "work", nproc=1)
    with hosts.command.start(*TWO, training.write(0.1)) as front:
        hosts.wait_begun(front)
        node = hosts.on(2).node("node2").root
        node.parent.mkdir(parents=True, exist_ok=True)
        node.write_text("no folder\n")
        output, _ = front.communicate(timeout=120)
    assert front.returncode == 1, output
    assert "node2" in output
    hosts.wait_empty(60)
    assert hosts.events(1, "finished")[-1].fields["state"] == "FAILED"
