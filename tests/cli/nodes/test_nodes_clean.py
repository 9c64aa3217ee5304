"""What `torchdeck nodes clean` shows, by what nodes said of themselves; real ones stand in tests/hosts."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.values.made_runs import IDS
from support.values.node_facts import node_facts
from torchdeck.cli.nodes import clean as nodes_clean
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.file import inventory_path
from torchdeck.nodes.probe.facts import NodeFacts
from torchdeck.nodes.probe.opening import LocalProcess
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession
from torchdeck.runs.folders.node_parts import left_on_nodes, note_left
from torchdeck.use_cases.nodes.chosen import ChosenNodes
from torchdeck.use_cases.nodes.clean import orphans_once

pytestmark = pytest.mark.processes


def left(run_id: str, *pids: int) -> dict[str, Any]:
    said = {"run_id": run_id, "directory": "/r", "ranks": [], "user": "me", "supervised": False}
    return {**said, "processes": pids}


def test_processes_of_a_host_with_several_names_are_shown_once() -> None:
    """By its first name; another host may have the same pids, and what only one name showed is kept."""
    system = {"host": "b", "os": "", "kernel": "", "machine": "", "boot": "other", "user": "me"}
    facts = {
        "n1": node_facts(runs=[left("dead", 7, 8)]),
        "again": node_facts(runs=[left("dead", 7, 8), left("later", 9)]),
        "n2": node_facts(system=system, runs=[left("dead", 7, 8)]),
        "idle": node_facts(),
    }
    found = orphans_once(facts)
    assert {name: [run.run_id for run in runs] for name, runs in found.items()} == {
        "n1": ["dead"],
        "again": ["later"],
        "n2": ["dead"],
    }


def test_containers_of_one_host_are_not_taken_for_one() -> None:
    """They share its boot, and each has a pid 7 of its own."""
    box = {"os": "", "kernel": "", "machine": "", "boot": "b", "user": "me"}
    facts = {
        name: node_facts(system={**box, "host": name}, runs=[left("dead", 7)]) for name in ("box1", "box2")
    }
    assert list(orphans_once(facts)) == ["box1", "box2"]


class Probed(NamedTuple):
    node: str
    facts: NodeFacts | None
    error: str = ""


class Mute(ProbeSession):
    """With a node that does whatever it is asked, and does not say which folders it has."""

    def ask(self, what: ProbeRequest, limit: float, /, **fields: Any) -> Mapping[str, Any]:
        if what == "run_folders":
            raise ProbeError(f"n2 did not answer 'run_folders' within {limit:g} s")
        return super().ask(what, limit, **fields)


class Cleaning:
    """`nodes clean` of the nodes n1 and n2, which are two names of one home on this machine."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mute: set[str] = set()
        """Names of nodes."""
        self.home, self.there = folder / "mine", folder / "there"
        self.home.mkdir(mode=0o700)
        lines = (f'[nodes.{name}]\naddress = "10.0.0.1"\nhome = "{self.there}"\n' for name in ("n1", "n2"))
        inventory_path(self.home).write_text("".join(lines))
        connector = Connector(self.home, talking=self._talking)
        chosen = ChosenNodes(connector, dict(connector.node_inventory().nodes))
        probed = [Probed(name, node_facts()) for name in chosen.entries]
        monkeypatch.setattr(nodes_clean, "nodes_home", lambda: self.home)
        monkeypatch.setattr("torchdeck.use_cases.nodes.chosen.choose_nodes", lambda *_: chosen)
        monkeypatch.setattr("torchdeck.use_cases.nodes.clean.probe", lambda _chosen: probed)

    @contextmanager
    def _talking(self, name: str, *_arguments: Any) -> Iterator[ProbeSession]:
        with closing(LocalProcess(sys.executable)) as process:
            yield (Mute if name in self.mute else ProbeSession)(process, name)

    def lay(self, run_id: str, noted: Sequence[str]) -> Path:
        layout = RunLayout(self.there / "runs" / run_id)
        layout.checkpoints.mkdir(parents=True)
        note_left(self.home, run_id, noted)
        return layout.root

    def run(self, *, yes: bool = True, as_json: bool = False) -> int:
        return nodes_clean.run(argparse.Namespace(nodes=[], yes=yes, json=as_json))


@pytest.fixture
def cleaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cleaning:
    return Cleaning(tmp_path, monkeypatch)


def test_nothing_is_removed_that_was_not_shown_by_whatever_name_it_was_noted(
    cleaning: Cleaning, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder noted under the second name of a host is asked for, and goes when that is agreed to."""
    deleted, unknown = cleaning.lay(IDS[0], ["n2"]), cleaning.lay(IDS[1], [])
    assert cleaning.run(yes=False) == 3
    assert f"n2: run {IDS[0]}" in capsys.readouterr().err
    assert deleted.exists()
    assert cleaning.run() == 0
    said = capsys.readouterr().out
    assert f"n2: removed run {IDS[0]}" in said
    assert f"n1: run {IDS[1]}" in said
    assert [deleted.exists(), unknown.exists()] == [False, True]
    assert left_on_nodes(cleaning.home) == {}


def test_what_a_node_does_not_list_stays_there(
    cleaning: Cleaning, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though it is noted: no one has seen what would go."""
    folder = cleaning.lay(IDS[0], ["n2"])
    cleaning.mute.add("n2")
    assert cleaning.run() == 3
    assert "within 60 s" in capsys.readouterr().err
    assert folder.exists()
    assert left_on_nodes(cleaning.home) == {"n2": (IDS[0],)}


def test_json_tells_what_was_removed_from_what_stays(
    cleaning: Cleaning, capsys: pytest.CaptureFixture[str]
) -> None:
    """And why that does."""
    cleaning.lay(IDS[0], ["n1"])
    cleaning.lay(IDS[1], [])
    assert cleaning.run(as_json=True) == 0
    folders = json.loads(capsys.readouterr().out)["folders"]
    assert [(each["run_id"], each["removed"]) for each in folders] == [(IDS[0], True), (IDS[1], False)]
    assert [each["why"] for each in folders] == ["", "it is unknown here, and another machine may use it"]
