"""Commands of each node: argv, environment, slots."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping

from torchdeck.agent.snapshots.manifest import EXECUTABLE, LINK
from torchdeck.contract.file_names import name_of
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan, NodePlan
from torchdeck.plan.code_paths import IGNORE_FILE
from torchdeck.plan.planner import describe_placement
from torchdeck.quantities import size

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
    for part in filter(None, (node.torchrun, node.rank_holder, node.command)):
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


# User files of which a run executes a copy.


def file_lines(code: CodeTree) -> Iterator[str]:
    """List every file with its size, their count, and what is left out and why.

    Names as `text_of` has them, one line each.
    """
    yield code_line(code)
    for name, content in code.files.items():
        named = f"  ({IGNORE_FILE} names it)" if name in code.knowingly else ""
        yield f"{_size(code, name, content):>10}  {_shown(name)}{_kind(content)}{named}"
    if code.left_out:
        yield f"left out ({IGNORE_FILE} includes a file with !NAME):"
    for name, why in code.left_out.items():
        yield f"{'':>10}  {_shown(name)}: {why}"


def _shown(name: str) -> str:
    return name if name.isprintable() else repr(name)


def code_line(code: CodeTree) -> str:
    """Describe what happens to them, in one sentence."""
    count = f"{len(code.files):,} file{'' if len(code.files) == 1 else 's'} of yours"
    if code.folder:
        return f"each run executes its own copy of {code.folder}: {count}, {size(code.size)}"
    if code.files:
        return f"a run uses your files in place; the fingerprint covers {count}"
    return "a run executes none of your files"


def _size(code: CodeTree, name: str, content: str) -> str:
    if content.startswith(LINK) or not code.folder:
        return ""
    try:
        return size(os.stat(os.path.join(code.folder, name_of(name))).st_size)  # noqa: PTH116, PTH118
    except OSError:
        return "gone"


def _kind(content: str) -> str:
    if content.startswith(LINK):
        return f" {content}"
    return " (executable)" if content.endswith(EXECUTABLE) else ""
