"""What a node sends is taken only if a node's file may be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import torchdeck.launching.remote.mirror as mirror_module
from support.agents.agent_run import make_plan
from torchdeck.agent.link.names import Level
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import RankPlacement, SmallerSize
from torchdeck.launching.control.connected_nodes import own_files
from torchdeck.launching.remote.mirror import Mirror, MirrorRefusedError

LOG = "attempts/1/ranks/0/stdout.log"
BEAT = "nodes/n1/heartbeat.json"
PROGRESS = "attempts/1/ranks/0/progress"


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    made = RunLayout(tmp_path / "run")
    made.root.mkdir()
    return made


def test_files_come_to_lie_where_the_layout_has_them(layout: RunLayout) -> None:
    """Readable by their owner alone."""
    mirror = Mirror(layout.root, "n1")
    mirror.put(LOG, 0, b"one\n")
    mirror.put(LOG, 4, b"two\n")
    mirror.piece(BEAT, 0, b"{", last=False)
    assert not layout.node("n1").heartbeat.exists()
    mirror.piece(BEAT, 1, b"}", last=True)
    assert layout.attempt(1).rank(0).stdout.read_bytes() == b"one\ntwo\n"
    assert layout.node("n1").heartbeat.read_bytes() == b"{}"
    for path in layout.root.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0 or path.is_dir()


def test_a_record_is_overwritten_in_place(layout: RunLayout) -> None:
    """Whatever its length, and whether it came in one piece; another file is made again each time."""
    mirror = Mirror(layout.root, "n1")
    path = layout.attempt(1).rank(0).progress
    inodes = set()
    for content in (b"step 1", b"step 1000", b"2"):
        mirror.piece(PROGRESS, 0, content[:1], last=len(content) == 1)
        if len(content) > 1:
            mirror.piece(PROGRESS, 1, content[1:], last=True)
        assert path.read_bytes() == content
        inodes.add(path.stat().st_ino)
    assert len(inodes) == 1
    mirror.piece(BEAT, 0, b"{}", last=True)
    with layout.node("n1").heartbeat.open("rb") as before:
        mirror.piece(BEAT, 0, b"[]", last=True)
        assert before.read() == b"{}"


def test_a_record_is_not_written_through_a_link(layout: RunLayout, tmp_path: Path) -> None:
    """One that was laid there while the record was mirrored already."""
    mirror = Mirror(layout.root, "n1")
    mirror.piece(PROGRESS, 0, b"step 1", last=True)
    path, victim = layout.attempt(1).rank(0).progress, tmp_path / "victim"
    victim.write_text("mine")
    path.unlink()
    path.symlink_to(victim)
    with pytest.raises(MirrorRefusedError, match="is a link"):
        mirror.piece(PROGRESS, 0, b"step 2", last=True)
    assert victim.read_text() == "mine"


def test_a_gap_is_refused(layout: RunLayout) -> None:
    """Bytes follow those that are here."""
    with pytest.raises(MirrorRefusedError, match="has 0 bytes here, and the node continues at 5"):
        Mirror(layout.root, "n1").put(LOG, 5, b"x")


@pytest.mark.parametrize(
    "path", ["journal.jsonl", "../x", "nodes/n2/journal.jsonl", "/etc/passwd", "plan.json"]
)
def test_other_paths_are_refused(layout: RunLayout, path: str) -> None:
    """To write, to cut and to ask after."""
    mirror = Mirror(layout.root, "n1")
    for act in (
        lambda: mirror.put(path, 0, b"x"),
        lambda: mirror.cut(path, 0),
        lambda: mirror.piece(path, 0, b"x", last=True),
        lambda: mirror.have(path),
    ):
        with pytest.raises(MirrorRefusedError, match="no file of node n1"):
            act()
    assert list(layout.root.rglob("*")) == []


def test_a_file_is_not_taken_in_another_way_than_its_own(layout: RunLayout) -> None:
    """A journal cannot be replaced, nor a heartbeat cut."""
    mirror = Mirror(layout.root, "n1")
    with pytest.raises(MirrorRefusedError, match="not replaced but appended"):
        mirror.piece("nodes/n1/journal.jsonl", 0, b"x", last=True)
    with pytest.raises(MirrorRefusedError, match="not appended to but replaced"):
        mirror.put(BEAT, 0, b"x")
    with pytest.raises(MirrorRefusedError, match="not appended to but replaced"):
        mirror.cut(BEAT, 0)


@pytest.mark.parametrize("place", ["file", "folder"])
def test_nothing_is_written_through_a_link(layout: RunLayout, tmp_path: Path, place: str) -> None:
    """Neither one in the file's place nor one on the way."""
    victim = tmp_path / "victim"
    log = layout.attempt(1).rank(0).stdout
    if place == "file":
        victim.write_text("mine")
        log.parent.mkdir(parents=True)
        log.symlink_to(victim)
    else:
        victim.mkdir()
        log.parent.parent.mkdir(parents=True)
        log.parent.symlink_to(victim)
    mirror = Mirror(layout.root, "n1")
    for _ in range(2):
        with pytest.raises(MirrorRefusedError, match="is a link"):
            mirror.put(LOG, 0, b"yours")
    assert place == "folder" or victim.read_text() == "mine"
    assert place == "file" or list(victim.iterdir()) == []


