"""Homes with runs in them, as the window finds them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.values.histories import agent_started, created, ended, event, failure, finished, started
from support.values.made_runs import line, make_run
from torchdeck.contract.journal import Event
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import ProcessIdentity

PLAN = {"version": 1, "checkpoint": {"directory": "@{run_dir}/checkpoints"}}
RUN_FILE = '# mine\n[run]\nrecipe = "byte-gpt"\n\n[training]\nsteps = 100\nlr = 3e-4\n'
TRACEBACK = (
    'Traceback (most recent call last):\n  File "a.py", line 7\ntorch.OutOfMemoryError: CUDA out of memory'
)
ENDED_WELL = [agent_started(), started(world_size=2), ended(), finished()]


def run_id(number: int) -> str:
    return f"20261121T{number:06d}Z-gpt-{number:06x}"


def add_run(home: Path, number: int, node: Iterable[Event] = ENDED_WELL, **fields: Any) -> RunLayout:
    """A run that has succeeded, unless its node's journal says otherwise; `fields` go into `created`."""
    first = created()
    given = Event(first.name, first.time, first.monotonic, {**first.fields, **fields})
    return make_run(home, [given], node, run_id=run_id(number), plan=PLAN, run_file=RUN_FILE)


def add_failed_run(home: Path, number: int) -> RunLayout:
    """One in which rank 1 ran out of memory; it can be resumed."""
    first = failure(message=TRACEBACK.splitlines()[-1], traceback=TRACEBACK)
    node = [
        agent_started(),
        started(world_size=2),
        event("rank_exited", attempt=1, rank=1, code=1, signal=None),
        event("rank_exited", attempt=1, rank=0, code=None, signal=15),
        ended(outcome="failed", first=first),
        finished(
            "FAILED", why="rank 1 failed with exit code 1", resumable=True, checkpoint="/x/step_00000010"
        ),
    ]
    layout = add_run(home, number, node)
    stderr = layout.attempt(1).rank(0).stderr
    stderr.parent.mkdir(parents=True)
    stderr.write_text("one\nNCCL communicator was aborted\n\n")
    return layout


def add_live_run(home: Path, number: int) -> RunLayout:
    """One that trains: its processes are said to be this machine's first, which lives as long as the test."""
    init = ProcessIdentity.of(1)
    assert init is not None
    alive = init.to_json()
    node = [
        event("agent_started", identity=alive, adopted=False),
        started(world_size=2, holder=alive),
        event("running", 102.0, attempt=1),
    ]
    layout = add_run(home, number, node)
    with layout.journal.open("a") as file:
        file.write(line(event("controller_started", identity=alive, epoch=1)))
    return layout
