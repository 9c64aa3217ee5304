"""JSON from outside: what is accepted, and that everything else is refused with one error."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.few_examples import cases
from support.fuzz import hostile
from support.fuzz.reader_process import ReaderProcess
from torchdeck.contract.atomic import read_json
from torchdeck.contract.bounded_file import UnreadableFileError, read_bounded
from torchdeck.contract.bounded_json import (
    JsonError,
    parse_json,
    parse_json_object,
    read_json_file,
)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b'{"a": 1} trailing', "not JSON"),
        (b"NaN", "NaN is not a number"),
        (b'{"a": -Infinity}', "-Infinity is not a number"),
        (b"1e999", "out of range"),
        (b"9" * 400, "out of range"),
        (b"-" + b"9" * 5000, "out of range"),
        (b"0." + b"1" * 5000, "out of range"),
        (b"18446744073709551616", "out of range"),
        (b"[" * 65 + b"]" * 65, "more than 64"),
        (b"[" * 100_000, "more than 64"),
        (b'{"a":' * 100_000, "more than 64"),
        (b'"\xff"', "not Unicode"),
        (b'"\xed\xa0\x80"', "not Unicode"),
        (rb'"\ud800"', "not Unicode"),
        (rb'{"\uDFFF": 1}', "not Unicode"),
        (b"[" + b"{}," * 500_000 + b"0]", "values"),
        (b" " * (8 << 20), "it is larger than 7 MiB"),
    ],
)
def test_what_exceeds_a_bound_is_refused_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(JsonError, match=reason):
        parse_json(content, limit=7 << 20)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, 2.5, True, "\U0001f600"],
        2**64 - 1,
        -(2**64) + 1,
        1e308,
        {"a": [{}] * 1000},
        "[{" * 200,
    ],
)
def test_json_within_the_bounds_comes_back(value: Any) -> None:
    assert parse_json(json.dumps(value).encode()) == value


def test_nesting_up_to_the_depth_is_accepted() -> None:
    for text in (b"[" * 64 + b"1" + b"]" * 64, b"[" * 64 + b"]" * 64, b"[[]," * 31 + b"[]" + b"]" * 31):
        assert parse_json(text) is not None


def test_names_of_files_that_are_not_utf8_are_accepted_where_they_are_asked_for() -> None:
    name = os.fsdecode(b"/data/\xff")
    content = json.dumps(name).encode()
    assert parse_json(content, file_names=True) == name
    with pytest.raises(JsonError):
        parse_json(content)
    with pytest.raises(JsonError):
        parse_json(rb'"\ud800"', file_names=True)


def test_numbers_as_python_writes_them_are_accepted_where_they_are_asked_for() -> None:
    value = [math.inf, -math.inf, 2**128, 1e300]
    assert parse_json(json.dumps(value).encode(), python_numbers=True) == value
    for text in (b"9" * 101, b"[" * 65 + b"]" * 65):
        with pytest.raises(JsonError):
            parse_json(text, python_numbers=True)


def test_an_object_is_one() -> None:
    assert parse_json_object(b'{"a": 1, "a": 2}') == {"a": 2}
    with pytest.raises(JsonError, match="not a JSON object"):
        parse_json_object(b"[]")


def test_files_that_would_block_or_fill_the_memory_are_refused_at_once(tmp_path: Path) -> None:
    fifo, large = tmp_path / "fifo", tmp_path / "large"
    os.mkfifo(fifo)
    with large.open("wb") as file:
        file.truncate(1 << 40)
    for path in (fifo, large, tmp_path, Path("/dev/zero")):
        with pytest.raises(UnreadableFileError):
            read_bounded(path, 1000)
        with pytest.raises(JsonError):
            read_json_file(path, limit=1000)
        assert read_json(path) is None
    with pytest.raises(UnreadableFileError, match="made up by the kernel"):
        read_bounded(Path("/proc/self/maps"), 1000)  # the kernel says that it has no bytes
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "absent", 1000)


def _read(content: bytes, _: Path) -> None:
    try:
        value = parse_json(content)
    except JsonError:
        return
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")


def test_any_bytes_are_refused_or_safe_to_use() -> None:
    with ReaderProcess(_read) as reader:

        @settings(max_examples=cases())
        @given(hostile.documents({"a": [1, {"b": 2.5}], "c": "text"}) | st.binary())
        def each(content: bytes) -> None:
            reader.read(content)

        each()
