"""Examinations of a run's ranks: what each was doing, ranks with the same stack together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torchdeck.contract.atomic import read_json
from torchdeck.contract.journal import read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.rank_layout import ExaminationLayout
from torchdeck.runs.replay import typed
from torchdeck.telemetry.doctor.main_thread import is_users

_LIMIT = 8 << 20
_MOST_FRAMES = 64


class SharedStack(NamedTuple):
    """One stack of main threads."""

    ranks: tuple[int, ...]
    frames: tuple[str, ...]
    """`train.py:84 save_model`, innermost first; empty: not known."""
    state: str
    """State of the first rank's process, as in proc(5)."""

    @property
    def place(self) -> str:
        """Return the innermost frame of the user's own code; without one, the innermost of all."""
        known = (*filter(is_users, self.frames), *self.frames, "its stack is unknown")
        return known[0]

    @property
    def line(self) -> str:
        """Return `ranks 0, 2: /code/train.py:84 save_model`."""
        named = ", ".join(map(str, self.ranks))
        return f"rank{'' if len(self.ranks) == 1 else 's'} {named}: {self.place}"


class Examination(NamedTuple):
    """The answer to a request for stacks."""

    layout: ExaminationLayout
    sentence: str
    kind: str
    ranks: tuple[int, ...]
    run_id: str = ""
    code_folder: str = ""
    """Folder of the user's code, in place of the run's copy of it; empty: frames are shown as they are."""

    @property
    def missing(self) -> list[int]:
        """Return the ranks whose evidence is not here yet: that of other nodes is copied."""
        return [rank for rank in self.ranks if not self.layout.rank(rank).exists()]


def answered(layout: RunLayout, request: str) -> Examination | None:
    """Return the examination that answers a request; None if there is none yet."""
    for journal in sorted(layout.nodes.glob("*/journal.jsonl")):
        for event in read_journal(journal):
            if event.name == "examined" and event.fields.get("request") == request:
                return _examination(layout, event.fields)
    return None


def _examination(layout: RunLayout, fields: Any) -> Examination | None:
    attempt, name, ranks = (
        typed.whole(fields, "attempt"),
        typed.text(fields, "examination"),
        fields.get("ranks"),
    )
    if attempt is None or not name.isalnum() or not isinstance(ranks, list):
        return None
    known = tuple(rank for rank in ranks if type(rank) is int and rank >= 0)
    folder = layout.attempt(attempt).examination(name)
    return Examination(folder, typed.text(fields, "detail"), typed.text(fields, "kind"), known)


def shared_stacks(found: Examination) -> list[SharedStack]:
    """Return one entry per distinct stack, those of the fewest ranks first."""
    by_stack: dict[tuple[tuple[str, ...], str], list[int]] = {}
    for rank in found.ranks:
        value = _evidence(found.layout, rank)
        state = value.get("state")
        key = (_frames(value.get("frames"), found), state if isinstance(state, str) else "")
        by_stack.setdefault(key, []).append(rank)
    stacks = [SharedStack(tuple(ranks), frames, state[:20]) for (frames, state), ranks in by_stack.items()]
    return sorted(stacks, key=lambda stack: (len(stack.ranks), stack.ranks))


def _evidence(layout: ExaminationLayout, rank: int) -> dict[str, Any]:
    try:
        value = read_json(layout.rank(rank), limit=_LIMIT)
    except OSError:
        return {}
    return value if isinstance(value, dict) else {}


def _frames(value: object, found: Examination) -> tuple[str, ...]:
    frames: Sequence[object] = value[:_MOST_FRAMES] if isinstance(value, list) else []
    return tuple(_frame(frame, found) for frame in frames if isinstance(frame, dict))


def _frame(frame: dict[str, Any], found: Examination) -> str:
    file, line, function = str(frame.get("file")), frame.get("line"), frame.get("function")
    _, copied, below = file.partition(f"/{found.run_id}/code/")
    if copied and found.run_id and found.code_folder:
        file = f"{found.code_folder}/{below}"
    return f"{file}:{line} {function}"
