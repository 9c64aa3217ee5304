"""Results of checks as rows and as a grid of checks and nodes. Without Qt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from torchdeck.config.problems import ConfigError, Problem
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.refusal import Refusal
from torchdeck.plan.check import Check, PreflightError, Status
from torchdeck_app.launch.problem_list import ProblemRow


class Remedy(Enum):
    """Action of a row's button."""

    TRUST = auto()
    """Trust the folder."""
    QUEUE = auto()
    """Wait in the queue."""
    GO_TO_KEY = auto()


ORDER: dict[Status, int] = {"failed": 0, "warning": 1, "ok": 2}
"""Sort order, the worst first."""
_REMEDIES = {"trust": Remedy.TRUST, "devices": Remedy.QUEUE}
_FIXES = {
    "trust": "read it, then trust its folder",
    "devices": "wait in the queue until it is free, stop that run, or choose other devices",
}
"""Fixes in the window that replace command-line instructions of a check."""


class CheckRow(NamedTuple):
    """Line of the panel."""

    name: str
    status: Status
    what: str
    fix: str
    remedy: Remedy | None = None
    """Action of its button; None: no button."""
    key: str = ""
    """Related key, if any."""
    node: str = ""
    """Related node; empty for the run file, and for this machine's tasks other than its part of a run."""
    page: str = ""
    """The page of the documentation that helps, as `torchdeck docs` takes it."""


def check_rows(
    checks: Iterable[Check], problems: Iterable[Problem] = (), *, is_node: bool = False
) -> tuple[CheckRow, ...]:
    """Return all rows, the worst first, else in the order of execution.

    Args:
        checks: results of the checks.
        problems: problems of the run file.
        is_node: whether this machine is one of several nodes of the run: checks that also run on the others
            then refer to it as a node.
    """
    found = list(checks)
    of_nodes = {check.name for check in found if check.node != LOCALHOST} if is_node else set()
    rows = list(problem_rows(problems))
    rows += [_check(check, is_node=check.name in of_nodes) for check in found]
    return tuple(sorted(rows, key=lambda row: ORDER[row.status]))


def not_listed(rows: Iterable[CheckRow], listed: Iterable[ProblemRow]) -> tuple[CheckRow, ...]:
    """Return the rows that the problem list does not show already."""
    shown = {(row.path, row.wrong) for row in listed}
    return tuple(
        row for row in rows if row.remedy is not Remedy.GO_TO_KEY or (row.key, row.what) not in shown
    )


def by_node(rows: Iterable[CheckRow]) -> dict[str, list[CheckRow]]:
    """Return rows by node: this machine and the run file first, then the worst node first."""
    found: dict[str, list[CheckRow]] = {}
    for row in rows:
        found.setdefault(row.node, []).append(row)
    worst = {node: min(ORDER[row.status] for row in each) for node, each in found.items()}
    return {node: found[node] for node in sorted(found, key=lambda node: (node != "", worst[node]))}


def verdict(rows: Iterable[CheckRow]) -> str:
    """Return in one sentence whether it would start."""
    found = [row.status for row in rows]
    failed, warnings = found.count("failed"), found.count("warning")
    if failed:
        return "1 problem blocks the launch" if failed == 1 else f"{failed} problems block the launch"
    if warnings:
        return f"Ready to launch, with {warnings} warning{'s' * (warnings > 1)}."
    return "All checks passed. Ready to launch."


def _check(check: Check, *, is_node: bool) -> CheckRow:
    bad = check.status == "failed"
    return CheckRow(
        check.name.replace("_", " "),
        check.status,
        check.what,
        _FIXES.get(check.name, check.fix) if bad else check.fix,
        _REMEDIES.get(check.name) if bad else None,
        node="" if check.node == LOCALHOST and not is_node else check.node,
        page=check.page,
    )


def refusal_rows(error: Refusal, name: str = "start", *, is_node: bool = False) -> tuple[CheckRow, ...]:
    """Return one row per problem: the window's renderer of `Refusal`.

    Args:
        error: why something cannot be done.
        name: name of the attempted action.
        is_node: see `check_rows`.
    """
    if isinstance(error, PreflightError):
        return check_rows(error.checks, is_node=is_node)
    if isinstance(error, ConfigError):
        return problem_rows(error.problems)
    return tuple(
        CheckRow(name, "failed", part.finding, part.fix, key=part.key, node=part.node, page=part.page)
        for part in error.parts()
    )


def problem_rows(problems: Iterable[Problem]) -> tuple[CheckRow, ...]:
    """Return the problems of the run file as rows."""
    return tuple(
        CheckRow(
            each.path or "run file",
            "failed",
            each.wrong,
            each.right,
            Remedy.GO_TO_KEY,
            each.path,
            page=each.page,
        )
        for each in problems
    )


# Checks arranged by check and node. Without Qt.


@dataclass(frozen=True)
class Grid:
    """Checks of each node."""

    checks: tuple[str, ...]
    """Check names, the worst first, else in the order of execution."""
    nodes: tuple[str, ...]
    """Nodes, the worst first, else in the order of execution."""
    cells: Mapping[tuple[str, str], tuple[CheckRow, ...]]
    """Rows by check and node, the worst of a cell first; no entry if a node was not checked."""
    others: tuple[CheckRow, ...]
    """Rows without a node: this machine's own part, and the run file."""

    def status(self, check: str, node: str) -> Status | None:
        """Return the worst status of a cell; None if nothing was checked."""
        rows = self.cells.get((check, node), ())
        return rows[0].status if rows else None


def grid_of(rows: Iterable[CheckRow]) -> Grid | None:
    """Return `rows` as a grid; None for fewer than two nodes."""
    groups = by_node(rows)
    others = tuple(groups.pop("", ()))
    if len(groups) < 2:
        return None
    cells: dict[tuple[str, str], list[CheckRow]] = {}
    for node, found in groups.items():
        for row in found:
            cells.setdefault((row.name, node), []).append(row)
    worst: dict[str, int] = {}
    for (check, _), found in cells.items():
        found.sort(key=lambda row: ORDER[row.status])
        worst[check] = min(worst.get(check, len(ORDER)), ORDER[found[0].status])
    checks = sorted(worst, key=lambda check: worst[check])
    return Grid(tuple(checks), tuple(groups), {place: tuple(found) for place, found in cells.items()}, others)
