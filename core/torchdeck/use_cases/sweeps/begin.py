"""Begin a sweep: check what was asked for and write it down. A driver starts its runs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchdeck.config.loader import LoadedConfig
from torchdeck.config.problems import ConfigError, Problem
from torchdeck.contract.layout import Home
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.folders.run_directory import new_run_id
from torchdeck.runs.home import torchdeck_home
from torchdeck.sweeps.goal import goal_of
from torchdeck.sweeps.path_values import absolute_override, absolute_parameter
from torchdeck.sweeps.pruning import Pruner, Pruning
from torchdeck.sweeps.strategies import Strategy, most_trials, usual_strategy
from torchdeck.sweeps.sweep_layout import SweepLayout
from torchdeck.sweeps.sweep_request import SweepRequest, write_request
from torchdeck.sweeps.swept_file import SweptFile, check_seeds, read_space
from torchdeck.sweeps.tpe_points import check_optuna


@dataclass(frozen=True)
class SweepStart:
    """Parameters of a new sweep."""

    loaded: LoadedConfig
    """Run file, with the options of the sweep in [sweep]."""
    over: tuple[str, ...] = ()
    """Parameters that are added to those of [sweep], or replace them."""
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
    loaded, options = start.loaded, start.loaded.config.sweep
    given = start.overrides if start.is_file else ()
    overrides = tuple(absolute_override(text, Path.cwd()) for text in given)
    file = SweptFile(loaded.text, loaded.path, start.is_file, overrides)
    folder = loaded.path.absolute().parent if start.is_file else Path.cwd()
    over = _joined(
        [absolute_parameter(text, folder) for text in options.over],
        [absolute_parameter(text, Path.cwd()) for text in start.over],
    )
    space = read_space(over, file)
    if options.metric is None:
        problem = Problem(
            "sweep.metric", "", None, "it is not given", "--metric NAME, such as validation_loss"
        )
        raise ConfigError([problem])
    strategy = usual_strategy(space, options.trials)
    if options.strategy is not None:
        strategy = Strategy(options.strategy)
    if strategy is Strategy.TPE:
        check_optuna()
    trials = most_trials(strategy, space, options.trials)
    check_seeds(options.seeds, space, loaded.config)
    pruning = None
    if options.prune is not None:
        pruning = Pruning(Pruner(options.prune), options.prune_after, options.prune_factor)
    goal = goal_of(options.metric, options.direction)
    return SweepRequest(
        file, over, strategy, trials, goal, pruning, options.seeds, options.seed, options.at_once
    )


def _joined(table: Sequence[str], added: Sequence[str]) -> tuple[str, ...]:
    """Return the parameters of the table without those that are given again, and then the added ones."""
    names = {text.partition("=")[0].strip() for text in added}
    return (*(text for text in table if text.partition("=")[0].strip() not in names), *added)


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
