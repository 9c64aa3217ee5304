"""Requests for profiles and orders to ranks: only valid ones are taken."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.agent.inbox import Inbox
from torchdeck.agent.link.names import mirrored
from torchdeck.contract.doctor.rank_profile import (
    KIND,
    MOST_RANKS,
    ProfileOrder,
    Wanted,
    is_profile_name,
    order_text,
    parse_order,
    wanted_from,
)
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.requests import read_requests, write_request
from torchdeck.runs.folders.rank_profiles import rank_profile

NAME = "12-profile-0af3"


@given(st.lists(st.integers(0, 2**23), min_size=1, max_size=MOST_RANKS), st.floats(0.1, 60.0))
def test_what_is_wanted_survives(ranks: list[int], seconds: float) -> None:
    wanted = Wanted(tuple(ranks), seconds)
    assert wanted_from(wanted.to_json()) == wanted


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"ranks": [], "seconds": 1},
        {"ranks": [0] * (MOST_RANKS + 1), "seconds": 1},
        {"ranks": [-1], "seconds": 1},
        {"ranks": [True], "seconds": 1},
        {"ranks": ["0"], "seconds": 1},
        {"ranks": [0], "seconds": 0},
        {"ranks": [0], "seconds": 61},
        {"ranks": [0], "seconds": float("nan")},
        {"ranks": [0], "seconds": 10**400},
        {"ranks": [0], "seconds": True},
        {"ranks": [0]},
    ],
)
def test_what_no_one_can_want(value: Any) -> None:
    assert wanted_from(value) is None


def test_orders(tmp_path: Path) -> None:
    """A folder may have a line break in its name; that of the profile is checked."""
    order = ProfileOrder(tmp_path / "a\nb" / NAME, 2.5)
    assert parse_order(order_text(order)) == order
    for text in ("", NAME, f"/x/{NAME}\n0", f"/x/{NAME}\nnan", "/x/other\n1", f"/x/{NAME}\n1e9"):
        assert parse_order(text) is None, text
    assert not is_profile_name("../12-profile-0a")
    assert not is_profile_name("12-stop-0a")


def test_a_request_reaches_the_agent_whole(tmp_path: Path) -> None:
    """From the front end's file to the controller, and from the node's inbox to the agent."""
    layout = RunLayout(tmp_path)
    layout.control.mkdir(parents=True)
    written = write_request(layout, KIND, "terminal", wanted=Wanted((0, 3), 5.0))
    assert is_profile_name(written.id)
    assert read_requests(layout.control) == [written]
    (taken,) = Inbox(layout.control, frozenset()).read_new()
    assert (taken.id, taken.kind, taken.wanted) == (written.id, KIND, Wanted((0, 3), 5.0))
    (layout.control / "99-profile-aa.json").write_text('{"v": 1, "kind": "profile", "id": "99-profile-aa"}')
    assert Inbox(layout.control, frozenset([written.id])).read_new() == []
    assert read_requests(layout.control) == [written]


@pytest.mark.parametrize(
    ("path", "is_copied"),
    [
        (f"attempts/1/profiles/{NAME}/0.trace.json.gz", True),
        (f"attempts/1/profiles/{NAME}/12.speedscope.json", True),
        (f"attempts/1/profiles/{NAME}/0.json", True),
        (f"attempts/1/profiles/{NAME}/0.refused.json", True),
        (f"attempts/1/profiles/{NAME}/0.failed.json", True),
        (f"attempts/1/profiles/{NAME}/.0.part", False),
        (f"attempts/1/profiles/{NAME}/x.json", False),
        ("attempts/1/profiles/../0.json", False),
        (f"attempts/1/profiles/{NAME}/a/0.json", False),
    ],
)
def test_what_is_copied_from_nodes(path: str, *, is_copied: bool) -> None:
    assert (mirrored(path, "node1") is not None) == is_copied


def test_answers_of_ranks(tmp_path: Path) -> None:
    """A summary alone is no answer: the trace of another node comes later."""
    layout = RunLayout(tmp_path)
    files = layout.attempt(2).profile(NAME)
    files.root.mkdir(parents=True)
    assert rank_profile(layout, NAME, 0) is None
    files.summary(0).write_text('{"seconds": 1.2, "early": "the program forked"}')
    assert rank_profile(layout, NAME, 0) is None
    files.trace(0).write_bytes(b"")
    assert rank_profile(layout, NAME, 0) == (0, files.trace(0), "ended after 1.2 s: the program forked")
    files.refusal(1).write_text('{"why": "no torch"}')
    assert rank_profile(layout, NAME, 1) is None
    files.samples(1).write_text("{}")
    assert rank_profile(layout, NAME, 1) == (1, files.samples(1), "sampled by py-spy: no torch")
    files.failure(2).write_text('{"why": "stopped"}')
    assert rank_profile(layout, NAME, 2) == (2, None, "stopped")
    files.failure(3).write_text("[")
    assert rank_profile(layout, NAME, 3) == (3, None, "no reason was given")
