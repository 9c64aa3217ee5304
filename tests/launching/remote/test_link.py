"""A link over pipes to a real process: mirrored exactly through kills of either end, cuts, and slow lines."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.links.linked import NODE, LinkedRun, linked
from support.links.local_stream import LocalStream, python_stream
from support.links.slow_stream import SlowStream
from support.waiting import wait_until
from torchdeck.contract.frames import encode
from torchdeck.contract.node_requests import LinkRequest
from torchdeck.launching.remote.bootstrap import ByteStream
from torchdeck.launching.remote.link import LinkFile, LinkTarget, NeedsLoginError, NodeLink, RefusedError
from torchdeck.launching.remote.link_session import LinkLostError, RemoteRequestError
from torchdeck.runs.links import read_links

pytestmark = pytest.mark.processes

WRITER = """
import itertools, sys, threading, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from torchdeck.contract.atomic import write_json
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.progress import ProgressFile
from torchdeck.telemetry.writer import MetricsWriter
layout, node = RunLayout(Path(sys.argv[2])), sys.argv[3]
journal = JournalWriter(layout.node(node).journal)
ranks = [layout.attempt(1).rank(rank) for rank in range(2)]
writers = [MetricsWriter(rank.metrics, "trainer") for rank in ranks]
progress = [ProgressFile(rank.progress) for rank in ranks]
def log_beside():
    # rows of several threads take their places in one order and are written in another
    for step in itertools.count(1):
        writers[0].log({"loss": 2.0, "lr": 1e-3}, step=step)
        if step % 50 == 0:
            time.sleep(0.01)
for _ in range(3):
    threading.Thread(target=log_beside, daemon=True).start()
for step in itertools.count(1):
    for rank, writer, how_far in zip(ranks, writers, progress):
        writer.log({"loss": 1 / step, "lr": 1e-3}, step=step)
        how_far.report("training", step)
        with rank.stdout.open("ab") as file:
            file.write(b"step %d of rank\\n" % step * (step % 50))
    if step % 20 == 0:
        journal.append("checkpoint", durable=False, step=step)
        write_json(layout.node(node).heartbeat, {"step": step}, durable=False)
        time.sleep(0.002)
"""
CORE = Path(__file__).resolve().parents[3] / "core"


@contextmanager
def writing(run: LinkedRun) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes as a node's agent and ranks do, until it is killed, as at the end of this."""
    run.make_node()
    argv = [sys.executable, "-I", "-c", WRITER, str(CORE), str(run.there.root), NODE]
    with subprocess.Popen(argv) as process:
        try:
            yield process
        finally:
            process.kill()


def mirrored_bytes(run: LinkedRun) -> int:
    return sum(path.stat().st_size for path in run.here.attempts.rglob("*") if path.is_file())


def settle(run: LinkedRun) -> None:
    """Until both sides are said to be the same."""
    wait_until(lambda: run.link.state.state == "up" and run.link.catch_up(20), 90, f"all: {run.link.state}")


def test_everything_comes_over(run: LinkedRun) -> None:
    """Journal, metrics, logs and small files of a writer that is killed in the middle, byte for byte."""
    run.up()
    with writing(run):
        wait_until(lambda: mirrored_bytes(run) > 200_000, 60, "bytes here")
    settle(run)
    assert run.differences() == []
    assert run.link.take_messages() == []
    wait_until(lambda: run.link.state.behind == 0, 10, "nothing to be left")


def test_nothing_is_lost_or_doubled_by_kills_of_the_node_s_end(
    run: LinkedRun, request: pytest.FixtureRequest
) -> None:
    """SIGKILL at any moment, many times, while files grow."""
    chance = random.Random(5)  # noqa: S311 - moments of kills
    run.up()
    with writing(run):
        for _ in range(25 if request.config.getoption("--soak") else 5):
            before = mirrored_bytes(run)
            wait_until(lambda before=before: mirrored_bytes(run) > before, 60, "more bytes")  # type: ignore[misc]
            time.sleep(chance.random() * 0.3)
            count = len(run.streams)
            run.kill_server()
            run.link.retry()
            wait_until(lambda count=count: len(run.streams) > count, 30, "another connection")  # type: ignore[misc]
            wait_until(lambda: run.link.state.state == "up", 60, f"up again: {run.link.state}")
    settle(run)
    assert run.differences() == []


