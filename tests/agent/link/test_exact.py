"""Whatever happens to files and connection, both ends have equal bytes in the end. No network here."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchdeck.agent.link import files_to_send
from torchdeck.agent.link.files_to_send import Sources
from torchdeck.agent.link.mirrored_file import TAIL
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.segment_format import decode_header, encode_header
from torchdeck.launching.remote.mirror import Mirror, have_json

NODE = "n1"
SEGMENT = "trainer-1-2-ab-0.metrics"


@pytest.fixture(autouse=True)
def _short_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are not whole are waited for only a moment."""
    monkeypatch.setattr(files_to_send, "HOLD", 0.01)


class Pair:
    """A node's run directory and the controller's, and a connection that can be cut at any message."""

    def __init__(self, folder: Path) -> None:
        self.node, self.here = RunLayout(folder / "node"), RunLayout(folder / "here")
        for layout in (self.node, self.here):
            layout.node(NODE).root.mkdir(parents=True)
            layout.attempt(1).rank(0).metrics.mkdir(parents=True)
        self.here.node(NODE).root.rmdir()
        self.connect()

    @property
    def files(self) -> list[Path]:
        rank = self.node.attempt(1).rank(0)
        return [
            self.node.node(NODE).journal,
            rank.stdout,
            rank.log_times,
            rank.progress,
            rank.metrics / SEGMENT,
        ]

    def connect(self) -> None:
        """Begin again: neither end remembers anything but its files."""
        self.sources = Sources(self.node.root, NODE)
        self.mirror = Mirror(self.here.root, NODE)

    def carry(self, messages: int, limit: int) -> int:
        """Take so many messages over; how many there were."""
        self.sources.look()
        for count in range(messages):
            message = self.sources.next(limit)
            if message is None:
                return count
            kind, body, fields = message
            path = str(fields["path"])
            if kind == "ask":
                self.sources.resume(path, have_json(self.mirror.have(path)))
            elif kind == "put":
                self.mirror.put(path, int(fields["at"]), body)
            elif kind == "piece":
                self.mirror.piece(path, int(fields["at"]), body, last=bool(fields["last"]))
            else:
                self.mirror.cut(path, int(fields["size"]))
        return messages

    def settle(self) -> None:
        """Carry all that there is."""
        for _ in range(1000):
            self.sources.look_at_all()
            if not self.carry(10_000, 1 << 16) and self.sources.all_sent:
                return
        raise AssertionError(f"it does not settle: {self.sources.behind} bytes are left")

    def differences(self) -> list[str]:
        found = []
        for path in self.files:
            other = self.here.root / path.relative_to(self.node.root)
            theirs = path.read_bytes() if path.exists() else b""
            ours = other.read_bytes() if other.exists() else b""
            if theirs != ours:
                found.append(f"{path.name}: {len(theirs)} bytes there, {len(ours)} here")
        return found


# what happens to a file; `at` chooses where, as a part of what may be chosen
def append(path: Path, data: bytes, at: float) -> None:
    with path.open("ab") as file:
        file.write(data)


def cut_tail(path: Path, data: bytes, at: float) -> None:
    """As an agent does that finds a torn row: it is cut off, and others follow."""
    size = path.stat().st_size if path.exists() else 0
    with path.open("ab") as file:
        file.truncate(max(0, size - int(at * 40)))
        file.write(data)


def overwrite(path: Path, data: bytes, at: float) -> None:
    """As a row that was torn, or came late: bytes near the end are others now."""
    size = path.stat().st_size if path.exists() else 0
    begin = max(0, size - int(at * TAIL / 2))
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(begin)
        file.write(data)


def make_anew(path: Path, data: bytes, at: float) -> None:
    """Another file of the same name."""
    path.unlink(missing_ok=True)
    path.write_bytes(data * 3)


def lose_tail(path: Path, data: bytes, at: float) -> None:
    """As a power cut does; what came after it is other bytes."""
    if path.exists():
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * at)] + data)


