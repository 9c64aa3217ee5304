"""Errors are rendered by their fields: no sentence is cut apart, and front ends list no classes of errors."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
FRONT_ENDS = sorted(
    path for folder in ("core/torchdeck/cli", "app/torchdeck_app") for path in (ROOT / folder).rglob("*.py")
)
EVERYWHERE = [*sorted((ROOT / "core").rglob("*.py")), *sorted((ROOT / "app").rglob("*.py"))]
CUTS = {"split", "rsplit", "partition", "rpartition"}


def cuts_at_colons(tree: ast.Module) -> Iterator[int]:
    """Lines that take a text apart at a colon and a space, as sentences have it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CUTS:
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and first.value == ": ":
                yield node.lineno


def listed_classes(tree: ast.Module) -> Iterator[int]:
    """Lines that catch two or more of our own classes of errors."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Tuple):
            names = [each.id if isinstance(each, ast.Name) else ast.unparse(each) for each in node.type.elts]
            if sum(not hasattr(builtins, name) for name in names) > 1:
                yield node.lineno


def kinds_of_refusal() -> set[str]:
    """Names of the classes that are a Refusal or derived from one."""
    bases: dict[str, set[str]] = {}
    for path in EVERYWHERE:
        text = path.read_text("utf-8")
        if "class " not in text or ("Refusal" not in text and "Error(" not in text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                bases.setdefault(node.name, set()).update(map(ast.unparse, node.bases))
    found = {"Refusal"}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return found


def listed_refusals(tree: ast.Module, kinds: set[str]) -> Iterator[int]:
    """Lines that catch or suppress two or more kinds of Refusal in one list."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Tuple):
            line, listed = node.lineno, node.type.elts
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "suppress":
            line, listed = node.lineno, node.args
        else:
            continue
        if sum(ast.unparse(each) in kinds for each in listed) > 1:
            yield line


def test_a_list_of_kinds_of_refusal_is_found() -> None:
    text = "try:\n    pass\nexcept (ConfigError, {}):\n    pass\nwith suppress(ConfigError, {}): pass"
    kinds = kinds_of_refusal()
    assert {"ConfigError", "HostKeyRevokedError", "UnreadableFileError"} <= kinds
    assert list(listed_refusals(ast.parse(text.format("SshError", "SshError")), kinds)) == [3, 5]
    assert list(listed_refusals(ast.parse(text.format("OSError", "OSError")), kinds)) == []


def test_handlers_catch_one_kind_of_refusal_or_the_family() -> None:
    """A kind that is treated differently has a handler of its own; all others are `except Refusal`."""
    kinds = kinds_of_refusal()
    handling = [path for path in EVERYWHERE if re.search(r"except \(|suppress\(", path.read_text("utf-8"))]
    assert breaches(lambda tree: listed_refusals(tree, kinds), handling) == []


def test_the_rules_find_what_they_forbid() -> None:
    cut = ast.parse("what, _, fix = str(error).partition(': ')")
    listed = ast.parse("try:\n    pass\nexcept (OneError, OtherError, OSError):\n    pass")
    family = ast.parse("try:\n    pass\nexcept (Refusal, OSError):\n    pass")
    assert list(cuts_at_colons(cut)) == [1]
    assert list(listed_classes(listed)) == [3]
    assert list(listed_classes(family)) == []


def breaches(rule: Callable[[ast.Module], Iterator[int]], files: Sequence[Path]) -> list[str]:
    trees = ((path.relative_to(ROOT), ast.parse(path.read_text("utf-8"))) for path in files)
    return [f"{path}:{line}" for path, tree in trees for line in rule(tree)]


def test_front_ends_list_no_classes() -> None:
    assert len(FRONT_ENDS) > 100
    assert breaches(listed_classes, FRONT_ENDS) == []


def test_no_sentence_is_cut_at_a_colon() -> None:
    cutting = [path for path in EVERYWHERE if '(": ' in path.read_text("utf-8")]
    assert len(EVERYWHERE) > len(FRONT_ENDS) + 400
    assert breaches(cuts_at_colons, cutting) == []
