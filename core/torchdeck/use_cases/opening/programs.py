"""Programs and variables of this machine's desktop: a value, so that what is started is decided purely."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


def _here() -> Mapping[str, str]:
    return dict(os.environ)


@dataclass(frozen=True)
class Programs:
    """Programs that can be started here."""

    environ: Mapping[str, str] = field(default_factory=_here)
    find: Callable[[str], str | None] = shutil.which
    """Returns the path of a program; None if there is none."""

    def first_of(self, names: tuple[str, ...]) -> str | None:
        """Return the path of the first of these programs that is installed."""
        return next((path for name in names if (path := self.find(name)) is not None), None)
