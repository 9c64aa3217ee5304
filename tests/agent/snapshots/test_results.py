"""Files that a program writes next to its code, in the run's copy."""

import errno
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from support.links.code_transfer import code_of, written
from support.values.machines import plan
from support.waiting import wait_until
from torchdeck.agent import execution
from torchdeck.agent.gang import commands
from torchdeck.agent.snapshots import written_files
from torchdeck.agent.snapshots.written_files import Bringing, Written, bring, written_beside
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import UMASK_VARIABLE
from torchdeck.launching.code.capture import capture


def copied(tmp_path: Path) -> tuple[RunLayout, Path]:
    work = written(tmp_path / "work", {"train.py": b"", "lib/a.py": b"", "data.csv": b"1", "link": b""})
    (work / ".torchdeckignore").write_text("data.csv\n")
    layout = RunLayout(tmp_path / "home/runs/r")
    layout.root.mkdir(parents=True)
    capture(layout, plan(code=code_of(work, tmp_path / "home")), tmp_path / "home")
    return layout, work


def test_nothing_is_found_in_a_copy_that_no_program_wrote_to(tmp_path: Path) -> None:
    """Links to what was not copied, and byte code, are no results."""
    layout, _ = copied(tmp_path)
    written(layout.code, {"lib/__pycache__/a.pyc": b""})
    assert written_beside(layout) == []


def test_results_move_to_the_project_and_a_link_stays(tmp_path: Path) -> None:
    layout, work = copied(tmp_path)
    written(layout.code, {"out/step 1/model.pt": b"weights", "lib/cache.json": b"{}"})
    assert written_beside(layout) == ["lib/cache.json", "out/step 1/model.pt"]
    moved = bring(layout, work)
    assert (moved.brought, moved.left) == (("lib/cache.json", "out/step 1/model.pt"), ())
    assert (work / "out/step 1/model.pt").read_bytes() == b"weights"
    assert (layout.code / "out/step 1/model.pt").readlink() == work / "out/step 1/model.pt"
    assert written_beside(layout) == []
    assert [path.name for path in (work / "out/step 1").iterdir()] == ["model.pt"]


def test_files_of_the_project_are_never_replaced(tmp_path: Path) -> None:
    """A file of that name that came meanwhile stays, a broken link too; the result stays in the copy."""
    layout, work = copied(tmp_path)
    written(layout.code, {"out.pt": b"new", "log": b"new"})
    (work / "out.pt").write_text("mine")
    (work / "log").symlink_to("nowhere")
    assert bring(layout, work).left == ("log", "out.pt")
    assert (work / "out.pt").read_text() == "mine"
    assert written_beside(layout) == ["log", "out.pt"]


def test_run_without_a_copy_has_no_results(tmp_path: Path) -> None:
    assert written_beside(RunLayout(tmp_path / "r")) == []


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The project is on another disk."""
    link = os.link

    def linked(source: str | Path, target: str | Path) -> None:
        if Path(source).name == Path(target).name:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        link(source, target)

    monkeypatch.setattr(os, "link", linked)


def test_results_on_the_same_disk_are_not_copied(tmp_path: Path) -> None:
    layout, work = copied(tmp_path)
    written(layout.code, {"model.pt": b"weights"})
    before = (layout.code / "model.pt").stat().st_ino
    assert bring(layout, work, limit=0.0).brought == ("model.pt",)
    assert (work / "model.pt").stat().st_ino == before


@pytest.mark.usefixtures("elsewhere")
def test_results_on_another_disk_are_copied_with_their_mode_and_time(tmp_path: Path) -> None:
    layout, work = copied(tmp_path)
    written(layout.code, {"out/model.pt": b"weights"})
    (layout.code / "out/model.pt").chmod(0o640)
    os.utime(layout.code / "out/model.pt", (5.0, 5.0))
    assert bring(layout, work).brought == ("out/model.pt",)
    found = (work / "out/model.pt").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_mtime) == (0o640, 5.0)
    assert [path.name for path in (work / "out").iterdir()] == ["model.pt"]


@pytest.mark.usefixtures("elsewhere")
def test_a_copy_that_takes_too_long_leaves_the_file_where_it_is(tmp_path: Path) -> None:
    layout, work = copied(tmp_path)
    written(layout.code, {"out/model.pt": b"weights"})
    bringing = Bringing(layout, work, limit=0.0)
    wait_until(lambda: bringing.wait(0.1), 10, "the end of the limit")
    assert bringing.written == Written(left=("out/model.pt",))
    assert (layout.code / "out/model.pt").read_bytes() == b"weights"
    assert list((work / "out").iterdir()) == []


def test_an_agent_gives_heartbeats_while_results_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It journals them, and the run's end, only then."""
    layout, work = copied(tmp_path)
    written(layout.code, {"model.pt": b"weights"})
    enough = threading.Event()
    events: list[str] = []
    beats: list[list[str]] = []

    def slowly(_layout: RunLayout, _project: Path, _limit: float) -> Written:
        assert enough.wait(30)
        return Written(brought=("model.pt",))

    def beat() -> None:
        beats.append(list(events))
        if len(beats) == 3:
            enough.set()

    class Journal:
        def append(self, name: str, **_fields: object) -> None:
            events.append(name)

    class Leader:
        leads, number = True, 1

    monkeypatch.setattr(written_files, "bring", slowly)
    monkeypatch.setattr(execution, "BRINGING_BEAT", 0.01)
    made: Any = execution.Execution
    hands = made(
        layout, plan(code=code_of(work, tmp_path / "home")), LOCALHOST, Journal(), None, Leader(), None, beat
    )
    hands.carry_out(commands.Leave("over", False))
    assert (beats[:3], events, hands.finished) == ([[], [], []], ["results", "node_finished"], True)


@pytest.mark.parametrize(("mask", "mode"), [("0022", 0o755), ("0002", 0o775), (None, 0o700)])
def test_folders_get_the_mode_that_the_users_shell_would_give_them(
    mask: str | None, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's own umask is private; that of the shell is in its environment."""
    layout, work = copied(tmp_path)
    written(layout.code, {"out/step/model.pt": b"weights"})
    monkeypatch.delenv(UMASK_VARIABLE, raising=False)
    if mask is not None:
        monkeypatch.setenv(UMASK_VARIABLE, mask)
    before = os.umask(0o077)
    try:
        bring(layout, work)
    finally:
        os.umask(before)
    assert [stat.S_IMODE((work / name).stat().st_mode) for name in ("out", "out/step")] == [mode, mode]
