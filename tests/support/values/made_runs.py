"""Run directories by values: what launcher, controller and agent would have written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torchdeck.contract.journal import Event
from torchdeck.contract.layout import FORMAT_VERSION, RunLayout

IDS = ("20261121T034455Z-gpt-0a1b2c", "20261122T034455Z-gpt-1a1b2c", "20261123T034455Z-other-2a1b2c")


def line(event: Event, version: int = FORMAT_VERSION) -> str:
    record = {"v": version, "t": event.time, "m": event.monotonic, "event": event.name, **event.fields}
    return json.dumps(record) + "\n"


def make_run(
    home: Path,
    journal: Iterable[Event],
    node: Iterable[Event] = (),
    *,
    run_id: str = IDS[0],
    output: Mapping[tuple[int, int, str], str] | None = None,
    plan: Any = None,
    run_file: str | None = None,
) -> RunLayout:
    """A run of `home`, there at once as a whole; `output` is (attempt, rank, stream) → what it printed."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    layout = RunLayout(home / "runs" / f".{run_id}.new")
    for folder in (layout.control, layout.node("localhost").inbox, layout.attempts):
        folder.mkdir(parents=True)
    layout.plan.write_text(json.dumps(plan or {"version": 1}))
    if run_file is not None:
        layout.config.write_text(run_file)
    layout.journal.write_text("".join(map(line, journal)))
    layout.node("localhost").journal.write_text("".join(map(line, node)))
    for (attempt, rank, stream), text in (output or {}).items():
        folder = layout.attempt(attempt).rank(rank).root
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{stream}.log").write_text(text)
    return RunLayout(layout.root.rename(home / "runs" / run_id))