def test_nothing_is_lost_or_doubled_by_kills_of_our_end(run: LinkedRun, tmp_path: Path) -> None:
    """A controller that is killed, and the next one that continues from the files alone."""
    code = (
        "import sys, time; sys.path[:0] = sys.argv[1:3]\n"
        "from pathlib import Path; from support.links.linked import LinkedRun\n"
        "run = LinkedRun(Path(sys.argv[3])); run.link.start(); time.sleep(600)"
    )
    tests = str(Path(__file__).resolve().parents[2])
    chance = random.Random(7)  # noqa: S311 - moments of kills
    with writing(run):
        for _ in range(4):
            before = mirrored_bytes(run)
            argv = [sys.executable, "-c", code, str(CORE), tests]
            with subprocess.Popen([*argv, str(tmp_path)], stderr=subprocess.PIPE) as controller:
                try:
                    wait_until(
                        lambda before=before: mirrored_bytes(run) > before + 50_000,  # type: ignore[misc]
                        60,
                        "more bytes",
                    )
                    time.sleep(chance.random() * 0.3)
                finally:
                    controller.kill()
    run.up()
    settle(run)
    assert run.differences() == []


def test_a_link_server_ends_when_its_controller_is_gone(run: LinkedRun) -> None:
    """Nothing of a link is left on the node."""
    run.up()
    run.link.close()
    assert run.streams[0].process.wait(20) == 0


def test_the_state_tells_since_when_and_why(run: LinkedRun) -> None:
    """Up, lost with the last time the node was heard, and up again; in links.json, too."""
    assert run.link.state.state == "connecting"
    with pytest.raises(LinkLostError, match="n1 is not reachable"):
        run.link.call(LinkRequest.AGENT_LOG)
    run.up()
    wait_until(lambda: run.link.state.clock_offset is not None, 20, "the clock's offset")
    file = LinkFile(run.here, [run.link])
    file.look()
    links = read_links(run.here)
    assert links is not None
    up = links.nodes[NODE]
    assert up.state == "up"
    assert up.clock_offset is not None
    assert up.clock_error is not None
    assert abs(up.clock_offset) <= up.clock_error + 0.01
    assert abs(links.time - time.time()) < 60
    run.python = ["/nonexistent/python"]
    run.kill_server()
    wait_until(lambda: run.link.state.state == "lost", 30, "the link to be lost")
    lost = run.link.state
    assert lost.heard is not None
    assert up.since <= lost.heard <= time.time()
    assert lost.why
    run.python = []
    wait_until(lambda: run.link.state.state == "up", 60, "the link to be up again")


def test_a_shared_directory_is_not_mirrored(tmp_path: Path) -> None:
    """The node sees the file that was laid there for it; the file is gone afterwards."""
    with linked(tmp_path, shared=True) as run:
        run.there.node(NODE).root.mkdir(parents=True)
        run.there.node(NODE).journal.write_bytes(b"line\n")
        run.up()
        assert run.link.state.shared
        assert run.link.catch_up(10)
        assert run.there.node(NODE).journal.read_bytes() == b"line\n"
        assert not list(run.here.root.glob("link-*"))


def test_a_directory_of_the_same_name_is_not_taken_for_shared(run: LinkedRun) -> None:
    """What counts is the file and its content."""
    run.make_node()
    run.up()
    assert not run.link.state.shared


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (NeedsLoginError("a password"), "needs_login"),
        (RefusedError("its key"), "refused"),
        (OSError("no route"), "lost"),
    ],
)
def test_why_there_is_no_connection_is_told_apart(run: LinkedRun, error: Exception, state: str) -> None:
    """A person who gives a login need not wait for the next try."""
    errors = [error]

    def dial(_limit: float) -> ByteStream:
        if errors:
            raise errors[0]
        run.streams.append(python_stream())
        return run.streams[-1]

    run.link = NodeLink(LinkTarget(run.here, NODE, str(run.node_home), run.shipped), dial)
    run.link.start()
    wait_until(lambda: run.link.state.state == state, 20, f"state {state}")
    assert run.link.state.why == str(error)
    errors.clear()
    run.link.retry()
    run.up()