def test_a_heartbeat_does_not_replace_a_link(layout: RunLayout, tmp_path: Path) -> None:
    """What a person laid there is left alone."""
    layout.node("n1").root.mkdir(parents=True)
    layout.node("n1").heartbeat.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MirrorRefusedError, match="is a link"):
        Mirror(layout.root, "n1").piece(BEAT, 0, b"{}", last=True)
    assert layout.node("n1").heartbeat.is_symlink()


def test_pieces_follow_each_other(layout: RunLayout) -> None:
    """A piece without a beginning, and one that leaves something out."""
    mirror = Mirror(layout.root, "n1")
    with pytest.raises(MirrorRefusedError, match="does not follow"):
        mirror.piece(BEAT, 3, b"x", last=True)
    mirror.piece(BEAT, 0, b"ab", last=False)
    with pytest.raises(MirrorRefusedError, match="does not follow"):
        mirror.piece(BEAT, 3, b"x", last=True)


def test_a_fifo_is_no_file(layout: RunLayout) -> None:
    """It is not waited for either."""
    import os

    log = layout.attempt(1).rank(0).stdout
    log.parent.mkdir(parents=True)
    os.mkfifo(log)
    with pytest.raises((MirrorRefusedError, OSError)):
        Mirror(layout.root, "n1").put(LOG, 0, b"x")


def test_files_of_another_node_are_not_taken() -> None:
    """By the plan: ranks where they were placed, and the plans of attempts from the leader."""
    nodes = [make_plan(("true",), Path("/"), nproc=2).nodes[0] for _ in range(2)]
    first, second = (replace(node, name=name) for node, name in zip(nodes, ("n1", "n2"), strict=True))
    ranks = tuple(
        RankPlacement(rank, "n1" if rank < 2 else "n2", rank // 2, rank % 2, "cpu") for rank in range(4)
    )
    plan = replace(make_plan(("true",), Path("/")), nodes=(first, second), ranks=ranks, world_size=4)
    leader, other = own_files(plan, "n1"), own_files(plan, "n2")
    assert [leader(f"attempts/1/ranks/{rank}/stdout.log") for rank in range(5)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert [other(f"attempts/1/ranks/{rank}/exit") for rank in range(5)] == [False, False, True, True, False]
    assert (leader("attempts/1/plan.json"), other("attempts/1/plan.json")) == (True, False)
    assert other("attempts/1/nodes/n2/plan.json")
    assert other("nodes/n2/journal.jsonl")
    assert other("attempts/2/ranks/3/metrics/log-1-2-ab-0.metrics")
    assert other("attempts/2/ranks/3/metrics/log-1-2-ab-0.sums")


def test_ranks_of_a_gang_that_may_shrink_are_taken_from_any_node() -> None:
    """A smaller attempt numbers them again."""
    plan = make_plan(("true",), Path("/"), nproc=2)
    smaller = SmallerSize(nodes=1, nproc=1, batch=None, shard=1, threads={})
    own = own_files(replace(plan, smaller=(smaller,)), plan.nodes[0].name)
    assert own("attempts/2/ranks/1/exit")
    assert not own("attempts/2/ranks/2/exit")


def test_what_is_not_wanted_is_refused(layout: RunLayout) -> None:
    """Whoever sends it unasked."""
    mirror = Mirror(layout.root, "n1", lambda path: not path.startswith("attempts/1/ranks/0"))
    assert not mirror.wants(LOG)
    with pytest.raises(MirrorRefusedError, match="no file of node n1"):
        mirror.put(LOG, 0, b"x")


@pytest.mark.parametrize("name", ["..", "a/b", ""])
def test_a_node_has_a_proper_name(layout: RunLayout, name: str) -> None:
    """It is the name of a folder."""
    with pytest.raises(MirrorRefusedError, match="not a valid node name"):
        Mirror(layout.root, name)


def test_what_a_full_disk_does_not_hold_back_has_a_limit_in_all(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many small files: a node cannot fill the disk here. The same file written again counts once."""
    monkeypatch.setattr(mirror_module, "ALWAYS_LIMIT", 1000)
    mirror = Mirror(layout.root, "n1")
    mirror.held = Level.METRICS
    for _ in range(20):
        mirror.piece(BEAT, 0, b"x" * 100, last=True)
    for attempt in range(1, 10):
        mirror.piece(f"attempts/{attempt}/ranks/0/error.json", 0, b"x" * 100, last=True)
    with pytest.raises(MirrorRefusedError, match="of journals and states"):
        mirror.piece("attempts/10/ranks/0/error.json", 0, b"x" * 100, last=True)
