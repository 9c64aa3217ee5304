"""What a controller reads of a run's journals about its agents."""

from pathlib import Path
from typing import Any

import pytest

from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.run_files import RunFiles

Told = tuple[str, str, dict[str, Any]]
STARTED = {"identity": None, "life": 0}
LISTENING = {"address": "10.0.0.1", "port": 7}


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    made = RunLayout(tmp_path)
    for node in ("a", "b"):
        made.node(node).root.mkdir(parents=True)
    return made


def tell(layout: RunLayout, *told: Told) -> RunFiles:
    for node, name, fields in told:
        path = layout.node(node).journal if node else layout.journal
        with JournalWriter(path) as journal:
            journal.append(name, **fields)
    files = RunFiles(layout, ["a", "b"])
    files.read()
    return files


@pytest.mark.parametrize("may_return", [False, True])
def test_who_has_departed_for_good(layout: RunLayout, *, may_return: bool) -> None:
    """Not an agent that has given up its leader: it may be wanted again."""
    departed = {"why": "w", **({"may_return": True} if may_return else {})}
    files = tell(layout, ("b", "agent_started", STARTED), ("b", "node_finished", departed))
    assert (files.has_left("b", 0), files.gave_up_leader("b")) == (not may_return, may_return)
    files = tell(layout, ("b", "agent_started", STARTED))
    assert (files.has_left("b", 0), files.gave_up_leader("b")) == (False, False)


def test_where_the_lead_listens_is_forgotten_with_its_life(layout: RunLayout) -> None:
    """Though no end of that life stands in its journal."""
    files = tell(layout, ("a", "agent_started", STARTED), ("a", "listening", LISTENING))
    assert files.listening == ("10.0.0.1", 7)
    lost = {"state": "LOST", "why": "gone", "life": 0}
    files = tell(layout, ("", "lost", lost), ("", "resumed", {"finished": 1}))
    assert (files.listening, files.history.has_begun("a")) == (None, False)
    files = tell(layout, ("a", "agent_started", {**STARTED, "life": 1}))
    assert (files.listening, files.history.has_begun("a")) == (None, True)
    assert tell(layout, ("a", "listening", LISTENING)).listening == ("10.0.0.1", 7)
