"""Environments that uv makes for a run (run.environment): which one each node would use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torchdeck.agent.environments.environment_files import EnvironmentSourceError, Source, find_source
from torchdeck.agent.environments.make import GET_UV
from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import InterpreterFacts, UvFacts
from torchdeck.contract.plan.environment import PlannedEnvironment

KEY = "run.environment"
_NAMED = 4
"""Nodes without uv that are named; of more, the first and their number."""


def with_environments(
    config: RunConfig, interpreters: Mapping[str, InterpreterFacts], uv: Mapping[str, UvFacts], here: UvFacts
) -> tuple[dict[str, InterpreterFacts], tuple[Problem, ...]]:
    """Return the interpreters with the environment that each node's ranks use, and why there can be none.

    Args:
        config: the requested configuration.
        interpreters: by node; an environment is made for each of them.
        uv: by node.
        here: this machine's, for nodes that are only described.
    """
    try:
        source = find_source(Path(config.run.working_dir or Path.cwd()))
        planned = {name: _planned(source, facts, uv.get(name, here)) for name, facts in interpreters.items()}
    except EnvironmentSourceError as error:
        return dict(interpreters), (Problem(KEY, "", None, error.what, error.fix),)
    return planned, ()


def without_uv(interpreters: Mapping[str, InterpreterFacts]) -> tuple[str, ...]:
    """Return a warning if environments have to be made on nodes without uv; `check` has one per node."""
    names = [name for name, facts in interpreters.items() if facts.environment is not None and facts.error]
    if not names:
        return ()
    where = ", ".join(names) if len(names) <= _NAMED else f"{names[0]} and {len(names) - 1:,} other nodes"
    return (f"uv is not installed on {where}, and cannot make the environment: {GET_UV}",)


def _planned(source: Source, facts: InterpreterFacts, uv: UvFacts) -> InterpreterFacts:
    if facts.error or not facts.python:
        return facts  # reported, or not trusted yet
    key = source.key(facts.python, uv.platform)
    made = uv.made.get(key)
    lacks_uv = uv.path is None and made is None
    torch, numpy = (source.version_of("torch"), source.version_of("numpy")) if made is None else made
    return replace(
        facts,
        torch=torch,
        numpy=numpy,
        deepspeed=source.version_of("deepspeed"),
        error="there is no uv" if lacks_uv else "",
        fix=GET_UV if lacks_uv else "",
        environment=PlannedEnvironment(key, source.name, facts.executable, is_made=made is not None),
        is_locked=source.is_locked or made is not None,
    )
