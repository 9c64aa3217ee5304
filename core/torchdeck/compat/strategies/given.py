"""Values of a nested configuration, whether objects, mappings or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MISSING = object()


def given(config: Any, path: str, default: Any = None) -> Any:
    """Return `config.a.b` for the path "a.b", from attributes or keys; `default` if a part is missing."""
    value = config
    for name in path.split("."):
        value = value.get(name, _MISSING) if isinstance(value, Mapping) else getattr(value, name, _MISSING)
        if value is _MISSING:
            return default
    return value
