"""Which data a plan was made from: remembered beside it, and told apart when it has changed."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from torchdeck.data.batch_plan import (
    BatchPlanError,
    DataSource,
    build_batch_plan,
    changed_source,
    content_fingerprint,
    lengths_fingerprint,
    listing_of,
    load_batch_plan,
    read_lengths,
    save_batch_plan,
)
from torchdeck.data.batch_plan.files import source_data


def _of_dataset(data: Path) -> DataSource:
    return DataSource(str(data), "dataset", listing_of(data), content_fingerprint(data))


def _saved(folder: Path, made_from: DataSource, layout: str = "columns") -> Path:
    plan = build_batch_plan([3, 3, 3], token_budget=6)
    save_batch_plan(plan, folder, layout=layout, source=made_from, overwrite=True)  # type: ignore[arg-type]
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "d.txt"
    path.write_text("abc\ndef\nghi\n")
    return path


@pytest.mark.parametrize("layout", ["columns", "jsonl"])
def test_as_many_samples_but_others(tmp_path: Path, text: Path, layout: str) -> None:
    """Unchanged, nothing is said; another letter, and it is that data; written over, it may be again."""
    plan = _saved(tmp_path / "p", _of_dataset(text), layout)
    assert changed_source(plan) is None
    text.write_text("abc\nxef\nghi\n")
    os.utime(text, ns=(1, 1))
    changed = changed_source(plan)
    assert changed is not None
    assert changed.path == str(text)
    assert changed.build == f"torchdeck batchplan build --dataset {text}"
    assert load_batch_plan(plan, verify=True).size == 3
    assert changed_source(_saved(plan, _of_dataset(text), layout)) is None


def test_content_is_read_only_where_times_differ(tmp_path: Path, text: Path) -> None:
    """The same content with another time is unchanged, and is read for that; with the same time it is not."""
    plan = _saved(tmp_path / "p", _of_dataset(text))
    told: list[tuple[str, int, int]] = []
    assert changed_source(plan, progress=lambda *said: told.append(said)) is None
    assert told == []
    os.utime(text, ns=(5, 5))
    assert changed_source(plan, progress=lambda *said: told.append(said)) is None
    assert told == [("bytes read", 12, 12)]


def test_a_folder_of_samples(tmp_path: Path) -> None:
    """A file more, or one that was renamed, is other data; one that is hidden is not."""
    data = tmp_path / "texts"
    (data / "sub").mkdir(parents=True)
    (data / "a").write_text("abc")
    (data / "sub" / "b").write_text("def")
    plan = _saved(tmp_path / "p", _of_dataset(data))
    (data / ".hidden").write_text("x")
    assert changed_source(plan) is None
    (data / "a").rename(data / "c")
    assert changed_source(plan) is not None
    (data / "c").rename(data / "a")
    assert changed_source(plan) is None
    (data / "a").unlink()
    (data / "sub" / "b").unlink()
    assert changed_source(plan) is not None


def test_lengths_are_compared_as_numbers(tmp_path: Path) -> None:
    """A file of lengths that says the same in other words is unchanged; one that is no longer one is not."""
    data = tmp_path / "l.txt"
    data.write_text("3\n3\n3\n")
    fingerprint = lengths_fingerprint(read_lengths(data))
    plan = _saved(tmp_path / "p", DataSource(str(data), "lengths", listing_of(data), fingerprint))
    data.write_text(" 3\n3 \n3\n\n")
    assert changed_source(plan) is None
    data.write_text("three\n")  # of the size that it had at first
    os.utime(data, ns=(1, 1))
    assert changed_source(plan) is not None


def test_nothing_is_said_of_what_is_not_here(tmp_path: Path, text: Path) -> None:
    """Data on another machine, and a plan that was saved without a source."""
    plan = _saved(tmp_path / "p", replace(_of_dataset(text), listing="", path=str(tmp_path / "gone")))
    assert changed_source(plan) is None
    save_batch_plan(build_batch_plan([3], token_budget=6), tmp_path / "q")
    assert changed_source(tmp_path / "q") is None


def test_the_plan_itself_stays_the_same(tmp_path: Path, text: Path) -> None:
    """Its files are equal to the byte, with and without a source beside them."""
    plan = _saved(tmp_path / "p", _of_dataset(text))
    save_batch_plan(build_batch_plan([3, 3, 3], token_budget=6), tmp_path / "q")
    assert sorted(path.name for path in plan.iterdir()) == ["columns.bin", "plan.json", "source.json"]
    for path in (tmp_path / "q").iterdir():
        assert path.read_bytes() == (plan / path.name).read_bytes()


def test_what_is_no_file_is_other_data(tmp_path: Path, text: Path) -> None:
    """A pipe in its place is not waited for."""
    plan = _saved(tmp_path / "p", _of_dataset(text))
    text.unlink()
    os.mkfifo(text)
    assert changed_source(plan) is not None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "x"}, "does not say which data"),
        ({"v": 2}, "has version 2; this Torchdeck reads version 1"),
        ({"path": 7}, "is damaged: path is 7"),
        ({"reading": "guess"}, "is damaged: reading is 'guess'"),
    ],
)
def test_a_damaged_source_is_refused(
    tmp_path: Path, text: Path, change: dict[str, object], said: str
) -> None:
    """Field by field, with the file's name."""
    file = _saved(tmp_path / "p", _of_dataset(text)) / "source.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(BatchPlanError, match=said):
        changed_source(tmp_path / "p")
    file.write_text("{")
    with pytest.raises(BatchPlanError, match=r"source\.json is cut short or damaged"):
        changed_source(tmp_path / "p")


@pytest.mark.parametrize("reading", ["dataset", "lengths"])
def test_a_plan_from_elsewhere_does_not_have_everything_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reading: Literal["dataset", "lengths"]
) -> None:
    """A plan may name any folder or file: looking through it ends, and the message says what to do."""
    data = tmp_path / "d"
    if reading == "dataset":
        data.mkdir()
        for number in range(3):
            (data / str(number)).write_bytes(b"")
    else:
        data.write_text("3\n" * 100_000)
    with_other_times = DataSource(str(data), reading, "0" * 64, "0" * 64)
    plan = _saved(tmp_path / "p", with_other_times)
    assert changed_source(plan) == with_other_times
    monkeypatch.setattr(source_data, "TIME_LIMIT", 0.0)
    with pytest.raises(BatchPlanError, match=r"could not be checked within 0 s: .* or remove .*source\.json"):
        changed_source(plan)


def test_a_file_without_end_is_left_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gigabytes of nothing take no room on the disk, and would take minutes to read."""
    data = tmp_path / "texts"
    data.mkdir()
    with (data / "0").open("wb") as file:
        file.truncate(1 << 42)
    plan = _saved(tmp_path / "p", DataSource(str(data), "dataset", "0" * 64, "0" * 64))
    monkeypatch.setattr(source_data, "TIME_LIMIT", 0.2)
    begun = time.process_time()
    with pytest.raises(BatchPlanError, match="could not be checked"):
        changed_source(plan)
    assert time.process_time() - begun < 5
