"""Hostile journals, heartbeats, links.json and plan.json, through all that shows runs."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from support.fuzz.reader_process import ReaderProcess
from support.values.histories import (
    agent_started,
    controller_journal,
    ended,
    event,
    failure,
    finished,
    started,
)
from support.values.machines import config, node, plan
from support.values.made_runs import line, make_run
from torchdeck.cli.runs import show as runs_show
from torchdeck.contract.atomic import read_json
from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.contract.journal import NewerFormatError
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan, PlanFormatError
from torchdeck.launching.control.connected_nodes import own_files
from torchdeck.runs.failure import read_failure
from torchdeck.runs.folders.checkpoints import checkpoint_directory, retention_of
from torchdeck.runs.folders.node_parts import remote_nodes
from torchdeck.runs.folders.origin import origin_of
from torchdeck.runs.folders.run_directory import RunDirectoryError, open_run_directory
from torchdeck.runs.follower import read_run
from torchdeck.runs.goodput.reading import read_goodput
from torchdeck.runs.links import links_path, read_links
from torchdeck.runs.run_timeline import TimelineReader
from torchdeck.runs.summary import summary_lines
from torchdeck.runs.training_progress import ProgressReader, total_steps

EVENTS = [
    *controller_journal(),
    agent_started(),
    event("agent_started", identity={"pid": 1, "start_ticks": 1, "boot": "b"}, part="follower"),
    event("queued", held_by=[{"device": "0", "run_id": "r", "name": "n"}]),
    event("leased", devices=["0"]),
    event("launching", attempt=1, nodes=["a", "b"], resume={"name": "x", "step": 1}),
    started(),
    event("running", attempt=1),
    event("hang", attempt=1, rank=0, phase="training", step=3, still=1.5, limit=1.0, detail="x"),
    event("hang_over", rank=0),
    event("checkpoint", step=1, path="/x/step_00000001", seconds=1.5, size=12),
    event("checkpoint_damaged", path="/x", why="y"),
    event("disk_low", free=1, needed=2, path="/x"),
    event("node_silent", node="b", seconds=1.5, grace=2.0),
    event("node_lost", node="b", seconds=1.5, grace=2.0),
    event("clock", node="b", offset=0.5, error=0.1),
    event("request", id="1-stop-ab", kind="stop", origin="terminal"),
    event("stopping", kind="graceful", why="user"),
    event("rank_exited", attempt=1, rank=1, code=1, signal=None),
    ended(1, "failed", failure()),
    event("restarting", delay=1.0, reason="smaller", suspect={"local_rank": 1, "node": "b"}, why="x"),
    event("transport_failed", node="b", why="x"),
    event("token_asked", nodes=["b"]),
    finished("FAILED", checkpoint="/x"),
    event("resumed", finished=1, origin="terminal"),
]
LINES = [json.loads(line(each)) for each in EVENTS]
IDENTITY = {"pid": 1, "start_ticks": 1, "boot": "b"}
HEARTBEAT = {
    "v": 1,
    "t": 100.0,
    "m": 5.0,
    "agent": IDENTITY,
    "holder": IDENTITY,
    "torchrun": IDENTITY,
    "attempt": 1,
    "ranks": {"0": {"phase": "training", "step": 1, "total": 9, "t": 1.0, "still": 0.5, "pid": 3}},
    "rss_bytes": {"0": 123},
}
LINKS = {
    "v": 1,
    "t": 100.0,
    "nodes": {
        "bad": {"node": "bad", "state": "up", "since": 1.0, "heard": 2.0, "behind": 3, "clock_offset": 0.5},
        "b": {"node": "b", "state": "lost", "since": 1.0, "why": "x", "agent_alive": True, "code_sent": 1},
    },
}
PLAN = plan(config(distributed={"nodes": ["n1", "n2"]}), node("n1"), node("n2")).document()


def _shown(layout: RunLayout) -> None:
    """All that lists and shows of a run."""
    try:
        opened = open_run_directory(layout.root)
        view = read_run(opened)
        happened = TimelineReader(opened).refresh()
    except (NewerFormatError, RunDirectoryError):
        return
    links = read_links(opened)
    progress = ProgressReader(opened).read(view)
    texts = [*summary_lines(view), *runs_show._facts(view, opened), *runs_show._nodes(opened, links)]
    texts += [each.text for each in happened or ()]
    texts += [] if progress is None else [progress.text()]
    read_failure(opened, view)
    origin_of(view)
    goodput = read_goodput(opened, view)
    json.dumps(None if goodput is None else goodput.to_json(), allow_nan=False)
    value = [view.to_json(), texts, [dataclasses.asdict(each) for each in happened or ()]]
    json.dumps(value, allow_nan=False)


def _run(place: Path, journal: bytes | None = None) -> RunLayout:
    layout = make_run(place, controller_journal(), [agent_started(), started()], plan=PLAN)
    layout.node("bad").root.mkdir()
    if journal is not None:
        layout.node("bad").journal.write_bytes(journal)
    return layout


def read_node_journal(case: bytes, place: Path) -> None:
    """What a node sent never makes the run unreadable."""
    layout = _run(place, case)
    assert read_run(layout).name
    _shown(layout)


def read_controller_journal(case: bytes, place: Path) -> None:
    layout = _run(place)
    layout.journal.write_bytes(case)
    layout.node("localhost").journal.write_bytes(case)
    _shown(layout)


def read_heartbeat(case: bytes, place: Path) -> None:
    layout = _run(place, "".join(map(line, EVENTS[:7])).encode())
    layout.node("bad").heartbeat.write_bytes(case)
    assert read_run(layout).name
    _shown(layout)


def read_links_file(case: bytes, place: Path) -> None:
    layout = _run(place, "".join(map(line, EVENTS[:7])).encode())
    links_path(layout).write_bytes(case)
    assert read_run(layout).name
    _shown(layout)


def read_plan(case: bytes, place: Path) -> None:
    layout = _run(place)
    layout.plan.write_bytes(case)
    layout.journal.write_bytes(b"")
    _shown(layout)
    remote_nodes(layout)
    total_steps(layout)
    retention_of(layout)
    with contextlib.suppress(CheckpointError):
        checkpoint_directory(layout)
    try:
        found = LaunchPlan.from_json(read_json(layout.plan))
    except PlanFormatError:
        return
    assert found.fingerprint
    assert isinstance(found.rendezvous, str)
    for each in found.nodes:
        own_files(found, each.name)("attempts/1/ranks/0/stdout.log")
        assert each.argv is not None


def _journals() -> st.SearchStrategy[bytes]:
    lines = hostile.documents(*LINES)
    whole = st.lists(lines | st.sampled_from([line(each).encode() for each in EVENTS]), max_size=12)
    return whole.map(b"\n".join).map(lambda text: text.replace(b"\n\n", b"\n") + b"\n")


def test_journals_of_nodes() -> None:
    read_all(read_node_journal, _journals())


def test_journals_of_this_machine() -> None:
    read_all(read_controller_journal, _journals())


def test_heartbeats() -> None:
    read_all(read_heartbeat, hostile.documents(HEARTBEAT))


def test_how_nodes_are_reached() -> None:
    read_all(read_links_file, hostile.documents(LINKS))


def test_plans() -> None:
    unsigned: dict[str, Any] = {name: value for name, value in PLAN.items() if name != "fingerprint"}
    read_all(read_plan, hostile.documents(unsigned, PLAN))


def test_no_event_takes_time_that_grows_with_the_square_of_their_number(
    pytestconfig: pytest.Config,
) -> None:
    """Many of one kind, each of another rank, attempt, node and request."""
    soaks = pytestconfig.getoption("--soak")
    names = [each.name for each in EVENTS]
    with ReaderProcess(read_node_journal) as process:
        for number in range(len(EVENTS)) if soaks else (names.index("rank_exited"), names.index("hang")):
            process.read(b"".join(_numbered(number, count) for count in range(20_000 if soaks else 8_000)))


def _numbered(number: int, count: int) -> bytes:
    record = {
        **LINES[number],
        "rank": count,
        "node": f"n{count}",
        "id": f"{count}-stop-ab",
        "path": f"/{count}",
    }
    if number % 2:
        record["attempt"] = count % 1_000
    return json.dumps(record).encode() + b"\n"
