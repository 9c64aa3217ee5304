"""Which controller has a run."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.epoch import ControllerEpoch, SupersededError

FIRST = ProcessIdentity(1, 10, "b")
SECOND = ProcessIdentity(2, 20, "b")


def test_the_later_has_the_run(tmp_path: Path) -> None:
    """Epochs rise by one; the earlier learns who took it, and can no longer act."""
    first = ControllerEpoch(tmp_path / "lock", FIRST)
    first.check()
    with first.held():
        assert first.number == 1
    second = ControllerEpoch(tmp_path / "lock", SECOND)
    assert second.number == 2
    with pytest.raises(SupersededError) as caught:
        first.check()
    assert caught.value.by == SECOND
    with pytest.raises(SupersededError), first.held():
        raise AssertionError("an earlier controller acted")
    second.check()


def test_taking_a_run_waits_for_the_action_under_way(tmp_path: Path) -> None:
    """A controller is never superseded in the middle of an action."""
    first = ControllerEpoch(tmp_path / "lock", FIRST)
    taken = threading.Event()

    def take() -> None:
        ControllerEpoch(tmp_path / "lock", SECOND)
        taken.set()

    thread = threading.Thread(target=take)
    with first.held():
        thread.start()
        assert not taken.wait(0.2)
    assert taken.wait(10)
    thread.join(10)


@pytest.mark.parametrize("content", [b"", b"{", b'{"epoch": "x"}', b"\0" * 4096])
def test_a_damaged_lock_file_counts_as_nobody(tmp_path: Path, content: bytes) -> None:
    """A lock that a crash cut begins again at 1."""
    (tmp_path / "lock").write_bytes(content)
    assert ControllerEpoch(tmp_path / "lock", FIRST).number == 1


def test_without_its_lock_file_a_controller_has_nothing(tmp_path: Path) -> None:
    """A run directory that is gone cannot be controlled any more."""
    first = ControllerEpoch(tmp_path / "lock", FIRST)
    (tmp_path / "lock").unlink()
    with pytest.raises(SupersededError):
        first.check()
