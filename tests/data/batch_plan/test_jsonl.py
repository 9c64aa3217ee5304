"""The layout `meta.json` + `epoch_N.jsonl`: written as others read it, read as others may write it."""

import json
from pathlib import Path
from typing import Any

import pytest

from torchdeck.data.batch_plan import (
    BatchPlan,
    BatchPlanError,
    build_batch_plan,
    load_batch_plan,
    save_batch_plan,
)

LENGTHS = [(index * 31) % 50 + 1 for index in range(200)]
META = {
    "dataset_hash": "d",
    "tokenizer_hash": "t",
    "bucket_edges": [128, 256],
    "overflow_max": 512,
    "token_budget": 512,
    "pad_policy": "pad_to_bucket",
    "num_epochs": 1,
    "base_seed": 42,
    "created_at": "2024-01-01T00:00:00Z",
    "version": "1.0",
}


def _plan(**more: Any) -> BatchPlan:
    return build_batch_plan(LENGTHS, **{"token_budget": 200, "max_length": 50, "epochs": 2, **more})


def _write(folder: Path, *lines: Any, meta: Any = META) -> Path:
    (folder / "meta.json").write_text(json.dumps(meta))
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / "epoch_0.jsonl").write_text("".join(f"{text}\n" for text in texts))
    return folder


@pytest.mark.parametrize("pack", [False, True])
def test_a_plan_comes_back_as_it_was(tmp_path: Path, pack: bool) -> None:
    """Written in this layout and read again, a plan has the same fingerprint; so has a shard."""
    plan = _plan(pack=pack)
    for name, saved in (("whole", plan), ("shard", plan.shard(2, 3)), ("empty", plan.shard(999, 1000))):
        save_batch_plan(saved, tmp_path / name, layout="jsonl")
        again = load_batch_plan(tmp_path / name)
        assert (again.fingerprint, again.meta) == (saved.fingerprint, saved.meta)


def test_keys_are_those_that_others_read(tmp_path: Path) -> None:
    """meta.json, the header and each line have exactly the keys of the layout; ids are texts."""
    plan = _plan()
    save_batch_plan(plan, tmp_path / "p", layout="jsonl")
    assert set(json.loads((tmp_path / "p" / "meta.json").read_text())) == {*META, "pack_config"}
    header, first, *rest = map(json.loads, (tmp_path / "p" / "epoch_1.jsonl").read_text().splitlines())
    assert header == {
        "epoch": 1,
        "seed": 0,
        "total_samples": 200,
        "total_tokens": sum(LENGTHS),
        "num_microbatches": plan.microbatches(1),
    }
    microbatch = plan.microbatch(1, 0)
    assert first == {
        "samples": [str(sample) for sample in microbatch.sample_ids],
        "packs": None,
        "bucket_id": microbatch.bucket_id,
        "max_len": microbatch.max_len,
        "index": 0,
    }
    assert len(rest) == plan.microbatches(1) - 1


def test_a_plan_of_others(tmp_path: Path) -> None:
    """Samples called by name get ids by sorted name and keep their names; meta.json says the rest."""
    plan = load_batch_plan(
        _write(
            tmp_path,
            {"epoch": 0, "seed": 42, "total_samples": 3, "total_tokens": 640, "num_microbatches": 2},
            {"samples": ["b", "a"], "packs": None, "bucket_id": 0, "max_len": 128, "index": 0},
            {"samples": ["c"], "packs": None, "bucket_id": 2, "max_len": 384, "index": 1},
        ),
        expect_dataset="d",
        expect_tokenizer="t",
    )
    assert plan.names == ("a", "b", "c")
    assert [microbatch.sample_ids.tolist() for microbatch in plan.iter_epoch(0)] == [[1, 0], [2]]
    assert [microbatch.tokens for microbatch in plan.iter_epoch(0)] == [256, 384]
    assert plan.meta.bounds == (128, 256, 512)
    assert (plan.meta.settings.seed, plan.meta.settings.pad_to, plan.size) == (42, "bucket", 3)
    save_batch_plan(plan, tmp_path / "columns")
    again = load_batch_plan(tmp_path / "columns", verify=True)
    assert (again.names, again.fingerprint) == (plan.names, plan.fingerprint)


