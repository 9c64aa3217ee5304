"""Disks of nodes by what the nodes said of them, against what the run writes and must leave free."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from support.values.node_facts import GIB, node_facts
from torchdeck.config.loader import config_from_dict
from torchdeck.config.schema import RunConfig
from torchdeck.launching.preflight.disk_space import checkpoint_bytes
from torchdeck.launching.preflight.remote.machine_check import check_disks
from torchdeck.plan.check import Check

HOME = "/home/ann/.local/share/torchdeck"


def config(folder: Path, **tables: Any) -> RunConfig:
    (folder / "train.py").touch()
    return config_from_dict({"run": {"script": "train.py"}, **tables}, folder)


def disk(path: str = HOME, **changes: Any) -> dict[str, Any]:
    return {"path": path, "there": True, "writable": True, "total": 100 * GIB, "free": 50 * GIB, **changes}


def checked(asked: RunConfig, *disks: dict[str, Any], checkpoint: int = GIB) -> list[Check]:
    return list(check_disks(asked, "a", node_facts(disks=list(disks)), checkpoint))


def test_a_disk_with_room_is_said(tmp_path: Path) -> None:
    """With how much is free, and where."""
    (check,) = checked(config(tmp_path), disk())
    assert (check.name, check.status) == ("disk", "ok")
    assert check.what == f"50.0 GiB free at {HOME}"


def test_a_place_that_is_no_disk_is_not_said_to_be_full(tmp_path: Path) -> None:
    """Such as /proc: there is no room to make; another place is what helps."""
    (check,) = checked(config(tmp_path), disk(there=False, total=0, free=0))
    assert (check.name, check.status) == ("home", "failed")
    assert "files there are lost" in check.what
    assert "`torchdeck nodes edit a`" in check.fix


@pytest.mark.parametrize(
    ("free", "floor", "status"),
    [
        (GIB, "1GiB", "failed"),  # a checkpoint of 1 GiB would not leave what must stay free
        (2 * GIB, "1GiB", "warning"),  # one fits, and those that are kept do not
        (5 * GIB, "1GiB", "ok"),  # two are kept, one is written, and one is spare
        (5 * GIB - 1, "1GiB", "warning"),
        (2**30 - 1, "0B", "failed"),
    ],
)
def test_free_space_is_what_must_stay_free_and_the_checkpoints(
    free: int, floor: str, status: str, tmp_path: Path
) -> None:
    """limits.min_free_disk first: below it a run would be stopped as soon as it has begun."""
    (check,) = checked(config(tmp_path, limits={"min_free_disk": floor}), disk(free=free))
    assert (check.name, check.status, check.node) == ("disk", status, "a")
    assert (check.fix != "") == (status != "ok")


def test_a_run_that_would_be_stopped_at_once_is_refused(tmp_path: Path) -> None:
    """Nothing is known of the checkpoints of a script; what must stay free counts all the same."""
    asked = config(tmp_path, limits={"min_free_disk": "60GiB"})
    (check,) = checked(asked, disk(), checkpoint=0)
    assert check.status == "failed"
    assert "too little for limits.min_free_disk of 60.0 GiB" in check.what
    assert "make room" in check.fix


def test_checkpoints_count_where_they_are_written(tmp_path: Path) -> None:
    """A folder of their own is looked at on the node; its home then needs no room for them."""
    folder = str(tmp_path / "checkpoints")
    asked = config(tmp_path, checkpoint={"directory": folder}, limits={"min_free_disk": 0})
    home, there = checked(asked, disk(free=1), disk(folder, free=GIB - 1))
    assert (home.status, there.status) == ("ok", "failed")
    assert folder in there.what
    _, there = checked(asked, disk(), disk(folder, there=False, writable=False))
    assert (there.name, there.status) == ("checkpoint folder", "failed")
    assert "checkpoint.directory" in there.fix


@pytest.mark.parametrize(
    ("disks", "name", "said"),
    [
        ([disk(writable=False)], "home", "cannot be written"),
        ([disk(), disk("/w", there=False)], "working directory", "/w does not exist"),
    ],
)
def test_folders_that_cannot_be_used_are_refused(
    disks: list[dict[str, Any]], name: str, said: str, tmp_path: Path
) -> None:
    """With the command that names another."""
    *_, check = checked(config(tmp_path), *disks)
    assert (check.name, check.status) == (name, "failed")
    assert said in check.what
    assert "nodes edit a" in check.fix


def test_nodes_with_disks_of_their_own_write_a_part_each(tmp_path: Path) -> None:
    """Together at least what one disk would hold."""
    asked = config_from_dict({"run": {"recipe": "byte-gpt"}, "training": {"steps": 1}}, tmp_path)
    whole = checkpoint_bytes(asked)
    assert whole > 0
    assert whole <= 3 * checkpoint_bytes(asked, Fraction(1, 3)) < whole + 3
