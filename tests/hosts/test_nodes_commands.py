"""`torchdeck nodes probe`, `monitor` and `clean` as a person uses them, with real hosts."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support.cli.command import Command
from support.hosts.hosts import TestHosts
from support.waiting import wait_until
from torchdeck.contract.processes import RUN_ID_VARIABLE

HostsOf = Callable[..., TestHosts]


def with_inventory(made: TestHosts, home: Path) -> Command:
    (home / "nodes.toml").write_text(made.nodes_toml())
    return Command(home)


def leave_orphan(made: TestHosts, host: int, run_id: str) -> None:
    """A process on the host that carries the id of a run that no one looks after."""
    line = f"{RUN_ID_VARIABLE}={run_id} RANK=3 setsid sleep 600 </dev/null >/dev/null 2>&1 & echo done"
    made.enter(host, ["bash", "-c", line])


def test_nodes_are_probed_and_cleaned(hosts: HostsOf, torchdeck_home: Path) -> None:
    """What answers is in the table, what does not below it; orphans are named, and ended only when agreed."""
    made = hosts(2)
    command = with_inventory(made, torchdeck_home)
    leave_orphan(made, 1, "dead-run")
    made.power_off(2)
    shown = command.run("nodes", "probe")
    assert shown.returncode == 3
    row = next(line for line in shown.stdout.splitlines() if line.startswith("node1"))
    assert "up" in row
    assert "dead-run" in shown.stdout
    assert "node node2" in shown.stdout
    assert "torchdeck nodes clean node1" in shown.stdout

    full = command.run("nodes", "probe", "node1").stdout
    assert full.startswith("node1 is up")
    assert f"{made.interface(1)}: {made.address(1)}" in full
    assert "dead-run of root, pids" in full
    assert "runs use this one" in full

    found = json.loads(command.run("nodes", "probe", "node1", "--json").stdout)
    assert [node["reached"] for node in found] == [True]
    assert found[0]["orphans"] == ["dead-run"]
    assert found[0]["facts"]["system"]["host"] == made.name(1)

    asked = command.run("nodes", "clean", "node1")
    assert asked.returncode == 3
    assert "run dead-run of root: pid" in asked.stderr
    assert command.json("nodes", "probe", "node1")[0]["orphans"] == ["dead-run"]

    ended = command.json("nodes", "clean", "node1", "--yes")
    assert [(node["node"], node["ended"]) for node in ended["nodes"]] == [("node1", {"dead-run": 1})]
    assert command.json("nodes", "probe", "node1")[0]["orphans"] == []
    assert "nothing is left" in command.run("nodes", "clean", "node1").stdout
    # the other node cannot be inspected, and that is said
    both = command.run("nodes", "clean")
    assert both.returncode == 3
    assert "node node2" in both.stderr


def lines_of(process: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def until(lines: Iterator[dict[str, Any]], node: str, state: str, seconds: float) -> dict[str, Any]:
    limit = time.monotonic() + seconds
    for line in lines:
        if (line["node"], line["state"]) == (node, state):
            return line
        assert time.monotonic() < limit, f"{node} is not {state} after {seconds} s"
    raise AssertionError("the monitor has ended")


def test_a_lost_node_comes_back_in_the_monitor(hosts: HostsOf, torchdeck_home: Path) -> None:
    """Samples of both; one is cut, the other continues; it is healed and heard of again; Ctrl-C ends it."""
    made = hosts(2)
    command = with_inventory(made, torchdeck_home)
    with command.start("nodes", "monitor", "--interval", "0.5", "--json") as process:
        lines = lines_of(process)
        first = until(lines, "node1", "up", 30)
        assert first["values"]["memory_total_bytes"] > 0
        until(lines, "node2", "up", 30)
        made.cut(1)
        lost = until(lines, "node1", "lost", 30)
        assert "node1" in lost["why"]
        assert until(lines, "node2", "up", 10)["values"]
        made.heal(1)
        back = until(lines, "node1", "up", 60)
        assert back["since"] > lost["since"]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    wait_until(lambda: not python_on(made, 1), 30, "nothing of the monitor to be left on the node")


def python_on(made: TestHosts, host: int) -> list[str]:
    """Pythons on the host that answer questions."""
    listed = made.enter(host, ["ps", "-eo", "args"]).stdout.splitlines()
    return [line for line in listed if "importlib.abc" in line]


def test_the_monitor_shows_a_table(hosts: HostsOf, torchdeck_home: Path) -> None:
    made = hosts(1)
    command = with_inventory(made, torchdeck_home)
    with command.start("nodes", "monitor", "node1", "--interval", "0.3") as process:
        assert process.stdout is not None
        limit = time.monotonic() + 30
        seen = ""
        for line in process.stdout:
            seen += line
            if "up" in line.split() and "%" in line:
                break
            assert time.monotonic() < limit, seen
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == 0
