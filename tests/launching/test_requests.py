"""Requests in a run's control folder."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from torchdeck.agent.inbox import Inbox, InboxRequest
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.requests import STOP, STOP_NOW, read_requests, write_request


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    found = RunLayout(tmp_path)
    found.control.mkdir()
    return found


def test_requests_come_oldest_first_and_known_ones_not(layout: RunLayout) -> None:
    """Each is read as it was written, in the order of writing."""
    written = [write_request(layout, kind, "terminal") for kind in (STOP, STOP_NOW)]
    assert read_requests(layout.control) == written
    assert read_requests(layout.control, frozenset({written[0].id})) == written[1:]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"v": 1, "kind": "explode"}', '{"v": 2, "kind": "stop"}', '{"kind": "stop"}']
)
def test_what_is_no_request_is_passed_over(layout: RunLayout, content: str) -> None:
    """Torn, foreign and newer files do not stop a controller."""
    (layout.control / "1.json").write_text(content)
    (layout.control / ".2.json.1.tmp").write_text(content)
    assert read_requests(layout.control) == []


def test_the_file_name_is_the_id(layout: RunLayout) -> None:
    """What a file says of its own id cannot lead elsewhere."""
    (layout.control / "5.json").write_text('{"v": 1, "kind": "stop", "id": "../../x"}')
    assert read_requests(layout.control)[0].id == "5"


def test_no_folder_means_no_requests(tmp_path: Path) -> None:
    """A run whose control folder is gone has none."""
    assert read_requests(tmp_path / "none") == []


def test_a_request_gets_through_a_full_disk(layout: RunLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no content fits, an empty file's name says what is asked."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("torchdeck.launching.requests.write_json", full)
    written = write_request(layout, STOP_NOW, "")
    assert read_requests(layout.control) == [written]
    assert Inbox(layout.control, frozenset()).read_new() == [InboxRequest(written.id, STOP_NOW)]


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """Only a full disk is got round."""
    with pytest.raises(FileNotFoundError):
        write_request(RunLayout(tmp_path / "gone"), STOP, "terminal")


def test_the_inbox_misses_nothing_that_comes_in_one_tick_of_the_clock(layout: RunLayout) -> None:
    """The folder may look unchanged by its time, and hold a new request all the same."""
    inbox = Inbox(layout.control, frozenset())
    before = layout.control.stat()
    assert inbox.read_new() == []
    written = write_request(layout, STOP, "terminal")
    os.utime(layout.control, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert inbox.read_new() == [InboxRequest(written.id, STOP, written.origin)]
    assert inbox.read_new() == []
