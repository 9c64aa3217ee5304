"""Finding out whether a node sees the controller's run directory: a file with random content laid into it."""

from __future__ import annotations

import contextlib
import secrets
from types import TracebackType
from typing import Self

from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.layout import RunLayout


class SharedToken:
    """The file, for as long as a node is asked about it."""

    def __init__(self, layout: RunLayout) -> None:
        # another name each time: a network file system remembers that a file was not there
        self.name = f"link-{secrets.token_hex(8)}.token"
        self.content = secrets.token_hex(16)
        self._path = layout.root / self.name

    def __enter__(self) -> Self:
        """Lay it down; without room for it nothing is found to be shared."""
        with contextlib.suppress(OSError):
            write_bytes(self._path, self.content.encode("ascii"), private=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
