"""Files laid into folders for a moment, by which nodes find out whether they have the same folder."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.agent.probe.system import nearest


class Marks:
    """Those of one conversation; all are removed at its end.

    A folder that is not there yet stands for the nearest around it that is, as it would be made in that.
    """

    def __init__(self) -> None:
        self._laid: list[Path] = []

    def lay(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Lay a file of a `name` that nobody else has into `folder`. Raises OSError."""
        path = _place(question) / f".torchdeck-{secrets.token_hex(8)}.mark"
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self._laid.append(path)
        return {"name": path.name}

    def see(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Which of the marks `names` that nodes have laid are in this node's `folder`."""
        folder, names = _place(question), [str(name) for name in question["names"]]
        try:
            # listed, as a network file system remembers for a while that a file was not there
            found = set(os.listdir(folder))  # noqa: PTH208 - names are enough
        except OSError:
            # of os.path: a folder that may not be entered shows nothing, and is no error
            found = {name for name in names if os.path.exists(folder / name)}  # noqa: PTH110
        return {"seen": [name for name in names if name in found]}

    def remove(self, _question: Mapping[str, Any]) -> dict[str, Any]:
        """Those that were laid."""
        while self._laid:
            with contextlib.suppress(OSError):
                self._laid.pop().unlink()
        return {}


def _place(question: Mapping[str, Any]) -> Path:
    return nearest(Path(str(question["folder"])).expanduser())
