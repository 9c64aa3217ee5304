"""A run of two hosts met from another machine, and what is left of one whose supervisors are all dead."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli.command import Command
from support.hosts.hosts_run import HostsRun
from support.waiting import wait_until
from torchdeck.contract.layout import RunLayout

AcrossOf = Callable[..., HostsRun]
SCRIPT = """\
import os, sys, time
from pathlib import Path
rank, go = os.environ["RANK"], Path(sys.argv[1])
Path(f"made-by-{rank}.txt").write_text("x" * 100 + rank)
step = 0
while not go.exists():
    print("step", step, flush=True)
    step += 1
    time.sleep(0.1)
print("rank", rank, "is done", flush=True)
"""
RUN = """\
[run]
script = "train.py"
args = ["{go}"]
[distributed]
nodes = ["node1", "node2"]
nproc = 1
devices = "cpu"
backend = "gloo"
"""


def write(folder: Path, go: Path) -> Path:
    """A script of which each rank prints until `go` is there."""
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    (folder / "run.toml").write_text(RUN.format(go=go))
    return folder / "run.toml"


def other_machine(hosts: HostsRun, folder: Path) -> Command:
    """A home that knows the nodes and no run."""
    folder.mkdir(mode=0o700)
    for name in ("nodes.toml", "known_hosts"):
        shutil.copy(hosts.command.home / name, folder / name)
    return Command(folder)


def files_of(layout: RunLayout, hosts: HostsRun, host: int) -> dict[str, bytes]:
    """Rank output and journal of a host, as they are in `layout`."""
    rank = layout.attempt(1).rank(host - 1)
    node = layout.node(f"node{host}")
    return {str(path.relative_to(layout.root)): path.read_bytes() for path in (rank.stdout, node.journal)}


def test_a_run_is_attached_to_from_another_machine(across: AcrossOf, tmp_path: Path) -> None:
    """By any of its nodes: all of it is there, it is followed to its end, and what it made can be pulled."""
    hosts = across(2)
    started = hosts.command.run("--no-gui", "--detach", write(tmp_path / "work", tmp_path / "go"))
    assert started.returncode == 0, started.stderr
    run_id = hosts.run.root.name
    wait_until(lambda: hosts.run.attempt(1).rank(1).stdout.is_file(), 60, "the ranks' output")
    os.kill(hosts.controller(), signal.SIGKILL)

    elsewhere = other_machine(hosts, tmp_path / "other home")
    refused = elsewhere.run("runs", "attach", "--node", "node2", "20200101")
    assert refused.returncode == 3
    assert run_id in refused.stderr
    with elsewhere.start("runs", "attach", "--node", "node2", run_id[:20]) as front:
        assert front.stdout is not None
        assert any("step" in line for line in front.stdout), "it ended without a line of the ranks"
        (tmp_path / "go").touch()
        output, _ = front.communicate(timeout=120)
        assert front.returncode == 0, output
    assert "rank 1 is done" in output
    (there,) = elsewhere.runs()
    for host in (1, 2):
        assert files_of(there, hosts, host) == files_of(hosts.on(host), hosts, host)
    shown = elsewhere.json("runs", "show", run_id)
    assert shown["state"] == "SUCCEEDED"
    # it is over: the same once more shows it from what is here, and begins nothing
    assert elsewhere.run("runs", "attach", "--node", "node1", "latest").returncode == 0
    hosts.wait_empty()

    pulled = elsewhere.json("runs", "pull", run_id)
    assert [(each["what"], each["new"]) for each in pulled["pulled"]] == [("node1", True), ("node2", True)]
    for rank in (0, 1):
        made = there.root / "pulled" / f"node{rank + 1}" / "code" / f"made-by-{rank}.txt"
        assert made.read_text() == "x" * 100 + str(rank)
    assert [each["new"] for each in elsewhere.json("runs", "pull", run_id)["pulled"]] == [False, False]


@pytest.mark.soak
def test_a_run_is_stopped_from_another_machine(across: AcrossOf, tmp_path: Path) -> None:
    """A request from there reaches the leader, and the run ends on both nodes."""
    hosts = across(2)
    started = hosts.command.run("--no-gui", "--detach", write(tmp_path / "work", tmp_path / "never"))
    assert started.returncode == 0, started.stderr
    wait_until(lambda: hosts.run.attempt(1).rank(1).stdout.is_file(), 60, "the ranks' output")
    elsewhere = other_machine(hosts, tmp_path / "other home")
    with elsewhere.start("runs", "attach", "--node", "node1", "latest") as front:
        wait_until(lambda: [run for run in elsewhere.runs() if run.journal.exists()], 60, "the run there")
        stopped = elsewhere.run("runs", "stop", "--now", "latest")
        assert stopped.returncode == 0, stopped.stderr
        output, _ = front.communicate(timeout=60)
        assert front.returncode == 130, output
    hosts.wait_empty()


@pytest.mark.soak
def test_ranks_without_anybody_are_told_and_ended(across: AcrossOf, tmp_path: Path) -> None:
    """Controller, agents and shims are killed for good; what they leave carries the run's id."""
    hosts = across(2)
    started = hosts.command.run("--no-gui", "--detach", write(tmp_path / "work", tmp_path / "never"))
    assert started.returncode == 0, started.stderr
    run_id = hosts.run.root.name
    wait_until(lambda: hosts.run.attempt(1).rank(1).stdout.is_file(), 60, "the ranks' output")
    os.kill(hosts.controller(), signal.SIGKILL)
    for host in (1, 2):
        found = hosts.processes(host)
        for pid in found["agent"] + found["holder"]:
            os.kill(pid, signal.SIGSTOP)  # neither starts the other again
        for pid in found["agent"] + found["holder"]:
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: "agent" not in hosts.processes(1), 20, "the agents to be gone")

    probed = hosts.command.json("nodes", "probe")
    assert [node["orphans"] for node in probed] == [[run_id], [run_id]]
    assert {rank for node in probed for run in node["facts"]["runs"] for rank in run["ranks"]} == {0, 1}
    cleaned = hosts.command.json("nodes", "clean", "--yes")
    assert all(node["ended"][run_id] >= 2 for node in cleaned["nodes"]), cleaned
    assert cleaned["problems"] == []
    hosts.wait_empty()
    assert [node["orphans"] for node in hosts.command.json("nodes", "probe")] == [[], []]


def test_attaching_says_what_is_missing(across: AcrossOf, tmp_path: Path) -> None:
    """A node that no one knows, and one that has no run."""
    elsewhere = other_machine(across(1), tmp_path / "other home")
    unknown = elsewhere.run("runs", "attach", "--node", "nodeX", "latest")
    assert unknown.returncode == 2
    assert "nodeX" in unknown.stderr
    none = elsewhere.run("runs", "attach", "--node", "node1", "latest")
    assert none.returncode == 3
    assert "there is no run 'latest' on node node1" in none.stderr
