"""Requests in a run's control folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchdeck.launch.requests import STOP, STOP_NOW, read_requests, write_request
from torchdeck.rundir.layout import RunLayout


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
