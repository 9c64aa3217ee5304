"""Error for a wrong argument of a public function."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from torchdeck.contract.refusal import Refusal

_SHOWN = 80
"""Characters of a value to display."""


class ArgumentError(Refusal, TypeError, ValueError):
    """A call has a wrong argument: an unknown or missing one, a wrong type, or a value out of range.

    `what` names the argument, `fix` is what to write instead. It is a TypeError and a ValueError, whichever
    of the two a caller expects.
    """

    page = "library"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the name in `known` that `name` resembles most; None if none is similar."""
    names = list(known)
    lowered = name.lower().replace("-", "_")
    contained = [each for each in names if lowered in each.split("_") or each in lowered.split("_")]
    close = difflib.get_close_matches(lowered, names, n=1, cutoff=0.6) or contained
    return close[0] if close else None


def unknown_name(
    what: str, name: str, known: Iterable[str], also: Mapping[str, str] | None = None
) -> ArgumentError:
    """Return the error for a `name` that is not `known`; it suggests the nearest one.

    Args:
        what: who has no such name: "DistributedTrainer has no argument".
        name: the unknown name.
        known: all names, in the order to list them.
        also: other spellings of them → their name.
    """
    names, spellings = list(known), also or {}
    near = nearest(name, [*names, *spellings])
    near = spellings.get(near, near) if near else None
    listed = f"known are {', '.join(names)}" if names else "there are none"
    return ArgumentError(f"{what} {name!r}", listed, f"did you mean {near!r}?" if near else "leave it out")


def shown(value: object) -> str:
    """Return a short text of a value and its type, for messages."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        text = repr(value)
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"an object of type {type(value).__name__}" if not isinstance(value, type) else value.__name__
