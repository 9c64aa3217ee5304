"""Values and keys in TOML syntax, on one line."""

from __future__ import annotations

from typing import Any

from torchdeck.config.toml.document import KeyPath
from torchdeck.contract.refusal import Refusal


class EditError(Refusal, ValueError):
    """A text cannot be changed as requested: it is not TOML, or the key is not allowed there."""

    is_usage = True


def toml_value(value: Any) -> str:
    """Return a value on one line of TOML.

    Raises:
        EditError: TOML has no such value.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    try:
        text: str = tomlkit.item(value).as_string()
    except (TOMLKitError, TypeError, ValueError) as error:
        raise EditError(f"{value!r} cannot be written as TOML") from error
    return text


def toml_key(key: str) -> str:
    """Return a key, quoted if necessary."""
    import tomlkit

    return tomlkit.key(key).as_string()


def toml_path(path: KeyPath) -> str:
    """Return a dotted key."""
    return ".".join(toml_key(str(key)) for key in path)
