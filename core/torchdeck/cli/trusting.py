"""Code that a command would execute and may not: what is said of it, and trusting it by an option."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchdeck.config.loader import LoadedConfig
    from torchdeck.trust.held import Held

TRUST_HELP = "trust the code that the run file names: its recipe, what that imports, its Python"


def trust_run_source(loaded: LoadedConfig) -> None:
    """Trust what a run executes before its ranks are there. Raises HomeError, TrustError."""
    from torchdeck.launching.checked_plan import trust_code
    from torchdeck.runs.home import torchdeck_home

    trust_code(loaded.config, torchdeck_home(), loaded.files)


def say_held(held: tuple[Held, ...]) -> None:
    """Say on standard error what was not executed."""
    for each in held:
        print(f"torchdeck: {each}", file=sys.stderr)
