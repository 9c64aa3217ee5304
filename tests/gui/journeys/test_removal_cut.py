"""The window is closed while it removes a deleted run from its nodes, one of which is cut off."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.gui.desktop import Desktop
from support.hosts.hosts import TestHosts
from support.hosts.hosts_run import HOME, write_inventory
from support.values import machines
from support.values.histories import agent_started, controller_journal, ended, finished, started
from support.values.made_runs import IDS, make_run
from support.waiting import wait_until
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.node_parts import left_on_nodes

RUN = IDS[0]
DONE = [agent_started(), started(), ended(), finished()]


@pytest.mark.soak
def test_a_removal_that_the_windows_end_cuts_short_goes_on_in_the_next(
    screen: Desktop, hosts: Callable[..., TestHosts], torchdeck_home: Path, tmp_path: Path
) -> None:
    """It closes at once; what is left is written down until it is gone."""
    made = hosts(2)
    write_inventory(made, torchdeck_home, {})
    names = {"nodes": ["node1", "node2"]}
    plan = machines.plan(machines.config(distributed=names), *map(machines.node, names["nodes"]))
    make_run(torchdeck_home, controller_journal(), DONE, plan=plan.document())
    parts = [RunLayout(made.home(host) / HOME / "runs" / RUN).root for host in (1, 2)]
    for part in parts:
        part.mkdir(parents=True)
    made.cut(1)
    with screen.window(tmp_path) as window:
        window.settle()
        window.key("ctrl+2")
        window.wait("✓ succeeded | gpt", "Row")
        window.click("Runs", "_RunView")
        window.key("ctrl+a", "Delete")
        window.wait("Delete ")
        window.key("Return")
        window.wait("Undo the deletion")
        window.key("ctrl+k")
        window.type("Deleted runs")
        window.key("Return")
        window.click("Empty …", "QPushButton")
        window.click("Remove", "QPushButton")
        wait_until(lambda: not parts[1].exists(), 60, "the node that is reached to be rid of it")
        window.key("ctrl+q")
        wait_until(lambda: window.process.poll() is not None, 15, "the window to close")
        assert (window.process.returncode, window.said) == (0, "")
    assert "node1" in left_on_nodes(torchdeck_home)
    assert parts[0].exists()
    made.heal(1)
    with screen.window(tmp_path) as window:
        wait_until(lambda: not left_on_nodes(torchdeck_home), 60, "the rest to be removed")
        assert not parts[0].exists()
        assert window.said == ""
