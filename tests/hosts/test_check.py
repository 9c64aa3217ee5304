"""`torchdeck check` of real hosts: the matrix, a trial of torchrun, and files that nodes must see."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli.command import Command
from support.hosts.hosts import TestHosts
from support.waiting import wait_until
from torchdeck.config.loader import load_config
from torchdeck.contract.processes import RUN_ID_VARIABLE
from torchdeck.launching.facts.fact_sources import FactSources
from torchdeck.launching.preflight.remote.further import check_further
from torchdeck.launching.preflight.remote.trial import Limits, Waiting
from torchdeck.launching.prepare import cluster_facts, plan_from
from torchdeck.nodes.connector import Connector

HostsOf = Callable[..., TestHosts]
RUN = """\
[run]
script = "train.py"
{more}
[distributed]
nodes = ["node1", "node2"]
nproc = 1
devices = "cpu"
backend = "gloo"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pytest.importorskip("torch")
    made = tmp_path / "work"
    made.mkdir()
    (made / "train.py").write_text("print(1)\n")
    return made


def run_file(folder: Path, more: str = "") -> Path:
    path = folder / "run.toml"
    path.write_text(RUN.format(more=more))
    return path


def with_inventory(made: TestHosts, home: Path) -> Command:
    (home / "nodes.toml").write_text(made.nodes_toml())
    return Command(home)


