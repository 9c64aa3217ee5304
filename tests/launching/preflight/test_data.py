"""The data of a recipe: there, and long enough."""

import os
from typing import Any

import pytest

from support.values.checked_config import CheckedConfig, assert_refused


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        ({}, "failed", "holds no text"),
        ({"a.txt": b""}, "failed", "holds no text"),
        ({"a.bin": b"\0" * 9999}, "failed", "holds no text"),
        ({".hidden": b"x" * 9999}, "failed", "holds no text"),
        ({"a.txt": b"x" * 500}, "failed", "500 bytes"),
        ({"a.txt": b"x" * 2600, "b.txt": b"y" * 10}, "ok", ""),
    ],
)
def test_data_that_is_empty_or_short_is_refused(
    checked: CheckedConfig, content: dict[str, bytes], status: str, words: str
) -> None:
    """Each part, validation too, needs one sample of 128 bytes and one more: 2,580 bytes at 5 % held out."""
    (checked.folder / "text").mkdir()
    for name, data in content.items():
        (checked.folder / "text" / name).write_bytes(data)
    check = checked.recipe(data={"source": "text"})["data"]
    assert check.status == status
    assert words in str(check)


def test_data_that_is_not_there_is_refused(checked: CheckedConfig) -> None:
    """The path is in the sentence."""
    assert_refused(checked.recipe(data={"source": "nowhere"})["data"], "nowhere", "does not exist")


def test_a_file_of_tokens_must_be_there(checked: CheckedConfig) -> None:
    """Of a run that reads tokens no text is looked for."""
    assert_refused(checked.recipe(data={"tokens": "t.bin"})["data"], "t.bin is not a file", "no tokens")
    (checked.folder / "t.bin").write_bytes(b"\1\0" * 500)
    assert "tokens in" in str(checked.recipe(data={"tokens": "t.bin"})["data"])


def test_a_limit_on_data_counts(checked: CheckedConfig) -> None:
    """max_bytes can make the standard library too short."""
    assert_refused(checked.recipe(data={"max_bytes": 1000})["data"], "data.max_bytes", "model.context")


def test_data_has_the_exact_least_size(checked: CheckedConfig) -> None:
    """One byte less is refused: the recipe would refuse it too."""
    file = checked.folder / "text.txt"
    options: dict[str, Any] = {"data": {"source": "text.txt", "heldout": 0.0}, "model": {"context": 16}}
    file.write_bytes(b"x" * 16)
    assert checked.recipe(**options)["data"].status == "failed"
    file.write_bytes(b"x" * 17)
    assert checked.recipe(**options)["data"].status == "ok"


def test_a_pipe_among_the_data_is_not_waited_for(checked: CheckedConfig) -> None:
    """Opening it would wait for a writer."""
    (checked.folder / "text").mkdir()
    os.mkfifo(checked.folder / "text" / "a.txt")
    (checked.folder / "text" / "b.txt").write_bytes(b"x" * 9999)
    assert checked.recipe(data={"source": "text"})["data"].status == "ok"