def test_reading_is_lenient(tmp_path: Path) -> None:
    """No header, other spellings, further keys, numbers for names, blank lines, any order: understood."""
    plan = load_batch_plan(
        _write(
            tmp_path,
            {"mb_idx": 1, "max_len": 9, "sample_ids": [4, 0], "tokens": 11, "batch_size": 2, "x": {}},
            "",
            {"max_length": 8, "packs": [[1, 2], [3]], "mb_idx": 0},
            meta={},
        )
    )
    first, second = plan.iter_epoch(0)
    assert (first.index, first.sample_ids.tolist(), first.max_len, first.tokens) == (0, [1, 2, 3], 8, 16)
    assert first.packs is not None
    assert [pack.tolist() for pack in first.packs] == [[1, 2], [3]]
    assert (second.sample_ids.tolist(), second.tokens, second.rows) == ([4, 0], 11, 2)
    assert (plan.size, plan.names, plan.meta.settings.pack) == (5, None, True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"samples": ["a"', "Expecting"),
        ("[1]", "it must be an object, not list"),
        ({"max_len": 3}, "it lists no samples"),
        ({"samples": [], "max_len": 3}, "it lists no samples"),
        ({"samples": "a", "max_len": 3}, "samples must be a list"),
        ({"samples": [1.5], "max_len": 3}, "a sample must be a name or a whole number from 0, not 1.5"),
        ({"samples": [-1], "max_len": 3}, "not -1"),
        ({"samples": ["a"]}, "max_len is missing"),
        ({"samples": ["a"], "max_len": 0}, "max_len must be a whole number from 1"),
        ({"samples": ["a"], "max_len": 3, "bucket_id": "x"}, "bucket_id must be a whole number from 0"),
        ({"samples": ["a"], "max_len": 3, "batch_size": 2}, "batch_size is 2, but it lists 1 samples"),
        ({"samples": ["a"], "packs": [["b"]], "max_len": 3}, "its packs hold other samples than it lists"),
        ({"packs": [[]], "max_len": 3}, "a pack is empty|it lists no samples"),
        ({"packs": 3, "max_len": 3}, "packs must be a list of lists"),
    ],
)
def test_bad_lines(tmp_path: Path, line: Any, said: str) -> None:
    """Each is refused with file and line."""
    folder = _write(tmp_path, {"epoch": 0}, {"samples": ["z"], "max_len": 3}, line)
    with pytest.raises(BatchPlanError, match=rf"epoch_0\.jsonl, line 3 is no microbatch: .*({said})"):
        load_batch_plan(folder)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([{"num_microbatches": 2}, {"samples": ["a"], "max_len": 3}], "cut short or edited: line 1 says"),
        ([{"epoch": 1}, {"samples": ["a"], "max_len": 3}], "line 1 says epoch 1; by its name it is epoch 0"),
        ([{"samples": ["a"], "max_len": 3, "index": 0}] * 2, "has microbatch 0 twice"),
        (
            [{"samples": ["a"], "max_len": 3, "index": 0}, {"samples": ["b"], "max_len": 3}],
            "with an index and without",
        ),
        (
            [{"samples": ["a", "b"], "max_len": 3}, {"samples": ["a"], "max_len": 3}],
            "sample 0 occurs 2 times",
        ),
        ([{"samples": ["a"], "max_len": 3, "tokens": 4}], "has 4 tokens, but room for 3"),
    ],
)
def test_bad_files(tmp_path: Path, lines: list[Any], said: str) -> None:
    """What is wrong with a file as a whole is said, a sample in two microbatches above all."""
    with pytest.raises(BatchPlanError, match=said):
        load_batch_plan(_write(tmp_path, *lines))


def test_missing_epochs(tmp_path: Path) -> None:
    """An epoch that is planned but not there is named; so is a folder with no epoch at all."""
    _write(tmp_path, {"samples": ["a"], "max_len": 3}, meta={**META, "num_epochs": 2})
    with pytest.raises(BatchPlanError, match=r"epoch_1\.jsonl is missing \(2 epochs are planned\)"):
        load_batch_plan(tmp_path)
    (tmp_path / "meta.json").write_text("{}")
    (tmp_path / "epoch_0.jsonl").unlink()
    with pytest.raises(BatchPlanError, match=r"has no epoch_0\.jsonl"):
        load_batch_plan(tmp_path)
    (tmp_path / "meta.json").write_text("[]")
    with pytest.raises(BatchPlanError, match="must hold an object, not list"):
        load_batch_plan(tmp_path)


def test_an_edit_of_a_plan_of_ours(tmp_path: Path) -> None:
    """A line that was changed since Torchdeck wrote it is noticed, with what to do when it was meant."""
    save_batch_plan(_plan(epochs=1), tmp_path / "p", layout="jsonl")
    file = tmp_path / "p" / "epoch_0.jsonl"
    header, first, second, *rest = file.read_text().splitlines()
    one, other = json.loads(first), json.loads(second)
    one["samples"], other["samples"] = other["samples"], one["samples"]
    file.write_text("\n".join([header, json.dumps(one), json.dumps(other), *rest]))
    with pytest.raises(BatchPlanError, match=r"was edited or is damaged: .* or delete torchdeck\.json"):
        load_batch_plan(tmp_path / "p")


def test_unknown_layout(tmp_path: Path) -> None:
    """A layout that there is not is refused, and nothing is written."""
    with pytest.raises(BatchPlanError, match="layout must be one of columns, jsonl, not 'x'"):
        save_batch_plan(_plan(), tmp_path / "p", layout="x")  # type: ignore[arg-type]
    assert not (tmp_path / "p").exists()
