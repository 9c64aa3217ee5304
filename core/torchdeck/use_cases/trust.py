"""Trust for the code of a run before its ranks start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchdeck.config.loader import LoadedConfig


def trust_run(loaded: LoadedConfig, home: Path | None = None) -> None:
    """Trust the recipe of a run file, its possible imports, and its Python.

    Raises:
        HomeError: TORCHDECK_HOME cannot be used.
        TrustError: others can write it, or the trust list cannot be written.
    """
    from torchdeck.launching.gate import Gate
    from torchdeck.runs.home import torchdeck_home

    Gate(torchdeck_home(home)).trust(loaded.config, loaded.files)
