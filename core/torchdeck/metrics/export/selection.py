"""Selection of the series to export."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from torchdeck.contract.refusal import Refusal
from torchdeck.metrics.derived import DerivedMetrics
from torchdeck.metrics.formula import PREFIX, Formula
from torchdeck.metrics.run_metrics import RunMetrics
from torchdeck.metrics.series import Latest, Owner, Series
from torchdeck.trainers.metric_roles import Roles


@dataclass(frozen=True)
class Selection:
    """Series of a run, sorted by name and owner; read one after the other."""

    metrics: RunMetrics
    keys: tuple[tuple[str, Owner], ...]
    effective: bool = False
    """Leave out rows of steps that a later attempt repeated."""
    derived: DerivedMetrics | None = None
    """Gives the series of formulas."""

    def __iter__(self) -> Iterator[tuple[str, Owner, Series]]:
        for name, owner in self.keys:
            yield name, owner, self._source(name).series(name, owner, effective=self.effective)

    def latest(self, name: str, owner: Owner) -> Latest | None:
        """Return the newest row of a series; None if there is none."""
        return self._source(name).latest(name, owner)

    def _source(self, name: str) -> RunMetrics | DerivedMetrics:
        return self.derived if self.derived is not None and name.startswith(PREFIX) else self.metrics

    def with_formulas(
        self, texts: Sequence[str], roles: Callable[[], Roles], ranks: Sequence[int] = ()
    ) -> Selection:
        """Return the same with the series of formulas.

        Args:
            texts: the formulas.
            roles: returns the roles of the run's metrics.
            ranks: all if empty.

        Raises:
            FormulaError: one is none.
            ExportError: a metric in it does not exist.
        """
        derived = DerivedMetrics(self.metrics, roles)
        keys: list[tuple[str, Owner]] = []
        for text in texts:
            formula = Formula(text)
            for name in derived.missing(formula):
                raise ExportError(_no_metric(name, self.metrics.names()))
            name = f"{PREFIX}{formula.text}"
            keys += [(name, rank) for rank in derived.ranks(name) if not ranks or rank in ranks]
        return replace(self, keys=(*self.keys, *keys), derived=derived)


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
            raise ExportError(_no_metric(name, known))
    return (key for key in keys if not names or any(fnmatch.fnmatchcase(key[0], name) for name in names))


def _no_metric(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, 3) or known[:8]
    return f"there is no metric {name!r}; there is {', '.join(near) or 'none'}"


class ExportError(Refusal):
    """The export cannot be made; the message says why and how to fix it."""
