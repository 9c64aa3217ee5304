"""A node's Python that gives one answer to every question."""

from __future__ import annotations


class SayingProcess:
    """Takes every question, and says `answer` as one line again and again."""

    stderr = b""

    def __init__(self, answer: bytes) -> None:
        self._line = answer.replace(b"\n", b" ") + b"\n"

    def write(self, data: bytes) -> None:
        assert data

    def read(self, _size: int, _limit: float) -> bytes:
        return self._line

    def close(self) -> None:
        pass
