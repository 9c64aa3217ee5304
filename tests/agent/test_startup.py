"""What an agent finds when it starts."""

from __future__ import annotations

import threading
from pathlib import Path

from torchdeck.agent import startup
from torchdeck.contract.atomic import write_json
from torchdeck.contract.layout import RunLayout

NAME = "localhost"
HELD = {"v": 1, "attempt": 1, "holder": {"pid": 1}, "torchrun": {"pid": 2}}


def test_a_holder_that_was_just_started_is_waited_for(tmp_path: Path) -> None:
    """The last agent died between starting the shim and seeing torchrun: the attempt is found."""
    layout = RunLayout(tmp_path)
    files = layout.attempt(1).node(NAME)
    files.root.mkdir(parents=True)
    writing = threading.Timer(0.3, write_json, (files.holder, HELD))
    writing.start()
    recovered, started = startup.read_recovered_state(layout, layout.node(NAME), NAME, 0)
    writing.join()
    assert not recovered.open
    assert started is not None
    assert started.fields["attempt"] == 1


def test_no_attempt_is_waited_for_where_none_was_begun(tmp_path: Path) -> None:
    """A first start loses no time."""
    layout = RunLayout(tmp_path)
    assert startup.read_recovered_state(layout, layout.node(NAME), NAME, 0)[1] is None
