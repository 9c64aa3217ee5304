"""Whether nodes have one folder for checkpoints, and what follows for a run that may lose one of them."""

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.values.machines import PYTHON
from support.values.previews import machines
from torchdeck.config.loader import config_from_dict
from torchdeck.config.schema import RunConfig
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan
from torchdeck.launching.preflight.remote.shared import check_parts, disks_of
from torchdeck.launching.prepare import ClusterFacts, plan_from
from torchdeck.nodes.probe.opening import probe_session_here
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession
from torchdeck.plan.check import Check

TABLE = [{"name": "n[0-2]", "gpus": 1}]


@pytest.fixture
def probe_sessions() -> Iterator[dict[str, ProbeSession]]:
    """With three Pythons of this machine, as with three nodes."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(probe_session_here(name, sys.executable)) for name in ("a", "b", "c")
        }


@pytest.mark.processes
def test_nodes_find_out_whether_they_have_one_folder(
    probe_sessions: dict[str, ProbeSession], tmp_path: Path
) -> None:
    """By a file that is gone afterwards; a folder that is to be made stands for what is around it."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    folders = {
        "a": str(tmp_path / "one" / "to" / "make"),
        "b": str(tmp_path / "one" / "to" / "make"),
        "c": str(tmp_path / "other" / "to" / "make"),
    }
    assert disks_of(probe_sessions, folders) == {"a": "a", "b": "a", "c": "c"}
    assert list(tmp_path.rglob("*.mark")) == []


@pytest.mark.processes
def test_some_nodes_may_share_what_the_first_has_not(
    probe_sessions: dict[str, ProbeSession], tmp_path: Path
) -> None:
    (tmp_path / "one").mkdir()
    folders = {"a": str(tmp_path / "one"), "b": str(tmp_path), "c": str(tmp_path)}
    assert disks_of(probe_sessions, folders) == {"a": "a", "b": "b", "c": "b"}
    assert disks_of(probe_sessions, {**folders, "b": "/proc/self/task"})["b"] == "b"
    assert list(tmp_path.rglob("*.mark")) == []


@pytest.mark.processes
def test_a_mark_goes_with_the_conversation(tmp_path: Path) -> None:
    """Whoever laid it may be cut off before it says that it is to be removed."""
    with probe_session_here("a", sys.executable) as probe_session:
        name = probe_session.ask(ProbeRequest.LAY_MARK, 10, folder=str(tmp_path))["name"]
        assert (tmp_path / name).exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.processes
def test_a_folder_that_takes_no_file_is_said(probe_sessions: dict[str, ProbeSession]) -> None:
    """With the node's name."""
    with pytest.raises(ProbeError, match="node a"):
        disks_of(probe_sessions, dict.fromkeys(probe_sessions, "/proc/self/task"))


def made(folder: Path, nodes: Any, spare: int = 0, **checkpoint: Any) -> tuple[RunConfig, LaunchPlan]:
    table = {
        "run": {"recipe": "byte-gpt"},
        "training": {"steps": 1},
        "distributed": {"nodes": nodes, "spare": spare},
        "checkpoint": checkpoint,
        "cluster": {"nodes": TABLE},
    }
    config = config_from_dict(table, folder)
    inventory = machines(3, 1, "n{}")
    pythons = {node.name: PYTHON for node in inventory}
    return config, plan_from(config, ClusterFacts(inventory, pythons, {}, CodeTree(), ()))


def told(config: RunConfig, plan: LaunchPlan, **beside: bool) -> list[Check]:
    disks = {node: "n0" if seen else node for node, seen in beside.items()}
    return list(check_parts(config, plan, {"n0": "n0", **disks}))


def test_a_run_that_may_lose_a_node_needs_a_shared_folder(tmp_path: Path) -> None:
    """The node whose part would be missing is named, with both ways out."""
    config, plan = made(tmp_path, "2:3", every=10)
    fine, bad = told(config, plan, n1=True, n2=False)
    assert fine.status == "ok"
    assert (bad.node, bad.status) == ("n2", "failed")
    assert 'distributed.nodes = "2:3"' in bad.what
    assert "checkpoint.directory" in bad.fix
    assert "checkpoint.replicas = 1" in bad.fix


def test_without_checkpoints_on_the_way_it_is_a_warning(tmp_path: Path) -> None:
    """There is none to continue from, and none that could not be read, until someone stops the run."""
    (check,) = told(*made(tmp_path, "2:3"), n1=False)
    assert check.status == "warning"


def test_nodes_that_all_stay_may_have_disks_of_their_own(tmp_path: Path) -> None:
    """They bring their parts together; neither a list of nodes nor fewer ranks leaves one out."""
    for nodes in (["n0", "n1", "n2"], "3:3"):
        (check,) = told(*made(tmp_path, nodes, every=10), n2=False)
        assert check.status == "ok", nodes
    config, plan = made(tmp_path, "2:3", every=10)
    fewer_ranks = tuple(dataclasses.replace(size, nodes=3, nproc=1) for size in plan.smaller)
    (check,) = told(config, dataclasses.replace(plan, smaller=fewer_ranks), n2=False)
    assert check.status == "ok"


def test_a_copy_on_another_node_is_as_good_as_a_shared_folder(tmp_path: Path) -> None:
    """With a range, and with a spare, which needs one of them as well."""
    for nodes, spare in (("2:3", 0), (["n0", "n1", "n2"], 1)):
        (bad,) = told(*made(tmp_path, nodes, spare, every=10), n1=False)
        assert (bad.node, bad.status) == ("n1", "failed"), nodes
        (fine,) = told(*made(tmp_path, nodes, spare, every=10, replicas=1), n1=False)
        assert (fine.status, fine.what[-27:]) == ("ok", "with a copy on another node"), nodes


def test_a_spare_must_have_the_folder_that_the_others_share(tmp_path: Path) -> None:
    """Copies are made between nodes with disks of their own alone."""
    config, plan = made(tmp_path, ["n0", "n1", "n2"], 1, every=10, replicas=1)
    fine, bad = told(config, plan, n1=True, n2=False)
    assert (fine.status, bad.node, bad.status) == ("ok", "n2", "failed")
    assert "in which the others save checkpoints" in bad.what
