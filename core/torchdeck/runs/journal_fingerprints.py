"""Check whether a run's journals have changed: one `stat` of each, without reading them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self

from torchdeck.contract.layout import RunLayout


@dataclass(frozen=True)
class JournalFingerprints:
    """State of a run's journals at one moment, the controller's first."""

    paths: tuple[str, ...]
    stamps: tuple[tuple[int, int], ...]
    """Size in bytes and modification time in ns of each; -1 and 0 if it does not exist."""

    @classmethod
    def taken(cls, layout: RunLayout) -> Self:
        """As of now."""
        paths = (str(layout.journal), *map(str, sorted(layout.nodes.glob("*/journal.jsonl"))))
        return cls(paths, _stamps(paths))

    @property
    def of_controller(self) -> JournalFingerprints:
        """Fingerprint of the controller's journal alone."""
        return JournalFingerprints(self.paths[:1], self.stamps[:1])

    @property
    def are_current(self) -> bool:
        """Whether these journals are unchanged since."""
        return self.stamps == _stamps(self.paths)


def _stamps(paths: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    found = []
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116 - a thousand a second: strings are five times quicker
        except OSError:
            found.append((-1, 0))
        else:
            found.append((status.st_size, status.st_mtime_ns))
    return tuple(found)
