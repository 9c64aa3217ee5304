"""The node's end of sending a run's code over its link: frames of the transfer travel inside requests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.agent.snapshots.receive import Receiver
from torchdeck.contract.frames import Frame, FrameReader


class CodeRequests:
    """Feeds what is asked with `code` to a `Receiver`; a transfer that was cut begins with `first` again."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._receiver = Receiver(home)
        self._frames = FrameReader()

    def take(self, frame: Frame) -> tuple[Mapping[str, Any], bytes]:
        """Frames of the transfer in the body; those it is answered with."""
        if frame.head.get("first") is True:
            self._receiver, self._frames = Receiver(self._home), FrameReader()
        answers = [
            answer for inner in self._frames.feed(frame.body) for answer in self._receiver.handle(inner)
        ]
        return {}, b"".join(answers)
