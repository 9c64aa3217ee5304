"""Text as samples."""

from pathlib import Path

import pytest
import torch

from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes.text_bytes import build_windows, read_corpus


def test_the_standard_library_is_everywhere() -> None:
    """Several megabytes of Python source, the same in two readings, of which a prefix is a prefix."""
    text = read_corpus("stdlib", 2_000_000)
    assert len(text) == 2_000_000
    assert bytes(text[:50_000]) == bytes(read_corpus("stdlib", 50_000))
    assert b"def " in bytes(text)


def test_a_folder_is_read_whole_and_mixed(tmp_path: Path) -> None:
    """Every text file once, not by the alphabet; hidden, binary and installed files left out."""
    for index in range(20):
        (tmp_path / f"{index:02}.txt").write_text(f"<{index:02}>")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "deep.md").write_text("<deep>")
    for skipped in ("site-packages", ".git", "tests"):
        (tmp_path / skipped).mkdir()
        (tmp_path / skipped / "no.txt").write_text("<no>")
    (tmp_path / ".hidden").write_text("<no>")
    (tmp_path / "picture.png").write_bytes(b"<no>\0\0")
    parts = bytes(read_corpus(str(tmp_path))).decode().splitlines()
    assert sorted(parts) == [f"<{index:02}>" for index in range(20)] + ["<deep>"]
    assert parts != sorted(parts)


def test_order_does_not_depend_on_where_the_folder_lies(tmp_path: Path) -> None:
    """The same files elsewhere are the same text."""
    for place in ("here", "there"):
        for name in ("a", "b", "c", "d"):
            (tmp_path / place / name).parent.mkdir(exist_ok=True)
            (tmp_path / place / name).write_text(name)
    here, there = (bytes(read_corpus(str(tmp_path / place))) for place in ("here", "there"))
    assert here == there


def test_windows_follow_each_other(tmp_path: Path) -> None:
    """Sample i is text[i·4 : i·4 + 4] and the bytes one further; splits do not overlap."""
    path = tmp_path / "text"
    path.write_bytes(bytes(range(1, 41)))
    train = build_windows(str(path), "train", context=4, heldout=0.25)
    held = build_windows(str(path), "heldout", context=4, heldout=0.25)
    assert train is not None
    assert held is not None
    starts = [train[i][0].tolist() for i in range(len(train))]
    assert starts == [list(range(i, i + 4)) for i in range(1, 29, 4)]
    assert train[1][1].tolist() == [6, 7, 8, 9]
    assert train[0][0].dtype == torch.int64
    assert held[0][0].tolist() == [32, 33, 34, 35]
    with pytest.raises(IndexError):
        train[len(train)]


def test_nothing_held_out_is_none(tmp_path: Path) -> None:
    """With heldout 0 there is no validation data set."""
    path = tmp_path / "text"
    path.write_text("some text to learn")
    assert build_windows(str(path), "heldout", context=4, heldout=0.0) is None


@pytest.mark.parametrize("make", ["nothing", "empty file", "empty folder"])
def test_no_text_gets_a_sentence(make: str, tmp_path: Path) -> None:
    """A missing source and one without text are told apart."""
    path = tmp_path / "source"
    if make == "empty file":
        path.touch()
    elif make == "empty folder":
        path.mkdir()
    with pytest.raises(RecipeError, match="does not exist" if make == "nothing" else "holds no text"):
        read_corpus(str(path))
