"""Commands of each node: argv, environment, slots."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from torchdeck.cli.plan.preview.files import code_line
from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.plan.planner import describe_placement

SHOWN_NODES = 4
SHOWN_VALUE = 72
"""Characters shown of a variable's value; `--json` has it whole."""


def command_lines(plan: LaunchPlan) -> Iterator[str]:
    """Lines of every node; of many nodes only the first, as all are alike except for their rank."""
    yield f"{plan.name}: {plan.kind} {plan.target}"
    if len(plan.nodes) <= SHOWN_NODES:
        yield describe_placement(plan)
    for node in plan.nodes[:SHOWN_NODES]:
        yield from _node(node)
    if len(plan.nodes) > SHOWN_NODES:
        yield f"\nand {len(plan.nodes) - SHOWN_NODES} more nodes; --json has all"
    yield "\nfilled in at launch"
    for name, filler in plan.slots.items():
        yield f"  @{{{name}}}  {filler}"
    yield f"\n{code_line(plan.code)}"
    yield f"fingerprint {plan.fingerprint}"


def _node(node: NodePlan) -> Iterator[str]:
    yield f"\n{node.name} ({node.address}) executes, in {node.working_dir}"
    for part in (node.torchrun, node.rank_holder, node.command):
        yield f"  {shlex.join(part)}"
    yield "with"
    for name, value in _shortened(node.env).items():
        yield f"  {name}={value}"
    yield f"and without {', '.join(node.unset)}"


def _shortened(env: Mapping[str, str]) -> dict[str, str]:
    def short(value: str) -> str:
        line = value if value.isprintable() else repr(value)
        return line if len(line) <= SHOWN_VALUE else f"{line[:SHOWN_VALUE]}… ({len(value)} characters)"

    return {name: short(value) for name, value in sorted(env.items())}
