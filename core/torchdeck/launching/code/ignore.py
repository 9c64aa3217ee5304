"""Files excluded from the copy: by .gitignore and .torchdeckignore, and by built-in rules."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import regex
from pathspec.pattern import RegexMatchResult
from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from torchdeck.contract.bounded_file import UnreadableFileError, read_bounded
from torchdeck.contract.refusal import Refusal
from torchdeck.plan.code_paths import IGNORE_FILE

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


GIT = ".gitignore"
_FOLDERS = frozenset(
    (
        *("__pycache__", "node_modules", "site-packages", "venv", ".venv", ".tox", ".nox", ".hg", ".svn"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"),
    )
)
_MARKS = frozenset({"pyvenv.cfg", "conda-meta", "CACHEDIR.TAG"})
"""Files that mark a folder as installed packages or a cache."""
_ENDINGS = (".pyc", ".pyo", ".swp", "~")
_WILD = re.compile(r"[*?\[\\]")
_LIMIT = 1 << 20
"""Maximum size of a file of rules, in bytes."""
SECONDS = 20.0
"""Seconds of processor time for all rules below one folder; usual rules take a hundredth of that."""
_LINES = 10_000
_LONGEST = 4096
"""Maximum characters in a line; no path is longer."""


class RulesError(Refusal):
    """A file of rules cannot be used; the message names it and gives the reason."""

    page = "start/script#your-code-a-copy-per-run"


class Rules(NamedTuple):
    """Lines of one file, and the folder they apply to."""

    folder: str
    """Absolute path that ends in a slash."""
    spec: GitIgnoreSpec
    name: str
    """Path of the file."""
    named: frozenset[str] = frozenset()
    """Paths that a line `!NAME` without wildcards names; `*/NAME` for a name in any folder."""


class Ignored(NamedTuple):
    """All rules that apply in one folder, those of parent folders first. Paths are absolute strings.

    Its methods raise RulesError if a file of rules is invalid, or takes too long to evaluate.

    As in git, the last matching line decides, and nothing below an ignored folder is checked.
    .torchdeckignore overrides .gitignore, so `!data/` in it includes files that git does not have.
    """

    git: tuple[Rules, ...] = ()
    own: tuple[Rules, ...] = ()
    until: float = float("inf")
    """Thread processor time at which the budget is used up."""

    def within(self, folder: str, names: Iterable[str]) -> Ignored:
        """Add the rules found in `folder`, which contains `names`."""
        there = frozenset(names)
        git = _rules(folder, GIT) if GIT in there else None
        own = _rules(folder, IGNORE_FILE) if IGNORE_FILE in there else None
        if git is None and own is None:
            return self
        self._check_time(folder)
        return Ignored(
            (*self.git, git) if git else self.git, (*self.own, own) if own else self.own, self.until
        )

    def file(self, path: str) -> bool:
        """Return whether the file (or link) at `path` is excluded."""
        decided = self._decide(self.own, path)
        if decided is None:
            decided = True if path.endswith(_ENDINGS) else self._decide(self.git, path)
        return bool(decided)

    def folder(self, path: str) -> bool:
        """Return whether the folder at `path` is excluded with everything in it."""
        decided = self._decide(self.own, f"{path}/")
        if decided is None:
            known = os.path.basename(path) in _FOLDERS  # noqa: PTH119 - thousands of texts
            decided = True if known else self._decide(self.git, f"{path}/")
        return bool(decided)

    def knowingly(self, path: str) -> bool:
        """Return whether .torchdeckignore includes the very file or folder at `path` by its name.

        `!.env` does; `!data/` and `!*` include what is there, except credentials in it.
        """
        place = any(
            f"*/{path.rsplit('/', 1)[-1]}" in rules.named or path[len(rules.folder) :] in rules.named
            for rules in self.own
        )
        return place and False in (self._decide(self.own, path), self._decide(self.own, f"{path}/"))

    def included(self, path: str) -> bool:
        """Return whether .torchdeckignore includes the file or folder (ending in a slash) at `path`."""
        return bool(self.own) and self._decide(self.own, path) is False

    def _decide(self, rules: Sequence[Rules], path: str) -> bool | None:

        for found in reversed(rules):
            self._check_time(found.name)
            try:
                include = found.spec.check_file(path[len(found.folder) :]).include
            except SlowPatternError as error:
                raise RulesError(f"{found.name}: {error}") from None
            if include is not None:
                return include
        return None

    def _check_time(self, name: str) -> None:
        if time.thread_time() > self.until:
            raise RulesError(f"{name} and other files of rules take too long to evaluate: use fewer rules")


def is_marked(names: Iterable[str]) -> bool:
    """Return whether a folder that contains `names` is a virtual environment or a cache."""
    return not _MARKS.isdisjoint(names)


def rules_above(folder: Path) -> Ignored:
    """Return the rules of the repository around `folder`, outermost first; none if they exclude all of it.

    Evaluating them may take `SECONDS` of this thread's processor time.
    """
    found = none = Ignored(until=time.thread_time() + SECONDS)
    above: list[Path] = []
    for parent in (folder, *folder.parents):
        above.append(parent)
        if (parent / ".git").exists():
            break
    else:
        return none
    for parent in reversed(above[1:]):
        found = found.within(
            str(parent), [name for name in (GIT, IGNORE_FILE) if os.path.lexists(parent / name)]
        )
    return none if found.folder(str(folder)) else found


def _rules(folder: str, name: str) -> Rules | None:
    from pathspec import GitIgnoreSpec

    path = os.path.join(folder, name)  # noqa: PTH118 - thousands of texts
    try:
        lines = read_bounded(path, _LIMIT).decode("utf-8", "surrogateescape").splitlines()
    except UnreadableFileError as error:
        raise RulesError(f"{error}: it holds no rules") from error
    except OSError:
        return None
    if len(lines) > _LINES:
        raise RulesError(f"{path} has {len(lines):,} lines, {_LINES:,} at most are read as rules")
    for number, line in enumerate(lines, 1):
        if len(line) > _LONGEST:
            raise RulesError(f"{path}, line {number} has {len(line):,} characters, and no path is that long")
    try:
        spec = GitIgnoreSpec.from_lines(BoundedPattern, lines)
    except UNSOUND:  # git also skips what it cannot read
        spec = GitIgnoreSpec.from_lines(BoundedPattern, (line for line in lines if _is_sound(line)))
    named = frozenset(filter(None, map(_named, lines))) if name == IGNORE_FILE else frozenset[str]()
    return Rules(folder.rstrip("/") + "/", spec, path, named) if len(spec) else None


def _named(line: str) -> str:
    """Return the path named by `!NAME`, as in `Rules.named`; empty for all other lines."""
    text = line.rstrip().rstrip("/")
    if not text.startswith("!") or _WILD.search(text):
        return ""
    text = text[1:]
    return text.lstrip("/") if "/" in text else f"*/{text}"


def _is_sound(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines(BoundedPattern, [line])
    except UNSOUND:
        return False
    return True


# One line of a .gitignore, matched against a path and aborted if that takes too long.
#
# `*a*a*a*a*b` becomes a regular expression that backtracks exponentially in a long name. Python's own engine
# cannot be interrupted; that of the package `regex` remembers where it has failed, and can be. It is used
# if a line has more than two wildcards.

UNSOUND = (GitIgnorePatternError, re.error, regex.error, OverflowError, RecursionError)
"""Errors raised by an invalid line; pathspec lets some through, such as [z-a]."""
PATTERN_SECONDS = 1.0
"""Limit for one line and one path; a usual one takes a millionth of that."""
_FEW = 2
"""Number of wildcards up to which the time grows at most by a small power of the path's length."""
_WILDCARDS = ("[^/]*", ".+", ".*")
"""Expressions that pathspec generates for `*` and `**`."""


class SlowPatternError(Exception):
    """A line takes too long; the message names it."""

    def __init__(self, line: str) -> None:
        super().__init__(f"the line {line[:80]!r} takes too long to match: use fewer wildcards in it")


class BoundedPattern(GitIgnoreSpecPattern):
    """A line that raises SlowPatternError if it takes too long."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        expression = "" if self.regex is None else str(self.regex.pattern)
        many = sum(map(expression.count, _WILDCARDS)) > _FEW
        self._bounded: Any = regex.compile(expression, regex.VERSION0) if many else None

    def match_file(self, file: Any) -> Any:
        """Match the pattern against `file`, a path relative to the folder of the rules."""
        if self._bounded is None:
            return super().match_file(file)
        try:
            match = self._bounded.search(file, timeout=PATTERN_SECONDS)
        except TimeoutError:
            raise SlowPatternError(str(self.pattern)) from None
        return None if match is None else RegexMatchResult(match)
