"""Where a plan may be written: it replaces a plan when that is asked for, and never anything else."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from torchdeck.data.batch_plan import (
    BatchPlan,
    BatchPlanError,
    build_batch_plan,
    load_batch_plan,
    save_batch_plan,
    save_shards,
)
from torchdeck.data.batch_plan.files.plan_files import Layout


def _plan(seed: int = 0) -> BatchPlan:
    return build_batch_plan([3, 1, 4, 1, 5, 9], token_budget=10, seed=seed)


@pytest.mark.parametrize("layout", ["columns", "jsonl"])
def test_a_plan_is_replaced_when_that_is_asked_for(tmp_path: Path, layout: Layout) -> None:
    """An empty folder is filled; a plan is kept unless overwriting is asked for; one in use stays usable."""
    place = tmp_path / "plans" / "p"
    place.mkdir(parents=True)
    save_batch_plan(_plan(), place, layout=layout)
    with pytest.raises(BatchPlanError, match=r"already exists: choose another place, or overwrite it"):
        save_batch_plan(_plan(1), place)
    mapped = load_batch_plan(place)
    save_batch_plan(_plan(1), place, overwrite=True)
    assert load_batch_plan(place).fingerprint == _plan(1).fingerprint
    assert [mb.sample_ids.tolist() for mb in mapped.iter_epoch(0)] == [
        mb.sample_ids.tolist() for mb in _plan().iter_epoch(0)
    ]
    save_shards(_plan(), 2, place, overwrite=True)
    save_shards(_plan(), 3, place, overwrite=True)
    assert sorted(path.name for path in place.iterdir()) == ["rank_0", "rank_1", "rank_2"]
    save_batch_plan(_plan(), place, overwrite=True)
    assert load_batch_plan(place).fingerprint == _plan().fingerprint
    assert [path.name for path in place.parent.iterdir()] == ["p"]


def _run_folder(place: Path) -> None:
    place.mkdir()
    (place / "plan.json").write_text("{}")
    (place / "run.toml").write_text("")


def _data_set(place: Path) -> None:
    place.mkdir()
    (place / "meta.json").write_text("{}")
    (place / "samples.jsonl").write_text("{}\n")


def _plan_and_more(place: Path) -> None:
    save_batch_plan(_plan(), place)
    (place / "thesis.tex").write_text("x")


def _named_plans(place: Path) -> None:
    save_batch_plan(_plan(), place / "small")
    save_batch_plan(_plan(1), place / "large")


def _linked(place: Path) -> None:
    save_batch_plan(_plan(), place.with_name("real"))
    place.symlink_to("real")


@pytest.mark.parametrize(
    "make",
    [_run_folder, _data_set, _plan_and_more, _named_plans, _linked, Path.touch],
    ids=lambda make: make.__name__,
)
def test_what_is_no_plan_is_not_replaced(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A run's folder, a data set, other files beside a plan, several plans, a link, a file: all stay."""
    make(tmp_path / "p")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BatchPlanError, match="it is not overwritten"):
        save_batch_plan(_plan(), tmp_path / "p", overwrite=True)
    with pytest.raises(BatchPlanError, match="it is not overwritten"):
        save_shards(_plan(), 2, tmp_path / "p", overwrite=True)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (".", "give the name of a folder to make"),
        ("a/..", "give the name of a folder to make"),
        ("file/p", "file is no folder: nothing can be written at"),
        ("file/deeper/p", "file is no folder: nothing can be written at"),
    ],
)
def test_places_where_no_folder_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, said: str
) -> None:
    """The folder one is in, and what would lie in a file, are refused with the reason."""
    empty = tmp_path / "empty"
    (empty / "a").mkdir(parents=True)
    monkeypatch.chdir(empty)
    if place.startswith("file"):
        (empty / "file").touch()
    else:
        shutil.rmtree(empty / "a")
    with pytest.raises(BatchPlanError, match=said):
        save_batch_plan(_plan(), place)
