"""Export of a plan as a shell script for running on a node, without Torchdeck."""

from __future__ import annotations

import shlex

from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.plan.code_paths import starts_in_copy, where_it_lies
from torchdeck.plan.export.shell_words import (
    CODE_PLACE,
    PREPARE,
    TOOLS,
    code_default,
    code_said,
    environment,
    over_lines,
    removals,
    secrets_needed,
    shown_name,
    torchdeck_needed,
    word,
)
from torchdeck.plan.torchrun import DEFAULT_PORT, by_its_own_name

_FREE_PORT = "import socket; s = socket.socket(); s.bind(('', 0)); print(s.getsockname()[1])"


def export_sh(plan: LaunchPlan, node: NodePlan) -> str:
    """Return a POSIX shell script that starts `node`'s share of `plan` in the foreground.

    Slots are filled from variables with a default. Torchdeck's supervision (logs by rank, restarts, stopping
    with a checkpoint) is not included.
    """
    node = where_it_lies(node, plan.code)
    python = node.command[0]
    torchrun = [word(item) for item in by_its_own_name(node.torchrun)[1:]]
    command = ['"$PYTHON"', *(word(item) for item in node.command[1:])]
    lines = [
        *_head(plan, node),
        "set -eu",
        f"PYTHON=${{PYTHON:-{word(python)}}}",
        TOOLS,
        _port(plan),
        f"RUN_ID=${{RUN_ID:-{word('exported-' + plan.fingerprint[:12])}}}",
        'RUN_DIR=${RUN_DIR:-"$PWD/$RUN_ID"}',
        "ATTEMPT=${ATTEMPT:-1}",
        "RESUME=${RESUME:-}",
        PREPARE,
        *((code_default(plan.code), CODE_PLACE) if starts_in_copy(node) else ()),
        f"cd -- {word(node.working_dir)}",
        *_rank_folders(plan, node),
        *removals(node),
        *(f"export {name}={value}" for name, value in environment(node).items()),
        *secrets_needed(node),
        *torchdeck_needed(plan),
        f'exec "$PYTHON" {over_lines(torchrun + command)}',
    ]
    return "\n".join(lines) + "\n"


def _head(plan: LaunchPlan, node: NodePlan) -> list[str]:
    port = " [PORT]" if "port" in plan.slots else ""
    code = "[CODE=folder] " if starts_in_copy(node) else ""
    lines = [
        "#!/bin/sh",
        f"# {shown_name(plan)}: node {node.node_rank + 1} of {len(plan.nodes)}.",
        f"# Plan {plan.fingerprint}.",
        "#",
        f"# Usage: {code}[RUN_DIR=folder] [RESUME=checkpoint] [PYTHON=interpreter] sh THIS-FILE{port}",
    ]
    if len(plan.nodes) > 1 and port:
        lines.append(f"# Start it on every node, with the same PORT (default {DEFAULT_PORT}) and ATTEMPT.")
    lines += code_said(plan.code) if code else []
    if plan.kind == "recipe":
        lines.append("# The recipe needs Torchdeck in that Python: pip install 'torchdeck[train]'.")
    return lines


def _port(plan: LaunchPlan) -> str:
    if len(plan.nodes) > 1 or "port" not in plan.slots:
        return f"PORT=${{1:-{DEFAULT_PORT}}}"
    return f'PORT=${{1:-$("$PYTHON" -c {shlex.quote(_FREE_PORT)})}}'


def _rank_folders(plan: LaunchPlan, node: NodePlan) -> list[str]:
    """Return commands that create the ranks' folders, which ranks expect; telemetry goes there."""
    ranks = [rank.rank for rank in plan.ranks if rank.node_rank == node.node_rank]
    return [f'mkdir -p -- "$RUN_DIR/attempts/$ATTEMPT/ranks/{rank}"' for rank in ranks]
