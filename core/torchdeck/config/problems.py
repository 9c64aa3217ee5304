"""Problems of a config, all at once: key, file and line, what is wrong, what is expected."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torchdeck.contract.refusal import Refusal

OVERRIDE = "--set"
"""Stands for the file of a value given on the command line."""

_TABLES = (
    "run",
    "training",
    "distributed",
    "cluster",
    "estimate",
    "checkpoint",
    "telemetry",
    "limits",
    "launch",
    "sweep",
    "alerts",
    "slurm",
)
"""Tables of a run file that have one heading in the reference."""


@dataclass(frozen=True)
class Problem:
    """One problem of a config."""

    path: str
    """The key, `training.lr`; empty if it concerns a whole file."""
    file: str
    """The file as the user would name it; `--set` for the command line; empty for a config made by code."""
    line: int | None
    """Counted from 1; None if there is no file."""
    wrong: str
    right: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        parts = [part for part in (place, self.path) if part]
        return f"{': '.join([*parts, self.wrong])}. Expected: {self.right}"

    def to_json(self) -> dict[str, Any]:
        """Return its fields as plain values."""
        return asdict(self)

    def refusal(self) -> Refusal:
        """Return it as an error of its own."""
        return Refusal(
            self.wrong, fix=self.right, file=self.file, line=self.line, key=self.path, page=self.page
        )

    @property
    def page(self) -> str:
        """Return the table of the key in the reference."""
        return reference_page(self.path)


def reference_page(key: str) -> str:
    """Return the table of a key in the reference; [model] and [data] have several headings there."""
    table = re.split(r"[.\[]", key)[0]
    return f"reference/run-toml#{table}" if table in _TABLES else "reference/run-toml"


class ConfigError(Refusal, ValueError):
    """A config cannot be used; `problems` lists everything that is wrong with it."""

    is_usage = True

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def parts(self) -> tuple[Refusal, ...]:
        return tuple(problem.refusal() for problem in self.problems)


def shown(value: Any, limit: int = 60) -> str:
    """Return `value` as in TOML, cut to `limit` characters."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, (list, tuple)):
        text = "[" + ", ".join(shown(item, limit) for item in value[:limit]) + "]"
    elif isinstance(value, dict):
        text = "{" + ", ".join(f"{key} = {shown(item, limit)}" for key, item in value.items()) + "}"
    elif isinstance(value, int) and abs(value) >= 10**18:
        text = f"a whole number of {value.bit_length()} bits"  # str() raises for the longest ones
    else:
        text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def kind(value: Any) -> str:
    """Return the kind of a value, in words."""
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "true or false"),
        (str, "text"),
        (int, "a whole number"),
        (float, "a number"),
        ((list, tuple), "a list"),
        (dict, "a table"),
        (type(None), "nothing"),
    )
    return next((name for types, name in names if isinstance(value, types)), "a date or time")


def dotted(path: Sequence[str | int]) -> str:
    """Return `("run", "args", 2)` as `run.args[2]`; keys that need quotes in TOML are quoted."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
            continue
        plain = re.fullmatch(r"[A-Za-z0-9_-]+", key)
        text += ("." if text else "") + (key if plain is not None else json.dumps(key, ensure_ascii=False))
    return text


_STEP = re.compile(r'\[([0-9]+)\]|\.?("(?:[^"\\]|\\.)*"|[^.\[\]"]+)')


def undotted(name: str) -> tuple[str | int, ...]:
    """Return the path whose dotted name is `name`: the inverse of `dotted`."""
    steps = ((match.group(1), match.group(2)) for match in _STEP.finditer(name))
    return tuple(int(index) if index else json.loads(key) if key[0] == '"' else key for index, key in steps)
