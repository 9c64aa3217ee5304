"""Which checkpoint several nodes go on from: the newest that each has, on own disks or a shared one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.checkpoint_files import FILES, flip, save_of
from torchdeck.agent.attempt_plan import AttemptError
from torchdeck.agent.events import ResumePoint
from torchdeck.agent.resume_points import check_point, common_point, point_folder, resume_points
from torchdeck.distributed.checkpoints.manifest import checkpoint_name


def point(step: int) -> ResumePoint:
    return ResumePoint("own", checkpoint_name(step), step)


def points(
    directory: Path, policy: str = "auto", number: int = 1, *, first: bool = True
) -> tuple[ResumePoint, ...]:
    return resume_points(policy, directory, "run", number, lambda *_: None, first=first)


@given(st.lists(st.sets(st.integers(1, 9)), min_size=1, max_size=4))
def test_the_newest_that_all_have(disks: list[set[int]]) -> None:
    """None where nobody has any; a sentence where some have, and there is none in common."""
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
        with pytest.raises(AttemptError, match="no checkpoint is there on every node"):
            common_point(offers)


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
    with pytest.raises(AttemptError, match="cannot resume: there is no checkpoint"):
        points(tmp_path, str(tmp_path / "nowhere"))


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
    """What the lead chose must be on this node, whole and of that step."""
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
