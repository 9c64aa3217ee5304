"""Deleting a run in two steps, so that it can be undone in between."""

import time
from pathlib import Path

import pytest

from support import machines
from support.histories import agent_started, controller_journal, ended, event, finished, started
from support.made_runs import make_run
from torchdeck.rundir.processes import ProcessIdentity
from torchdeck.runs.deletion import FORGOTTEN, StillAliveError, put_back, remove, remove_forgotten, set_aside
from torchdeck.runs.node_parts import left_on_nodes
from torchdeck.runs.registry import RunRegistry

DONE = [agent_started(), started(), ended(), finished()]


def test_a_run_set_aside_is_no_run_and_can_be_put_back(tmp_path: Path) -> None:
    layout = make_run(tmp_path, controller_journal(), DONE)
    aside = set_aside(layout)
    assert RunRegistry(tmp_path).ids() == []
    assert put_back(aside) == layout
    assert RunRegistry(tmp_path).ids() == [layout.root.name]


def test_what_lives_is_not_set_aside(tmp_path: Path) -> None:
    myself = ProcessIdentity.of(1)
    assert myself is not None
    alive = event("controller_started", identity=myself.to_json(), epoch=1)
    layout = make_run(tmp_path, [*controller_journal(), alive])
    with pytest.raises(StillAliveError, match="stop it first"):
        set_aside(layout)
    assert layout.root.exists()


@pytest.mark.parametrize("on_nodes", [True, False])
def test_what_its_nodes_have_is_noted_before_it_is_gone(tmp_path: Path, *, on_nodes: bool) -> None:
    """So that a deletion that is cut short can be carried on; unless only what is here is to go."""
    nodes = {"nodes": ["localhost", "a"]}
    plan = machines.plan(machines.config(distributed=nodes), *map(machines.node, nodes["nodes"]))
    layout = make_run(tmp_path, controller_journal(), DONE, plan=plan.document())
    remove(set_aside(layout), on_nodes=on_nodes)
    assert not layout.root.exists()
    assert left_on_nodes(tmp_path) == ({"a": (layout.root.name,)} if on_nodes else {})


def test_what_nobody_removed_is_removed_after_a_while(tmp_path: Path) -> None:
    aside = set_aside(make_run(tmp_path, controller_journal(), DONE))
    foreign = tmp_path / "runs" / ".deleted-something"
    foreign.mkdir()
    assert remove_forgotten(tmp_path) == []
    assert remove_forgotten(tmp_path, time.time() + FORGOTTEN + 1) == [aside]
    assert not aside.exists()
    assert foreign.exists()
