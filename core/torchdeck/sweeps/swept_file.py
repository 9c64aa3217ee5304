"""The run file of a sweep: which parameters fit it, and the run file of each trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.config.keys import all_keys
from torchdeck.config.loader import LoadedConfig, load_config_text
from torchdeck.config.problems import ConfigError, Problem, undotted
from torchdeck.config.rules.contradictions import is_for_recipes
from torchdeck.config.schema import RunConfig
from torchdeck.config.spelling import nearest
from torchdeck.config.toml.document import toml_value
from torchdeck.sweeps.parameter import OPTION, Parameter, Value, parse_parameter
from torchdeck.sweeps.strategies import Point

SEED_KEY = "training.seed"
SEED = "seed"
"""Placeholder for the seed in a script's arguments."""
_ARGUMENTS = "run.args"
_LONGEST_NAME = 100


@dataclass(frozen=True)
class SweptFile:
    """Run file with the overrides that all trials share."""

    text: str
    path: Path
    """Path by which relative paths in it resolve."""
    is_file: bool
    """Whether `text` came from that path."""
    overrides: tuple[str, ...] = ()

    def loaded(self, overrides: Sequence[str] = ()) -> LoadedConfig:
        """Return the config with further overrides. Raises ConfigError."""
        return load_config_text(self.text, self.path, (*self.overrides, *overrides))


def read_space(texts: Sequence[str], file: SweptFile) -> tuple[Parameter, ...]:
    """Return the parameters of a space, each checked against the keys of the run file.

    Raises:
        ConfigError: with every parameter that is wrong.
    """
    config = file.loaded().config
    parsed = [parse_parameter(text) for text in texts]
    found = [each for each in parsed if isinstance(each, Parameter)]
    problems: list[Problem] = []
    for number, each in enumerate(parsed):
        if isinstance(each, Problem):
            problems.append(each)
            continue
        others = [other for other in found if other.name != each.name]
        problems += _misfits(each, others, file, config)
        if any(isinstance(other, Parameter) and other.name == each.name for other in parsed[:number]):
            problems.append(Problem(each.name, OPTION, None, "it is given twice", "each key once"))
    if not texts:
        problems.append(Problem("", OPTION, None, "nothing to vary is given", "--over KEY=VALUE,VALUE"))
    if problems:
        raise ConfigError(problems)
    return tuple(found)


def _misfits(
    parameter: Parameter, others: Sequence[Parameter], file: SweptFile, config: RunConfig
) -> list[Problem]:
    """Return what is wrong with the name or a value of a parameter."""
    if is_argument(parameter.name, config):
        return []
    if len(parameter.path) == 1 and parameter.name not in RunConfig.model_fields:
        return [_unknown_name(parameter, config)]
    beside = [override(other.name, value) for other in others for value in other.domain.ends]
    found: dict[tuple[str, str], Problem] = {}
    for value in parameter.domain.ends:
        for each in _problems_of(parameter, value, beside, file):
            found[each.wrong, each.right] = Problem(parameter.name, OPTION, None, each.wrong, each.right)
    return list(found.values())


def _problems_of(parameter: Parameter, value: Value, beside: Sequence[str], file: SweptFile) -> list[Problem]:
    """Return problems of a value that no single value of another parameter solves."""
    own = override(parameter.name, value)
    found = _refused(parameter, [own], file)
    for other in beside if found else ():
        if not _refused(parameter, [own, other], file):
            return []
    return found


def _refused(parameter: Parameter, overrides: Sequence[str], file: SweptFile) -> list[Problem]:
    try:
        file.loaded(overrides)
    except ConfigError as error:
        return [each for each in error.problems if _is_about(each, parameter)]
    return []


def _is_about(problem: Problem, parameter: Parameter) -> bool:
    path = undotted(problem.path) if problem.path else ()
    return path[: len(parameter.path)] == parameter.path or parameter.path[: len(path)] == path != ()


