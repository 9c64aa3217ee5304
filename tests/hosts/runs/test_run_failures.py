"""Something ends on one of two nodes: the run continues, or all of it ends everywhere and it is said why."""

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import tomlkit

from support.hosts.hosts_run import HostsRun
from support.training.held_training import hold
from support.training.training import Training, losses
from support.waiting import wait_until
from torchdeck.runs.follower import read_run

AcrossOf = Callable[..., HostsRun]
END_LIMIT = 60.0
"""Seconds waited for the end of everything everywhere, well below what torch.distributed and node_grace wait.

It is to take 10, which a busy machine does not always keep: `tests/benchmarks refusals` judges that.
"""
SCRIPT = """
import datetime, os, time
from functools import partial
from pathlib import Path
import torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
rank, go, fail = dist.get_rank(), Path(os.environ["GO"]), Path(os.environ["FAIL"])
step = 0
while True:
    stop = torch.tensor([float(go.exists())])
    dist.all_reduce(stop)
    step += 1
    print("step", step, flush=True)
    if stop.item():
        break
    if rank == 1 and fail.exists():
        raise ValueError("a rank on node2 has had enough")
    time.sleep(0.05)
dist.destroy_process_group()
"""


class Looping:
    """A script on two nodes that continues until it is told otherwise."""

    def __init__(self, hosts: HostsRun, folder: Path, **launch: object) -> None:
        self.go, self.fail = folder / "go", folder / "fail"
        work = folder / "work"
        work.mkdir()
        (work / "loop.py").write_text(SCRIPT)
        config = {
            "run": {"script": "loop.py", "env": {"GO": str(self.go), "FAIL": str(self.fail)}},
            "distributed": {"nodes": ["node1", "node2"], "nproc": 1, "devices": "cpu"},
            "limits": {"min_free_disk": "1MiB"},
            "launch": {"kill_grace": 5.0, **launch},
        }
        self.file = work / "run.toml"
        self.file.write_text(tomlkit.dumps(config))
        self._hosts = hosts

    def wait_step(self, step: int, seconds: float = 120, attempt: int = 1) -> None:
        """Until both ranks are here seen to have done `step`."""
        for rank in (0, 1):
            log = self._hosts.run.attempt(attempt).rank(rank).stdout
            wait_until(partial(_says, log, f"step {step}\n"), seconds, f"step {step} of rank {rank}")


def test_a_rank_raises_on_the_second_node(across: AcrossOf, tmp_path: Path) -> None:
    """All ends everywhere within seconds; the rank is named with its traceback, not its peer that lost it."""
    hosts = across(2)
    looping = Looping(hosts, tmp_path)
    with hosts.command.start("--no-gui", "--trust", looping.file) as front:
        hosts.wait_begun(front)
        looping.wait_step(3)
        looping.fail.touch()
        wait_until(lambda: not _training(hosts), END_LIMIT, "all ranks to be gone from both nodes")
        hosts.wait_event(1, "finished", END_LIMIT)
        output, _ = front.communicate(timeout=60)
    assert front.returncode == 1, output
    hosts.wait_empty()
    hosts.assert_mirrored()
    first = hosts.events(1, "attempt_ended")[-1].fields["first_failure"]
    assert first["rank"] == 1
    assert "a rank on node2 has had enough" in first["message"]
    assert 'raise ValueError("a rank on node2' in first["traceback"]
    assert "a rank on node2 has had enough" in output


@pytest.mark.soak
def test_all_are_started_again_from_the_last_checkpoint(across: AcrossOf, tmp_path: Path) -> None:
    """A rank of the second node is killed: a new attempt of both continues, and no step is lost or twice."""
    hosts = across(2)
    training = Training(tmp_path / "work", nproc=1, steps=40)
    two = ("--set", 'distributed.nodes=["node1","node2"]', "--set", "launch.max_restarts=1")
    with hosts.command.start("--no-gui", "--trust", *two, hold(training.write(0.1), step=15)) as front:
        hosts.wait_begun(front)
        hosts.wait_step(12)
        hosts.wait_event(1, "checkpoint")
        hosts.kill(2, "rank")
        output, _ = front.communicate(timeout=150)
    assert front.returncode == 0, output
    assert "rank 1" in output
    hosts.wait_empty()
    hosts.assert_mirrored()
    first, second = hosts.events(1, "attempt_started")
    assert (first.fields["reason"], second.fields["reason"]) == ("first", "restart")
    assert second.fields["resume_step"] == 10
    failure = hosts.events(1, "attempt_ended")[0].fields["first_failure"]
    assert (failure["rank"], failure["signal"]) == (1, signal.SIGKILL)
    assert sorted(losses(hosts.run)) == list(range(1, 41))


