"""Deleting a run in two steps, so that it can be undone in between."""

import errno
import shutil
import time
from pathlib import Path

import pytest

from support.values import machines
from support.values.histories import agent_started, controller_journal, ended, event, finished, started
from support.values.made_runs import IDS, line, make_run
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.folders.deletion import (
    FORGOTTEN,
    StillAliveError,
    put_back,
    remove,
    remove_forgotten,
    set_aside,
)
from torchdeck.runs.folders.node_parts import left_on_nodes, note_left
from torchdeck.runs.links import LOST, UP, LinkState, write_links
from torchdeck.runs.registry import RunRegistry

RUN = IDS[0]
DONE = [agent_started(), started(), ended(), finished()]


def run_on(home: Path, *names: str) -> RunLayout:
    """A run of several nodes that is over."""
    plan = machines.plan(machines.config(distributed={"nodes": list(names)}), *map(machines.node, names))
    return make_run(home, controller_journal(), DONE, plan=plan.document())


def test_a_run_set_aside_is_no_run_and_can_be_put_back(tmp_path: Path) -> None:
    layout = make_run(tmp_path, controller_journal(), DONE)
    aside = set_aside(layout)
    assert RunRegistry(tmp_path).ids() == []
    assert put_back(aside) == layout
    assert RunRegistry(tmp_path).ids() == [layout.root.name]


@pytest.mark.parametrize("content", ["{", '{"v": 99}'])
def test_a_run_is_not_set_aside_while_it_is_not_known_whether_it_is_pinned(
    tmp_path: Path, content: str
) -> None:
    layout = make_run(tmp_path, controller_journal(), DONE)
    layout.home.notes.write_text(content)
    with pytest.raises(Refusal, match=r"notes\.json"):
        set_aside(layout)
    assert layout.root.exists()


def test_what_lives_is_not_set_aside(tmp_path: Path) -> None:
    myself = ProcessIdentity.of(1)
    assert myself is not None
    alive = event("controller_started", identity=myself.to_json(), epoch=1)
    layout = make_run(tmp_path, [*controller_journal(), alive])
    with pytest.raises(StillAliveError, match="stop it first"):
        set_aside(layout)
    assert layout.root.exists()


@pytest.mark.parametrize(
    ("alive", "refused"), [(None, True), (True, True), (False, False)], ids=["untold", "alive", "dead"]
)
def test_a_run_whose_ranks_go_on_alone_is_not_deleted(
    tmp_path: Path, *, alive: bool | None, refused: bool
) -> None:
    """Unless their node said that they are dead, or what is there is to stay: it may never come back."""
    layout = run_on(tmp_path, "localhost", "a")
    said = [
        event("agent_started", 100.6, identity=None, part="follower", life=1),
        event("lead_lost", 104.5, unattended="continue", why="over", attempt=1),
    ]
    layout.node("a").root.mkdir()
    layout.node("a").journal.write_text("".join(map(line, said)))
    state = LinkState("a", LOST, agent_alive=alive, holder_alive=alive, torchrun_alive=alive)
    write_links(layout, {"a": state}, 100.0)
    if refused:
        with pytest.raises(StillAliveError, match="on a, as far as known here: stop it first"):
            set_aside(layout)
        assert layout.root.exists()
    set_aside(layout, on_nodes=not refused)
    assert not layout.root.exists()


@pytest.mark.parametrize("answered", [False, True])
def test_a_lost_run_is_not_deleted_before_its_nodes_have_answered(tmp_path: Path, *, answered: bool) -> None:
    """Its controller ends what is alive there, and needs the run for that; what is here may go alone."""
    lost = event("lost", 300.0, state="LOST", why="gone", life=0, nodes=["a"])
    fenced = [event("fenced", 400.0, node="a", life=1)] if answered else []
    plan = machines.plan(
        machines.config(distributed={"nodes": ["a", "b"]}), machines.node("a"), machines.node("b")
    )
    layout = make_run(tmp_path, [*controller_journal(), lost, *fenced], plan=plan.document())
    layout.node("a").root.mkdir()
    said = [event("agent_started", 100.6, identity=None, part="lead", life=0), started()]
    layout.node("a").journal.write_text("".join(map(line, said)))
    if not answered:
        with pytest.raises(StillAliveError, match=r"given up without an answer from a, .* delete --here"):
            set_aside(layout)
        assert layout.root.exists()
    set_aside(layout, on_nodes=answered)
    assert not layout.root.exists()


