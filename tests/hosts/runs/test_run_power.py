"""A host loses power, for good or for a while: the run names it, and continues if it may."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from support.hosts.hosts_run import HostsRun
from support.training.held_training import hold
from support.training.training import Training, losses
from support.waiting import wait_until
from torchdeck.runs.follower import read_run
from torchdeck.runs.run_state import Failure
from torchdeck.runs.view import RunView

AcrossOf = Callable[..., HostsRun]
GRACE = 20
TALKING = """
import datetime, time
import torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))
print("up", flush=True)
while True:
    dist.all_reduce(torch.ones(1))
    time.sleep(0.05)
"""


def started(hosts: HostsRun, folder: Path, restarts: int) -> None:
    """A training that stands in step 8 of its first attempt; it has saved step 5."""
    training = Training(folder / "work", nproc=1, steps=20, every=5)
    nodes = ("--set", 'distributed.nodes=["node1","node2"]', "--set", f"launch.node_grace={GRACE}")
    policy = ("--set", f"launch.max_restarts={restarts}", "--set", "launch.kill_grace=2")
    file = hold(training.write(0.02), step=8)
    done = hosts.command.run("--no-gui", "--trust", "--detach", *nodes, *policy, file)
    assert done.returncode == 0, done.stderr
    for host in (1, 2):
        hosts.wait_event(host, "checkpoint", 90)


def wait_over(hosts: HostsRun, seconds: float) -> RunView:
    wait_until(lambda: read_run(hosts.run).is_over, seconds, "the run to be over")
    return read_run(hosts.run)


def first_failure(hosts: HostsRun) -> Failure:
    """Of the first attempt."""
    found = read_run(hosts.run).attempts[0].first_failure
    assert found is not None
    return found


@pytest.mark.soak
def test_survivors_that_fail_first_do_not_hide_the_host_that_is_gone(
    across: AcrossOf, tmp_path: Path
) -> None:
    """Their own limit is shorter than launch.node_grace: the run says which host does not answer."""
    hosts = across(2)
    (tmp_path / "loop.py").write_text(TALKING)
    config: dict[str, Any] = {
        "run": {"script": "loop.py"},
        "distributed": {"nodes": ["node1", "node2"], "nproc": 2, "devices": "cpu"},
        "limits": {"min_free_disk": "1MiB"},
        "launch": {"node_grace": 60, "kill_grace": 2.0},
    }
    (tmp_path / "run.toml").write_text(tomlkit.dumps(config))
    done = hosts.command.run("--no-gui", "--trust", "--detach", tmp_path / "run.toml")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: hosts.run.attempt(1).rank(3).stdout.exists(), 90, "all ranks to be up")
    wait_until(lambda: "up" in hosts.run.attempt(1).rank(3).stdout.read_text(), 90, "the last to be up")
    hosts.made.lose_power(2)
    view = wait_over(hosts, 90)
    assert view.state == "FAILED"
    assert "node node2 has not answered for" in view.why
    assert view.why.endswith("its ranks 2 and 3 are gone")
    survivor = hosts.run.attempt(1).rank(0).stderr.read_text()
    assert "Connection" in survivor or "imed out" in survivor, "there was something to hide it"


@pytest.mark.soak
def test_a_follower_that_never_returns_is_named(across: AcrossOf, tmp_path: Path) -> None:
    hosts = across(2)
    started(hosts, tmp_path, 0)
    hosts.made.lose_power(2)
    view = wait_over(hosts, 2 * GRACE + 20)
    assert (view.state, "its rank 1 is gone" in view.why) == ("FAILED", True), view


@pytest.mark.soak
@pytest.mark.parametrize("host", [1, 2])
def test_a_host_that_is_back_soon_takes_part_again(across: AcrossOf, tmp_path: Path, host: int) -> None:
    """The controller starts an agent there, which says what has happened; one restart, and all is done."""
    hosts = across(2)
    started(hosts, tmp_path, 1)
    hosts.made.lose_power(host)
    hosts.made.boot(host)
    view = wait_over(hosts, 120)
    assert view.state == "SUCCEEDED", view
    message = first_failure(hosts).message
    assert message == f"node node{host} lost power or was rebooted; its rank {host - 1} is gone"
    assert sorted(losses(hosts.run)) == list(range(1, 21))
    hosts.wait_empty()


@pytest.mark.soak
def test_a_follower_that_is_back_late_takes_part_again(across: AcrossOf, tmp_path: Path) -> None:
    """It was given up, and waited for without using up a restart."""
    hosts = across(2)
    started(hosts, tmp_path, 1)
    hosts.made.lose_power(2)
    hosts.wait_event(1, "restarting", 4 * GRACE, count=2)
    hosts.made.boot(2)
    view = wait_over(hosts, 120)
    assert view.state == "SUCCEEDED", view
    assert "its rank 1 is gone" in first_failure(hosts).message
    hosts.wait_empty()


@pytest.mark.soak
def test_a_leader_that_is_back_late_leads_the_run_again_once_it_is_resumed(
    across: AcrossOf, tmp_path: Path
) -> None:
    hosts = across(2)
    started(hosts, tmp_path, 0)
    hosts.made.lose_power(1)
    assert wait_over(hosts, 2 * GRACE + 20).state == "LOST"
    hosts.made.boot(1)
    resumed = hosts.command.run("runs", "resume", "latest", timeout=150)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert read_run(hosts.run).state == "SUCCEEDED"
    assert sorted(losses(hosts.run)) == list(range(1, 21))
    hosts.wait_empty()


@pytest.mark.soak
def test_a_resume_that_comes_before_the_leader_says_so(across: AcrossOf, tmp_path: Path) -> None:
    """It costs nothing: once the host is there, the run continues."""
    hosts = across(2)
    started(hosts, tmp_path, 0)
    hosts.made.lose_power(1)
    assert wait_over(hosts, 2 * GRACE + 20).state == "LOST"
    early = hosts.command.run("runs", "resume", "latest", timeout=170)
    assert early.returncode == 1, early.stdout + early.stderr
    assert "node node1 was not reached within" in early.stdout
    hosts.made.boot(1)
    again = hosts.command.run("runs", "resume", "latest", "--detach", timeout=90)
    assert again.returncode == 0, again.stderr
    hosts.wait_event(1, "launching", 90, count=2)
    assert hosts.command.run("runs", "stop", "--now", "latest").returncode == 0
