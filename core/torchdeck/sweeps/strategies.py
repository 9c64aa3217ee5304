"""Which point a sweep tries next: grid, zip or random, each a function of what was tried before."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from torchdeck.config.problems import ConfigError, Problem
from torchdeck.sweeps.parameter import OPTION, Choices, Parameter, Value

Point = Mapping[str, Value]
"""A value for each parameter, by its name."""
MOST_TRIALS = 10_000
_DRAWS = 100
"""Draws of a new point before a space counts as used up."""


class Strategy(StrEnum):
    """How points are chosen."""

    GRID = "grid"
    """Every combination; the last parameter changes first."""
    ZIP = "zip"
    """The first values of all parameters, then the second ones, …"""
    RANDOM = "random"
    """Each value drawn by the sweep's seed and the number of the trial."""
    TPE = "tpe"
    """Suggested by Optuna from the results so far."""

    @property
    def is_listed(self) -> bool:
        """Whether its points are all known from the beginning, which needs lists of values."""
        return self in (Strategy.GRID, Strategy.ZIP)


def usual_strategy(parameters: Sequence[Parameter], trials: int | None) -> Strategy:
    """Return the grid if all of it can be tried within `trials`; else random."""
    size = grid_size(parameters)
    if size is None or (trials is not None and trials < size):
        return Strategy.RANDOM
    return Strategy.GRID


def grid_size(parameters: Sequence[Parameter]) -> int | None:
    """Return the number of all combinations; None if a parameter is a range."""
    sizes = [_count(parameter) for parameter in parameters]
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


def _count(parameter: Parameter) -> int | None:
    return len(parameter.domain.values) if isinstance(parameter.domain, Choices) else None


def most_trials(strategy: Strategy, parameters: Sequence[Parameter], trials: int | None) -> int:
    """Return the number of trials of a new sweep.

    Raises:
        ConfigError: the strategy does not fit the space, or the number is missing or too large.
    """
    check_strategy(strategy, parameters)
    if trials is None and not strategy.is_listed:
        raise _wrong("the number of trials is not given", "--trials N", "trials")
    if trials is not None and not 1 <= trials <= MOST_TRIALS:
        raise _wrong(f"{trials:,} is out of range", f"1 to {MOST_TRIALS:,} trials", "trials")
    if not strategy.is_listed and trials is not None:
        return trials
    points = len(list(itertools.islice(_points(strategy, parameters), MOST_TRIALS + 1)))
    if trials is None and points > MOST_TRIALS:
        raise _wrong(f"there are more than {MOST_TRIALS:,} points", "fewer values, or --trials N", "trials")
    return points if trials is None else min(trials, points)


def check_strategy(strategy: Strategy, parameters: Sequence[Parameter]) -> None:
    """Raise ConfigError if a strategy cannot be used for a space."""
    if not strategy.is_listed:
        return
    for parameter in parameters:
        if _count(parameter) is None:
            raise _wrong(f"a {strategy} needs values, not a range", "VALUE,VALUE, or random", parameter.name)
    counts = {_count(parameter) for parameter in parameters}
    if strategy is Strategy.ZIP and len(counts) > 1:
        raise _wrong("zip needs the same number of values for each parameter", "lists of equal length")


def _wrong(what: str, right: str, path: str = "") -> ConfigError:
    return ConfigError([Problem(path, OPTION if path else "", None, what, right)])


def next_point(
    strategy: Strategy, parameters: Sequence[Parameter], seed: int, number: int, tried: Sequence[Point]
) -> Point | None:
    """Return the point of trial `number`; None if nothing new is left.

    Args:
        strategy: how points are chosen, without the results so far.
        parameters: the space.
        seed: of the sweep; it and `number` decide what random draws.
        number: of the trial, from 1.
        tried: points of all earlier trials.
    """
    if strategy is Strategy.RANDOM:
        candidates: Iterable[Point] = (_drawn(parameters, seed, number, draw) for draw in range(_DRAWS))
    else:
        candidates = _points(strategy, parameters)
    known = {_key(point) for point in tried}
    return next((point for point in candidates if _key(point) not in known), None)


def _points(strategy: Strategy, parameters: Sequence[Parameter]) -> Iterator[Point]:
    """Yield the points of a grid or zip, in order; values of a range are its ends."""
    values = [parameter.domain.ends for parameter in parameters]
    names = [parameter.name for parameter in parameters]
    rows = itertools.product(*values) if strategy is Strategy.GRID else zip(*values, strict=True)
    return (dict(zip(names, row, strict=True)) for row in rows)


def _drawn(parameters: Sequence[Parameter], seed: int, number: int, draw: int) -> Point:
    # by name: a parameter that is narrowed later does not change what the others draw
    return {
        each.name: each.domain.draw(random.Random(f"{seed}:{number}:{draw}:{each.name}"))  # noqa: S311 - repeatable, not secret
        for each in parameters
    }


def _key(point: Point) -> Hashable:
    """Return what two points have in common if all their values are the same, as `is_same` has it."""
    return frozenset((name, isinstance(value, bool), _hashable(value)) for name, value in point.items())


def _hashable(value: Value) -> Hashable:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return frozenset((name, _hashable(each)) for name, each in value.items())
    return value  # type: ignore[no-any-return]  # a plain value of a run file