Step = tuple[str, int, bytes, float]
CHANGES = {"append": append, "cut": cut_tail, "over": overwrite, "anew": make_anew, "power": lose_tail}
DATA = st.binary(min_size=1, max_size=60) | st.builds(lambda n: bytes(range(256)) * n, st.integers(1, 30))
STEPS = st.lists(
    st.tuples(st.sampled_from([*CHANGES, "append", "append"]), st.integers(0, 4), DATA, st.floats(0, 1))
    | st.tuples(st.just("carry"), st.integers(0, 6), st.just(b""), st.floats(0, 1))
    | st.tuples(st.just("connect"), st.just(0), st.just(b""), st.just(0.0)),
    max_size=25,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_bytes_are_equal_after_anything(steps: Sequence[Step]) -> None:
    """Appends, cuts, changes near the end and new files, in any order with cuts of the link between them."""
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(Path(folder))
        for name, which, data, at in steps:
            if name == "carry":
                pair.carry(which, 1 + int(at * 3000))
            elif name == "connect":
                pair.connect()
            else:
                CHANGES[name](pair.files[which], data, at)
        pair.settle()
        assert pair.differences() == []
        pair.connect()
        pair.settle()
        assert pair.differences() == []


def test_only_what_is_new_goes_over(tmp_path: Path) -> None:
    """After a cut, nothing that is here already is sent again."""
    pair = Pair(tmp_path)
    append(pair.files[0], b"line\n" * 5000, 0)
    pair.settle()
    pair.connect()
    append(pair.files[0], b"one more\n", 0)
    pair.sources.look()
    asked = pair.sources.next(1 << 20)
    assert asked is not None
    pair.sources.resume(str(asked[2]["path"]), have_json(pair.mirror.have(str(asked[2]["path"]))))
    message = pair.sources.next(1 << 20)
    assert message is not None
    assert message[1] == b"one more\n"
    assert message[2]["at"] == 25_000


KEYS = ("loss", "lr")
ROW = struct.Struct("<qddd")


def row(step: int) -> bytes:
    return ROW.pack(step, 1.7e9 + step, step / 2, 1e-3)


@pytest.fixture
def segment(tmp_path: Path) -> tuple[Pair, Path, int]:
    """A pair, a segment on its node, and the length of its header."""
    pair = Pair(tmp_path)
    path = pair.files[4]
    path.write_bytes(encode_header(KEYS, "trainer", created=1.7e9))
    return pair, path, path.stat().st_size


def mirrored_rows(pair: Pair, path: Path) -> bytes:
    other = pair.here.root / path.relative_to(pair.node.root)
    content = other.read_bytes()
    header = decode_header(content)
    assert header is not None
    return content[header.length :]


def write_at(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_a_row_behind_a_hole_waits_for_it(
    segment: tuple[Pair, Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that took its offset and has not written yet is waited for, however many rows follow it."""
    pair, path, length = segment
    monkeypatch.setattr(files_to_send, "HOLD", 60.0)
    append(path, row(1), 0)
    write_at(path, length + 2 * ROW.size, b"".join(map(row, range(3, 2000))))
    pair.carry(100, 1 << 20)
    assert mirrored_rows(pair, path) == row(1)
    write_at(path, length + ROW.size, row(2))
    pair.carry(100, 1 << 20)
    assert mirrored_rows(pair, path) == b"".join(map(row, range(1, 2000)))


def test_a_row_that_is_being_written_is_not_sent_torn(
    segment: tuple[Pair, Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes when it is whole."""
    pair, path, length = segment
    monkeypatch.setattr(files_to_send, "HOLD", 60.0)
    append(path, row(1) + row(2)[:20], 0)
    pair.carry(100, 1 << 20)
    assert mirrored_rows(pair, path) == row(1)
    write_at(path, length + ROW.size, row(2))
    pair.carry(100, 1 << 20)
    assert mirrored_rows(pair, path) == row(1) + row(2)


def test_what_a_crash_left_goes_after_a_while(segment: tuple[Pair, Path, int]) -> None:
    """A hole that no one fills and a torn tail; and the tail again when a row takes its place after all."""
    pair, path, length = segment
    write_at(path, length + ROW.size, row(2) + row(3)[:9])
    pair.settle()
    assert mirrored_rows(pair, path) == bytes(ROW.size) + row(2) + row(3)[:9]
    write_at(path, length, row(1) + row(2) + row(4) + row(5))
    pair.settle()
    assert mirrored_rows(pair, path) == row(1) + row(2) + row(4) + row(5)


def test_a_mended_row_is_found_after_a_cut(segment: tuple[Pair, Path, int]) -> None:
    """The torn tail went over, the link was cut, and then its row was written whole."""
    pair, path, length = segment
    append(path, b"".join(map(row, range(500))) + row(500)[:30], 0)
    pair.settle()
    write_at(path, length + 500 * ROW.size, row(600))
    pair.connect()
    pair.settle()
    assert mirrored_rows(pair, path) == b"".join(map(row, range(500))) + row(600)


def test_links_are_not_followed_on_the_node(tmp_path: Path) -> None:
    """A rank's log that is a link to a secret, and a rank's folder that is one to a home."""
    pair = Pair(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("canary")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "stdout.log").write_text("canary")
    pair.node.attempt(1).rank(0).stdout.symlink_to(secret)
    pair.node.attempt(1).rank(1).root.symlink_to(elsewhere)
    append(pair.files[0], b"line\n", 0)
    pair.settle()
    assert [path.name for path in pair.here.root.rglob("*") if path.is_file()] == ["journal.jsonl"]
    assert "stdout.log" in " ".join(pair.sources.take_messages())


def test_a_file_that_becomes_a_link_is_not_read_any_further(tmp_path: Path) -> None:
    """Also when it was a plain one at first."""
    pair = Pair(tmp_path)
    log = pair.files[1]
    append(log, b"before\n", 0)
    pair.settle()
    secret = tmp_path / "secret"
    secret.write_text("canary " * 100)
    log.unlink()
    log.symlink_to(secret)
    pair.settle()
    assert (pair.here.attempt(1).rank(0).stdout).read_bytes() == b"before\n"
    assert "is a link" in " ".join(pair.sources.take_messages())
