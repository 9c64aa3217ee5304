"""Selection of the series to export."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torchdeck.contract.refusal import Refusal
from torchdeck.metrics.run_metrics import RunMetrics
from torchdeck.metrics.series import Owner, Series


@dataclass(frozen=True)
class Selection:
    """Series of a run, sorted by name and owner; read one after the other."""

    metrics: RunMetrics
    keys: tuple[tuple[str, Owner], ...]
    effective: bool = False
    """Leave out rows of steps that a later attempt repeated."""

    def __iter__(self) -> Iterator[tuple[str, Owner, Series]]:
        for name, owner in self.keys:
            yield name, owner, self.metrics.series(name, owner, effective=self.effective)


def select(
    metrics: RunMetrics,
    *,
    names: Sequence[str] = (),
    ranks: Sequence[int] = (),
    system: bool = False,
    effective: bool = False,
) -> Selection:
    """Return the requested series.

    Args:
        metrics: metrics of the run, refreshed.
        names: names or shell patterns (`val_*`); all if empty.
        ranks: all if empty.
        system: the nodes' series too, of all nodes.
        effective: see `Selection`.

    Raises:
        ExportError: a name or rank does not exist.
    """
    found = [(name, rank) for name in metrics.names() for rank in metrics.ranks(name)]
    known = {rank for _, rank in found}
    absent = sorted(set(ranks) - known)
    if absent:
        raise ExportError(
            f"rank {absent[0]} has no metrics; ranks with: {', '.join(map(str, sorted(known))) or 'none'}"
        )
    keys: list[tuple[str, Owner]] = [(name, rank) for name, rank in found if not ranks or rank in ranks]
    if system:
        keys += [(name, node) for name in metrics.system_names() for node in metrics.nodes(name)]
    return Selection(metrics, tuple(_of_names(keys, names)), effective)


def _of_names(keys: list[tuple[str, Owner]], names: Sequence[str]) -> Iterable[tuple[str, Owner]]:
    known = sorted({name for name, _ in keys})
    for name in names:
        if not fnmatch.filter(known, name):
            near = difflib.get_close_matches(name, known, 3) or known[:8]
            raise ExportError(f"there is no metric {name!r}; there is {', '.join(near) or 'none'}")
    return (key for key in keys if not names or any(fnmatch.fnmatchcase(key[0], name) for name in names))


class ExportError(Refusal):
    """The export cannot be made; the message says why and how to fix it."""
