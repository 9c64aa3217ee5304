"""The leading host is cut away for good and launch.unattended says "continue": the other's ranks continue."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import tomlkit

from support.hosts.hosts_run import HostsRun
from support.values.checkpoint_files import save_of
from support.waiting import wait_until
from torchdeck.runs.follower import read_run

AcrossOf = Callable[..., HostsRun]
GRACE = 6
LIVING = ("agent", "holder", "torchrun", "rank")
SCRIPT = """
import datetime, os, time
from pathlib import Path
import torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15))
go, together, step = Path(os.environ["GO"]), os.environ["TOGETHER"] == "1", 0
while not go.exists():
    if together:
        dist.all_reduce(torch.ones(1))
    step += 1
    print("step", step, flush=True)
    time.sleep(0.1)
print("done", flush=True)
"""


class Leaderless:
    """A run on two hosts, and what is seen of it while the first of them is away."""

    def __init__(self, hosts: HostsRun, folder: Path, nodes: str | list[str], *, together: bool) -> None:
        self.hosts, self.go = hosts, folder / "go"
        work = folder / "work"
        work.mkdir()
        (work / "loop.py").write_text(SCRIPT)
        config = {
            "run": {"script": "loop.py", "env": {"GO": str(self.go), "TOGETHER": str(int(together))}},
            "distributed": {"nodes": nodes, "nproc": 1, "devices": "cpu"},
            "limits": {"min_free_disk": "1MiB"},
            "launch": {"node_grace": GRACE, "unattended": "continue"},
        }
        self.file = work / "run.toml"
        self.file.write_text(tomlkit.dumps(config))

    def steps(self) -> int:
        """Done by the second host's rank, as far as it is told here."""
        log = self.hosts.run.attempt(1).rank(1).stdout
        return log.read_text().count("step") if log.exists() else 0

    def wait_steps(self, more: int) -> None:
        """Until its rank has done so many more."""
        wanted = self.steps() + more
        wait_until(lambda: self.steps() >= wanted, 60, f"{wanted} steps of rank 1")

    def lose_the_leader(self) -> None:
        """Cut the first host away until both sides have given each other up."""
        self.hosts.made.cut(1)
        assert self.hosts.wait_event(2, "lead_lost", 60)["unattended"] == "continue"
        wait_until(partial(self.leader_has, "node2 has not answered"), 60, "the leader's own end")

    def leader_has(self, text: str) -> bool:
        """Whether the first host's journal, there, says so."""
        return text in self.hosts.on(1).node("node1").journal.read_text()

    def warnings(self) -> str:
        return "\n".join(read_run(self.hosts.run).warnings)


@contextmanager
def begun(
    across: AcrossOf, folder: Path, nodes: str | list[str] | None = None, *, together: bool
) -> Iterator[Leaderless]:
    """The run on both hosts, with its controller alone here, some steps after its start."""
    hosts = across(2)
    leaderless = Leaderless(hosts, folder, nodes or ["node1", "node2"], together=together)
    started = hosts.command.run("--no-gui", "--trust", "--detach", leaderless.file)
    assert started.returncode == 0, started.stderr
    leaderless.wait_steps(3)
    yield leaderless
    hosts.made.heal(1)
    hosts.wait_empty(60)


@pytest.mark.soak
def test_ranks_go_on_to_their_end(across: AcrossOf, tmp_path: Path) -> None:
    """Ranks that need no other continue, which is said and mirrored; at their end the node is left clean."""
    with begun(across, tmp_path, together=False) as leaderless:
        hosts = leaderless.hosts
        leaderless.lose_the_leader()
        hosts.wait_empty_on(1, 30, "link server")
        said = "node node2 has not heard from the leading node for launch.node_grace: its ranks continue"
        wait_until(lambda: said in leaderless.warnings(), 20, "a word of the ranks that continue")
        assert said in hosts.command.run("runs", "show", hosts.run.root.name).stdout.replace("\n", " ")
        leaderless.wait_steps(20)
        leaderless.go.touch()
        assert hosts.wait_event(2, "rank_exited", 30)["code"] == 0
        hosts.wait_event(2, "node_finished", 90)
        hosts.wait_empty_on(2, 30, "link server")
    hosts.wait_controller_gone(90)
    hosts.assert_mirrored()
    view = read_run(hosts.run)
    assert view.state == "LOST"
    assert "node node1, the leader of the run, has not answered" in view.why
    assert hosts.run.attempt(1).rank(1).stdout.read_text().endswith("done\n")


@pytest.mark.soak
def test_ranks_that_need_the_others_end_by_their_own_limit(across: AcrossOf, tmp_path: Path) -> None:
    """torch.distributed gives up after its timeout: the rank fails of that, and nothing is left."""
    with begun(across, tmp_path, together=True) as leaderless:
        hosts = leaderless.hosts
        leaderless.lose_the_leader()
        assert hosts.wait_event(2, "rank_exited", 60)["code"] == 1
        assert not hosts.events(2, "signalled")
        hosts.wait_event(2, "node_finished", 60)
        hosts.wait_empty_on(2, 30, "link server")
    hosts.wait_controller_gone(90)
    hosts.assert_mirrored()
    assert "imed out" in hosts.run.attempt(1).rank(1).stderr.read_text()


