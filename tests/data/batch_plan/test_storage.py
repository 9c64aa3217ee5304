"""Plans on disk in columns: whole or not there, and refused when they are not what was written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchdeck.data.batch_plan import (
    BatchPlan,
    BatchPlanError,
    build_batch_plan,
    load_batch_plan,
    save_batch_plan,
)
from torchdeck.data.batch_plan.columns import EpochColumns
from torchdeck.data.batch_plan.files import columns_file as storage
from torchdeck.data.batch_plan.meta import plan_fingerprint

LENGTHS = [(index * 31) % 50 + 1 for index in range(400)]


def _plan(**more: Any) -> BatchPlan:
    return build_batch_plan(LENGTHS, **{"token_budget": 200, "max_length": 50, "epochs": 2, **more})


def _same(left: BatchPlan, right: BatchPlan) -> bool:
    for epoch in range(left.epochs):
        mine, theirs = left.epoch_columns(epoch), right.epoch_columns(epoch)
        for name in EpochColumns.__dataclass_fields__:
            if not np.array_equal(getattr(mine, name), getattr(theirs, name)):
                return False
    return (left.meta, left.fingerprint) == (right.meta, right.fingerprint)


@pytest.mark.parametrize("pack", [False, True])
def test_what_was_saved_comes_back(tmp_path: Path, pack: bool) -> None:
    """Columns, meta data and fingerprint are those that were saved; so are a shard's, even an empty one's."""
    plan = _plan(pack=pack)
    for name, saved in (("whole", plan), ("shard", plan.shard(1, 3)), ("empty", plan.shard(999, 1000))):
        save_batch_plan(saved, tmp_path / "there" / name)
        assert _same(load_batch_plan(tmp_path / "there" / name, verify=True), saved)
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == ["empty", "shard", "whole"]


def test_the_file_is_the_same_everywhere(tmp_path: Path) -> None:
    """Two saves are equal to the byte, and numbers lie in it little-endian at multiples of 64 bytes."""
    for name in "ab":
        save_batch_plan(_plan(), tmp_path / name)
    for file in ("plan.json", "columns.bin"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    first, second, *_ = json.loads((tmp_path / "a" / "plan.json").read_bytes())["columns"]
    assert (first["name"], first["type"], first["count"]) == ("epoch_0.sample_ids", "<i4", 400)
    content = (tmp_path / "a" / "columns.bin").read_bytes()
    columns = _plan().epoch_columns(0)
    assert content[:1600] == columns.sample_ids.astype("<i4").tobytes()
    assert content[1600:1604] == columns.offsets[:1].astype("<i4").tobytes()
    assert second["name"] == "epoch_0.offsets"


def test_a_mapped_plan_is_not_writable(tmp_path: Path) -> None:
    """What is mapped cannot be changed by accident."""
    save_batch_plan(_plan(), tmp_path / "p")
    columns = load_batch_plan(tmp_path / "p").epoch_columns(0)
    with pytest.raises(ValueError, match="read-only"):
        columns.sample_ids[0] = 1


@pytest.mark.parametrize("cut", [1, 64, 3000])
def test_cut_short(tmp_path: Path, cut: int) -> None:
    """A file with bytes missing, or more than it should have, is refused without hashing."""
    save_batch_plan(_plan(), tmp_path / "p")
    file = tmp_path / "p" / "columns.bin"
    content = file.read_bytes()
    file.write_bytes(content[:-cut])
    with pytest.raises(BatchPlanError, match=r"columns\.bin was cut short: it has \d+ bytes of"):
        load_batch_plan(tmp_path / "p")
    file.write_bytes(content + b"x")
    with pytest.raises(BatchPlanError, match=r"columns\.bin is longer than it should be"):
        load_batch_plan(tmp_path / "p")
    file.unlink()
    with pytest.raises(BatchPlanError, match=r"columns\.bin is missing"):
        load_batch_plan(tmp_path / "p")


@pytest.mark.parametrize("place", [0, 1603, -1])
def test_an_edited_column(tmp_path: Path, place: int) -> None:
    """One flipped bit anywhere is found by verify."""
    save_batch_plan(_plan(seed=3), tmp_path / "p")
    file = tmp_path / "p" / "columns.bin"
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)
    with pytest.raises(BatchPlanError, match="is damaged"):
        load_batch_plan(tmp_path / "p", verify=True)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            lambda value: value["meta"]["settings"].update(seed=9),
            "its fingerprint is not that of what it says",
        ),
        (lambda value: value["meta"].update(dataset_fingerprint="x"), "was edited or is damaged"),
        (lambda value: value["columns"][0].update(sha256="0"), "was edited or is damaged"),
        (lambda value: value["columns"][0].update(type="|O"), "column epoch_0.sample_ids has type '|O'"),
        (lambda value: value["columns"][0].update(count=-1), "a column must have"),
        (lambda value: value["columns"][0].pop("name"), "a column must have"),
        (lambda value: value["meta"].pop("size"), "meta must be an object with"),
        (lambda value: value["meta"]["counts"].update(x=1), "meta is not that of a batch plan"),
        (lambda value: value["meta"]["settings"].update(seed="9"), "seed must be a whole number"),
        (lambda value: value.update(v=2), "has version 2; this Torchdeck reads version 1"),
        (lambda value: value.update(format="x"), "is not that of a batch plan"),
        (lambda value: value.pop("columns"), "is damaged"),
    ],
)
def test_an_edited_description(tmp_path: Path, edit: Any, said: str) -> None:
    """Whatever is changed in plan.json is noticed, without verify."""
    save_batch_plan(_plan(), tmp_path / "p")
    file = tmp_path / "p" / "plan.json"
    value = json.loads(file.read_bytes())
    edit(value)
    file.write_text(json.dumps(value))
    with pytest.raises(BatchPlanError, match=said.replace("|", r"\|")):
        load_batch_plan(tmp_path / "p")
    file.write_text("{")
    with pytest.raises(BatchPlanError, match=r"plan\.json is cut short or damaged"):
        load_batch_plan(tmp_path / "p")


def test_a_well_made_plan_with_a_sample_twice(tmp_path: Path) -> None:
    """Hashes that fit do not help a plan whose ids are not once each: verify looks at the ids, too."""
    plan = _plan(epochs=1)
    columns = plan.epoch_columns(0)
    for change, said in (
        (int(columns.sample_ids[0]), r"occurs 2 times, in microbatches 0 and \d+"),
        (400, "lacks"),
    ):
        ids = columns.sample_ids.copy()
        ids[-1] = change
        made = EpochColumns(ids, columns.offsets, columns.max_len, columns.tokens, columns.bucket_id)
        save_batch_plan(BatchPlan(plan.meta, [made]), tmp_path / "p", overwrite=True)
        load_batch_plan(tmp_path / "p")
        with pytest.raises(BatchPlanError, match=said):
            load_batch_plan(tmp_path / "p", verify=True)


def test_epochs_that_do_not_fit_the_settings(tmp_path: Path) -> None:
    """A description that counts other epochs than it has is refused, though its fingerprint fits."""
    save_batch_plan(_plan(), tmp_path / "p")
    file = tmp_path / "p" / "plan.json"
    value = json.loads(file.read_bytes())
    meta = load_batch_plan(tmp_path / "p").meta
    value["columns"] = [column for column in value["columns"] if column["name"] != "epoch_1.tokens"]
    value["fingerprint"] = plan_fingerprint(meta, value["columns"])
    file.write_text(json.dumps(value))
    with pytest.raises(BatchPlanError, match=r"damaged|cut short|longer"):
        load_batch_plan(tmp_path / "p")


def test_stale_plans_are_refused(tmp_path: Path) -> None:
    """A plan of another data set or tokenizer is refused with both names; one that fits is not."""
    save_batch_plan(_plan(dataset_fingerprint="d" * 64, tokenizer_fingerprint="t"), tmp_path / "p")
    load_batch_plan(tmp_path / "p", expect_dataset="d" * 64, expect_tokenizer="t")
    with pytest.raises(
        BatchPlanError, match=r"is stale: it was built for the data set d+…, but the data set is now e"
    ):
        load_batch_plan(tmp_path / "p", expect_dataset="e")
    with pytest.raises(
        BatchPlanError, match="for the tokenizer t, but the tokenizer is now without fingerprint"
    ):
        load_batch_plan(tmp_path / "p", expect_tokenizer="")


def test_no_plan_there(tmp_path: Path) -> None:
    """A folder without one, or none at all, is said."""
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(BatchPlanError, match="there is no batch plan in"):
            load_batch_plan(place)


def test_a_save_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk is full, what was there is still there, and nothing lies beside it."""
    place = tmp_path / "p"
    save_batch_plan(_plan(), place)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "canonical_json", full)
    for where in (place, tmp_path / "q"):
        with pytest.raises(OSError, match="No space left"):
            save_batch_plan(_plan(seed=1), where, overwrite=True)
    assert [path.name for path in tmp_path.iterdir() if path.name != "torchdeck-home"] == ["p"]
    monkeypatch.undo()
    assert _same(load_batch_plan(place, verify=True), _plan())


def _home(folder: Path) -> bool:
    return (folder / "torchdeck-home").exists()
