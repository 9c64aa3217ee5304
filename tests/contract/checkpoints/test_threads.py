"""Files of a checkpoint are hashed several at a time."""

import hashlib
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.checkpoint_files import flip, manifest_of
from torchdeck.contract.checkpoints import threads, verification
from torchdeck.contract.checkpoints.manifest import FileEntry
from torchdeck.contract.checkpoints.threads import in_threads
from torchdeck.contract.checkpoints.verification import hash_file, verify_files

LIMIT = 30.0


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 8))
def test_results_are_in_the_order_of_the_items(sizes: list[int], cores: int) -> None:
    """Whatever the sizes, of which the largest begin first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "usable_cores", lambda: cores)
        assert in_threads(lambda item: item + 1, range(len(sizes)), sizes) == list(range(1, len(sizes) + 1))


@pytest.mark.parametrize("cores", [1, 4])
def test_the_first_error_is_raised(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    """That of the first item, not the one that happened to come first."""
    monkeypatch.setattr(threads, "usable_cores", lambda: cores)
    last = threading.Event()

    def fail(item: int) -> None:
        if item == 2:
            last.set()
        elif cores > 1:
            assert last.wait(LIMIT)
        raise OSError(f"item {item}")

    with pytest.raises(OSError, match="item 0"):
        in_threads(fail, [0, 1, 2], [1, 2, 3])


def test_files_are_hashed_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits until two others are being hashed; problems are in the order that was asked for."""
    monkeypatch.setattr(threads, "usable_cores", lambda: 4)
    names = [f"__{rank}_0.distcp" for rank in range(3)]
    for name in names:
        (tmp_path / name).write_bytes(os.urandom(1000))
    manifest = manifest_of(1, {name: hash_file(tmp_path / name) for name in names})
    together = threading.Barrier(3)

    def hashed(path: Path) -> FileEntry:
        together.wait(LIMIT)
        return hash_file(path)

    monkeypatch.setattr(verification, "hash_file", hashed)
    assert verify_files(tmp_path, manifest, names) == []
    flip(tmp_path / names[0], 7)
    flip(tmp_path / names[2], 7)
    problems = verify_files(tmp_path, manifest, names)
    assert [problem.partition(" is damaged")[0] for problem in problems] == [
        str(tmp_path / names[0]),
        str(tmp_path / names[2]),
    ]


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1, (3 << 20) - 1])
def test_a_file_is_hashed_as_a_whole(tmp_path: Path, size: int) -> None:
    """Whatever its size is next to the blocks in which it is read."""
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(content)
    assert hash_file(tmp_path / "file") == FileEntry(size, hashlib.sha256(content).hexdigest())