@pytest.mark.soak
def test_ranks_that_nobody_looks_after_are_cleaned_up(across: AcrossOf, tmp_path: Path) -> None:
    """They are left alone while an agent looks after them; when that is dead too, `nodes clean` ends them."""
    with begun(across, tmp_path, together=False) as leaderless:
        hosts = leaderless.hosts
        leaderless.lose_the_leader()
        os.kill(hosts.controller(), signal.SIGKILL)
        assert hosts.command.json("nodes", "clean", "node2", "--yes")["nodes"] == []
        assert "rank" in hosts.processes(2)
        found = hosts.processes(2)
        for sent in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, neither starts the other again
            for pid in found["agent"] + found["holder"]:
                os.kill(pid, sent)
        wait_until(lambda: "agent" not in hosts.processes(2), 20, "the agent to be gone")
        cleaned = hosts.command.json("nodes", "clean", "node2", "--yes")
        assert cleaned["nodes"][0]["ended"][hosts.run.root.name] >= 2, cleaned
        hosts.wait_empty_on(2, 20)


@pytest.mark.soak
@pytest.mark.parametrize("killed", [False, True])
def test_a_stop_reaches_ranks_whose_lead_has_ended(across: AcrossOf, tmp_path: Path, *, killed: bool) -> None:
    """The hosts lose each other, and this side neither: it knows of the leader's end before the stop.

    Where the controller was killed meanwhile the stop starts another, which finds a run that is over; so does
    a resumption, which is refused until then.
    """
    with begun(across, tmp_path, together=False) as leaderless:
        hosts = leaderless.hosts
        save_of(hosts.on(1).checkpoints, 3, hosts.run.root.name)
        hosts.wait_event(1, "checkpoint")
        hosts.made.block_port(1, "1-65535", sender=hosts.made.address(2))
        assert hosts.wait_event(2, "lead_lost", 60)["unattended"] == "continue"
        hosts.wait_event(1, "finished", 60)
        leaderless.wait_steps(5)
        if killed:
            os.kill(hosts.controller(), signal.SIGKILL)
        assert read_run(hosts.run).resumable
        resumed = hosts.command.run("runs", "resume", hosts.run.root.name, timeout=120)
        assert resumed.returncode == 3
        assert "continues without its leader on node2" in resumed.stderr
        stopped = hosts.command.run("runs", "stop", hosts.run.root.name, timeout=120)
        assert stopped.returncode == 0, stopped.stderr
        assert hosts.wait_event(2, "request", 5)["kind"] == "stop"
        assert "rank" not in hosts.processes(2)
        assert hosts.events(2, "node_finished")
    hosts.wait_controller_gone(90)
    hosts.assert_mirrored()


@pytest.mark.soak
def test_ranks_that_go_on_are_stopped(across: AcrossOf, tmp_path: Path) -> None:
    """A stop reaches the node that has lost its leader; it is waited for until nothing is left there."""
    with begun(across, tmp_path, together=False) as leaderless:
        hosts = leaderless.hosts
        leaderless.lose_the_leader()
        leaderless.wait_steps(5)
        stopped = hosts.command.run("runs", "stop", hosts.run.root.name, timeout=120)
        assert stopped.returncode == 0, stopped.stderr
        assert hosts.wait_event(2, "request", 5)["kind"] == "stop"
        assert "node node1, the leader of the run, has not answered" in stopped.stdout
        assert "rank" not in hosts.processes(2)
        assert len(hosts.events(2, "request")) == 1
        hosts.wait_empty_on(2, 30, "link server")
    hosts.wait_controller_gone(90)
    hosts.assert_mirrored()


@pytest.mark.soak
def test_a_node_that_was_switched_off_and_on_goes_on_no_more(across: AcrossOf, tmp_path: Path) -> None:
    """No one is there who could say the end of its ranks: the controller sees it, writes it down and ends."""
    with begun(across, tmp_path, together=False) as leaderless:
        hosts = leaderless.hosts
        hosts.made.block_port(1, "1-65535", sender=hosts.made.address(2))
        assert hosts.wait_event(2, "lead_lost", 60)["unattended"] == "continue"
        hosts.wait_event(1, "finished", 60)
        leaderless.wait_steps(5)
        found = hosts.processes(2)
        for sent in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, neither starts the other again
            for pid in (pid for part in LIVING for pid in found.get(part, [])):
                os.kill(pid, sent)
    hosts.wait_controller_gone(90)
    assert "deserted" in hosts.run.journal.read_text(), hosts.run.node("node2").journal.read_text()[-1500:]
    stopped = hosts.command.run("runs", "stop", hosts.run.root.name, timeout=120)
    assert stopped.returncode == 3
    assert "nothing to stop" in stopped.stderr


@pytest.mark.soak
def test_a_node_that_was_left_out_ends_its_ranks_when_it_is_back(across: AcrossOf, tmp_path: Path) -> None:
    """The leader has gone on without it, as a range of nodes allows: no one wants what its ranks still do."""
    with begun(across, tmp_path, "1:2", together=False) as leaderless:
        hosts = leaderless.hosts
        hosts.made.cut(2)
        assert hosts.wait_event(1, "attempt_started", 90, count=2)["world_size"] == 1
        there = hosts.on(2).node("node2").journal
        wait_until(lambda: "lead_lost" in there.read_text(), 60, "the second host to miss its leader")
        assert "rank" in hosts.processes(2)
        hosts.made.heal(2)
        assert "continues without this node" in hosts.wait_event(2, "node_finished", 90)["why"]
        assert not set(LIVING[1:]) & set(hosts.processes(2))
        leaderless.go.touch()
        hosts.wait_event(1, "finished", 60)
    hosts.wait_controller_gone(90)
    hosts.assert_mirrored()
    assert read_run(hosts.run).state == "SUCCEEDED"
    assert "done" in hosts.run.attempt(2).rank(0).stdout.read_text()
