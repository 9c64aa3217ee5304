"""Why no plan can be made of a config that is right in itself: the machines do not fit it."""

from __future__ import annotations

from torchdeck.config.problems import ConfigError, Problem


class PlanError(ConfigError):
    """No plan can be made of a config on these machines; `.problems` says all that is in the way."""

    is_usage = False


def problem(path: str, wrong: str, right: str) -> Problem:
    """A problem with key `path`; a plan knows no files, so its place in one is for the caller to find."""
    return Problem(path=path, file="", line=None, wrong=wrong, right=right)
