"""Files that describe a project's environment: their packages from a disk, and the environment's key."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import re
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from torchdeck.contract.bounded_file import UnreadableFileError, open_regular, read_bounded

LOCK, PROJECT, REQUIREMENTS = "uv.lock", "pyproject.toml", "requirements.txt"
_SETTINGS = "uv.toml"
"""It may name package indexes, as pyproject.toml may."""
MOST_BYTES = 32 << 20
"""Maximum bytes of one of the files."""
MOST_FILES = 64
"""Maximum files that a requirements file includes."""
_INCLUDED = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)[\s=]\s*(\S+)", re.MULTILINE)
_LOCKED = re.compile(
    r'^\[\[package\]\]\nname = "([^"\n]+)"\n(?:version = "([^"\n]+)"\n)?source = \{ (\w+) = "([^"\n]*)"',
    re.MULTILINE,
)
_DIGITS = 20
_READABLE = "make it a readable file, or set run.interpreter"


class EnvironmentSourceError(ValueError):
    """No environment can be made from the files of a project.

    Args:
        what: why, as a sentence without its period.
        fix: what to do.
    """

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}: {fix}")
        self.what, self.fix = what, fix


class Source(NamedTuple):
    """Description of an environment."""

    folder: Path
    name: str
    """File that lists the packages."""
    files: tuple[str, ...]
    """All files that determine the content, from the folder; archives can be elsewhere."""

    def key(self, python: str, platform: str) -> str:
        """Return the name of the environment; equal for equal files, Python version and platform.

        Raises:
            EnvironmentSourceError: a file cannot be read.
        """
        hashes = {name: _hash(self.folder / name) for name in self.files}
        text = json.dumps([self.name, hashes, python, platform], sort_keys=True)
        return f"uv-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"

    def version_of(self, package: str) -> str | None:
        """Return the version of a package that the files give exactly; None if they do not."""
        text = _text(self.folder, self.name)
        if self.name == LOCK:
            return next((version for name, version, _, _ in _LOCKED.findall(text) if name == package), None)
        match = re.search(rf"^\s*{re.escape(package)}\s*==\s*([^\s;#,]+)", text, re.MULTILINE | re.IGNORECASE)
        return match[1] if match else None

    @property
    def is_locked(self) -> bool:
        """Whether the files list every package."""
        return self.name == LOCK


def platform_name() -> str:
    """Return the platform that packages are built for: system, processor and C library."""
    return "-".join((sysconfig.get_platform(), *platform.libc_ver()))


def find_source(folder: Path) -> Source:
    """Return the description of the environment of the project in `folder`.

    uv.lock comes first, then requirements.txt, then the dependencies in pyproject.toml.

    Raises:
        EnvironmentSourceError: there is none, or the environment could not be shared between runs.
    """
    if (folder / LOCK).is_file() and (folder / PROJECT).is_file():
        source = Source(folder, LOCK, (LOCK, PROJECT, *_present(folder, _SETTINGS)))
        for name, _, kind, place in _LOCKED.findall(_text(folder, LOCK)):
            if kind in ("editable", "directory", "virtual") and place != ".":
                raise EnvironmentSourceError(
                    f"{LOCK} installs {name} from the folder {place}, and an environment that runs share "
                    f"cannot contain a folder that changes",
                    f"build a wheel of {name}, or set run.interpreter",
                )
        return source
    if (folder / REQUIREMENTS).is_file():
        found = tuple(dict.fromkeys(_with_included(folder, REQUIREMENTS, [])))
        return Source(folder, REQUIREMENTS, (*found, *_present(folder, PROJECT, _SETTINGS)))
    if (folder / PROJECT).is_file():
        archives = dict.fromkeys(_archives(PROJECT, in_project(_text(folder, PROJECT))))
        return Source(folder, PROJECT, (PROJECT, *archives, *_present(folder, _SETTINGS)))
    raise EnvironmentSourceError(
        f"{folder} has no {LOCK}, {REQUIREMENTS} or {PROJECT} from which uv could create an environment",
        "`uv lock` writes the first one there, or set run.interpreter",
    )


def _with_included(folder: Path, name: str, seen: list[str]) -> Iterator[str]:
    """Yield a requirements file, the archives that it installs, and the same of those that it includes."""
    if name in seen or len(seen) >= MOST_FILES:
        return
    seen.append(name)
    text = _text(folder, name)
    archives = tuple(_archives(name, in_requirements(text)))
    yield name
    yield from archives
    for included in _INCLUDED.findall(text):
        if "://" not in included:
            yield from _with_included(folder, str(Path(name).parent / included), seen)


def _archives(name: str, packages: Iterable[LocalPackage]) -> Iterator[str]:
    for package in packages:
        if package.archive is None:
            raise EnvironmentSourceError(
                f"{name} installs a folder ({package.said}), and an environment that runs share cannot "
                "contain a folder that changes",
                "build a wheel of it, or set run.interpreter",
            )
        yield package.archive


def _present(folder: Path, *names: str) -> tuple[str, ...]:
    return tuple(name for name in names if (folder / name).is_file())


def _text(folder: Path, name: str) -> str:
    with _explained(folder / name):
        return read_bounded(folder / name, MOST_BYTES).decode("utf-8", "replace")


def _hash(path: Path) -> str:
    """Return the hash of a file; wheels can be large."""
    found = hashlib.sha256()
    with _explained(path), open_regular(path) as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.hexdigest()


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except UnreadableFileError as error:
        raise EnvironmentSourceError(f"{path} {error.why}", _READABLE) from error
    except OSError as error:
        what = f"{path} cannot be read ({error.strerror})"
        raise EnvironmentSourceError(what, _READABLE) from error


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