def test_an_agent_that_cannot_be_ended_keeps_nothing_back_here(tmp_path: Path) -> None:
    """Its node is reached and says that it lives: it waits for a dead disk, say."""
    lost = event("lost", 300.0, state="LOST", why="gone", life=0, nodes=["a"])
    plan = machines.plan(machines.config(distributed={"nodes": ["a"]}), machines.node("a"))
    layout = make_run(tmp_path, [*controller_journal(), lost], plan=plan.document())
    shutil.rmtree(layout.node("localhost").root)
    layout.node("a").root.mkdir()
    said = [event("agent_started", 100.6, identity=None, part="lead", life=0), started()]
    layout.node("a").journal.write_text("".join(map(line, said)))
    state = LinkState("a", UP, agent_alive=True, holder_alive=False, torchrun_alive=False)
    write_links(layout, {"a": state}, time.time())
    with pytest.raises(StillAliveError, match="processes of it are alive"):
        set_aside(layout)
    set_aside(layout, on_nodes=False)
    assert not layout.root.exists()


@pytest.mark.parametrize("on_nodes", [True, False])
def test_what_its_nodes_have_is_noted_before_it_is_gone(tmp_path: Path, *, on_nodes: bool) -> None:
    """So that a deletion that is cut short can be carried on; unless only what is here is to go."""
    layout = run_on(tmp_path, "localhost", "a")
    assert remove(set_aside(layout, on_nodes=on_nodes)) == ()
    assert not layout.root.exists()
    assert left_on_nodes(tmp_path) == ({"a": (layout.root.name,)} if on_nodes else {})


def test_what_nobody_removed_is_removed_after_a_while(tmp_path: Path) -> None:
    aside = set_aside(make_run(tmp_path, controller_journal(), DONE))
    foreign = tmp_path / "runs" / ".deleted-something"
    foreign.mkdir()
    assert remove_forgotten(tmp_path) == {}
    assert remove_forgotten(tmp_path, time.time() + FORGOTTEN + 1) == {aside: ()}
    assert not aside.exists()
    assert foreign.exists()


@pytest.mark.parametrize("on_nodes", [True, False])
def test_who_finds_a_removal_cut_short_keeps_to_what_was_wished_of_the_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, on_nodes: bool
) -> None:
    """Of a run deleted here alone, the nodes' checkpoints stay; what is not removed is not told as gone."""
    aside = set_aside(run_on(tmp_path, "localhost", "a"), on_nodes=on_nodes)
    later = time.time() + FORGOTTEN + 1

    def denied(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr("torchdeck.runs.folders.deletion.shutil.rmtree", denied)
        assert remove_forgotten(tmp_path, later) == {}
    assert aside.exists()
    assert remove_forgotten(tmp_path, later) == {aside: ()}
    assert left_on_nodes(tmp_path) == ({"a": (RUN,)} if on_nodes else {})


@pytest.mark.parametrize("room_after", [True, False])
def test_a_full_disk_keeps_nobody_from_making_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, room_after: bool
) -> None:
    """What could not be noted before is noted once there is room, or told."""
    aside = set_aside(run_on(tmp_path, "localhost", "a", "b"))

    def note(home: Path, run_id: str, nodes: list[str]) -> None:
        if aside.exists() or not room_after:
            raise OSError(errno.ENOSPC, "No space left on device")
        note_left(home, run_id, nodes)

    monkeypatch.setattr("torchdeck.runs.folders.deletion.note_left", note)
    assert remove(aside) == (() if room_after else ("a", "b"))
    assert not aside.exists()
    assert left_on_nodes(tmp_path) == ({"a": (RUN,), "b": (RUN,)} if room_after else {})


def test_a_stray_file_hides_no_note(tmp_path: Path) -> None:
    """Such as file managers leave in folders that they show; nor does a node's folder that is a file."""
    note_left(tmp_path, RUN, ["a", "b"])
    (tmp_path / "deleted/.DS_Store").touch()
    (tmp_path / "deleted/a/.DS_Store").touch()
    assert left_on_nodes(tmp_path) == {"a": (RUN,), "b": (RUN,)}


def test_a_note_is_laid_though_its_folder_is_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By who has just removed the last note in it."""
    touch, laid = Path.touch, []

    def raced(path: Path, *, mode: int) -> None:
        laid.append(path)
        if len(laid) == 1:
            path.parent.rmdir()
        touch(path, mode=mode)

    monkeypatch.setattr(Path, "touch", raced)
    note_left(tmp_path, RUN, ["a"])
    assert left_on_nodes(tmp_path) == {"a": (RUN,)}
