"""Relative paths in the overrides and parameters of a sweep: its driver may run in another folder."""

from __future__ import annotations

from pathlib import Path

from torchdeck.config.keys import all_keys
from torchdeck.config.loader import WORDS, absolute
from torchdeck.config.overrides import Override, parse_override
from torchdeck.config.toml.document import toml_value
from torchdeck.sweeps.parameter import Choices, Parameter, Value, parse_parameter
from torchdeck.sweeps.swept_file import override


def absolute_override(text: str, folder: Path) -> str:
    """Return an override with its path, if it has one, resolved by `folder`; a wrong one unchanged."""
    parsed = parse_override(text)
    if not isinstance(parsed, Override) or not _is_path(parsed.path, parsed.value):
        return text
    return override(".".join(parsed.path), absolute(parsed.value, str(folder)))


def absolute_parameter(text: str, folder: Path) -> str:
    """Return a parameter with the paths among its values resolved by `folder`; a wrong one unchanged."""
    parsed = parse_parameter(text)
    if not isinstance(parsed, Parameter) or not isinstance(parsed.domain, Choices):
        return text
    values = parsed.domain.values
    if not any(_is_path(parsed.path, value) for value in values):
        return text
    resolved = [absolute(value, str(folder)) if _is_path(parsed.path, value) else value for value in values]
    return f"{parsed.name}={','.join(map(toml_value, resolved))}"


def _is_path(key: tuple[str, ...], value: Value) -> bool:
    known = all_keys().get(key)
    if known is None or not known.is_path or not isinstance(value, str):
        return False
    is_command = key == ("run", "interpreter") and "/" not in value
    return not is_command and value not in WORDS.get(key, ())
