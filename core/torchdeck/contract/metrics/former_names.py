"""Names of metrics in files of the version before: `heldout_loss` is `validation_loss` now."""

from __future__ import annotations

from collections.abc import Iterable

_FORMER, _NOW = "heldout_", "validation_"


def current_name(name: str) -> str:
    """Return the name that a metric of the trainer has now."""
    return _NOW + name.removeprefix(_FORMER) if name.startswith(_FORMER) else name


def current_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the current names, in order; a name that would occur twice is kept."""
    given = dict.fromkeys(names)
    return tuple(name if current_name(name) in given else current_name(name) for name in given)
