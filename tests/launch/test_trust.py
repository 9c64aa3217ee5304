"""Which folders' code may run."""

import json
from pathlib import Path

import pytest

from torchdeck.launch.trust import FILE_NAME, TrustError, is_trusted, trust, trusted_folders


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def test_nothing_is_trusted_at_first(home: Path, tmp_path: Path) -> None:
    """Code from anywhere is not run unasked."""
    assert not is_trusted(tmp_path, home)


def test_a_folder_covers_what_is_below_it(home: Path, tmp_path: Path) -> None:
    """Its subfolders are trusted, its siblings and its parent are not."""
    for name in ("a", "a/b", "ab"):
        (tmp_path / name).mkdir()
    trust(tmp_path / "a", home)
    assert is_trusted(tmp_path / "a", home)
    assert is_trusted(tmp_path / "a/b", home)
    assert not is_trusted(tmp_path / "ab", home)
    assert not is_trusted(tmp_path, home)


def test_links_are_followed(home: Path, tmp_path: Path) -> None:
    """A link into a trusted folder is trusted; a link inside it that leads out is not."""
    (tmp_path / "a").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "a/escape").symlink_to(tmp_path / "out")
    trust(tmp_path / "link", home)
    assert is_trusted(tmp_path / "a", home)
    assert not is_trusted(tmp_path / "a/escape", home)
    assert trusted_folders(home) == [tmp_path / "a"]


def test_trust_adds_up(home: Path, tmp_path: Path) -> None:
    """One more folder does not take the others away, and saying it twice changes nothing."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        trust(tmp_path / name, home)
    before = (home / FILE_NAME).read_bytes()
    trust(tmp_path / "a", home)
    assert (home / FILE_NAME).read_bytes() == before
    assert trusted_folders(home) == [tmp_path / "a", tmp_path / "b"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"v": 1, "folders": "x"}', b'{"folders": ["/"]}', b'{"v": 1, "folders": [3, "."]}'],
)
def test_a_damaged_list_trusts_nobody(home: Path, tmp_path: Path, content: bytes) -> None:
    """What cannot be read trusts nothing, and never everything."""
    (home / FILE_NAME).write_bytes(content)
    assert not is_trusted(tmp_path, home)


def test_a_newer_list_is_refused(home: Path, tmp_path: Path) -> None:
    """A later Torchdeck may mean something else by it."""
    (home / FILE_NAME).write_text(json.dumps({"v": 2, "folders": ["/"]}))
    with pytest.raises(TrustError, match="newer Torchdeck"):
        is_trusted(tmp_path, home)


def test_only_a_folder_can_be_trusted(home: Path, tmp_path: Path) -> None:
    """A file or nothing at all is refused with a sentence."""
    (tmp_path / "file").touch()
    for name in ("file", "absent"):
        with pytest.raises(TrustError, match="not a folder"):
            trust(tmp_path / name, home)


def test_the_usual_home_is_used(tmp_path: Path, torchdeck_home: Path) -> None:
    """Without a home given, TORCHDECK_HOME is where trust is kept."""
    trust(tmp_path)
    assert is_trusted(tmp_path / "sub")
    assert (torchdeck_home / FILE_NAME).exists()
