"""`torchdeck check`: would this run start here, and what stands in its way."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text
from torchdeck.cli.refusals import print_pages, print_problems, report
from torchdeck.cli.run_source import EXAMPLES, TRUST_HELP, add_run_source, load_run_source
from torchdeck.cli.terminal_ui import WITHOUT_MEMORY, TerminalUi
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.refusal import Refusal
from torchdeck.use_cases.check import Checked, CheckRequest, check
from torchdeck.use_cases.ui import Phase

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from torchdeck.plan.check import Check


_SIGNS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "failed": ("failed", "red")}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "check",
        help="find problems that would stop a run, without starting it",
        description="Find problems that would stop a run, without starting it. Exits with 3 if any exist.\n"
        "The model of a recipe is traced once, to predict its memory. The disk of checkpoints is\n"
        "measured. On several nodes torchrun, an all-reduce and transfers between all pairs of nodes\n"
        "run for some seconds; these measurements are cached.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_source(parser)
    parser.add_argument(
        "--quick", action="store_true", help="measure no disks and start no processes on the nodes"
    )
    parser.add_argument(
        "--again", action="store_true", help="measure the nodes again even if nothing has changed"
    )
    parser.add_argument("--trust", action="store_true", help=TRUST_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Check and print; 0 when nothing failed, 2 for a bad config, 3 when something would fail."""
    without = "--quick skips it"
    hints = {**WITHOUT_MEMORY, Phase.TRIAL: without, Phase.DISKS: without}
    try:
        loaded = load_run_source(args)
        found = check(
            CheckRequest(loaded, trust=args.trust, measure=not args.quick, again=args.again),
            TerminalUi(hints),
        )
    except Refusal as error:
        return report(error, as_json=args.json)
    if args.json:
        print(json_text(_document(found), indent=1))
    else:
        _print(found)
    return SUCCEEDED if found.ok else REFUSED


def _document(found: Checked) -> dict[str, Any]:
    problems = () if found.misfit is None else found.misfit.problems
    return {
        "checks": [check.to_json() for check in found.checks],
        "problems": [problem.to_json() for problem in problems],
        "ok": found.ok,
    }


def _print(found: Checked) -> None:
    from rich.text import Text

    from torchdeck.cli.console import make_console
    from torchdeck.plan.check import PreflightError

    checks, misfit = found.checks, found.misfit
    console = make_console(soft_wrap=True)
    if any(check.node != LOCALHOST for check in checks):
        print_matrix(console, checks)
    else:
        for check in checks:
            word, colour = _SIGNS[check.status]
            console.print(Text.assemble((f"{word:<7}", colour), f"  {check}"))
    if misfit is not None:
        print_problems(misfit.parts())
        print_pages(misfit)
    print_pages(PreflightError([check for check in checks if check.status == "failed"]))
    failures = sum(check.status == "failed" for check in checks) + (
        0 if misfit is None else len(misfit.problems)
    )
    warnings = sum(check.status == "warning" for check in checks)
    console.print(_verdict(failures, warnings))


def _verdict(failures: int, warnings: int) -> str:
    if not failures and warnings:
        return f"Ready to launch, with {warnings} warning{'s' * (warnings > 1)}."
    if not failures:
        return "All checks passed. Ready to launch."
    things = "One thing is" if failures == 1 else f"{failures} things are"
    return f"Launch blocked: {things}."


# The checks of several nodes: a matrix of nodes and checks, and below it what is not well.

FEW = 10
"""Nodes that fit next to each other; more are shown below each other."""
TOGETHER = frozenset({"all-reduce", "pairs"})
MEASURED = TOGETHER | {"disk speed"}
"""Checks whose good result is a measurement; those of `TOGETHER` are of all nodes at once."""
_RANK = {"ok": 0, "warning": 1, "failed": 2}
_SIGN = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "failed": ("failed", "red")}


def print_matrix(console: Console, checks: Sequence[Check]) -> None:
    """Print the matrix, then every warning and failure with its reason and what to do."""
    console.print(matrix(checks))
    for line in _measurements(checks):
        console.print(line, markup=False)
    for status in ("warning", "failed"):
        for each in checks:
            if each.status == status:
                _print_one(console, each)


def matrix(checks: Sequence[Check]) -> Table:
    """Nodes and checks, the worst of several of one name; checks go down where nodes are few."""
    from rich.table import Table
    from rich.text import Text

    nodes = list(dict.fromkeys(each.node for each in checks))
    names = list(dict.fromkeys(each.name for each in checks))
    worst: dict[tuple[str, str], str] = {}
    for each in checks:
        place = (each.node, each.name)
        worst[place] = max(worst.get(place, "ok"), each.status, key=_RANK.__getitem__)
    down = len(nodes) <= FEW
    across, along = (nodes, names) if down else (names, nodes)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("CHECK" if down else "NODE", no_wrap=True)
    for heading in across:
        table.add_column(Text(heading), overflow="fold")
    for line in along:
        places = [(other, line) if down else (line, other) for other in across]
        table.add_row(Text(line), *(_cell(worst.get(place)) for place in places))
    return table


def _measurements(checks: Sequence[Check]) -> Iterator[str]:
    """Yield what was measured: once if it is the same of all nodes, else of each."""
    found: dict[str, dict[str, str]] = {}
    for each in checks:
        if each.status == "ok" and each.name in MEASURED:
            found.setdefault(each.name, {})[each.node] = each.what
    for name, nodes in found.items():
        same = len(set(nodes.values())) == 1
        yield from (
            dict.fromkeys(nodes.values())
            if same and name in TOGETHER
            else (f"{node}: {name}: {what}" for node, what in nodes.items())
        )


def _cell(status: str | None) -> Text:
    from rich.text import Text

    word, style = ("", "") if status is None else _SIGN[status]
    return Text(word, style=style)


def _print_one(console: Console, check: Check) -> None:
    from rich.text import Text

    word, style = _SIGN[check.status]
    console.print(Text.assemble((word, style), f"  {check.node}: {check.name}: {check.what}"), soft_wrap=True)
    if check.fix:
        console.print(Text(f"         {check.fix}"), soft_wrap=True)
