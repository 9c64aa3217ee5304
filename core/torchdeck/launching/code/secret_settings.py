"""Credentials in a run file's own settings, which become part of a plan and are written to every node's
disk.
"""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.config.schema import RunConfig
from torchdeck.launching.code.secret_contents import secret_in


def secrets_in_settings(config: RunConfig) -> Iterator[str]:
    """Yield a warning for each variable of [run.env] and each argument that resembles one; never its
    value.
    """
    for name, value in config.run.env.items():
        found = _kind(f"{name}={value}")
        if found:
            yield (
                f"run.env.{name} looks like {found}, and plan.json holds it on every node: take it out, "
                f'and name the variable in run.secrets = ["{name}"], whose values lie in no file'
            )
    for number, value in enumerate(config.run.args, 1):
        found = _kind(str(value))
        if found:
            yield (
                f"argument {number} of the script looks like {found}, and `ps` shows it to all users: "
                "hand it over as a variable that run.secrets names"
            )


def _kind(text: str) -> str:
    """Return the kind of credential, without the line."""
    return secret_in(text.encode("utf-8", "surrogateescape")).partition(" (")[0]
