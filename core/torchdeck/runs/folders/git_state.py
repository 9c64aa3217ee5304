"""Commit of a run's code, and what differed from it at the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import counted

_VERSION = 1
BEGIN = "diff --git "
"""Begins the part of a diff that is about one file."""


@dataclass(frozen=True)
class GitState:
    """State of the repository when a run was started."""

    commit: str
    """Full hash."""
    branch: str
    """Empty: detached."""
    diff: str
    """Changes of the copied files since the commit, as `git diff` prints them."""
    untracked: tuple[str, ...] = ()
    """Copied files that git does not know."""
    is_cut: bool = False
    """Whether the diff was too long, and is left out."""

    @property
    def sentence(self) -> str:
        """`git commit 1a2b3c4d (main), 2 files changed, 1 file untracked`."""
        branch = f" ({self.branch})" if self.branch else ""
        count = sum(line.startswith(BEGIN) for line in self.diff.splitlines())
        changed = "changed, too much to keep" if self.is_cut else f"{counted(count, 'file')} changed"
        parts = [f"git commit {self.commit[:8]}{branch}"]
        parts += [changed] if count or self.is_cut else []
        parts += [f"{counted(len(self.untracked), 'file')} untracked"] if self.untracked else []
        return ", ".join(parts) if len(parts) > 1 else f"{parts[0]}, nothing changed since"

    def to_json(self) -> dict[str, Any]:
        """Return what the file holds."""
        return {"v": _VERSION, **asdict(self), "untracked": list(self.untracked)}


def read_git_state(layout: RunLayout) -> GitState | None:
    """Return the recorded state; None if the code is in no repository, or it cannot be read."""
    try:
        value = read_json(layout.git)
    except OSError:
        return None
    if not isinstance(value, Mapping) or not isinstance(value.get("v"), int) or value["v"] > _VERSION:
        return None
    commit, branch, diff = (value.get(name) for name in ("commit", "branch", "diff"))
    untracked = value.get("untracked")
    if not (isinstance(commit, str) and isinstance(branch, str) and isinstance(diff, str)):
        return None
    names = untracked if isinstance(untracked, list) else []
    known = tuple(name for name in names if isinstance(name, str))
    return GitState(commit, branch, diff, known, value.get("is_cut") is True)
