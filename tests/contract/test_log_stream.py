"""What a supervisor says on a full disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torchdeck.agent.supervisor_process import LogStream


def test_what_is_said_is_there_at_once(tmp_path: Path) -> None:
    """Nothing waits in a buffer that a kill would empty."""
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    print("one \udcff", file=LogStream(descriptor))
    assert path.read_text() == "one \\udcff\n"
    os.close(descriptor)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_raises_nothing() -> None:
    """The words are lost, the speaker is not."""
    descriptor = os.open("/dev/full", os.O_WRONLY)
    stream = LogStream(descriptor)
    print("lost", file=stream, flush=True)
    stream.flush()
    assert stream.fileno() == descriptor
    os.close(descriptor)
