"""The launcher's variables that this process sets itself, and what they were before."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache


class ExportedVariables:
    """Environment variables that can be put back."""

    def __init__(self) -> None:
        self._before: dict[str, str | None] = {}
        self._written: dict[str, str] = {}

    def write(self, variables: Mapping[str, str]) -> None:
        """Set variables, where torch, libraries and child processes find them."""
        for name in variables:
            self._before.setdefault(name, os.environ.get(name))
        self._written.update(variables)
        os.environ.update(variables)

    def restore(self) -> None:
        """Put all variables back that still have the value that was written."""
        for name, before in self._before.items():
            if os.environ.get(name) == self._written[name]:
                if before is None:
                    del os.environ[name]
                else:
                    os.environ[name] = before
        self._before.clear()
        self._written.clear()


@cache
def exported_variables() -> ExportedVariables:
    """Return those of this process."""
    return ExportedVariables()
