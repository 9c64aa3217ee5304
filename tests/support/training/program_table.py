"""The table of programs in docs/programs.md, from the marks of the tests that show each of its cells.

    python -m pytest tests/trainers --collect-only --soak -p support.training.program_table \\
        --program-table=docs/programs.md

A test is marked `@pytest.mark.shows("Lightning", "starts", "metrics")`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

COLUMNS = (
    "starts",
    "metrics",
    "steps",
    "total and ETA",
    "checkpoints",
    "stop saves",
    "resume",
    "failure named",
)
BEGIN, END = "<!-- table of programs -->", "<!-- end of the table -->"
_OWN_LOOP = "Its loop and its saves are the script's own: a stop sends SIGTERM."
CANNOT = {
    "torchtitan": "Its trainer needs a GPU to start, and does not start in the tests. Its own loop, "
    "checkpoints and printed lines run there with a small model and a training step of the test; they show "
    "the other cells.",
    "nanoGPT": _OWN_LOOP,
    "Lightning Fabric": _OWN_LOOP,
}
"""Program → what its cells do not show, or why one is empty."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--program-table", type=Path, help="write the table of programs into this page")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    page = config.getoption("--program-table")
    if page is not None:
        page.write_text(with_table(page.read_text(), marks_of(items)))


def marks_of(items: Iterable[pytest.Item]) -> list[tuple[str, tuple[str, ...], str]]:
    """Return (program, columns, test) of every mark."""
    found = []
    for item in items:
        test = f"`{item.nodeid.partition('[')[0]}`"
        if item.get_closest_marker("soak") is not None:
            test += " (with `--soak`)"
        for mark in item.iter_markers("shows"):
            program, *columns = mark.args
            unknown = set(columns) - set(COLUMNS)
            assert not unknown, f"{test}: no such column: {unknown}; columns are {COLUMNS}"
            found.append((program, tuple(columns), test))
    return found


def with_table(page: str, marks: list[tuple[str, tuple[str, ...], str]]) -> str:
    """Return the page with its table replaced."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table(marks)}\n{END}{rest.partition(END)[2]}"


def table(marks: list[tuple[str, tuple[str, ...], str]]) -> str:
    """Return the table and its notes as Markdown: a cell is Y where a test shows it."""
    tests: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for program, columns, test in marks:
        for column in columns:
            tests[program][column].add(test)
    lines = [f"| program | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]
    for program in sorted(tests, key=str.lower):
        cells = " | ".join("Y" if tests[program][column] else "" for column in COLUMNS)
        lines.append(f"| {program} | {cells} |")
    lines.append("")
    for program in sorted(tests, key=str.lower):
        shown = sorted({test for named in tests[program].values() for test in named})
        why = f" {CANNOT[program]}" if program in CANNOT else ""
        lines.append(f"- {program}:{why} {', '.join(shown)}")
    return "\n".join(lines) + "\n"
