"""List sweeps, and find one by user input."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from torchdeck.contract.layout import RUN_ID, Home
from torchdeck.contract.lock_file import is_held
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.registry import LATEST
from torchdeck.sweeps.decisions import has_work, is_hopeless
from torchdeck.sweeps.sweep_layout import SweepLayout
from torchdeck.sweeps.sweep_state import SweepFollower, SweepState


class SweepNotFoundError(Refusal):
    """No sweep, or more than one, matches."""

    is_usage = True


@dataclass(frozen=True)
class ListedSweep:
    """A sweep of this home."""

    layout: SweepLayout
    state: SweepState | None
    """None: it cannot be read."""
    why: str = ""
    """Why it cannot be read."""
    is_driven: bool = False
    """Whether a process starts and watches its runs."""

    @property
    def status(self) -> str:
        """One word for the whole."""
        state = self.state
        if state is None:
            return "unreadable"
        if self.is_driven:
            return "stopping" if state.is_stopping else "running"
        if state.active:
            return "interrupted"
        if state.is_stopping:
            return "stopped"
        if is_hopeless(state):
            return "failed"
        return "interrupted" if has_work(state) else "ended"


def sweep_ids(home: Path) -> list[str]:
    """Return the ids of all sweeps, oldest first. Raises OSError."""
    try:
        return sorted(filter(RUN_ID.fullmatch, os.listdir(Home(home).sweeps)))  # noqa: PTH208 - only names
    except FileNotFoundError:
        return []


def look_at(layout: SweepLayout) -> ListedSweep:
    """Return one sweep as it is now."""
    try:
        driven = is_held(layout.lock)
        return ListedSweep(layout, SweepFollower(layout).refresh(), is_driven=driven)
    except (Refusal, OSError) as error:
        return ListedSweep(layout, None, str(error))


def list_sweeps(home: Path) -> list[ListedSweep]:
    """Return all sweeps of a home, the newest first. Raises OSError."""
    return [look_at(SweepLayout(Home(home).sweeps / name)) for name in reversed(sweep_ids(home))]


def find_sweep(home: Path, asked: str) -> SweepLayout:
    """Return the one sweep that `asked` names: an id, its beginning or random end, its name, or `latest`.

    Raises:
        SweepNotFoundError: none matches, or several do.
        OSError: the folder cannot be listed.
    """
    ids = sweep_ids(home)
    if asked == LATEST:
        found = ids[-1:]
    elif asked in ids:
        found = [asked]
    else:
        found = [each for each in ids if asked and (each.startswith(asked) or asked in _names(each))]
    if len(found) == 1:
        return SweepLayout(Home(home).sweeps / found[0])
    if found:
        several = ", ".join(reversed(found[-4:]))
        raise SweepNotFoundError(f"{asked!r} fits {len(found)} sweeps; name one by its id: {several}")
    raise SweepNotFoundError(f"there is no sweep {asked!r}; `torchdeck sweep list` shows all")


def _names(sweep_id: str) -> tuple[str, str]:
    """Return the name and the random end in an id."""
    head, _, suffix = sweep_id.rpartition("-")
    return head.partition("-")[2], suffix
