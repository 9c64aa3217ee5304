"""Reader of run files: one, or a chain of them through `extends`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.config.keys import EXTENDS
from torchdeck.config.layers import Layer, Origin
from torchdeck.config.problems import ConfigError, Problem, kind, shown
from torchdeck.config.toml.document import KeyPath, TooDeepError, parse, scan
from torchdeck.contract.bounded_file import UnreadableFileError, read_bounded
from torchdeck.quantities import size

MAX_BYTES = 1 << 20
"""Most bytes of a run file."""
MAX_CHAIN = 64
"""Most files in a chain of `extends`."""
_TOO_LONG = "this file is too large for a run file"
_LENGTH = f"at most {size(MAX_BYTES)} of TOML"

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True)
class Source:
    """One run file, read."""

    path: Path
    """Absolute path."""
    name: str
    """Name as the user would write it."""
    text: str
    table: Mapping[str, Any]
    """Content without `extends`."""
    extends: Any
    lines: Mapping[KeyPath, int]

    def layer(self) -> Layer:
        """Return its content as a layer of a config."""
        return Layer(self.table, self.origin)

    def origin(self, path: KeyPath) -> Origin:
        """Return where `path` is set in it; the first line if it is not."""
        return Origin(self.name, self.lines.get(path, 1), str(self.path.parent))


def read_chain(path: Path, text: str | None = None, name: str | None = None) -> list[Source]:
    """Return the run file at `path` and those it extends, the most basic first.

    Args:
        path: the file.
        text: used instead of its content, so that the file need not exist.
        name: its name in problems; the path as it is given.

    Raises:
        ConfigError: one of them cannot be read, is not TOML, or they extend each other in a circle.
    """
    chain: list[Source] = []
    name = name or str(path)
    at = Path(path).absolute()
    via: Source | None = None
    while True:
        resolved = _resolved(at)
        if via is not None and any(_resolved(source.path) == resolved for source in chain):
            circle = " → ".join([*(source.name for source in chain), name])
            raise _extends_error(
                via, f"these files extend each other in a circle: {circle}", "a shorter chain"
            )
        content = text if text is not None and via is None else _read_text(at, name, via)
        source = parse_source(at, name, content)
        chain.append(source)
        if len(chain) > MAX_CHAIN:
            raise _extends_error(source, f"more than {MAX_CHAIN} files extend each other", "a shorter chain")
        if source.extends is None:
            return chain[::-1]
        if not isinstance(source.extends, str) or not source.extends or "\0" in source.extends:
            wrong = f"{shown(source.extends)} is {kind(source.extends)}" if source.extends else "it is empty"
            raise _extends_error(source, wrong, EXTENDS.expected)
        try:
            target = Path(source.extends).expanduser() if source.extends != "~" else Path(source.extends)
        except RuntimeError:
            wrong = f"{shown(source.extends)} begins with a user that this machine does not know"
            raise _extends_error(source, wrong, EXTENDS.expected) from None
        name = str(Path(source.name).parent / target)
        at, via = source.path.parent / target, source


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # symbolic link loop; reading reports it
        return path


def _extends_error(source: Source, wrong: str, right: str) -> ConfigError:
    return ConfigError([Problem("extends", source.name, source.lines.get(("extends",)), wrong, right)])


def parse_source(path: Path, name: str, text: str) -> Source:
    """Parse one run file whose content is `text`.

    Raises:
        ConfigError: it is too long, or not TOML.
    """
    if len(text) > MAX_BYTES:
        raise ConfigError([Problem("", name, None, _TOO_LONG, _LENGTH)])
    try:
        table = parse(text)
        lines = scan(text).lines
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_syntax_problem(name, text, str(error))]) from error
    except (RecursionError, TooDeepError) as error:
        right = "tables and lists nested a few levels deep"
        raise ConfigError([Problem("", name, 1, "it is nested too deeply for a run file", right)]) from error
    except ValueError as error:  # tomllib passes on errors of int() and datetime()
        raise ConfigError(
            [Problem("", name, 1, f"a value in it cannot be read: {error}", "valid TOML")]
        ) from error
    extends = table.pop("extends", None)
    return Source(path, name, text, table, extends, lines)


def _read_text(path: Path, name: str, via: Source | None) -> str:
    def refused(wrong: str, right: str) -> ConfigError:
        if via is not None:
            return _extends_error(via, f"{name}: {wrong}", right)
        return ConfigError([Problem("", name, None, wrong, right)])

    try:
        content = read_bounded(path, MAX_BYTES)
    except FileNotFoundError as error:
        raise refused(
            "there is no such file", "the path of a run file; torchdeck init writes a first one"
        ) from error
    except UnreadableFileError as error:
        raise refused(f"it {error.why}", "the path of a run file") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise refused(f"it cannot be read: {reason}", "a file you can read") from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = Problem(
            "", name, line, f"byte {error.start} is not UTF-8", "text in UTF-8, as TOML requires"
        )
        raise ConfigError([problem]) from error


def _syntax_problem(name: str, text: str, message: str) -> Problem:
    """Return tomllib's message, split into text, line and column."""
    place = _PLACE.search(message)
    line, column = text.count("\n") + 1, len(text.rpartition("\n")[2]) + 1
    if place is not None and place.group(1):
        line, column = int(place.group(1)), int(place.group(2))
    what = message[: place.start()] if place is not None else message
    row = text.split("\n")[line - 1].strip() if line <= text.count("\n") + 1 else ""
    wrong = f"this is not valid TOML: {what[:1].lower()}{what[1:]}, at column {column}" + (
        f": {row}" if row else ""
    )
    return Problem("", name, line, wrong, "valid TOML: key = value, with text in quotes")
