"""Named slots: values not yet known when a plan is made, written `@{name}` in argv, environment and paths.

A literal `@{` of the user is escaped as `@@{` when a plan is made, so that it arrives byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SLOTS: Mapping[str, str] = {
    "run_id": "the run's id, given when its directory is made",
    "run_dir": "the run's directory on the node",
    "attempt": "number of the attempt, from 1",
    "port": "free port for the rendezvous, chosen on node 0",
    "resume": "checkpoint directory to resume from, empty to start over",
    "checkpoint": "newest complete checkpoint that the program has written by itself",
    "code": "the run's own copy of the user's code, which nothing changes",
    "environment": "folder of the environment that the node's agent makes with uv (run.environment)",
    "shipped": "folder with the part of Torchdeck that runs on nodes, named by its content",
    "inside": "a colon and the folder that adds callbacks to known trainers (telemetry.inside)",
    "node_path": "a colon and the PYTHONPATH that the node's own login and activation set; empty if none",
}
"""Every slot and the source of its value."""

_SLOT = re.compile(r"(@?)@\{([a-z_]*)\}?")


class UnknownSlotError(ValueError):
    """A text names a slot that does not exist, or one that has no value yet."""


def slot(name: str) -> str:
    """Return the placeholder text of slot `name`."""
    if name not in SLOTS:
        raise UnknownSlotError(f"there is no slot {name!r}; slots are {', '.join(SLOTS)}")
    return f"@{{{name}}}"


def escape(text: str) -> str:
    """Escape `text` such that `fill` returns it unchanged."""
    return text.replace("@{", "@@{")


def split(text: str) -> list[tuple[str, str]]:
    """Split `text` into pieces in order, each (literal, slot's name) with one of the two empty; escapes
    undone.

    Raises:
        UnknownSlotError: it contains a slot that does not exist.
    """
    pieces: list[tuple[str, str]] = []
    end = 0
    for match in _SLOT.finditer(text):
        pieces.append((text[end : match.start()], ""))
        end = match.end()
        if match.group(1):
            pieces.append((match.group(0)[1:], ""))
        elif match.group(2) in SLOTS and match.group(0).endswith("}"):
            pieces.append(("", match.group(2)))
        else:
            raise UnknownSlotError(f"there is no slot {match.group(0)!r}; slots are {', '.join(SLOTS)}")
    pieces.append((text[end:], ""))
    return [piece for piece in pieces if any(piece)]


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with every slot replaced by its value and every escape undone.

    Raises:
        UnknownSlotError: a slot has no value.
    """

    def replace(match: re.Match[str]) -> str:
        whole, name = match.group(0), match.group(2)
        if match.group(1):
            return whole[1:]
        if name not in values or not whole.endswith("}"):
            raise UnknownSlotError(f"slot {whole!r} has no value; known: {', '.join(sorted(values))}")
        return values[name]

    return _SLOT.sub(replace, text)
