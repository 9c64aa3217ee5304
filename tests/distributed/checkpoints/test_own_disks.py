"""Nodes that share no disk: real ranks whose checkpoint directories are different folders."""

import signal
from pathlib import Path

import pytest

from support.ranks.ranked_scenario import scenario

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("per_node", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_every_node_has_its_part_and_a_load_brings_them_together(tmp_path: Path, per_node: int) -> None:
    """Bit-exact at the same size, the same weights at another, and a sentence where a part is bad or gone."""
    outcome = scenario(tmp_path, "own_disks.own_disks", str(per_node))
    world = 2 * per_node
    first, second = outcome["listed"]
    assert {".metadata", "trainer.json", "manifest.json"} <= set(first)
    shards = {f"__{rank}_0.distcp" for rank in range(per_node, world)}
    files = {f"rank_{rank:05d}.pt" for rank in range(per_node, world)}
    assert set(second) == shards | files | {"manifest.json"}
    assert outcome["sound"] == [["step_00000002"]] * 2
    assert outcome["same"] == outcome["saved"]
    assert outcome["other"] == [[outcome["saved"][0][0], "other"]] * (world + 1)
    assert len(set(outcome["damaged"])) == len(set(outcome["lost"])) == 1
    assert ".distcp is damaged" in outcome["damaged"][0]
    assert "was written by node 1 (" in outcome["lost"][0]
    assert f"rank_{world - 1:05d}.pt" in outcome["lost"][0]


def _check_kills(outcome: dict[str, list[list[object]]]) -> None:
    for victim, at, ended, resumed in outcome["outcomes"]:
        assert ended == signal.SIGKILL, (victim, at)
        assert resumed in ([[1, [1.0]]] * 2, [[2, [2.0]]] * 2), (victim, at, resumed)


def test_a_kill_between_the_nodes_commits_loses_nothing(tmp_path: Path) -> None:
    """Whichever node is killed, what the first takes for complete is whole on both."""
    outcome = scenario(tmp_path, "own_disks.killed_on_own_disks", "20261122", "3")
    assert len(outcome["outcomes"]) == 3
    _check_kills(outcome)


@pytest.mark.soak
def test_a_kill_while_copies_are_made_loses_nothing(tmp_path: Path) -> None:
    """The same where each node has a copy of what the other one saves."""
    outcome = scenario(tmp_path, "own_disks.killed_on_own_disks", "20261123", "12", "1", limit=500.0)
    assert len(outcome["outcomes"]) == 12
    _check_kills(outcome)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_kill_at_any_moment_between_nodes_loses_nothing(tmp_path: Path) -> None:
    """The same at every moment of both."""
    _check_kills(scenario(tmp_path, "own_disks.killed_on_own_disks", "1", "all", limit=3500.0))
