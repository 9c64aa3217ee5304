"""What nodes have of a run that is deleted: Pythons of this machine stand in for theirs."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.values.made_runs import IDS
from torchdeck.agent.probe.run_folders import remove_runs, run_folders
from torchdeck.agent.snapshots.folder import make_from_store, store_of
from torchdeck.agent.snapshots.manifest import Entry, Manifest
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.lock_file import try_lock
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.launching.node_deletion import delete_noted, delete_on_nodes, delete_runs
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.file import inventory_path
from torchdeck.nodes.probe.opening import LocalProcess, probe_session_here
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession
from torchdeck.nodes.ssh.errors import UnreachableError
from torchdeck.runs.folders.node_parts import left_on_nodes, note_left
from torchdeck.use_cases.delete import find_leftovers

pytestmark = pytest.mark.processes

RUN = IDS[0]


@contextmanager
def talking(name: str, *_arguments: Any) -> Iterator[ProbeSession]:
    if name == "away":
        raise UnreachableError("away", "node away: 10.0.0.9 does not answer")
    with probe_session_here(name, sys.executable) as probe_session:
        yield probe_session


@pytest.fixture
def connector(tmp_path: Path) -> Connector:
    home = tmp_path / "mine"
    home.mkdir(mode=0o700)
    nodes = "".join(
        f'[nodes.{name}]\naddress = "10.0.0.1"\nhome = "{tmp_path / name}"\n\n'
        for name in ("n1", "n2", "away")
    )
    nodes += f'[nodes.again]\naddress = "10.0.0.1"\nhome = "{tmp_path / "n1"}"\n'
    inventory_path(home).write_text(nodes)
    return Connector(home, talking=talking)


def made(home: Path, run_id: str = RUN, *own: bytes) -> RunLayout:
    """A run of a node with a copy of code: a file that all runs have, and its own."""
    layout = RunLayout(home / "runs" / run_id)
    layout.checkpoints.mkdir(parents=True)
    store, entries = store_of(home), []
    for number, content in enumerate((b"print(1)\n", *own)):
        entries.append(Entry(f"{number}.py", hashlib.sha256(content).hexdigest(), len(content)))
        store.put(entries[-1].blob, content)
    make_from_store(layout, Manifest(tuple(entries)), store)
    return layout


def kept(home: Path) -> int:
    """Contents in the store of a home."""
    return sum(path.is_file() for path in (home / "code/blobs").rglob("*"))


def test_the_folder_goes_on_each_node_and_other_runs_stay(connector: Connector, tmp_path: Path) -> None:
    """Who has nothing of it says so; who is not reached is named with the command for later."""
    layout, other = made(tmp_path / "n1", RUN, b"own"), made(tmp_path / "n1", IDS[1])
    assert kept(tmp_path / "n1") == 2
    (tmp_path / "n2").mkdir()
    told = delete_on_nodes(RUN, ("n1", "n2", "away", "gone"), connector)
    assert [str(each) for each in told[:2]] == ["node n1: removed", "node n2: already absent"]
    assert "10.0.0.9 does not answer" in str(told[2])
    assert f"torchdeck runs delete {RUN} --node away" in str(told[2])
    assert "not in the node inventory" in told[3].why
    assert not layout.root.exists()
    assert kept(tmp_path / "n1") == 1
    assert (other.code / "0.py").read_bytes() == b"print(1)\n"
    assert sorted(path.name for path in (tmp_path / "n1/runs").iterdir()) == [IDS[1]]


def test_nothing_goes_while_a_process_of_the_run_lives_there(connector: Connector, tmp_path: Path) -> None:
    """It is known by the run's id in its environment."""
    run_id = f"{RUN[:-6]}{os.getpid() % 2**24:06x}"  # other tests have runs of one id, and nothing that lives
    layout = made(tmp_path / "n1", run_id)
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "TORCHDECK_RUN_ID": run_id}) as process:
        try:
            (told,) = delete_on_nodes(run_id, ("n1",), connector)
        finally:
            process.kill()
    assert not told.removed
    assert f"processes of the run are alive there: pid {process.pid}" in told.why
    assert layout.root.is_dir()
    (told,) = delete_on_nodes(run_id, ("n1",), connector)
    assert told.removed


