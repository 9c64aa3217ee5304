"""A nearly full disk here, and files that are too long: logs are held back first, and events always come."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.links.linked import NODE, LinkedRun, linked
from support.system.small_disk import mounted
from support.values.metrics import write_rows
from support.waiting import wait_until
from torchdeck.agent.link.mirrored_file import GrowingFile, Have, Put
from torchdeck.agent.link.names import NOTHING, Level, Mirrored, Way, mirrored
from torchdeck.launching.remote.link_session import DiskRoom
from torchdeck.launching.remote.mirror import UNFINISHED_LIMIT, Mirror, MirrorRefusedError

LOG = "attempts/1/ranks/0/stdout.log"
ERROR = "attempts/1/ranks/0/error.json"
SIZE = 64 * 1024 * 1024


def _append(run: LinkedRun, text: str) -> None:
    rank = run.there.attempt(1).rank(0)
    for path in (rank.stdout, run.there.node(NODE).journal):
        with path.open("a") as file:
            file.write(text)


@pytest.mark.root
def test_logs_stay_on_the_node_until_there_is_room(tmp_path: Path) -> None:
    """Metrics and the journal come all the same; afterwards everything is here, byte for byte."""
    home = tmp_path / "home here"
    home.mkdir(mode=0o700)
    with mounted(home, f"size={SIZE},mode=700"), linked(tmp_path) as run:
        run.make_node()
        _append(run, "one\n")
        link = run.up()
        wait_until(lambda: not run.differences(), 20, "the first lines")
        filling = home / "filling"
        filling.write_bytes(b"x" * (_free(home) - 2 * 1024 * 1024))
        wait_until(lambda: link.state.held == "logs", 20, "logs to be held back")
        assert any("logs stay on the node" in text for text in link.take_messages())
        _append(run, "two\n" * 1000)
        write_rows(run.there.root, [(1, {"loss": 2.5})])
        held = {path.split(":")[0] for path in _different(run, LOG)}
        assert held == {LOG}
        assert link.catch_up(10.0)  # what is held back is not waited for
        filling.unlink()
        wait_until(lambda: not link.state.held and not run.differences(), 20, "the logs")


def _free(folder: Path) -> int:
    room = DiskRoom(folder)
    room.held()
    return room.free


def _different(run: LinkedRun, but: str) -> list[str]:
    """What is not the same here once everything but one file is."""
    wait_until(lambda: [each.split(":")[0] for each in run.differences()] == [but], 20, "all but the log")
    return run.differences()


def test_metrics_are_held_back_after_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the free bytes; what was held back is taken again a little later than it was not."""
    clock = iter(range(100))
    room = DiskRoom(tmp_path, lambda: float(next(clock)))
    found = []
    for free in (5_000, 999, 1_200, 249, 310, 1_300):
        monkeypatch.setattr("os.statvfs", lambda _path, free=free: _Disk(free))
        found.append(room.held())
    assert found == [NOTHING, Level.LOGS, Level.LOGS, Level.METRICS, Level.METRICS, NOTHING]


class _Disk:
    """What statvfs says of a disk of 20,000 MiB, of which a twentieth is enough."""

    def __init__(self, free: int) -> None:
        self.f_bavail, self.f_frsize, self.f_blocks = free, 1024 * 1024, 20_000


def test_a_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path, "n1")
    kind = mirrored(ERROR, "n1")
    assert kind is not None
    piece = b"x" * (4 * 1024 * 1024)
    for at in range(0, kind.limit, len(piece)):
        mirror.piece(ERROR, at, piece, last=False)
    with pytest.raises(MirrorRefusedError, match="longer than"):
        mirror.piece(ERROR, kind.limit, b"x", last=True)
    log = mirrored(LOG, "n1")
    assert log is not None
    with pytest.raises(MirrorRefusedError, match="longer than"):
        mirror.put(LOG, log.limit, b"x")


def test_files_in_pieces_are_bounded_together(tmp_path: Path) -> None:
    """Each is short enough; all of them would fill the memory."""
    mirror = Mirror(tmp_path, "n1")
    piece = b"x" * (4 * 1024 * 1024)
    for rank in range(UNFINISHED_LIMIT // len(piece)):
        mirror.piece(f"attempts/1/ranks/{rank}/error.json", 0, piece, last=False)
    with pytest.raises(MirrorRefusedError, match="does not follow"):
        mirror.piece(ERROR.replace("ranks/0", "ranks/99"), 0, piece, last=False)


def test_a_node_sends_no_more_of_a_file_than_is_taken(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"0123456789")
    file = GrowingFile(tmp_path, "log", Mirrored(Way.APPENDED, Level.LOGS, 8))
    file.look()
    file.resume(Have(0))
    assert file.read(100) == Put(0, b"01234567")
    with pytest.raises(ValueError, match="longer than 8 bytes"):
        file.read(100)
