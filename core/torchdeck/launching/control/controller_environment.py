"""The environment of a controller."""

from __future__ import annotations

import os
from pathlib import Path

from torchdeck.contract.layout import HOME_VARIABLE
from torchdeck.contract.processes import without_run_variables


def controller_environment(home: Path, hidden: frozenset[str]) -> dict[str, str]:
    """Return this process's environment for a controller of runs in `home`, without the variables named
    `hidden`.
    """
    env = {**without_run_variables(os.environ), HOME_VARIABLE: str(home)}
    return {name: value for name, value in env.items() if name not in hidden}
