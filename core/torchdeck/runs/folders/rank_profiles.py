"""Profiles of ranks in a run directory: the files of one request."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.rank_layout import ProfileLayout

_LIMIT = 64 << 10


class RankProfile(NamedTuple):
    """Answer of one rank."""

    rank: int
    path: Path | None
    """Trace in Chrome's format, or samples in speedscope's; None: there is neither."""
    note: str = ""
    """Why there is none, or why it is shorter or of another kind than requested."""


def rank_profile(layout: RunLayout, request: str, rank: int) -> RankProfile | None:
    """Return what a rank has answered to a request; None: nothing yet."""
    for folder in layout.root.glob(f"attempts/*/profiles/{request}"):
        found = _answer(ProfileLayout(folder), rank)
        if found is not None:
            return found
    return None


def _answer(files: ProfileLayout, rank: int) -> RankProfile | None:
    if files.summary(rank).exists() and files.trace(rank).exists():
        early = _text(files.summary(rank), "early")
        seconds = _text(files.summary(rank), "seconds")
        return RankProfile(rank, files.trace(rank), f"ended after {seconds} s: {early}" if early else "")
    if files.samples(rank).exists():
        why = _text(files.refusal(rank), "why")
        return RankProfile(rank, files.samples(rank), f"sampled by py-spy{f': {why}' if why else ''}")
    if files.failure(rank).exists():
        return RankProfile(rank, None, _text(files.failure(rank), "why") or "no reason was given")
    return None


def _text(path: Path, name: str) -> str:
    try:
        value: Any = read_json(path, limit=_LIMIT)
    except OSError:
        return ""
    found = value.get(name) if isinstance(value, dict) else None
    return str(found)[:600] if isinstance(found, (str, int, float)) else ""
