"""Files made to hurt: each is refused in a sentence, before it costs memory or time."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from torchdeck.data.batch_plan import (
    BatchPlanError,
    build_batch_plan,
    check_shards,
    load_batch_plan,
    measure_dataset,
    read_lengths,
    save_batch_plan,
    save_shards,
)

DEEP = "[" * 100_000
HEADER = '{"epoch": 0}'
SOUND = '{"samples": [0, 1], "max_len": 4}'


def _foreign(folder: Path, meta: str, *lines: str) -> Path:
    folder.mkdir()
    (folder / "meta.json").write_text(meta)
    (folder / "epoch_0.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.mark.parametrize(
    ("meta", "lines", "said"),
    [
        (DEEP, (HEADER, SOUND), r"meta\.json is cut short or damaged: it has more than 64 objects"),
        ("{}", (HEADER, DEEP), r"epoch_0\.jsonl, line 2 is no microbatch: it has more than 64 objects"),
        ("{}", (), r"epoch_0\.jsonl is empty: it was cut short"),
        (
            '{"num_epochs": 1000000000000000}',
            (HEADER, SOUND),
            r"epoch_1\.jsonl is missing \(1000000000000000",
        ),
        ('{"overflow_max": Infinity}', (HEADER, SOUND), r"meta\.json is cut short or damaged: Infinity"),
        (
            '{"bucket_edges": [1e400]}',
            (HEADER, SOUND),
            r"meta\.json is .*damaged: .* out of range",
        ),
    ],
)
def test_the_layout_of_others(tmp_path: Path, meta: str, lines: tuple[str, ...], said: str) -> None:
    """Brackets without end, no content, numbers that are none, epochs beyond counting."""
    with pytest.raises(BatchPlanError, match=said):
        load_batch_plan(_foreign(tmp_path / "p", meta, *lines))


def test_ids_far_apart(tmp_path: Path) -> None:
    """A plan takes room by how many samples it has, not by how large their numbers are."""
    lines = (HEADER, '{"samples": [3, 99999999999999999], "max_len": 4}', SOUND)
    plan = load_batch_plan(_foreign(tmp_path / "p", "{}", *lines))
    assert plan.size == 10**17
    save_shards(plan, 2, tmp_path / "s")
    check_shards(tmp_path / "s")
    twice = (*lines, '{"samples": [99999999999999999], "max_len": 4}')
    with pytest.raises(
        BatchPlanError, match="sample 99999999999999999 occurs 2 times, in microbatches 0 and 2"
    ):
        load_batch_plan(_foreign(tmp_path / "q", "{}", *twice))


def _with_names(folder: Path) -> Path:
    """A plan in columns whose samples have names."""
    lines = (HEADER, '{"samples": ["a", "b\\udc80é"], "max_len": 4}')
    plan = load_batch_plan(_foreign(folder / "foreign", "{}", *lines))
    assert plan.names == ("a", "b\udc80é")
    save_batch_plan(plan, folder / "p")
    assert load_batch_plan(folder / "p", verify=True).names == plan.names
    return folder / "p"


@pytest.mark.parametrize("content", [b'["a', b'["a"]', b"[1,2]", b'"ab"'])
def test_damaged_names(tmp_path: Path, content: bytes) -> None:
    """Names that are no list of as many texts are refused, even where nothing is hashed."""
    place = _with_names(tmp_path)
    columns = json.loads((place / "plan.json").read_bytes())["columns"]
    size = next(column["count"] for column in columns if column["name"] == "names")
    whole = (place / "columns.bin").read_bytes()
    (place / "columns.bin").write_bytes(whole[:-size] + content.ljust(size))
    with pytest.raises(BatchPlanError, match=r"names in the columns of|do not name 2 samples"):
        load_batch_plan(place)


@pytest.mark.parametrize(
    "edit", [{"size": float("inf")}, {"size": "6"}, {"bounds": [1e400]}, {"bounds": []}, {"bounds": 5}]
)
def test_meta_data_of_other_kinds(tmp_path: Path, edit: dict[str, Any]) -> None:
    """Numbers that are none are not made into some."""
    save_batch_plan(build_batch_plan([3, 1, 4], token_budget=10), tmp_path / "p")
    file = tmp_path / "p" / "plan.json"
    value = json.loads(file.read_bytes())
    value["meta"].update(edit)
    file.write_text(json.dumps(value))
    with pytest.raises(BatchPlanError, match=r"plan\.json is (cut short or )?damaged"):
        load_batch_plan(tmp_path / "p")
    file.write_text(DEEP)
    with pytest.raises(BatchPlanError, match=r"plan\.json is .*damaged: it has more than 64"):
        load_batch_plan(tmp_path / "p")


def test_lengths_with_brackets_without_end(tmp_path: Path) -> None:
    """As lengths and as a data set, with file and line."""
    file = tmp_path / "l.jsonl"
    file.write_text(f'{{"length": 1}}\n{{"length": {DEEP}\n')
    for read in (read_lengths, measure_dataset):
        with pytest.raises(BatchPlanError, match=r"l\.jsonl, line 2: it has more than 64 objects"):
            read(file)


def test_a_folder_with_a_pipe(tmp_path: Path) -> None:
    """No one would ever write to it: it is refused instead of read; so is a link to nowhere."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "link").symlink_to("nowhere")
    with pytest.raises(BatchPlanError, match="link is no file: a folder of samples must have files alone"):
        measure_dataset(tmp_path / "d")
    (tmp_path / "d" / "link").unlink()
    os.mkfifo(tmp_path / "d" / "pipe")
    with pytest.raises(BatchPlanError, match="pipe is no file"):
        measure_dataset(tmp_path / "d")
