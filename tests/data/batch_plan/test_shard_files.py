"""All shards of a plan in a folder."""

import shutil
from pathlib import Path

import pytest

from torchdeck.data.batch_plan import (
    BatchPlan,
    BatchPlanError,
    build_batch_plan,
    check_shards,
    load_batch_plan,
    save_batch_plan,
    save_shards,
)
from torchdeck.data.batch_plan.files.plan_files import Layout


def _plan(seed: int = 0) -> BatchPlan:
    return build_batch_plan([(index * 31) % 50 + 1 for index in range(200)], token_budget=100, seed=seed)


@pytest.mark.parametrize("layout", ["columns", "jsonl"])
def test_shards_are_plans(tmp_path: Path, layout: Layout) -> None:
    """Each `rank_R` opens as that rank's shard, and together they pass the check."""
    plan = _plan()
    save_shards(plan, 3, tmp_path / "s", balance="tokens", layout=layout)
    check_shards(tmp_path / "s", expect_dataset=plan.meta.dataset_fingerprint)
    for rank in range(3):
        opened = load_batch_plan(tmp_path / "s" / f"rank_{rank}", verify=True)
        assert opened.fingerprint == plan.shard(rank, 3, balance="tokens").fingerprint
    save_shards(plan, 2, tmp_path / "s", overwrite=True)
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["rank_0", "rank_1"]


def test_shards_that_do_not_fit_each_other(tmp_path: Path) -> None:
    """A missing shard, one of another plan, one twice, and a stale set are refused."""
    place = tmp_path / "s"
    save_shards(_plan(), 2, place)
    with pytest.raises(BatchPlanError, match="is stale"):
        check_shards(place, expect_dataset="other")
    shutil.rmtree(place / "rank_1")
    with pytest.raises(BatchPlanError, match=r"there is no batch plan in .*rank_1"):
        check_shards(place)
    save_batch_plan(_plan(seed=1).shard(1, 2), place / "rank_1")
    with pytest.raises(BatchPlanError, match="rank_1 is a shard of another plan than rank_0"):
        check_shards(place)
    save_batch_plan(_plan().shard(0, 2), place / "rank_1", overwrite=True)
    with pytest.raises(BatchPlanError, match="rank_1 is not the shard of rank 1"):
        check_shards(place)
    plan = _plan()
    save_batch_plan(
        plan.part([plan.shard(0, 2).epoch_columns(0)], 1, 2, "none"), place / "rank_1", overwrite=True
    )
    with pytest.raises(BatchPlanError, match=r"sample \d+ of epoch 0 is in ranks 0 and 1"):
        check_shards(place)
    save_batch_plan(
        plan.part([plan.shard(9999, 10000).epoch_columns(0)], 1, 2, "none"), place / "rank_1", overwrite=True
    )
    with pytest.raises(BatchPlanError, match=r"epoch 0 have \d+ samples together, but 200 are planned"):
        check_shards(place)


def test_nothing_half_written(tmp_path: Path) -> None:
    """What is refused leaves nothing, not even a folder."""
    with pytest.raises(BatchPlanError, match="world size 0"):
        save_shards(_plan(), 0, tmp_path / "s")
    with pytest.raises(BatchPlanError, match="window must be"):
        save_shards(_plan(), 2, tmp_path / "s", balance="tokens", window=-1)
    assert not [path for path in tmp_path.iterdir() if path.name != "torchdeck-home"]