def test_a_deletion_that_was_cut_short_is_carried_on(connector: Connector, tmp_path: Path) -> None:
    """What was noted is removed and forgotten; not of a node that is away, nor a run that is here again."""
    here = made(connector.home, IDS[1])
    for name in ("n1", "away", "gone"):
        note_left(connector.home, RUN, [name])
    note_left(connector.home, IDS[1], ["n1"])
    layout, again = made(tmp_path / "n1", RUN), made(tmp_path / "n1", IDS[1])
    told = delete_noted(connector)
    assert [(each.node, each.run_id, each.removed) for each in told] == [
        ("away", RUN, False),
        ("n1", RUN, True),
    ]
    assert [path.exists() for path in (layout.root, again.root, here.root)] == [False, True, True]
    assert left_on_nodes(connector.home) == {"away": (RUN,), "gone": (RUN,)}


def test_a_removal_that_was_cut_short_there_is_finished(connector: Connector, tmp_path: Path) -> None:
    """The node's Python was ended between giving the folder another name and removing it."""
    layout = made(tmp_path / "n1", RUN, b"own")
    aside = layout.root.rename(layout.root.with_name(f".deleted-{RUN}"))
    (told,) = delete_on_nodes(RUN, ("n1",), connector)
    assert (told.removed, aside.exists(), kept(tmp_path / "n1")) == (True, False, 0)


def test_what_is_known_here_or_began_there_is_no_leftover(connector: Connector, tmp_path: Path) -> None:
    """Of the rest it is said which run was deleted here; two names of one host are told once."""
    made(connector.home, IDS[1])
    note_left(connector.home, RUN, ["n1"])
    for run_id in IDS:
        made(tmp_path / "n1", run_id)
    made(tmp_path / "n2", IDS[2]).journal.write_text("")
    found = find_leftovers(["n1", "n2", "away"], connector)
    assert [(each.node, each.run_id, each.was_deleted) for each in found.folders] == [
        ("n1", RUN, True),
        ("n1", IDS[2], False),
    ]
    assert all(each.size > 10 for each in found.folders)
    assert found.problems == ["node away: node away: 10.0.0.9 does not answer"]
    (tmp_path / "n2/runs" / IDS[2] / "journal.jsonl").unlink()
    found = find_leftovers(["n1", "again", "n2"], connector)  # n2 has a home of its own on the same host
    where = [(each.node, each.run_id) for each in found.folders]
    assert where == [("n1", RUN), ("n1", IDS[2]), ("n2", IDS[2])]


@pytest.mark.parametrize("noted", [("again",), ("n1",), ("n1", "again")])
def test_a_note_under_any_name_of_a_host_counts(
    connector: Connector, tmp_path: Path, noted: tuple[str, ...]
) -> None:
    """The folder is told by a name that it was noted under; other notes of it are needed no more."""
    made(tmp_path / "n1")
    note_left(connector.home, RUN, noted)
    found = find_leftovers(["n1", "again"], connector)
    assert [(each.node, each.was_deleted) for each in found.folders] == [(noted[-1], True)]
    assert found.gone == [(name, RUN) for name in noted[:-1]]


def test_notes_of_what_is_not_told_are_kept_unless_nothing_is_there(
    connector: Connector, tmp_path: Path
) -> None:
    """Of a run that may live there, of one that is set aside here, and of a node that is away."""
    note_left(connector.home, IDS[0], ["n1", "n2", "away"])
    note_left(connector.home, IDS[1], ["n1"])
    made(tmp_path / "n1", IDS[0]).journal.write_text("")
    aside = RunLayout(connector.home / "runs" / f".deleted-everywhere-{IDS[1]}")
    aside.root.mkdir(parents=True)
    found = find_leftovers(["n1", "n2", "away"], connector)
    assert (found.folders, found.gone) == ([], [("n2", IDS[0])])
    later = f"torchdeck runs delete {IDS[0]} --node n1"
    assert [later in problem for problem in found.problems] == [False, True]