@pytest.mark.soak
def test_a_node_is_started_anew(across: AcrossOf, tmp_path: Path) -> None:
    """Power is cut and comes back: the next attempt has the node again, from the last checkpoint."""
    hosts = across(2)
    training = Training(tmp_path / "work", nproc=1, steps=40)
    two = ("--set", 'distributed.nodes=["node1","node2"]', "--set", "launch.max_restarts=1")
    with hosts.command.start("--no-gui", "--trust", *two, hold(training.write(0.1), step=15)) as front:
        hosts.wait_begun(front)
        hosts.wait_step(12)
        hosts.wait_event(1, "checkpoint")
        hosts.made.power_off(2)
        hosts.made.boot(2)
        output, _ = front.communicate(timeout=200)
    assert front.returncode == 0, output
    hosts.wait_empty()
    hosts.assert_mirrored()
    assert hosts.events(1, "attempt_started")[-1].fields["resume_step"] == 10
    assert sorted(losses(hosts.run)) == list(range(1, 41))


VICTIMS = (
    "controller", "1 link server", "2 link server", "1 agent", "2 agent", "1 holder", "2 holder",
    "1 torchrun", "2 torchrun", "1 rank holder", "2 rank holder", "1 rank", "2 rank",
)  # fmt: skip
SURVIVED = ("controller", "link server", "agent", "holder")
"""Whose death changes nothing about the ranks."""


@pytest.mark.soak
@pytest.mark.parametrize("what", VICTIMS)
def test_each_process_is_killed_in_turn(across: AcrossOf, tmp_path: Path, what: str) -> None:
    """The run continues to its end, or ends everywhere within seconds; nothing is left on any node."""
    hosts = across(2)
    looping = Looping(hosts, tmp_path)
    with hosts.command.start("--no-gui", "--trust", looping.file) as front:
        hosts.wait_begun(front)
        looping.wait_step(3)
        host, _, kind = what.rpartition(" ") if what == "controller" else what.partition(" ")
        before = {} if what == "controller" else hosts.processes(int(host))
        if what == "controller":
            front.kill()
            os.kill(hosts.controller(), signal.SIGKILL)
        else:
            hosts.kill(int(host), kind)
        if kind not in SURVIVED:
            wait_until(lambda: not _training(hosts), END_LIMIT, "all ranks to be gone from both nodes")
            output, _ = front.communicate(timeout=60)
            assert front.returncode == 1, output
        else:
            if kind in ("agent", "link server"):
                again = lambda: set(hosts.processes(int(host)).get(kind, ())) - set(before[kind])  # noqa: E731
                wait_until(again, 40, f"another {kind}")
            if what == "controller":
                time_of_death = _steps(hosts)
                wait_until(lambda: _steps_there(hosts) > time_of_death + 20, 30, "the ranks to continue")
            looping.go.touch()
            if what == "controller":
                attached = hosts.command.run("runs", "attach", hosts.run.root.name)
                assert attached.returncode == 0, attached.stdout + attached.stderr
            else:
                output, _ = front.communicate(timeout=90)
                assert front.returncode == 0, output
    hosts.wait_empty()
    hosts.assert_mirrored()
    assert read_run(hosts.run).state == ("SUCCEEDED" if kind in SURVIVED else "FAILED")
    for rank in (0, 1):
        text = hosts.run.attempt(1).rank(rank).stdout.read_text()
        steps = [int(line.split()[1]) for line in text.splitlines()]
        assert steps == list(range(1, len(steps) + 1))


def _training(hosts: HostsRun) -> dict[int, list[str]]:
    """Hosts where torchrun or ranks live."""
    found = {}
    for host in (1, 2):
        alive = [kind for kind in hosts.processes(host) if kind in ("torchrun", "rank", "rank holder")]
        if alive:
            found[host] = alive
    return found


def _says(log: Path, text: str) -> bool:
    return log.exists() and text in log.read_text()


def _steps(hosts: HostsRun) -> int:
    return hosts.run.attempt(1).rank(1).stdout.read_text().count("\n")


def _steps_there(hosts: HostsRun) -> int:
    return hosts.on(2).attempt(1).rank(1).stdout.read_text().count("\n")