def checks(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    return list(json.loads(done.stdout)["checks"])


def named(found: list[dict[str, Any]], name: str) -> dict[str, str]:
    """Node → what was said of it."""
    return {check["node"]: check["what"] for check in found if check["name"] == name}


def test_torchrun_is_tried_once_and_remembered(hosts: HostsOf, torchdeck_home: Path, folder: Path) -> None:
    """Both nodes reduce together; nothing is left there; an unchanged set is not measured again."""
    made = hosts(2)
    command = with_inventory(made, torchdeck_home)
    path = run_file(folder)
    first = command.run("check", path, "--json")
    assert first.returncode == 0, first.stdout + first.stderr
    said = named(checks(first), "all-reduce")
    assert set(said) == {"node1", "node2"}
    assert "2 ranks over gloo" in said["node1"]
    assert "ago" not in said["node1"]
    assert not left_over(made)
    again = command.run("check", path)
    assert again.returncode == 0, again.stdout
    assert "Ready to launch" in again.stdout
    heading = again.stdout.splitlines()[0].split()
    assert heading[:3] == ["CHECK", "node1", "node2"]
    row = next(line.split() for line in again.stdout.splitlines() if line.startswith("all-reduce"))
    assert row == ["all-reduce", "ok", "ok"]
    assert "trying torchrun" in again.stderr
    assert "ago" in named(checks(command.run("check", path, "--json")), "all-reduce")["node2"]
    assert not named(checks(command.run("check", path, "--json", "--quick")), "all-reduce")


def left_over(made: TestHosts) -> list[str]:
    """Processes and folders of trials on the hosts."""
    found = []
    for host in range(1, made.count + 1):
        for pid in made.pids(host):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            if "torchdeck-trial-" in words:
                found.append(words)
    return found


def ranks_on(made: TestHosts, host: int) -> list[int]:
    found = []
    for pid in made.pids(host):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        script = any(word.endswith(b"/rank.py") for word in words)
        if script and b"LOCAL_RANK=" in environ and RUN_ID_VARIABLE.encode() in environ:
            found.append(pid)
    return found


def test_a_node_that_hangs_is_named_and_ended(hosts: HostsOf, torchdeck_home: Path, folder: Path) -> None:
    """Its rank is stopped in mid-start: the other waits, and the one to blame is said within the limit."""
    made = hosts(2)
    with_inventory(made, torchdeck_home)
    config = load_config(run_file(folder)).config
    connector = Connector(torchdeck_home)
    found = cluster_facts(config, looks=FactSources(torchdeck_home, connector))
    plan = plan_from(config, found)

    def stop_rank() -> None:
        (pid,) = wait_until(lambda: ranks_on(made, 2), 60, "the second node's rank")[:1]
        os.kill(pid, signal.SIGSTOP)

    stopper = threading.Thread(target=stop_rank)
    stopper.start()
    (check,) = check_further(plan, found, connector, [], limits=Limits(imports=12.0, stuck=4.0))
    stopper.join(60)
    assert (check.status, check.node) == ("failed", "node2")
    assert str(check).startswith("node node2: no progress for ")
    assert not left_over(made)


class CancelledError(Exception):
    """Raised as by a window whose user has cancelled."""


def test_a_cancelled_trial_leaves_nothing(hosts: HostsOf, torchdeck_home: Path, folder: Path) -> None:
    """CancelledError once ranks run on both nodes; it says before what it waits for."""
    made = hosts(2)
    with_inventory(made, torchdeck_home)
    config = load_config(run_file(folder)).config
    connector = Connector(torchdeck_home)
    found = cluster_facts(config, looks=FactSources(torchdeck_home, connector))
    plan = plan_from(config, found)
    said: list[str] = []

    def cancel() -> None:
        if ranks_on(made, 1) and ranks_on(made, 2):
            raise CancelledError

    with pytest.raises(CancelledError):
        check_further(plan, found, connector, [], waiting=Waiting(said.append, cancel))
    assert set(said) & {"starting torchrun", "starting ranks"}
    assert not left_over(made)


def three_nodes(folder: Path) -> Path:
    path = run_file(folder)
    path.write_text(path.read_text().replace('"node2"', '"node2", "node3"'))
    return path


def network_of(made: TestHosts, rate: str, *hosts: int) -> None:
    """Slower than the processors are when other programs have them, too."""
    for host in hosts:
        made.slow_down(host, rate)


@pytest.mark.soak  # the speeds are those of a busy machine; tests/distributed/trial judges speeds by values
def test_a_slow_link_is_named(hosts: HostsOf, torchdeck_home: Path, folder: Path) -> None:
    """Both its ends are; the third node, which is fast with both, is not."""
    made = hosts(3)
    command = with_inventory(made, torchdeck_home)
    network_of(made, "60mbit", 1, 3)
    made.slow_down(2, "2mbit", target=3, others="60mbit")
    done = command.run("check", three_nodes(folder), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {check["node"]: check for check in checks(done) if check["name"] == "pairs"}
    assert {node: check["status"] for node, check in found.items()} == {
        "node1": "ok",
        "node2": "warning",
        "node3": "warning",
    }, found
    assert found["node2"]["what"].startswith("slow with node3 only: ")
    assert found["node3"]["what"].startswith("slow with node2 only: ")
    assert "3 pairs exchange" in found["node1"]["what"]
    assert not left_over(made)


@pytest.mark.soak
def test_a_slow_node_is_named(hosts: HostsOf, torchdeck_home: Path, folder: Path) -> None:
    made = hosts(4)
    command = with_inventory(made, torchdeck_home)
    network_of(made, "60mbit", 1, 2, 4)
    made.slow_down(3, "2mbit")
    path = three_nodes(folder)
    path.write_text(path.read_text().replace('"node3"', '"node3", "node4"'))
    done = command.run("check", path, "--json")
    found = {check["node"]: check for check in checks(done) if check["name"] == "pairs"}
    assert {node for node, check in found.items() if check["status"] == "warning"} == {"node3"}
    assert found["node3"]["what"].startswith("slow with other nodes: ")


@pytest.mark.soak
def test_a_blocked_port_is_said_in_seconds(hosts: HostsOf, torchdeck_home: Path, folder: Path) -> None:
    """What torchrun would take a quarter of an hour for; nothing is started then."""
    made = hosts(2)
    command = with_inventory(made, torchdeck_home)
    made.block_port(2, "1024-65535", sender=made.address(1))
    done = command.run("check", run_file(folder))
    assert done.returncode == 3
    red = [line for line in done.stdout.splitlines() if line.startswith("failed ")]
    assert any("node2: connections: node1 cannot connect" in line for line in red)
    assert "not tried" in done.stdout


def test_files_that_nodes_do_not_see_are_refused(hosts: HostsOf, torchdeck_home: Path, folder: Path) -> None:
    """sync = "none": the hosts see this machine's files, until one of them has a folder of its own there."""
    made = hosts(2)
    command = with_inventory(made, torchdeck_home)
    path = run_file(folder, 'sync = "none"')
    fine = command.run("check", path, "--json", "--quick")
    assert fine.returncode == 0, fine.stdout
    assert set(named(checks(fine), "shared files")) == {"node1", "node2"}
    made.enter(2, ["mount", "-t", "tmpfs", "none", str(folder)])
    made.enter(2, ["sh", "-c", f"echo 'print(1)' > {folder}/train.py"])
    refused = command.run("check", path, "--json", "--quick")
    assert refused.returncode == 3
    bad = [check for check in checks(refused) if check["status"] == "failed"]
    assert {check["node"] for check in bad} == {"node2"}
    assert "a file that was just written next to what runs" in bad[0]["what"]
    assert "run.sync" in bad[0]["fix"]
    made.enter(2, ["sh", "-c", f"echo 'print(2)' > {folder}/train.py"])
    other = [
        check
        for check in checks(command.run("check", path, "--json", "--quick"))
        if check["status"] == "failed"
    ]
    assert any("different content" in check["what"] for check in other)
    assert [file.name for file in folder.iterdir() if file.name.startswith(".torchdeck")] == []