def _unknown_name(parameter: Parameter, config: RunConfig) -> Problem:
    """A bare name is a placeholder that the arguments lack, or a key without its table."""
    keys = all_keys(config.run.recipe)
    names: dict[str, str] = {}
    for path in keys:
        if len(path) > 1 and (config.run.recipe is not None or not is_for_recipes(path)):
            names.setdefault(path[-1], ".".join(path))
    meant = [names[name] for name in nearest(parameter.name, names)]
    in_arguments = f"{{{parameter.name}}} in run.args"
    right = f"{meant[0]}, or {in_arguments}" if meant else f"a key of the run file, or {in_arguments}"
    return Problem(parameter.name, OPTION, None, "there is no such key", right)


def is_placeholder(name: str, config: RunConfig) -> bool:
    """Return whether `{name}` occurs in the arguments of the script or module."""
    return any(f"{{{name}}}" in argument for argument in config.run.args)


def is_argument(name: str, config: RunConfig) -> bool:
    """Return whether a parameter only fills `{name}` in arguments, because the run file has no such key or
    its program does not read it.
    """
    path = tuple(name.split("."))
    is_key = path in all_keys(config.run.recipe) or path[0] in RunConfig.model_fields
    return is_placeholder(name, config) and (not is_key or is_for_recipes(path))


def check_seeds(seeds: int, parameters: Sequence[Parameter], config: RunConfig) -> None:
    """Raise ConfigError if a trial cannot be run with several seeds."""
    if seeds == 1:
        return
    names = {parameter.name for parameter in parameters}
    if names & {SEED, SEED_KEY}:
        raise ConfigError([Problem("seeds", "", None, "the seed is varied already", "1, or no seed to vary")])
    if config.run.recipe is None and not is_placeholder(SEED, config):
        raise ConfigError(
            [Problem("seeds", "", None, "the script does not take the seed", f"{{{SEED}}} in run.args")]
        )


def override(name: str, value: Value) -> str:
    """Return `name=value` as `--set` takes it."""
    return f"{name}={toml_value(value)}"


def trial_overrides(config: RunConfig, point: Point, seed: int, name: str) -> tuple[str, ...]:
    """Return the overrides of one run of a trial.

    Args:
        config: of the sweep's run file.
        point: the values of the trial.
        seed: added to the seed of the run file.
        name: of the run.
    """
    values: dict[str, Any] = dict(point)
    if config.run.recipe is None:
        values.setdefault(SEED, config.training.seed + seed)
    elif seed:
        values[SEED_KEY] = config.training.seed + seed
    arguments = [filled_in(argument, values) for argument in values.get(_ARGUMENTS, config.run.args)]
    keys = {key: value for key, value in values.items() if key != SEED and not is_argument(key, config)}
    if arguments != config.run.args:
        keys[_ARGUMENTS] = arguments
    fixed = (override("name", name), override("launch.queue", value=True))
    return (*(override(key, value) for key, value in keys.items()), *fixed)


def filled_in(argument: str, values: Point) -> str:
    """Return an argument with `{name}` replaced by the value of that name; other braces stay."""
    for name, value in values.items():
        argument = argument.replace(f"{{{name}}}", _text(value))
    return argument


def _text(value: Value) -> str:
    return value if isinstance(value, str) else toml_value(value)


def run_name(base: str, sweep: str, trial: int, seed: int | None, point: Point, tries: int = 1) -> str:
    """Return the name of a run, by which it is found again: `first-try 1f09ab #3.2 lr=0.001`.

    Args:
        base: name in the run file.
        sweep: end of the sweep's id.
        trial: number of the trial.
        seed: number of the seed, from 0; None: there is one seed only.
        point: values of the trial.
        tries: how often it was begun, with this time.
    """
    again = f" try {tries}" if tries > 1 else ""
    mark = f"{sweep} #{trial}" + ("" if seed is None else f".{seed + 1}") + again
    whole = f"{base[:40]} {mark} {differences(point)}"
    return "".join("-" if letter in "/\\" or ord(letter) < 32 else letter for letter in whole)[:_LONGEST_NAME]


def differences(point: Point) -> str:
    """Return `lr=0.001 microbatch=8`: short names, and the whole one if two are alike."""
    shorts = [name.rpartition(".")[2] for name in point]
    parts = []
    for name, value in point.items():
        short = name.rpartition(".")[2]
        text = f"{value:.4g}" if isinstance(value, float) else _text(value)
        parts.append(f"{short if shorts.count(short) == 1 else name}={text}")
    return " ".join(parts)
