"""The tables in docs/compat.md, from the marks of the tests that make each example.

    python -m pytest tests/compat --collect-only -p support.documents.block_table --block-table=docs/compat.md

A test is marked `@pytest.mark.block("batch_plans", 3)`, with a document of `support.documents.blocks`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from support.documents.blocks import DOCUMENTS

BEGIN, END = "<!-- tables of examples -->", "<!-- end of the tables -->"
Shown = dict[tuple[str, int], list[str]]
"""(document, number) → its tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--block-table", type=Path, help="write the tables of examples into this page")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    page = config.getoption("--block-table")
    if page is not None:
        page.write_text(with_tables(page.read_text(), marks_of(items)))


def marks_of(items: Iterable[pytest.Item]) -> Shown:
    """Return the tests of every example; each has one at least, and none is of an unknown example."""
    found: Shown = defaultdict(list)
    for item in items:
        test = item.nodeid.partition("[")[0]
        for mark in item.iter_markers("block"):
            document, *numbers = mark.args
            for number in numbers:
                if test not in found[document, number]:
                    found[document, number].append(test)
    known = {
        (name, number)
        for name, document in DOCUMENTS.items()
        for number in range(1, len(document.blocks) + 1)
    }
    assert not known ^ found.keys(), f"not known, or without a test: {sorted(known ^ found.keys())}"
    return found


def with_tables(page: str, shown: Shown) -> str:
    """Return the page with its tables replaced."""
    before, _, rest = page.partition(BEGIN)
    tables = "\n".join(_table(name, document_shown(name, shown)) for name in DOCUMENTS)
    return f"{before}{BEGIN}\n\n{tables}\n{END}{rest.partition(END)[2]}"


def document_shown(name: str, shown: Shown) -> list[list[str]]:
    """Return the tests of each example of one document, in order."""
    return [shown[name, number] for number in range(1, len(DOCUMENTS[name].blocks) + 1)]


def _table(name: str, tests: list[list[str]]) -> str:
    document = DOCUMENTS[name]
    lines = [
        f"### {document.title}",
        "",
        f"{document.replaced}.",
        "",
        "| | example | works in | test |",
        "|---|---|---|---|",
    ]
    for number, ((content, where), shown) in enumerate(zip(document.blocks, tests, strict=True), 1):
        listed = ", ".join(f"`{test.removeprefix('tests/compat/')}`" for test in sorted(shown))
        lines.append(f"| {number} | {content} | {where} | {listed} |")
    return "\n".join(lines) + "\n"