def test_a_folder_that_cannot_be_read_is_passed_over_and_others_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of another account; runs that began there are not added up."""
    for run_id in IDS:
        made(tmp_path, run_id)
    RunLayout(tmp_path / "runs" / IDS[2]).journal.write_text("")
    exists, added = Path.exists, []

    def denied(path: Path) -> bool:
        if path.parent.name == IDS[0]:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return exists(path)

    def size(folder: Path) -> int:
        added.append(folder.name)
        return 1

    monkeypatch.setattr(Path, "exists", denied)
    monkeypatch.setattr("torchdeck.agent.probe.run_folders.room_of", size)
    said = run_folders(tmp_path, {})
    assert said["folders"] == [{"run_id": IDS[1], "bytes": 1}]
    assert (said["others"], added) == ([IDS[0], IDS[2]], [IDS[1]])


def test_a_removal_goes_on_where_somebody_else_removes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another name of the host: who comes later finds files gone that it has just seen."""
    layout = made(tmp_path)
    rmtree, calls = shutil.rmtree, []

    def raced(folder: Path) -> None:
        calls.append(folder)
        if len(calls) == 1:
            shutil.move(folder / "checkpoints", tmp_path)
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(folder / "checkpoints"))
        rmtree(folder)
        if len(calls) == 2:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(folder))

    monkeypatch.setattr("torchdeck.agent.probe.run_folders.shutil.rmtree", raced)
    said = remove_runs(tmp_path, {"run_ids": [RUN]})
    assert said == {"removed": [RUN], "absent": [], "kept": {}}
    assert (len(calls), layout.root.exists()) == (2, False)


def test_a_run_stays_whose_agent_lives_on_another_host_that_shares_the_home(tmp_path: Path) -> None:
    """Nothing of it lives here; its agent's lock is held, by a process that means nothing on this host."""
    node = RunLayout(tmp_path / "runs" / RUN).node("far")
    node.root.mkdir(parents=True)
    lock = try_lock(node.lock, {"pid": 1, "start_ticks": 1, "boot": "another host's"})
    assert lock is not None
    assert run_folders(tmp_path, {})["others"] == [RUN]
    said = remove_runs(tmp_path, {"run_ids": [RUN]})
    assert said["kept"] == {RUN: "the run's agent is alive on another node with the same home"}
    os.close(lock)
    assert [each["run_id"] for each in run_folders(tmp_path, {})["folders"]] == [RUN]
    assert remove_runs(tmp_path, {"run_ids": [RUN]})["removed"] == [RUN]


def test_a_run_that_takes_too_long_keeps_no_other_from_its_removal(
    connector: Connector, tmp_path: Path
) -> None:
    """Each has the time limit for itself, and what is left of one is told of that alone."""

    class Slow(ProbeSession):
        def ask(self, what: ProbeRequest, limit: float, /, **fields: Any) -> Mapping[str, Any]:
            if fields["run_ids"] == [IDS[1]]:
                raise ProbeError("n1 did not answer 'remove_runs' within 60 s")
            return super().ask(what, limit, **fields)

    @contextmanager
    def slow(name: str, *_arguments: Any) -> Iterator[ProbeSession]:
        with closing(LocalProcess(sys.executable)) as process:
            yield Slow(process, name)

    layouts = [made(tmp_path / "n1", run_id) for run_id in IDS]
    told = delete_runs({"n1": IDS}, replace(connector, talking=slow))
    assert [(each.run_id, each.removed) for each in told] == [(IDS[0], True), (IDS[1], False), (IDS[2], True)]
    assert ["within 60 s" in each.why for each in told] == [False, True, False]
    assert [layout.root.exists() for layout in layouts] == [False, True, False]


@pytest.mark.parametrize("run_id", ["", ".", "..", "../keep", "keep", f"{RUN}/..", f"{RUN}/checkpoints"])
def test_only_a_runs_id_is_ever_removed(connector: Connector, tmp_path: Path, run_id: str) -> None:
    """Whatever is asked for."""
    layout = made(tmp_path / "n1")
    (tmp_path / "n1/runs/keep").mkdir()
    (told,) = delete_on_nodes(run_id, ("n1",), connector)
    assert "no run's id" in told.why
    assert layout.checkpoints.is_dir()
    assert (tmp_path / "n1/runs/keep").is_dir()


def test_a_link_in_place_of_a_run_is_left_alone(connector: Connector, tmp_path: Path) -> None:
    """What it leads to is someone else's."""
    layout = made(tmp_path / "else")
    (tmp_path / "n1/runs").mkdir(parents=True)
    (tmp_path / "n1/runs" / RUN).symlink_to(layout.root)
    (told,) = delete_on_nodes(RUN, ("n1",), connector)
    assert not told.removed
    assert layout.root.is_dir()
