"""links.json: written and read again; what is none is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchdeck.contract.layout import RunLayout
from torchdeck.runs import reasons
from torchdeck.runs.links import LINKS_LATE, LOST, UP, LinkState, links_path, read_links, write_links


def test_states_are_read_as_they_were_written(tmp_path: Path) -> None:
    """For its owner's eyes only."""
    layout = RunLayout(tmp_path)
    states = {
        "b": LinkState("b", LOST, since=5.0, heard=3.0, why="no route"),
        "c": LinkState(
            "c", UP, since=1.0, heard=9.5, behind=7, clock_offset=-0.5, clock_error=0.01, agent_alive=True
        ),
    }
    write_links(layout, states, 10.0)
    found = read_links(layout)
    assert found is not None
    assert found.time == 10.0
    assert found.nodes == states
    assert links_path(layout).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"v": 1}', '{"v": 1, "t": 1, "nodes": []}', '{"v": 99, "t": 1, "nodes": {}}']
)
def test_what_is_none_is_not_read(tmp_path: Path, text: str) -> None:
    """Nor is one of a newer Torchdeck."""
    layout = RunLayout(tmp_path)
    assert read_links(layout) is None
    links_path(layout).write_text(text)
    assert read_links(layout) is None


def test_a_state_that_is_none_is_left_out(tmp_path: Path) -> None:
    """The others are read, and what a later version adds is passed over."""
    layout = RunLayout(tmp_path)
    good = {**LinkState("b", UP, since=1.0).to_json(), "later": 1}
    nodes = {"a": 5, "b": good, "c": {"node": "c", "state": "dancing", "since": 1}}
    links_path(layout).write_text(json.dumps({"v": 1, "t": 2.5, "nodes": nodes}))
    found = read_links(layout)
    assert found is not None
    assert found.nodes == {"b": LinkState("b", UP, since=1.0)}


def test_how_far_code_is_is_checked(tmp_path: Path) -> None:
    """Only whole numbers of bytes count, only over a link that is up, and only while its controller lives."""
    layout = RunLayout(tmp_path)
    sent = LinkState("b", UP, since=1.0, code_sent=3, code_size=9)
    odd = [("3", 9), (True, 9), (-1, 9), (3, 9.5), (3, 0), (None, 9)]
    nodes = {"b": sent.to_json(), "lost": {**sent.to_json(), "node": "lost", "state": LOST}}
    nodes |= {
        f"n{at}": {**sent.to_json(), "node": f"n{at}", "code_sent": count, "code_size": size}
        for at, (count, size) in enumerate(odd)
    }
    links_path(layout).write_text(json.dumps({"v": 1, "t": 100.0, "nodes": nodes}))
    found = read_links(layout)
    assert found is not None
    assert found.sent_code(101.0) == (sent,)
    assert found.sent_code(101.0 + LINKS_LATE) == ()
    assert found.nodes["n0"].code_sent is None


def test_sentences_of_code_under_way() -> None:
    """Of one node by its name, of several together."""
    one, two = (LinkState(n, UP, code_sent=34 << 20, code_size=120 << 20) for n in "bc")
    assert reasons.code_to_all([]) == ""
    assert reasons.code_to_all([one]) == "sending code to node b: 34.0 MiB of 120.0 MiB"
    assert reasons.code_to_all([one, two]) == "sending code to 2 nodes: 68.0 MiB of 240.0 MiB"
