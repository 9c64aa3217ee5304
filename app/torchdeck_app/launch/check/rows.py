"""What the checks found, as rows for a person: what stops the start first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from torchdeck.config.problems import ConfigError, Problem
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.refusal import Refusal
from torchdeck.plan.check import Check, PreflightError, Status
from torchdeck_app.launch.problem_rows import ProblemRow

Remedy = Literal["", "trust", "queue", "problem"]
ORDER: dict[Status, int] = {"failed": 0, "warning": 1, "ok": 2}
"""The worst first."""
_REMEDIES: dict[str, Remedy] = {"trust": "trust", "devices": "queue"}
_FIXES = {
    "trust": "read it, then trust its folder",
    "devices": "wait in the queue until it is free, stop that run, or choose other devices",
}
"""What is to be done in the window, where a check speaks of the command line."""


class CheckRow(NamedTuple):
    """One line of the panel."""

    name: str
    status: Status
    what: str
    fix: str
    remedy: Remedy = ""
    """What a button beside it does: trust the folder, wait in the queue, go to the key."""
    key: str = ""
    """The key it is about, if it is about one."""
    node: str = ""
    """Where; empty for the run file, and for what this machine does beside its part of a run."""
    page: str = ""
    """The page of the documentation that helps, as `torchdeck docs` takes it."""


def check_rows(
    checks: Iterable[Check], problems: Iterable[Problem] = (), *, is_node: bool = False
) -> tuple[CheckRow, ...]:
    """All of them, the worst first, else in the order they were looked at.

    Args:
        checks: what was looked at.
        problems: of the run file.
        is_node: this machine is one of several nodes of the run: what is looked at on the others too is then
            about it as a node.
    """
    found = list(checks)
    of_nodes = {check.name for check in found if check.node != LOCALHOST} if is_node else set()
    rows = list(problem_rows(problems))
    rows += [_check(check, is_node=check.name in of_nodes) for check in found]
    return tuple(sorted(rows, key=lambda row: ORDER[row.status]))


def not_listed(rows: Iterable[CheckRow], listed: Iterable[ProblemRow]) -> tuple[CheckRow, ...]:
    """Those that the list of problems does not show already."""
    shown = {(row.path, row.wrong) for row in listed}
    return tuple(row for row in rows if row.remedy != "problem" or (row.key, row.what) not in shown)


def by_node(rows: Iterable[CheckRow]) -> dict[str, list[CheckRow]]:
    """Rows under the node they are about: this machine and the run file first, then the worst node first."""
    found: dict[str, list[CheckRow]] = {}
    for row in rows:
        found.setdefault(row.node, []).append(row)
    worst = {node: min(ORDER[row.status] for row in each) for node, each in found.items()}
    return {node: found[node] for node in sorted(found, key=lambda node: (node != "", worst[node]))}


def verdict(rows: Iterable[CheckRow]) -> str:
    """Whether it would start, in one sentence."""
    found = [row.status for row in rows]
    failed, warnings = found.count("failed"), found.count("warning")
    if failed:
        return "1 problem blocks the launch" if failed == 1 else f"{failed} problems block the launch"
    if warnings:
        return f"All checks passed with {warnings} warning{'s' * (warnings > 1)}"
    return "All checks passed. Ready to launch."


def _check(check: Check, *, is_node: bool) -> CheckRow:
    bad = check.status == "failed"
    return CheckRow(
        check.name.replace("_", " "),
        check.status,
        check.what,
        _FIXES.get(check.name, check.fix) if bad else check.fix,
        _REMEDIES.get(check.name, "") if bad else "",
        node="" if check.node == LOCALHOST and not is_node else check.node,
        page=check.page,
    )


def refusal_rows(error: Refusal, name: str = "start", *, is_node: bool = False) -> tuple[CheckRow, ...]:
    """One row for each thing that is wrong: the window's renderer of `Refusal`.

    Args:
        error: why something cannot be done.
        name: what was tried.
        is_node: as of `check_rows`.
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
    """What is wrong with the run file."""
    return tuple(
        CheckRow(
            each.path or "run file", "failed", each.wrong, each.right, "problem", each.path, page=each.page
        )
        for each in problems
    )
