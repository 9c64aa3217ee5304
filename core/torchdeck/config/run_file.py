"""Run file written from a config: kept with a run that no file describes, to start it again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchdeck.config.schema import RunConfig

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def run_file_table(config: RunConfig) -> dict[str, Any]:
    """Return every key of `config` that is not its default."""
    return config.model_dump(mode="json", exclude_defaults=True)


def run_file_text(table: Mapping[str, Any]) -> str:
    """Return `table` as TOML; a config has only text, numbers, booleans, lists of these, and tables."""
    return "\n".join(_table_lines(table, ())).lstrip("\n") + "\n"


def _table_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if path and (plain or not table):
        yield ""
        yield f"[{'.'.join(map(_key, path))}]"
    for key, value in plain.items():
        yield f"{_key(key)} = {_value(value)}"
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _table_lines(value, (*path, key))


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else toml_string(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)


def toml_string(text: str) -> str:
    """Return a TOML basic string: JSON's escapes are TOML's, and DEL needs one there."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
