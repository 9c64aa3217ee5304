"""`torchdeck.launch`: what the command does, from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchdeck.config.loader import LoadedConfig, config_from_dict, load_config
from torchdeck.config.problems import ConfigError
from torchdeck.config.schema import RunConfig
from torchdeck.launching.checked_plan import PreflightError, checked_plan, trust_code
from torchdeck.launching.control.early_controller import early_controller
from torchdeck.launching.launcher import Intent, LaunchError, start_run
from torchdeck.runs.home import torchdeck_home
from torchdeck.use_cases.run import Run


def launch(
    config: str | os.PathLike[str] | Mapping[str, Any] | RunConfig | LoadedConfig,
    *,
    overrides: Sequence[str] = (),
    trust: bool = False,
    home: str | os.PathLike[str] | None = None,
) -> Run:
    """`torchdeck.launch`, which has the description of arguments and errors."""
    loaded, text, source, files = _loaded(config, overrides)
    folder = torchdeck_home() if home is None else torchdeck_home(Path(home))
    if trust:
        trust_code(loaded, folder, files)
    with early_controller(loaded, folder) as early:
        plan, _ = checked_plan(loaded, folder, files=files)
        return Run(*start_run(plan, Intent(text, source, tuple(overrides)), folder, early=early))


def _loaded(config: Any, overrides: Sequence[str]) -> tuple[RunConfig, str, str, tuple[Path, ...]]:
    """The config, the text to freeze, the file it came from, and that with all it extends."""
    if isinstance(config, str | os.PathLike):
        config = load_config(Path(config), overrides)
    elif overrides and not isinstance(config, Mapping):
        raise TypeError("overrides are for a path or a table: a config that is loaded has its values already")
    if isinstance(config, LoadedConfig):
        return config.config, config.text, str(config.path), config.files
    if isinstance(config, Mapping):
        table: Mapping[str, Any] = config
        loaded = config_from_dict(table, Path.cwd(), overrides)
    elif isinstance(config, RunConfig):
        loaded, table = config, config.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    else:
        raise TypeError(
            f"a config is a path, a table, a RunConfig or a LoadedConfig, not {type(config).__name__}"
        )
    return loaded, _as_toml(table), "", ()


def _as_toml(table: Mapping[str, Any]) -> str:
    """What code said, written as a run file."""
    import tomlkit

    return tomlkit.dumps(table)


__all__ = ["ConfigError", "LaunchError", "PreflightError", "Run", "launch"]
