"""Writing off the GUI thread: the newest version wins, a slow disk holds no one up, a full one is said."""

import threading
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from torchdeck_app.settings import saved_files
from torchdeck_app.settings.saved_files import BackgroundWriter


class SlowDisk:
    """Writes once it may; notes what it wrote."""

    def __init__(self) -> None:
        self.may_write = threading.Event()
        self.has_begun = threading.Event()
        self.written: list[bytes] = []

    def write(self, _path: Path, content: bytes, *, private: bool) -> None:
        assert private
        self.has_begun.set()
        assert self.may_write.wait(20)
        self.written.append(content)


@pytest.fixture
def writer(qapp: QApplication) -> BackgroundWriter:
    return BackgroundWriter(qapp)


def test_files_are_written_whole_and_for_their_owner_alone(writer: BackgroundWriter, tmp_path: Path) -> None:
    writer.write(tmp_path / "a.json", "one")
    writer.write(tmp_path / "b.json", "two")
    assert writer.close(10)
    assert (tmp_path / "a.json").read_text() == "one"
    assert (tmp_path / "b.json").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


def test_of_versions_that_wait_only_the_newest_is_written(
    writer: BackgroundWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk()
    monkeypatch.setattr(saved_files, "write_bytes", disk.write)
    for version in ("1", "2", "3", "4"):
        writer.write(tmp_path / "a.json", version)
        if version == "1":
            assert disk.has_begun.wait(10)
    assert not writer.close(0.01)  # it waits no longer than it is told
    disk.may_write.set()


def test_all_that_waits_is_written_at_the_end(
    writer: BackgroundWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk()
    monkeypatch.setattr(saved_files, "write_bytes", disk.write)
    writer.write(tmp_path / "a.json", "1")
    assert disk.has_begun.wait(10)
    for version in ("2", "3", "4"):
        writer.write(tmp_path / "a.json", version)
    disk.may_write.set()
    assert writer.close(10)
    assert disk.written == [b"1", b"4"]


def test_what_could_not_be_written_is_tried_again(
    writer: BackgroundWriter, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_files, "RETRY", 0.01)
    gone = tmp_path / "gone" / "a.json"
    with qtbot.waitSignal(writer.failed):
        writer.write(gone, "1")
    gone.parent.mkdir()
    qtbot.waitUntil(gone.exists)
    assert writer.close(10)


def test_closing_tries_once_more_and_says_whether_all_is_written(
    writer: BackgroundWriter, tmp_path: Path, qtbot: QtBot
) -> None:
    with qtbot.waitSignal(writer.failed):
        writer.write(tmp_path / "gone" / "a.json", "1")
    assert not writer.close(10)


def test_a_disk_that_takes_nothing_is_said_once(
    writer: BackgroundWriter, tmp_path: Path, qtbot: QtBot
) -> None:
    said: list[str] = []
    writer.failed.connect(said.append)
    gone = tmp_path / "gone" / "a.json"
    writer.write(gone, "1")
    qtbot.waitUntil(lambda: len(said) == 1)
    assert "cannot be written (No such file or directory)" in said[0]
    writer.write(gone, "2")
    gone.parent.mkdir()
    writer.write(gone, "3")
    assert writer.close(10)
    assert gone.read_text() == "3"
    assert len(said) == 1
