"""Begin a sweep: check what was asked for and write it down. A driver starts its runs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.config.keys import all_keys
from torchdeck.config.loader import LoadedConfig, absolute
from torchdeck.config.overrides import Override, parse_override
from torchdeck.config.problems import ConfigError, Problem
from torchdeck.contract.layout import Home
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.folders.run_directory import new_run_id
from torchdeck.runs.home import torchdeck_home
from torchdeck.sweeps.goal import goal_of
from torchdeck.sweeps.pruning import Pruner, Pruning
from torchdeck.sweeps.strategies import Strategy, most_trials, usual_strategy
from torchdeck.sweeps.sweep_layout import SweepLayout
from torchdeck.sweeps.sweep_request import SweepRequest, write_request
from torchdeck.sweeps.swept_file import SweptFile, check_seeds, override, read_space


@dataclass(frozen=True)
class SweepOptions:
    """Options of a sweep; None: the default."""

    over: tuple[str, ...]
    metric: str
    strategy: Strategy | None = None
    """Default: the grid, if it is finite and `trials` cover it; else random."""
    trials: int | None = None
    """Default: all points of the grid or zip."""
    direction: str | None = None
    """`min` or `max`. Default: by the metric's name."""
    prune: Pruner | None = None
    prune_after: int | None = None
    prune_factor: int = 3
    seeds: int = 1
    seed: int = 0
    at_once: int = 1


def sweep_options(given: Mapping[str, Any]) -> SweepOptions:
    """Return options from values by name; None is the default. Raises ConfigError."""
    known = {name: value for name, value in given.items() if value is not None}
    if not known.get("metric"):
        raise ConfigError([Problem("metric", "", None, "it is not given", "--metric validation_loss")])
    strategy, prune = known.pop("strategy", None), known.pop("prune", None)
    return SweepOptions(
        over=tuple(known.pop("over", ())),
        strategy=None if strategy is None else Strategy(strategy),
        prune=None if prune is None else Pruner(prune),
        **known,
    )


@dataclass(frozen=True)
class SweepStart:
    """Parameters of a new sweep."""

    loaded: LoadedConfig
    options: SweepOptions
    is_file: bool = True
    """Whether the run file is on disk; else the command line made it."""
    overrides: tuple[str, ...] = ()
    """Overrides from `--set` and other options, for all trials."""
    trust: bool = False
    """Trust the code of the run first."""
    home: Path | None = None
    """TORCHDECK_HOME; None: the default one."""


def begin_sweep(start: SweepStart) -> SweepLayout:
    """Write down a new sweep; nothing is started.

    Raises:
        ConfigError: the space or an option is wrong.
        TrustError: the code of the run cannot be trusted.
        Refusal: the sweep cannot be written.
    """
    request = sweep_request(start)
    home = torchdeck_home(start.home)
    if start.trust:
        from torchdeck.use_cases.trust import trust_run

        trust_run(start.loaded, home)
    return _written(request, start.loaded.config.name, home)


def sweep_request(start: SweepStart) -> SweepRequest:
    """Return the checked request of a sweep. Raises ConfigError with what is wrong."""
    options, loaded = start.options, start.loaded
    overrides = _resolved(start.overrides if start.is_file else (), Path.cwd())
    file = SweptFile(loaded.text, loaded.path, start.is_file, overrides)
    space = read_space(options.over, file)
    strategy = options.strategy or usual_strategy(space, options.trials)
    trials = most_trials(strategy, space, options.trials)
    check_seeds(options.seeds, space, loaded.config)
    _check_numbers(options)
    pruning = None
    if options.prune is not None:
        pruning = Pruning(options.prune, options.prune_after, options.prune_factor)
    return SweepRequest(
        file,
        options.over,
        strategy,
        trials,
        goal_of(options.metric, options.direction),
        pruning,
        options.seeds,
        options.seed,
        options.at_once,
    )


def _check_numbers(options: SweepOptions) -> None:
    least = {
        "seeds": (options.seeds, 1),
        "at-once": (options.at_once, 1),
        "prune-factor": (options.prune_factor, 2),
        "prune-after": (1 if options.prune_after is None else options.prune_after, 1),
    }
    problems = [
        Problem(name, "", None, f"{value} is too small", f"a whole number, {limit} or more")
        for name, (value, limit) in least.items()
        if value < limit
    ]
    if not options.metric:
        problems.append(Problem("metric", "", None, "it is empty", "a metric, such as validation_loss"))
    if problems:
        raise ConfigError(problems)


def _resolved(overrides: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return overrides with absolute paths: the sweep may be resumed in another folder."""
    found = []
    for text in overrides:
        parsed = parse_override(text)
        key = all_keys().get(parsed.path) if isinstance(parsed, Override) else None
        if isinstance(parsed, Override) and key is not None and key.is_path and _is_path(parsed):
            text = override(".".join(parsed.path), absolute(parsed.value, str(folder)))
        found.append(text)
    return tuple(found)


def _is_path(given: Override) -> bool:
    from torchdeck.config.loader import WORDS

    is_command = given.path == ("run", "interpreter") and "/" not in str(given.value)
    return isinstance(given.value, str) and given.value not in WORDS.get(given.path, ()) and not is_command


def _written(request: SweepRequest, name: str, home: Path) -> SweepLayout:
    """Make the folder of a sweep: hidden until it is complete."""
    sweeps = SweepLayout(Home(home).sweeps / new_run_id(name, time.time()))
    hidden = SweepLayout(sweeps.root.with_name(f".{sweeps.id}"))
    try:
        hidden.root.mkdir(mode=0o700, parents=True)
        write_request(hidden.request, request)
        hidden.root.rename(sweeps.root)
    except OSError as error:
        shutil.rmtree(hidden.root, ignore_errors=True)
        raise Refusal(
            "the sweep cannot be written", f"{error.filename or sweeps.root}: {error.strerror}"
        ) from error
    return sweeps
