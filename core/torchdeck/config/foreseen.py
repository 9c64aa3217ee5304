"""What a run file says of its machines, read roughly: before half of Torchdeck is imported to check it.

Standard library alone. Whoever uses it goes by the checked config in the end, which may say otherwise.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.config.toml.document import parse
from torchdeck.contract.bounded_file import read_bounded

MOST_FILES = 16
"""Files of a chain of `extends` that are looked at."""
MOST_BYTES = 1 << 20
"""Of one of them, as `torchdeck.config.sources` has it."""
NODES, SECRETS = ("distributed", "nodes"), ("run", "secrets")


class Foreseen(NamedTuple):
    """Of a run to be, where nothing is wrong with it."""

    nodes: str | tuple[str, ...]
    """distributed.nodes, as it is written."""
    secrets: frozenset[str]
    """Names of variables."""


def foreseen(run_file: str | None, overrides: Sequence[str]) -> Foreseen | None:
    """What `run_file` says with `overrides`; None where that is not seen at a glance, or something is wrong.

    Args:
        run_file: its path; None for a script without one.
        overrides: as for `config.loader.load_config`.
    """
    try:
        # what says more comes first
        tables = [*(_override(text) for text in reversed(overrides)), *_chain(run_file)]
        if any("cluster" in table for table in tables):  # describes machines, which are not looked up
            return None
        nodes, secrets = _first(tables, NODES), _first(tables, SECRETS)
    except (OSError, ValueError, TypeError, RuntimeError):  # of a home that nobody has, for one
        return None
    if isinstance(nodes, str) or _is_texts(nodes):
        return Foreseen(
            nodes if isinstance(nodes, str) else tuple(nodes),
            frozenset(secrets) if _is_texts(secrets) else frozenset(),
        )
    return None


def _chain(run_file: str | None) -> Iterator[Mapping[str, Any]]:
    """The run file's table and those it extends."""
    at = None if run_file is None else Path(run_file).absolute()
    for _ in range(MOST_FILES):
        if at is None:
            return
        table = parse(read_bounded(at, MOST_BYTES).decode("utf-8"))
        yield table
        extends = table.get("extends")
        at = None if extends is None else at.parent / Path(extends).expanduser()
    raise ValueError(run_file)


def _override(text: str) -> Mapping[str, Any]:
    """`a.b=value` as a table; what concerns neither machines nor secrets as an empty one."""
    name, _, value = text.partition("=")
    key = tuple(part.strip() for part in name.split("."))
    if key[0] not in ("distributed", "run", "cluster"):
        if key[0].strip("\"'") in ("distributed", "run", "cluster"):
            raise ValueError(text)
        return {}
    if key not in (NODES, SECRETS):
        if len(key) == 1 or key[0] == "cluster" or any(quote in name for quote in "\"'"):
            raise ValueError(text)
        return {}
    return {key[0]: {key[1]: tomllib.loads(f"value = {value}")["value"]}}


def _first(tables: Sequence[Mapping[str, Any]], key: tuple[str, str]) -> Any:
    """The value of the first that has one; None where none has."""
    return next((table[key[0]][key[1]] for table in tables if key[1] in table.get(key[0], {})), None)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
