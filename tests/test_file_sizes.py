"""Files and folders stay small enough to be read (CONTRIBUTING.md, "House rules")."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_LINES = 400
MOST_FILES = 20
MOST_LINES_OF_A_FUNCTION = 60

PRODUCT = sorted(path for part in ("core", "app") for path in (ROOT / part).rglob("*.py"))


def test_the_product_is_found() -> None:
    assert len(PRODUCT) > 500


@pytest.mark.parametrize("part", ["core", "app"])
def test_no_file_is_longer_than_allowed(part: str) -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in PRODUCT
        if path.is_relative_to(ROOT / part)
    }
    too_long = {name: lines for name, lines in lengths.items() if lines > MOST_LINES}
    assert not too_long, f"split by concept (at most {MOST_LINES} lines per file): {too_long}"


def test_no_folder_has_more_files_than_allowed() -> None:
    tests = (ROOT / "tests").rglob("*.py")
    files = Counter(str(path.parent.relative_to(ROOT)) for path in (*PRODUCT, *tests))
    too_many = {name: count for name, count in files.items() if count > MOST_FILES}
    assert not too_many, f"group by purpose (at most {MOST_FILES} files per folder): {too_many}"


def test_no_function_is_longer_than_allowed() -> None:
    functions = (
        (path, node)
        for path in PRODUCT
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    too_long = {
        f"{path.relative_to(ROOT)}: {node.name}": lines
        for path, node in functions
        if (lines := (node.end_lineno or 0) - node.lineno + 1) > MOST_LINES_OF_A_FUNCTION
    }
    assert not too_long, f"split by step (at most {MOST_LINES_OF_A_FUNCTION} lines): {too_long}"
