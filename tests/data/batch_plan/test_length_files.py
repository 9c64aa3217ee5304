"""Lengths from files, and data sets measured where they lie."""

import json
from pathlib import Path

import numpy as np
import pytest

from torchdeck.data.batch_plan import BatchPlanError, measure_dataset, read_lengths
from torchdeck.data.batch_plan.files import dataset_files
from torchdeck.data.batch_plan.files.dataset_files import content_fingerprint


def test_three_ways_to_give_lengths(tmp_path: Path) -> None:
    """A .npy, a number a line and .jsonl with "length" say the same."""
    np.save(tmp_path / "l.npy", np.array([3, 0, 17], dtype=np.int16))
    (tmp_path / "l.txt").write_text("3\n 0\r\n17\n\n")
    (tmp_path / "l.jsonl").write_text('{"length": 3}\n{"id": "x", "length": 0}\n{"length": 17}')
    for name in ("l.npy", "l.txt", "l.jsonl"):
        assert read_lengths(tmp_path / name).tolist() == [3, 0, 17]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("l.txt", b"3\n4.5\n", r"l\.txt, line 2: it must be a whole number, not '4.5'"),
        ("l.txt", b"3\nnan\n", "line 2: it must be a whole number, not 'nan'"),
        ("l.txt", b"3\n\xff\n", "line 2: it must be a whole number"),
        ("l.txt", b"9" * 30, "line 1: it must be a whole number"),
        ("l.txt", b"3\n\n4\n", "line 2 is blank: each line must be a sample"),
        ("l.txt", b"", "is empty: a batch plan needs at least one sample"),
        (
            "l.jsonl",
            b'{"length": 3}\n{"length": "3"}\n',
            "line 2: \"length\" must be a whole number, not '3'",
        ),
        ("l.jsonl", b'{"length": true}\n', "not True"),
        ("l.jsonl", b"{}\n", "not None"),
        ("l.jsonl", b"[3]\n", "line 1: it must be an object, not list"),
        ("l.jsonl", b'{"length": 3', "line 1: .*Expecting"),
        ("l.npy", b"\x93NUMPY\x01\0\x02\0[{", "holds no lengths"),
        ("l.npy", b"", "holds no lengths"),
        ("l.npy", b"nonsense", "holds no lengths"),
    ],
)
def test_files_without_lengths(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    """Each is refused with the file, and the line where there are lines."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BatchPlanError, match=said):
        read_lengths(tmp_path / name)


def test_arrays_that_are_no_lengths(tmp_path: Path) -> None:
    """Floats, tables and pickled objects in a .npy are refused."""
    np.save(tmp_path / "f.npy", np.array([1.5]))
    np.save(tmp_path / "t.npy", np.ones((2, 2), dtype=int))
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    for name, said in (
        ("f", "float64: sample 0 has 1.5"),
        ("t", r"shape \(2, 2\)"),
        ("o", "holds no lengths"),
    ):
        with pytest.raises(BatchPlanError, match=said):
            read_lengths(tmp_path / f"{name}.npy")


@pytest.mark.parametrize("chunk", [1, 3, 1 << 22])
def test_a_text_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """A line is a sample and its bytes count, wherever the file is cut while reading."""
    monkeypatch.setattr(dataset_files, "_CHUNK", chunk)
    (tmp_path / "d.txt").write_bytes("ab\n\näöü\nlast".encode())
    measured = measure_dataset(tmp_path / "d.txt")
    assert (measured.lengths.tolist(), measured.unit) == ([2, 0, 6, 4], "bytes")
    assert measured.fingerprint == content_fingerprint(tmp_path / "d.txt")
    (tmp_path / "d.txt").write_bytes(b"ab\n")
    assert measure_dataset(tmp_path / "d.txt").lengths.tolist() == [2]
    (tmp_path / "d.txt").write_bytes(b"")
    with pytest.raises(BatchPlanError, match="is empty"):
        measure_dataset(tmp_path / "d.txt")


def test_a_folder_of_files(tmp_path: Path) -> None:
    """A file is a sample, in the order of relative paths; names and content make the fingerprint."""
    for name, content in (
        ("b.txt", "four"),
        ("a/z.txt", "x"),
        ("a.txt", ""),
        (".hidden", "no"),
        (".git/x", "no"),
    ):
        (tmp_path / "d" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "d" / name).write_text(content)
    said: list[tuple[str, int, int]] = []
    measured = measure_dataset(tmp_path / "d", progress=lambda *what: said.append(what))
    assert measured.lengths.tolist() == [0, 1, 4]
    assert said[-1] == ("files read", 3, 3)
    (tmp_path / "d" / "b.txt").write_text("five")
    changed = measure_dataset(tmp_path / "d").fingerprint
    (tmp_path / "d" / "b.txt").rename(tmp_path / "d" / "c.txt")
    assert len({measured.fingerprint, changed, measure_dataset(tmp_path / "d").fingerprint}) == 3
    (tmp_path / "empty").mkdir()
    with pytest.raises(BatchPlanError, match="has no files"):
        measure_dataset(tmp_path / "empty")


@pytest.mark.parametrize(
    ("lines", "lengths", "unit"),
    [
        ([{"text": "äb"}, {"text": ""}], [3, 0], "bytes"),
        ([{"input_ids": [1, 2, 3], "text": "x"}, {"input_ids": []}], [3, 0], "tokens"),
        ([{"tokens": [5]}, {"tokens": [6, 7]}], [1, 2], "tokens"),
        ([{"length": 9, "text": "x"}], [9], "tokens"),
    ],
)
def test_json_lines(tmp_path: Path, lines: list[object], lengths: list[int], unit: str) -> None:
    """The first line says by which key samples are measured."""
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    measured = measure_dataset(tmp_path / "d.jsonl")
    assert (measured.lengths.tolist(), measured.unit) == (lengths, unit)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            '{"x": 1}\n',
            "a sample must have 'length' or 'input_ids' or 'tokens' or 'text' or 'response'; this has x",
        ),
        ('{"text": "a"}\n{"length": 3}\n', 'line 2: a sample must have "text", as the first line has'),
        ('{"text": 3}\n', 'line 1: "text" must be a text, not int'),
        ('{"tokens": "a b"}\n', 'line 1: "tokens" must be a list of numbers, not str'),
    ],
)
def test_bad_json_lines(tmp_path: Path, content: str, said: str) -> None:
    """A sample that cannot be measured is refused with file and line."""
    (tmp_path / "d.jsonl").write_text(content)
    with pytest.raises(BatchPlanError, match=said):
        measure_dataset(tmp_path / "d.jsonl")


def test_an_array_as_data_set(tmp_path: Path) -> None:
    """A .npy of lengths is a data set, too, named by its content."""
    np.save(tmp_path / "d.npy", np.array([1, 2]))
    measured = measure_dataset(tmp_path / "d.npy")
    assert (measured.lengths.tolist(), measured.unit) == ([1, 2], "tokens")
    assert measured.fingerprint == content_fingerprint(tmp_path / "d.npy")
