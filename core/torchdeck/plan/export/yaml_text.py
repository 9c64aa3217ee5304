"""Values as YAML, with blocks for texts of several lines and comments; for files that people edit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Union

Yaml = Union[str, int, bool, "Commented", Mapping[str, "Yaml"], Sequence["Yaml"]]
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))
"""Words that are no texts in some version of YAML."""
_BLOCK = re.compile(
    r"[\n\t\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]+"
)
"""Texts of printable characters, without other line breaks, as a block requires."""


class Commented(NamedTuple):
    """A value with a comment behind it."""

    value: str | int
    comment: str


def yaml_text(value: Mapping[str, Yaml]) -> str:
    """Return `value` as a YAML document."""
    return "\n".join(_mapping(value, 0)) + "\n"


def _mapping(value: Mapping[str, Yaml], depth: int) -> Iterator[str]:
    for name, item in value.items():
        yield from _entry(f"{_scalar(name)}:", item, depth, depth + 2)


def _entry(head: str, item: Yaml, depth: int, inside: int) -> Iterator[str]:
    """Yield the lines of an entry that begins with `head`, and has its content at column `inside`."""
    margin = " " * depth
    if isinstance(item, Commented):
        yield f"{margin}{head} {_scalar(item.value)} # {item.comment}"
    elif isinstance(item, str) and "\n" in item and _is_block(item):
        yield f"{margin}{head} |{'-' if not item.endswith(chr(10)) else ''}"
        yield from (f"{' ' * inside}{line}" if line else "" for line in item.rstrip("\n").split("\n"))
    elif isinstance(item, str | int):
        yield f"{margin}{head} {_scalar(item)}"
    elif not item:
        yield f"{margin}{head} {'{}' if isinstance(item, Mapping) else '[]'}"
    elif isinstance(item, Mapping):
        yield f"{margin}{head}"
        yield from _mapping(item, inside)
    else:
        yield f"{margin}{head}"
        for each in item:
            yield from _listed(each, inside)


def _listed(item: Yaml, depth: int) -> Iterator[str]:
    if not isinstance(item, Mapping) or not item:
        yield from _entry("-", item, depth, depth + 2)
        return
    first, *rest = _mapping(item, depth + 2)
    yield f"{' ' * depth}- {first.lstrip(' ')}"
    yield from rest


def _is_block(text: str) -> bool:
    """Return whether a block holds the text exactly: no space begins it, at most one line break ends it."""
    begins, ends = text.startswith((" ", "\n", "\t")), text.endswith("\n\n")
    return not begins and not ends and _BLOCK.fullmatch(text) is not None


def _scalar(value: str | int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    # as in JSON, but without surrogates and raw control characters
    return "".join(
        char if char.isprintable() else f"\\U{ord(char):08x}"
        for char in json.dumps(value, ensure_ascii=False)
    )
