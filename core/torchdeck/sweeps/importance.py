"""Importance of parameters: the share of the variance of the ranked results that each explains on its own.

For numbers, a parabola is fitted to the ranks of values and results, so that a best value in the middle
counts, too. For other values it is the correlation ratio: the variance of the groups' means. Ranks as in Iman
and Conover, "The Use of the Rank Transform in Regression" (Technometrics, 1979); R² is adjusted for the
fitted terms (Ezekiel, 1930), so that chance alone gives 0 on average. Interactions are not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torchdeck.sweeps.goal import Goal
from torchdeck.sweeps.parameter import Value
from torchdeck.sweeps.strategies import Point

FEWEST = 8
"""Complete trials below which nothing is said."""
_SPARE = 4
"""Trials needed beyond the fitted terms."""


class Importance(NamedTuple):
    """Importance of one parameter."""

    name: str
    share: float | None
    """From 0 to 1; None: too few trials, or always the same value."""


def importances(points: Mapping[int, Point], values: Mapping[int, float], goal: Goal) -> list[Importance]:
    """Return the importance of each parameter, the largest first.

    Args:
        points: of the trials, by number.
        values: of the complete trials, by number.
        goal: what the sweep looks for; NaN counts as the worst.
    """
    trials = [trial for trial in sorted(values) if trial in points]
    names = list(dict.fromkeys(name for trial in trials for name in points[trial]))
    results = ranks([goal.key(values[trial]) for trial in trials])
    found = []
    for name in names:
        given = [points[trial].get(name) for trial in trials]
        found.append(Importance(name, _share(given, results)))
    return sorted(found, key=lambda each: -1.0 if each.share is None else each.share, reverse=True)


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1; equal values share their mean rank."""
    ordered = sorted(values)
    first = {value: index for index, value in reversed(list(enumerate(ordered, 1)))}
    last = {value: index for index, value in enumerate(ordered, 1)}
    return [(first[value] + last[value]) / 2 for value in values]


def _share(given: Sequence[Value], results: Sequence[float]) -> float | None:
    kinds = {repr(value) for value in given}
    if len(given) < FEWEST or len(kinds) < 2:
        return None
    is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in given)
    if is_number and len(kinds) > 2:
        explained, terms = _parabola(ranks([float(value) for value in given]), results), 2
    else:
        explained, terms = _groups([repr(value) for value in given], results), len(kinds) - 1
    left = len(given) - terms - 1
    if explained is None or left < _SPARE:
        return None
    return min(1.0, max(0.0, 1 - (1 - explained) * (len(given) - 1) / left))


def _groups(given: Sequence[str], results: Sequence[float]) -> float | None:
    mean = sum(results) / len(results)
    total = sum((each - mean) ** 2 for each in results)
    groups: dict[str, list[float]] = {}
    for name, result in zip(given, results, strict=True):
        groups.setdefault(name, []).append(result)
    between = sum(len(each) * (sum(each) / len(each) - mean) ** 2 for each in groups.values())
    return between / total if total else None


def _parabola(given: Sequence[float], results: Sequence[float]) -> float | None:
    import numpy as np

    x, y = np.asarray(given), np.asarray(results)
    total = float(((y - y.mean()) ** 2).sum())
    if not total:
        return None
    x = (x - x.mean()) / x.std()
    terms = np.stack([np.ones_like(x), x, x**2], axis=1)
    fitted = terms @ np.linalg.lstsq(terms, y, rcond=None)[0]
    return 1 - float(((y - fitted) ** 2).sum()) / total