BAD_NODE = """
import sys, os, time
sys.path.insert(0, {core!r})
from torchdeck.contract.frames import encode, PROTOCOL
take = lambda: os.read(0, int(os.read(0, 8)))
size = int(os.read(0, 8)); code = b""
while len(code) < size: code += os.read(0, size - len(code))
import json
order = json.loads(take())
os.write(1, ("\\n" + order["marker"] + "\\n").encode() + b'{{"ready": true}}\\n')
os.write(1, encode("hello", v=PROTOCOL, shared=False))
os.write(1, {frame})
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        ("encode('put', b'x', path='../../../../escaped', at=0)", "no file of node n1"),
        ("encode('put', b'x', path='plan.json', at=0)", "no file of node n1"),
        ("encode('put', b'x', path='nodes/n1/journal.jsonl', at=10)", "continues at 10"),
        ("encode('ask', path='/etc/passwd')", "no file of node n1"),
        ("encode('put', b'x', path='nodes/n1/journal.jsonl', at=-1)", "no number 'at'"),
        ("encode('hello', v=PROTOCOL + 1, shared=False)", "newer Torchdeck"),
        ("encode('boom')", "is not known"),
        ("b'not a frame at all'", "what should be a frame"),
    ],
)
def test_a_node_that_breaks_the_rules_is_refused(run: LinkedRun, frame: str, why: str) -> None:
    """Nothing of it is written, and a person can read why."""
    bad = LocalStream([sys.executable, "-c", BAD_NODE.format(core=str(CORE), frame=frame)])
    run.streams.append(bad)
    run.link = NodeLink(LinkTarget(run.here, NODE, str(run.node_home), run.shipped), lambda _limit: bad)
    run.link.start()
    wait_until(lambda: run.link.state.state == "refused", 30, f"refused: {run.link.state}")
    assert why in run.link.state.why
    assert [path for path in run.here.root.rglob("*") if path.is_file() and path.stat().st_size] == []


def test_what_a_node_says_is_printable(run: LinkedRun) -> None:
    """A file's name on the node cannot move a terminal's cursor here."""
    run.make_node()
    run.there.attempt(1).rank(0).stdout.symlink_to("/etc/passwd")
    run.up()
    said = wait_until(run.link.take_messages, 20, "a word of the node")
    assert said == ["attempts/1/ranks/0/stdout.log is no plain file and is not mirrored"]
    assert not run.here.attempt(1).rank(0).stdout.exists()


def test_what_is_not_wanted_is_not_sent(run: LinkedRun) -> None:
    """Nodes that share a home see each other's ranks; the link continues without them."""
    run.make_node()
    for rank in range(2):
        run.there.attempt(1).rank(rank).stdout.write_bytes(b"line\n" * 1000)
    target = LinkTarget(run.here, NODE, str(run.node_home), run.shipped, lambda path: "ranks/1/" in path)
    run.link = NodeLink(target, run._dial)
    run.up()
    settle(run)
    assert run.here.attempt(1).rank(1).stdout.stat().st_size == 5000
    assert not run.here.attempt(1).rank(0).root.exists()
    wait_until(lambda: run.link.state.behind == 0, 10, "nothing to be left")


def test_a_request_that_is_not_known_is_an_error(run: LinkedRun) -> None:
    """In the node's words; the link continues."""
    run.up()
    with pytest.raises(RemoteRequestError, match="does not know the request 'dance'"):
        run.link.call("dance")  # type: ignore[arg-type] # as a newer desktop asks
    with pytest.raises(RemoteRequestError, match="no name of a request"):
        run.link.call(LinkRequest.DELIVER, name="../../x.json")
    assert run.link.state.state == "up"


def _wait_for_end(journal: Path, line: bytes) -> None:
    wait_until(lambda: journal.exists() and journal.read_bytes().endswith(line), 20, f"{line!r}")


def test_a_journal_line_overtakes_logs_on_a_slow_line(run: LinkedRun) -> None:
    """1 Mbit/s and 200 ms with 20 MB of logs that wait: a line of the journal comes before 2 s of them.

    So many bytes of logs, that is: the line's seconds, which are not those of a busy machine.
    """
    run.make_node()
    run.bundle_there()
    carriers: list[SlowStream] = []

    def slow(stream: LocalStream) -> ByteStream:
        carriers.append(SlowStream(stream, 125_000, 0.2))
        return carriers[-1]

    run.wrap = slow
    for rank in range(2):
        with run.there.attempt(1).rank(rank).stdout.open("wb") as file:
            file.write(os.urandom(10_000_000))
    run.up()
    here = run.here.attempt(1).rank(0).stdout
    wait_until(lambda: here.exists() and here.stat().st_size > 200_000, 60, "logs to come")
    before = []
    journal = run.here.node(NODE).journal
    for number in range(8):
        line = b'{"event": %d}\n' % number
        carried = mirrored_bytes(run)
        with run.there.node(NODE).journal.open("ab") as file:
            file.write(line)
        _wait_for_end(journal, line)
        before.append(mirrored_bytes(run) - carried)
    assert max(before) < 2 * 125_000, before
    assert here.stat().st_size < 10_000_000
    (carrier,) = carriers
    carried, idle, begun = mirrored_bytes(run), carrier.idle, time.monotonic()
    wait_until(lambda: mirrored_bytes(run) > carried + 500_000, 30, "more logs")
    assert carrier.idle - idle < (time.monotonic() - begun) / 2, "the line is kept busy"


def test_acknowledgements_that_lie_end_the_link(run: LinkedRun) -> None:
    """The node's end trusts no one either."""
    run.up()
    stream = run.streams[-1]
    stream.write(encode("ack", total=1 << 40))
    assert stream.process.wait(20) == 1


def test_a_slow_line_is_no_lost_one(run: LinkedRun) -> None:
    """Bootstrap with the archive, over a tenth of a megabyte a second."""
    run.wrap = lambda stream: SlowStream(stream, 100_000, 0.2)
    run.make_node()
    run.there.node(NODE).journal.write_bytes(b"x" * 300_000 + b"\n")
    run.up(100)
    settle(run)
    assert run.differences() == []
