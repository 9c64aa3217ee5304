"""Hostile requests in a control folder and an inbox, and hostile files of ranks."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from torchdeck.agent.inbox import Inbox
from torchdeck.agent.ranks import failures
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.requests import read_requests

REQUEST = {"v": 1, "id": "1-stop-ab", "kind": "stop", "origin": "terminal", "detail": "", "life": 0}
ERROR = {
    "message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback", "timestamp": "1"}},
    "traceback": "Traceback",
}


def read_request(case: bytes, place: Path) -> None:
    (place / "1-stop-ab.json").write_bytes(case)
    (place / "2-stop_now-ab.json").touch()
    (place / "3-stop-ab.json").mkdir()
    asked = Inbox(place, frozenset()).read_new()
    assert [each.id for each in asked][-1] == "2-stop_now-ab"
    assert read_requests(place)[-1].kind == "stop_now"


def test_requests() -> None:
    read_all(read_request, hostile.documents(REQUEST) | st.binary())


def read_what_a_rank_left(case: bytes, place: Path) -> None:
    rank = RunLayout(place).attempt(1).rank(0)
    rank.root.mkdir(parents=True)
    for path in (rank.error, rank.exit, rank.stderr):
        path.write_bytes(case)
    message, traceback = failures._words(rank)
    assert len(message) + len(traceback or "") < 200_000
    code = failures.read_exit(rank.exit)
    assert code is None or 0 <= code < 256


def test_files_of_ranks() -> None:
    read_all(read_what_a_rank_left, hostile.documents(ERROR, 3) | st.binary())
