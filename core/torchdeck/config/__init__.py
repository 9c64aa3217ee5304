"""Run configuration: the one schema of run.toml, and reading, checking and editing such files.

The names below are resolved on first use: pydantic costs a tenth of a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchdeck.config.loader import LoadedConfig, config_from_dict, load_config, load_config_text
    from torchdeck.config.problems import ConfigError, Problem
    from torchdeck.config.schema import RunConfig

__all__ = [
    "ConfigError",
    "LoadedConfig",
    "Problem",
    "RunConfig",
    "config_from_dict",
    "load_config",
    "load_config_text",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = {"ConfigError": "problems", "Problem": "problems", "RunConfig": "schema"}.get(name, "loader")
    return getattr(import_module(f"{__name__}.{module}"), name)
