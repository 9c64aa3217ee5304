"""Plain words: prose of code and documents keeps clear of phrases that readers have to read twice."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PHRASES = {
    r"(?<!group )\b(no|some)body\b(?!['\"])": "say no one, someone, another process, or use the passive",
    r"\banew\b": "again, or: starts over",
    r"\b[Ff]or who\b": "for the user that, for whom",
    r"\bin vain\b": "say what failed",
    r"\bnode books?\b": "node inventory",
    r"\bunled\b": "leaderless",
    r"\b(the|its|a|their) lead\b(?! to| out| on| somewhere)": "leader",
    r"\bRight would be\b": "Expected: ...",
    r"\bstood still\b|\bstands? still\b": "made no progress, is stalled, hangs",
    r"\bright (is|are|would be)\b(?! None)": "expected ...: readers look for what was expected",
    r"\bwill not do\b": "is not valid",
    r"\bafresh\b": "again, or: starts over",
    r"\bis there already\b(?! would be forwarded|, asked)": "already exists",
    r"\b(lies|lie) on no\b|\bstands in it\b|\bcannot be told\b(?! from)": "is on no; it has; is unknown",
    r"\bnothing is said (of|about)\b|\bit is not said\b": "is not given, is unknown",
    r"\bno use for\b": "unknown argument",
    r"\bno one has said\b": "is not verified",
    r"\bnot there any more\b": "no longer exists, is gone",
    r"\bsaid something impossible\b": "sent an invalid answer",
    r"\blets no one in\b|\bwhere they lie\b|\bin the way of\b": "rejected; in place; blocks",
    r"\bgo(es)? on where\b|\bgo(es)? on count": "continues",
    r"\b(step|rank|node|process|row) a (step|rank|node|process|row)\b|\} a (step|rank|node)\b": "per step",
}
"""Pattern -> what to write. Names of code in backticks are free."""
FSTRING_TEXT = getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)
"""The text of an f-string, which is no STRING since Python 3.12."""
BEGINNINGS = re.compile(r"(Of|For who|Who|Whose|What) ")
"""A docstring says what a thing is or does; it does not begin with a clause."""


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of comments, and of strings that hold more than one word."""
    if path.suffix == ".md":
        yield from enumerate(path.read_text().splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        texts = (tokenize.STRING, FSTRING_TEXT)
        if token.type == tokenize.COMMENT or (token.type in texts and " " in token.string):
            yield token.start[0], token.string


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        body = getattr(node, "body", ())
        for statement in body if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield statement.lineno, inspect.cleandoc(value.value)


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("phrase", PHRASES)
def test_prose_is_plain(phrase: str) -> None:
    pattern = re.compile(rf"(?<!`){phrase}(?!`)")
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in (*sources("core", "app", "resources"), *documents)
        if pattern.search(path.read_text())  # most files need not be parted into tokens
        for line, text in prose(path)
        if pattern.search(text)
    ]
    assert not found, f"{PHRASES[phrase]}: {', '.join(found)}"


def test_docstrings_do_not_begin_with_a_clause() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sources("core", "app", "resources")
        for line, text in docstrings(path)
        if BEGINNINGS.match(text)
    ]
    assert not found, ", ".join(found)


IDENTIFIERS = {
    "anew": "again",
    "depart": "leave",
    "entrusted": "handed over",
    "keeper": "shim, supervisor, watchdog",
    "knocking": "pre-connect",
    "life": "session",
    "said": "message, stderr, answer: whichever it is",
    "talk": "probe session",
    "talks": "probe sessions",
    "told": "message, reported, shown: whichever it is",
    "unled": "leaderless",
    "wish": "request",
    "wishes": "requests",
}
"""Word in the name of a module, class, public function or parameter of one -> what to write."""
LEFT = {"core/torchdeck/distributed/exchange/sharded.py: said"}
"""Names that are not renamed yet."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def identifiers(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of a module, its classes, public functions and methods, and their parameters."""
    yield 1, path.stem
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            yield node.lineno, node.name
            public = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        elif isinstance(node, ast.Module):
            public = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        else:
            continue
        for function in public:
            if not function.name.startswith("_"):
                yield function.lineno, function.name
                given = function.args
                for each in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                    yield each.lineno, each.arg


def test_public_names_are_plain() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name} ({IDENTIFIERS[word]})"
        for path in sources("core", "app", "resources")
        for line, name in identifiers(path)
        for word in (each.lower() for each in WORD.findall(name))
        if word in IDENTIFIERS and f"{path.relative_to(ROOT)}: {name}" not in LEFT
    ]
    assert not found, ", ".join(found)
