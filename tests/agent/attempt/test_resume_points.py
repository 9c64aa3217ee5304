"""Which checkpoint several nodes continue from: the newest that each has, on own disks or a shared one."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.checkpoint_files import FILES, flip, save_of
from torchdeck.agent.attempt.resume_points import (
    AttemptError,
    check_point,
    common_point,
    point_folder,
    resume_points,
)
from torchdeck.agent.gang.events import ResumePoint
from torchdeck.contract.checkpoints.manifest import checkpoint_name, read_manifest


def point(step: int) -> ResumePoint:
    return ResumePoint("own", checkpoint_name(step), step)


def points(
    directory: Path, policy: str = "auto", number: int = 1, *, first: bool = True
) -> tuple[ResumePoint, ...]:
    return resume_points(policy, directory, "run", number, lambda *_: None, first=first)


@given(st.lists(st.sets(st.integers(1, 9)), min_size=1, max_size=4))
def test_the_newest_that_all_have(disks: list[set[int]]) -> None:
    """None if no one has any; a sentence where some have, and there is none in common."""
    offers = {
        f"n{node}": tuple(point(step) for step in sorted(steps, reverse=True))
        for node, steps in enumerate(disks)
    }
    common = set.intersection(*disks)
    if common:
        assert common_point(offers) == point(max(common))
    elif not any(disks):
        assert common_point(offers) is None
    else:
        with pytest.raises(AttemptError, match="no checkpoint exists on every node"):
            common_point(offers)


def part(step: int, *here: str, save: str = "x", created: float = 1.0) -> ResumePoint:
    """A checkpoint whose files lie on nodes a and b."""
    return point(step)._replace(save=save, parts=("a", "b"), here=here, created=created)


def test_parts_on_several_nodes_are_one_checkpoint() -> None:
    """Whichever nodes have them, and with one that has none; a newer one that is not whole is passed over."""
    whole, newer = part(3).everywhere, part(5).everywhere
    assert common_point({"n0": (part(3, "a"),), "n1": (part(3, "b"),)}) == whole
    assert common_point({"n0": (), "n1": (part(3, "a", "b"),)}) == whole
    offers = {"n0": (part(5, "a"), part(3, "a", "b")), "n1": (), "n2": (part(5),)}
    assert common_point(offers) == whole
    assert common_point({**offers, "n3": (part(5, "b"),)}) == newer
    with pytest.raises(AttemptError, match="= 1 keeps copies"):
        common_point({"n0": (part(3, "a"),), "n1": ()})


def test_parts_of_two_saves_are_no_checkpoint() -> None:
    """A node that was lost for a while has another one of the same step; what was saved last comes first."""
    old, new = part(3, "a"), part(3, "a", "b", save="y", created=2.0)
    assert common_point({"n0": (old,), "n1": (new,)}) == new.everywhere
    with pytest.raises(AttemptError, match="cannot resume"):
        common_point({"n0": (old,), "n1": (part(3, "b", save="y"),)})


def test_what_is_damaged_here_may_have_a_copy_elsewhere(tmp_path: Path) -> None:
    """It is told, and offered as one of which nothing is here; without copies it is refused as ever."""
    folder = save_of(tmp_path, 3)
    manifest = read_manifest(folder)
    files = {
        name: dataclasses.replace(entry, node="a", copies=("b",)) for name, entry in manifest.files.items()
    }
    there = dataclasses.replace(manifest, node="b", files=files, version=3)
    (folder / "manifest.json").write_bytes(there.render())
    (offered,) = points(tmp_path)
    assert (offered.parts, offered.here) == (("a",), ("a",))
    flip(folder / next(iter(FILES)), 0)
    assert points(tmp_path) == (offered._replace(here=()),)
    alone = {name: dataclasses.replace(entry, node="b") for name, entry in manifest.files.items()}
    (folder / "manifest.json").write_bytes(dataclasses.replace(manifest, node="b", files=alone).render())
    with pytest.raises(AttemptError, match="damaged"):
        points(tmp_path)


def test_a_first_start_goes_on_from_anybodys_and_a_restart_from_its_own(tmp_path: Path) -> None:
    """As one node alone does; with nothing of its own it begins as the first attempt did."""
    save_of(tmp_path, 5, "another")
    assert points(tmp_path) == points(tmp_path, number=2) == (point(5),)
    save_of(tmp_path, 3)
    assert points(tmp_path, number=2) == (point(3),)
    assert points(tmp_path, "never") == ()
    assert points(tmp_path, "never", number=2) == (point(3),)
    assert points(tmp_path / "absent") == ()


def test_a_path_is_the_same_on_every_node(tmp_path: Path) -> None:
    """Of a checkpoint, or of a folder with checkpoints, newest first."""
    saved = save_of(tmp_path / "old", 5, "another")
    save_of(tmp_path / "old", 7, "another")
    asked = points(tmp_path / "new", str(saved))
    assert asked == (ResumePoint("asked", "", 5),)
    assert point_folder(asked[0], str(saved), tmp_path / "new") == saved
    several = points(tmp_path / "new", str(tmp_path / "old"))
    assert [(found.source, found.step) for found in several] == [("asked", 7), ("asked", 5)]
    assert point_folder(several[1], str(tmp_path / "old"), tmp_path / "new") == saved
    nowhere = str(tmp_path / "nowhere")
    assert points(tmp_path, nowhere) == ()  # another node may have it
    with pytest.raises(AttemptError, match="cannot resume: no node has a checkpoint"):
        common_point({"n0": (), "n1": ()}, nowhere)


@pytest.mark.parametrize(
    ("node", "first", "offered"), [("b", False, [3]), (None, True, [3]), (None, False, [5, 3])]
)
def test_who_hashes_what(tmp_path: Path, node: str | None, first: bool, offered: list[int]) -> None:
    """Its own files each node, those that all share the first alone: it passes a damaged one over for all."""
    save_of(tmp_path, 3, node=node)
    flip(save_of(tmp_path, 5, node=node) / next(iter(FILES)), 10)
    told: list[str] = []
    found = resume_points("auto", tmp_path, "run", 2, lambda path, _: told.append(path), first=first)
    assert [one.step for one in found] == offered
    assert len(told) == (5 not in offered)


def test_a_part_that_is_not_there_is_told(tmp_path: Path) -> None:
    """What the leader chose must be on this node, whole and of that step."""
    folder = save_of(tmp_path, 5)
    check_point(folder, point(5))
    with pytest.raises(AttemptError, match="holds step 5 here, and 7"):
        check_point(folder, ResumePoint("asked", "", 7))
    (folder / next(iter(FILES))).unlink()
    with pytest.raises(AttemptError, match="cannot resume from step 5"):
        check_point(folder, point(5))
    shutil.rmtree(folder)
    with pytest.raises(AttemptError, match="cannot resume from step 5"):
        check_point(folder, point(5))


def of_script(
    name: str, created: float, *, step: int = -1, kind: str = "hf", copied: bool = False
) -> ResumePoint:
    here = () if copied else ("saved",)
    return ResumePoint("script", name, step, save=kind, here=here, created=created)


def test_the_newest_of_a_script_that_all_nodes_have() -> None:
    """Each has its own time of the save; a copy counts, unless no node saved that checkpoint in this run."""
    four, two = of_script("checkpoint-4", 9.0, step=4), of_script("checkpoint-2", 5.0, step=2)
    offers = {"a": (four, two), "b": (two._replace(created=6.0),)}
    assert common_point(offers) == two._replace(created=6.0).everywhere
    copied = of_script("checkpoint-4", 99.0, step=4, copied=True)
    assert common_point({**offers, "b": (copied, two)}) == four.everywhere
    with pytest.raises(AttemptError, match="no node has a checkpoint that this run saved"):
        common_point({"a": (copied,), "b": (copied,)})
    file = of_script("ckpt.pt", 9.0, kind="nanogpt")
    assert common_point({"a": (file,), "b": (file._replace(created=8.0),)}) == file.everywhere


def test_a_node_without_a_scripts_checkpoint_is_named_with_what_to_copy() -> None:
    """Some kinds are complete only with a file beside them."""
    one = of_script("global_step10", 9.0, step=10, kind="deepspeed")
    with pytest.raises(AttemptError) as refused:
        common_point({"a": (one,), "b": (), "c": ()})
    said = str(refused.value)
    assert "a has global_step10; b has none; c has none" in said
    assert "Copy global_step10 and the file latest next to it to the same folder on b, c" in said
    unknown = one._replace(save="of a newer version")
    with pytest.raises(AttemptError, match="Copy global_step10 to the same folder on b,"):
        common_point({"a": (unknown,), "b": ()})
