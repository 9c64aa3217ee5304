"""Packages that a project installs from a disk: archives such as wheels, and folders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

_ARCHIVES = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_CONTINUED = re.compile(r"\\\r?\n")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_EDITABLE = re.compile(r"(?:-e|--editable)[\s=]")
_NAMED = re.compile(r"[\w.-]+\s*(?:\[[^\]]*\])?\s*@\s*")
"""`name @ ` or `name[extra] @ ` before a place."""
_URL = re.compile(r"(?!file:)[\w+.-]+://", re.IGNORECASE)
_FILE_URL = re.compile(r"file:(?://(?:localhost)?(?=/))?", re.IGNORECASE)
_END = re.compile(r"\[[^\]]*\](?=\s|;|$)|\s*;.*|\s.*|#.*")
"""Extras, marker, hashes or fragment after a path."""
_TABLE = re.compile(r"""^[ \t]*\[\[?[ \t]*([\w."' \t-]+?)[ \t]*\]\]?[ \t]*(?:#.*)?$""", re.MULTILINE)
_SOURCES = re.compile(r"""tool\s*\.\s*uv\s*\.\s*sources(?:\s*\..*)?""")
_PLACE = re.compile(
    r"""(?:^|[{,.])\s*(path|workspace)\s*=\s*(?:"([^"\n]*)"|'([^'\n]*)'|true)""", re.MULTILINE
)
_QUOTED = re.compile(
    r"""(["'])([\w.-]+\s*(?:\[[^\]\n]*\])?\s*@\s*(?:file:|\.{0,2}/)(?:(?!\1)[^\n])*)\1""", re.IGNORECASE
)
"""A requirement of a path in a TOML string."""


class LocalPackage(NamedTuple):
    """One package on a disk."""

    said: str
    """How the file names it."""
    archive: str | None
    """Path of the archive, from the project's folder; None if it is a folder."""


def in_requirements(text: str) -> Iterator[LocalPackage]:
    """Yield those of a requirements file; its relative paths begin in the project's folder."""
    for whole in _CONTINUED.sub(" ", text).splitlines():
        line = _COMMENT.sub("", whole).strip()
        if _EDITABLE.match(line):
            yield LocalPackage(line, None)
        elif not line.startswith("-"):
            yield from _in_requirement(line)


def in_project(text: str) -> Iterator[LocalPackage]:
    """Yield those of a pyproject.toml: of `tool.uv.sources`, and of requirements.

    It is searched, not parsed: Python has a parser of TOML only since 3.11.
    """
    text = re.sub(r"^\s*#.*", "", text, flags=re.MULTILINE)
    tables = list(_TABLE.finditer(text))
    ends = [*(table.start() for table in tables), len(text)][1:]
    for table, end in zip(tables, ends, strict=True):
        if _SOURCES.fullmatch(table[1]):
            for found in _PLACE.finditer(text, table.end(), end):
                yield _package(f"{found[1]} in tool.uv.sources", found[2] or found[3] or ".")
    for _, requirement in _QUOTED.findall(text):
        yield from _in_requirement(requirement)


def _in_requirement(line: str) -> Iterator[LocalPackage]:
    named = _NAMED.match(line)
    place = line[named.end() :] if named else line
    path = _END.sub("", place)
    is_path = named or path.startswith(".") or "/" in path or _FILE_URL.match(path) or _is_archive(path)
    if path and is_path and not _URL.match(path):
        yield _package(line, path)


def _package(said: str, place: str) -> LocalPackage:
    url = _FILE_URL.match(place)
    path = unquote(place[url.end() :]) if url else place
    return LocalPackage(said, path if _is_archive(path) else None)


def _is_archive(path: str) -> bool:
    return path.lower().endswith(_ARCHIVES)
