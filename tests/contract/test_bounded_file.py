"""Paths that others name: reading them ends at once, with the content or the reason."""

import os
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from torchdeck.contract.bounded_file import UnreadableFileError, open_regular, read_bounded, why_unreadable


def _socket(path: Path) -> Path:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.close()
    return path


def _fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


def _link_to_fifo(path: Path) -> Path:
    path.symlink_to(_fifo(path.with_name("pipe")))
    return path


UNSUITABLE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "fifo": (_fifo, r"a named pipe \(FIFO\), not a regular file"),
    "link to a fifo": (_link_to_fifo, "a named pipe"),
    "socket": (_socket, "a socket, not a regular file"),
    "folder": (lambda path: path.parent, "a folder, not a regular file"),
    "zeros for ever": (lambda _: Path("/dev/zero"), "a character device"),
    "text of the kernel": (lambda _: Path("/proc/self/status"), "made up by the kernel"),
    "pages of the kernel": (lambda _: Path("/proc/self/smaps"), "made up by the kernel"),
    "too long": (lambda path: _written(path, 1001), "is too large: more than 1000 bytes"),
}


def _written(path: Path, size: int) -> Path:
    path.write_bytes(bytes(size))
    return path


def within(seconds: float, read: Callable[[], object]) -> object:
    """What `read` gives or raises; a test fails that would wait for ever."""
    said: list[object] = []

    def run() -> None:
        try:
            said.append(read())
        except ValueError as error:
            said.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert said, f"it was still waiting after {seconds} s"
    return said[0]


@pytest.mark.parametrize(("make", "why"), UNSUITABLE.values(), ids=UNSUITABLE)
def test_what_must_not_be_read_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], Path], why: str
) -> None:
    path = make(tmp_path / "it")
    error = within(5, lambda: read_bounded(path, 1000))
    assert isinstance(error, UnreadableFileError)
    assert re.search(why, error.why)


def test_regular_files_are_read(tmp_path: Path) -> None:
    """An empty one too, one of just the limit, and through a link."""
    _written(tmp_path / "most", 1000)
    (tmp_path / "link").symlink_to("most")
    assert read_bounded(_written(tmp_path / "none", 0), 1000) == b""
    assert read_bounded(tmp_path / "link", 1000) == bytes(1000)
    with open_regular(tmp_path / "link") as file:
        assert file.read(7) == bytes(7)
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "absent", 1000)


def test_the_reason_alone(tmp_path: Path) -> None:
    """For those who only check."""
    assert why_unreadable(_fifo(tmp_path / "pipe")) == "is a named pipe (FIFO), not a regular file"
    assert why_unreadable(_written(tmp_path / "file", 3)) == ""
    assert why_unreadable(tmp_path / "absent") == ""


@pytest.mark.parametrize(
    ("limit", "said"), [(10, "10 bytes"), (1024, "1 KiB"), (65_536, "64 KiB"), (64 << 20, "64 MiB")]
)
def test_a_limit_is_said_in_units(tmp_path: Path, limit: int, said: str) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(limit + 1)
    with pytest.raises(UnreadableFileError, match=f"more than {said}$"):
        read_bounded(path, limit)
