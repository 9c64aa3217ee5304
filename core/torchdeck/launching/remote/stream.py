"""What a link needs of a connection: the bytes of one process on the node."""

from __future__ import annotations

from typing import Protocol


class ByteStream(Protocol):
    """Standard input and output of a process on a node."""

    def write(self, data: bytes) -> None:
        """Send all of `data`. Raises OSError when the process or the way to it is gone."""

    def read(self, size: int, limit: float) -> bytes:
        """Up to `size` bytes, as soon as there are any; empty when the process has closed its output.

        Raises:
            TimeoutError: nothing came for `limit` seconds.
            OSError: the way to it is gone.
        """

    @property
    def exit_code(self) -> int | None:
        """Of the process; None while it lives, or where nobody knows."""

    @property
    def said(self) -> str:
        """The end of what it wrote to its standard error, as far as it came."""

    def close(self) -> None:
        """Give it up, from any thread; who reads is woken."""
