"""Three-way merge of a run file: by line if that gives the right values, else by key."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from torchdeck.config.problems import dotted, shown
from torchdeck.config.toml.document import parse
from torchdeck.config.toml.edit import EditError, remove_value, set_value
from torchdeck.contract.refusal import Refusal

# Differences between two tables of run files, key by key.


@dataclass(frozen=True)
class Absent:
    """Placeholder for the value of a missing key."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()


@dataclass(frozen=True)
class Difference:
    """One key whose values differ."""

    path: tuple[str, ...]
    before: Any
    """TOML value, or ABSENT."""
    after: Any

    @property
    def name(self) -> str:
        """Dotted key."""
        return dotted(self.path)


def leaves(table: Mapping[str, Any], parent: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield keys with their values, descending into tables; a list is one value, and so is an empty table."""
    for key, value in table.items():
        path = (*parent, key)
        if isinstance(value, Mapping) and value:
            yield from leaves(value, path)
        elif not isinstance(value, Mapping):
            yield path, value


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Return every key that differs, in the order of `after`, removed ones at the end."""
    old, new = dict(leaves(before)), dict(leaves(after))
    paths = [*new, *(path for path in old if path not in new)]
    found = (Difference(path, old.get(path, ABSENT), new.get(path, ABSENT)) for path in paths)
    return tuple(item for item in found if not same(item.before, item.after))


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same; 1, 1.0 and true are not, nan and nan are."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return type(one) is type(other) and repr(one) == repr(other)


def as_shown(value: Any, limit: int = 60) -> str:
    """Format a value for display; a dash for ABSENT."""
    return "–" if isinstance(value, Absent) else shown(value, limit)


Side = Literal["mine", "theirs"]


class MergeError(Refusal, ValueError):
    """The texts cannot be merged by key: one is not TOML, or a change cannot be written into the other."""

    page = "reference/run-toml"


@dataclass(frozen=True)
class Conflict:
    """A key that both sides have changed differently."""

    path: tuple[str, ...]
    base: Any
    """Previous value; values are TOML's, or ABSENT."""
    mine: Any
    theirs: Any

    @property
    def name(self) -> str:
        """Dotted key."""
        return dotted(self.path)


@dataclass(frozen=True)
class Merge:
    """Result of a merge: a text in which each conflict keeps mine."""

    text: str
    conflicts: tuple[Conflict, ...]
    taken: tuple[Difference, ...]
    """Changes taken from theirs, each from mine to theirs."""

    def resolved(self, choices: Mapping[tuple[str, ...], Side]) -> str:
        """Return the text with each conflict resolved as chosen; mine by default.

        Raises:
            MergeError: a value of theirs cannot be written into it.
        """
        text = self.text
        for conflict in self.conflicts:
            if choices.get(conflict.path, "mine") == "theirs":
                text = _written(text, conflict.path, conflict.theirs)
        return text


def merge(base: str, mine: str, theirs: str) -> Merge:
    """Merge the changes from `base` to `theirs` into `mine`.

    If both changed different lines, both keep what they wrote, comments included. If lines are too close, the
    keys of theirs are set in mine.

    Raises:
        MergeError: the keys cannot be determined or written; one side must be taken whole.
    """
    was, ours, others = _table(base, "before"), _table(mine, "here"), _table(theirs, "on disk")
    my_change = {item.path: item for item in differences(was, ours)}
    conflicts: list[Conflict] = []
    taken: list[Difference] = []
    for item in differences(was, others):
        own = my_change.get(item.path)
        if own is None:
            taken.append(Difference(item.path, item.before, item.after))
        elif not same(own.after, item.after):
            conflicts.append(Conflict(item.path, item.before, own.after, item.after))
    by_key = mine
    for item in taken:
        by_key = _written(by_key, item.path, item.after)
    by_line = None if conflicts else merged_lines(base, mine, theirs)
    if by_line is not None and _says(by_line, by_key):
        by_key = by_line
    return Merge(by_key, tuple(conflicts), tuple(taken))


def merged_lines(base: str, mine: str, theirs: str) -> str | None:
    """Merge by lines; None if both have changed the same lines, or neighbouring ones."""
    old, ours, others = (text.splitlines(keepends=True) for text in (base, mine, theirs))
    edits = sorted([*_edits(old, ours), *_edits(old, others)], key=lambda edit: (edit.start, edit.end))
    text: list[str] = []
    at = 0
    before: _Edit | None = None
    for edit in edits:
        if edit == before:
            continue  # both sides have made it
        if before is not None and edit.start <= before.end:
            return None
        text += [*old[at : edit.start], *edit.lines]
        at, before = edit.end, edit
    return "".join([*text, *old[at:]])


@dataclass(frozen=True)
class _Edit:
    """Replacement of lines `start` to `end` of the base."""

    start: int
    end: int
    lines: tuple[str, ...]


def _edits(old: Sequence[str], new: Sequence[str]) -> Iterator[_Edit]:
    for tag, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield _Edit(start, end, tuple(new[first:last]))


def _written(text: str, path: tuple[str, ...], value: Any) -> str:
    try:
        return remove_value(text, path) if value is ABSENT else set_value(text, path, value)
    except EditError as error:
        raise MergeError(str(error)) from error


def _table(text: str, where: str) -> dict[str, Any]:
    try:
        return parse(text)
    except (ValueError, RecursionError) as error:
        raise MergeError(f"the text {where} is not TOML: {error}") from error


def _says(text: str, wanted: str) -> bool:
    """Return whether two texts have the same keys and values."""
    try:
        return not differences(tomllib.loads(wanted), tomllib.loads(text))
    except ValueError:
        return False
