"""The copy of a watched training's log."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchdeck.agent.watched import output_copy
from torchdeck.agent.watched.output_copy import OutputCopy


def test_a_log_that_begins_again_is_copied_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Truncated to a shorter one, or replaced by a longer file of the same name."""
    monkeypatch.setattr(output_copy, "FIRST", 10)
    log, target = tmp_path / "train.log", tmp_path / "stdout.log"
    copy = OutputCopy(log, target)
    log.write_text("left out\nstep 1\nstep 2\n"[-16:])
    copy.look()
    expected = target.read_text()
    for text in ("again\n", "again\nstep 1\n"):
        log.write_text(text)
        copy.look()
    expected += "again\nstep 1\n"
    assert target.read_text() == expected
    other = tmp_path / "other"
    other.write_text("a much longer log\n" * 9)
    other.rename(log)
    copy.look()
    assert target.read_text() == expected + "a much longer log\n" * 9
