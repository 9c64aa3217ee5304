"""A plan for people: placement, arithmetic, what each node executes, slots, warnings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from torchdeck.plan.batch import explain_batch
from torchdeck.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.plan.planner import describe_placement

SHOWN_RANKS = 64
SHOWN_VALUE = 72
"""Characters of a variable's value; `--json` has it whole."""


def print_plan(plan: LaunchPlan, console: Console | None = None) -> None:
    """Print all of `plan`; long values shortened."""
    console = Console(highlight=False, soft_wrap=True) if console is None else console
    console.print(f"[bold]{escape(plan.name)}[/]: {plan.kind} {escape(plan.target)}")
    console.print(escape(describe_placement(plan)))
    console.print(_placement(plan))
    if len(plan.ranks) > SHOWN_RANKS:
        console.print(f"and {len(plan.ranks) - SHOWN_RANKS} more ranks; --json lists all")
    for line in [] if plan.batch is None else explain_batch(plan.batch):
        console.print(escape(line))
    for line in _checkpoint_lines(plan):
        console.print(escape(line))
    for node in plan.nodes:
        _print_node(node, console)
    console.print("\n[bold]filled in at launch[/]")
    for name, filler in plan.slots.items():
        console.print(f"  @{{{name}}}  {escape(filler)}")
    files = len(plan.code.files)
    console.print(
        f"\nfingerprint {plan.fingerprint} (covers {files} file{'' if files == 1 else 's'} of yours)"
    )
    for warning in plan.warnings:
        console.print(f"[yellow]warning[/] {escape(warning)}")


def _placement(plan: LaunchPlan) -> Table:
    table = Table("rank", "node", "local rank", "device", box=None, pad_edge=False)
    for rank in plan.ranks[:SHOWN_RANKS]:
        table.add_row(str(rank.rank), escape(rank.node), str(rank.local_rank), rank.device)
    return table


def _checkpoint_lines(plan: LaunchPlan) -> list[str]:
    if plan.kind != "recipe":
        return []
    policy = plan.checkpoint
    when = "at a stop and at the end" if policy.every_steps is None else f"every {policy.every_steps} steps"
    return [
        f"checkpoints {when} in {policy.directory}",
        f"the newest {policy.keep_last} are kept; resume {policy.resume}",
    ]


def _print_node(node: NodePlan, console: Console) -> None:
    console.print(
        f"\n[bold]{escape(node.name)}[/] ({escape(node.address)}) executes, in {escape(node.working_dir)}"
    )
    for part in (node.torchrun, node.rank_holder, node.command):
        console.print(f"  {escape(shlex.join(part))}")
    console.print("with")
    for name, value in _shortened(node.env).items():
        console.print(f"  {escape(name)}={escape(value)}")
    console.print(f"and without {escape(', '.join(node.unset))}")


def _shortened(env: Mapping[str, str]) -> dict[str, str]:
    def short(value: str) -> str:
        line = value if value.isprintable() else repr(value)
        return line if len(line) <= SHOWN_VALUE else f"{line[:SHOWN_VALUE]}… ({len(value)} characters)"

    return {name: short(value) for name, value in sorted(env.items())}
