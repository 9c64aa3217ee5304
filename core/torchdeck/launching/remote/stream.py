"""Connection interface of a link: the bytes of one process on the node."""

from __future__ import annotations

from typing import Protocol


class ByteStream(Protocol):
    """Standard input and output of a process on a node."""

    def write(self, data: bytes) -> None:
        """Send all of `data`. Raises OSError if the process or the connection is gone."""

    def read(self, size: int, limit: float) -> bytes:
        """Read up to `size` bytes, as soon as there are any; empty if the process has closed its output.

        Raises:
            TimeoutError: no data for `limit` seconds.
            OSError: the connection is lost.
        """

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process; None while it is alive, or if unknown."""

    @property
    def said(self) -> str:
        """End of its standard error, as far as it was received."""

    def close(self) -> None:
        """Close it, from any thread; a blocked reader is woken."""
