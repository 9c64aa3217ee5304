"""Errors for configs that are valid but do not fit the machines."""

from __future__ import annotations

from torchdeck.config.problems import ConfigError, Problem


class PlanError(ConfigError):
    """The config cannot be planned on these machines; `.problems` lists every reason."""

    is_usage = False


def problem(path: str, wrong: str, right: str) -> Problem:
    """Return a problem with key `path`. A plan knows no files, so the caller locates the key in a file."""
    return Problem(path=path, file="", line=None, wrong=wrong, right=right)
