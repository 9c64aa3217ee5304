"""Export of a plan as a shell script for running on a node, without Torchdeck."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping, Sequence

from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan, NodePlan
from torchdeck.contract.plan.slots import escape, slot, split
from torchdeck.plan.code_paths import starts_in_copy, where_it_lies
from torchdeck.plan.node_commands import DEFAULT_PORT, by_its_own_name
from torchdeck.shown_text import shown_line

_FREE_PORT = "import socket; s = socket.socket(); s.bind(('', 0)); print(s.getsockname()[1])"


def export_sh(plan: LaunchPlan, node: NodePlan) -> str:
    """Return a POSIX shell script that starts `node`'s share of `plan` in the foreground.

    Slots are filled from variables with a default. Torchdeck's supervision (logs by rank, restarts, stopping
    with a checkpoint) is not included.
    """
    node = where_it_lies(node, plan.code)
    torchrun = [word(item) for item in by_its_own_name(node.torchrun)[1:]]
    command = ['"$PYTHON"', *(word(item) for item in node.command[1:])][0 if torchrun else 1 :]
    lines = [
        *_head(plan, node),
        "set -eu",
        python_default(node),
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
    lines += code_lines(plan.code) if code else []
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


# A node's share of a plan as words of a POSIX shell, byte for byte, with slots as variables.

VARIABLES: Mapping[str, str] = {
    "run_id": "RUN_ID",
    "run_dir": "RUN_DIR",
    "attempt": "ATTEMPT",
    "port": "PORT",
    "resume": "RESUME",
    "code": "CODE",
}
"""Slot → the script's variable for it. `shipped` has none: an exported plan uses an installed Torchdeck."""

PREPARE = """\
(umask 077 && mkdir -p -m 700 -- "$RUN_DIR")
RUN_DIR=$(cd -- "$RUN_DIR" && pwd)
case $RUN_DIR in
*[\\"\\\\:]*) echo "RUN_DIR may hold no quotes, backslashes or colons: $RUN_DIR" >&2; exit 2 ;;
esac
"""
"""Creates the run's folder, and checks that it is valid in JSON and in a module path."""

TOOLS = 'case $PYTHON in */*) PATH=$(dirname -- "$PYTHON"):$PATH; export PATH ;; esac'
"""Makes PATH begin with the interpreter's folder, as agents do."""

CODE_PLACE = """\
CODE=$(cd -- "$CODE" && pwd)
case $CODE in
*[\\"\\\\:]*) echo "CODE may hold no quotes, backslashes or colons: $CODE" >&2; exit 2 ;;
esac"""
"""Checks that the code folder exists, and is valid in JSON and in a module path."""

_UNSET_PREFIX = """\
for name in $(env | sed -n 's/^\\({prefix}[A-Za-z0-9_]*\\)=.*/\\1/p'); do unset "$name"; done
"""


def shown_name(plan: LaunchPlan) -> str:
    """Return the plan's name on one line, for a comment."""
    return shown_line(plan.name)


def word(text: str) -> str:
    """Return `text` as one shell word, with slots as variables; also valid after `=` and in `${NAME:-…}`."""
    made = ""
    for literal, name in split(text):
        made += f'"${{{VARIABLES[name]}}}"' if name else shlex.quote(literal)
    return made or "''"


def python_default(node: NodePlan) -> str:
    """Return a command that sets PYTHON if it is not set; one that uv makes has to be named."""
    if node.environment is not None:
        made = "uv sync" if node.environment.source == "uv.lock" else "uv pip install"
        return (
            f': "${{PYTHON:?is the Python of an environment made from {node.environment.source} ({made})}}"'
        )
    return f"PYTHON=${{PYTHON:-{word(node.command[0])}}}"


def code_default(code: CodeTree) -> str:
    """Return a command that sets CODE to the user's folder if it is not set."""
    if not code.folder:
        return ': "${CODE:?is the folder of your code on the nodes: set it}"'
    return f"CODE=${{CODE:-{word(escape(code.folder))}}}"


def code_lines(code: CodeTree) -> list[str]:
    """Return lines about CODE for a script's header."""
    default = f": {shown_line(code.folder)}" if code.folder else " is none"
    return [
        "# CODE is the folder of your code, at the same path on every node: copy it there first, as",
        f"# Torchdeck does for a run of its own. The default{default}.",
    ]


def removals(node: NodePlan) -> list[str]:
    """Return commands that unset the variables that the plan wants removed."""
    return [
        _UNSET_PREFIX.format(prefix=name[:-1]).rstrip() if name.endswith("*") else f"unset {name}"
        for name in node.unset
    ]


def environment(node: NodePlan) -> dict[str, str]:
    """Return variable → its value as a word; the runtime bundle is left out of PYTHONPATH."""
    found = {}
    for name, value in node.env.items():
        rest = without_bundle(value)
        if rest or rest == value:
            found[name] = word(rest)
    return found


def without_bundle(text: str) -> str:
    """Return the module path `text` without the runtime bundle, its callbacks and the node's own; any other
    text unchanged.
    """
    pieces = split(text)
    if ("", "shipped") not in pieces:
        return text
    left_out = ("shipped", "inside", "node_path")
    kept = (slot(name) if name else escape(literal) for literal, name in pieces if name not in left_out)
    return "".join(kept).lstrip(":")


def secrets_needed(node: NodePlan) -> list[str]:
    """Return commands that exit the script if a secret of the run is not in the environment."""
    return [f': "${{{name}:?is a secret of this run: export it}}"' for name in node.secrets]


def torchdeck_needed(plan: LaunchPlan) -> list[str]:
    """Return a command that exits the script if a recipe's node has no Torchdeck in its Python."""
    if plan.kind != "recipe":
        return []
    message = "echo \"$PYTHON has no torchdeck: pip install 'torchdeck[train]'\" >&2"
    return [f"\"$PYTHON\" -c 'import torchdeck.distributed' || {{ {message}; exit 3; }}"]


def over_lines(words: Sequence[str]) -> str:
    """Return words over several lines, with a flag and its value together."""
    text = words[0]
    for before, following in itertools.pairwise(words):
        separate = following.startswith(("-", '"$PYTHON"')) or not before.startswith("-")
        text += (" \\\n  " if separate else " ") + following
    return text
