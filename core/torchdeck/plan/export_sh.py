"""A plan as a shell script that a person runs on a node, without Torchdeck."""

from __future__ import annotations

import itertools
import shlex

from torchdeck.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.plan.slots import split
from torchdeck.plan.torchrun import DEFAULT_PORT

VARIABLES = {
    "run_id": "RUN_ID",
    "run_dir": "RUN_DIR",
    "attempt": "ATTEMPT",
    "port": "PORT",
    "resume": "RESUME",
}
"""Slot → the script's variable for it. `shipped` has none: an exported plan uses an installed Torchdeck."""

_FREE_PORT = "import socket; s = socket.socket(); s.bind(('', 0)); print(s.getsockname()[1])"

_PREPARE = """\
umask 077
mkdir -p -m 700 -- "$RUN_DIR"
RUN_DIR=$(cd -- "$RUN_DIR" && pwd)
case $RUN_DIR in
*[\\"\\\\:]*) echo "RUN_DIR may hold no quotes, backslashes or colons: $RUN_DIR" >&2; exit 2 ;;
esac
"""

_UNSET_PREFIX = """\
for name in $(env | sed -n 's/^\\({prefix}[A-Za-z0-9_]*\\)=.*/\\1/p'); do unset "$name"; done
"""


def export_sh(plan: LaunchPlan, node: NodePlan) -> str:
    """A POSIX shell script that starts `node`'s part of `plan` in the foreground.

    What a slot stands for comes from a variable with a default; Torchdeck's supervision (logs by rank,
    restarts, stopping with a checkpoint) is not in it.
    """
    python = node.command[0]
    torchrun = [_word(item) for item in node.torchrun[1:]]
    command = ['"$PYTHON"', *(_word(item) for item in node.command[1:])]
    lines = [
        *_head(plan, node),
        "set -eu",
        f"PYTHON=${{PYTHON:-{_default(python)}}}",
        _port(plan),
        f"RUN_ID=${{RUN_ID:-{_default('exported-' + plan.fingerprint[:12])}}}",
        'RUN_DIR=${RUN_DIR:-"$PWD/$RUN_ID"}',
        "ATTEMPT=${ATTEMPT:-1}",
        "RESUME=${RESUME:-}",
        _PREPARE,
        f"cd -- {_word(node.working_dir)}",
        *_rank_folders(plan, node),
        *_unset(node),
        *(f"export {name}={value}" for name, value in _environment(node)),
        *_check(plan),
        f'exec "$PYTHON" {_lines(torchrun + command)}',
    ]
    return "\n".join(lines) + "\n"


def shown_name(plan: LaunchPlan) -> str:
    """The plan's name in one line, for a comment."""
    return " ".join(plan.name.split())


def _head(plan: LaunchPlan, node: NodePlan) -> list[str]:
    port = " [PORT]" if "port" in plan.slots else ""
    lines = [
        "#!/bin/sh",
        f"# {shown_name(plan)}: node {node.node_rank + 1} of {len(plan.nodes)}.",
        f"# Plan {plan.fingerprint}.",
        "#",
        f"# Usage: [RUN_DIR=folder] [RESUME=checkpoint] [PYTHON=interpreter] sh THIS-FILE{port}",
    ]
    if len(plan.nodes) > 1 and port:
        lines.append(f"# Start it on every node, with the same PORT (default {DEFAULT_PORT}) and ATTEMPT.")
    if plan.kind == "recipe":
        lines.append("# The recipe needs Torchdeck in that Python: pip install 'torchdeck[train]'.")
    return lines


def _word(text: str) -> str:
    """`text` as one word of the shell, its slots as variables."""
    word = ""
    for literal, name in split(text):
        word += f'"${{{VARIABLES[name]}}}"' if name else shlex.quote(literal)
    return word or "''"


def _default(text: str) -> str:
    """`text` as it can stand after `:-` in an assignment, where the shell splits nothing."""
    return _word(text)


def _port(plan: LaunchPlan) -> str:
    if len(plan.nodes) > 1 or "port" not in plan.slots:
        return f"PORT=${{1:-{DEFAULT_PORT}}}"
    return f'PORT=${{1:-$("$PYTHON" -c {shlex.quote(_FREE_PORT)})}}'


def _rank_folders(plan: LaunchPlan, node: NodePlan) -> list[str]:
    """Ranks find their folders made; telemetry goes there."""
    ranks = [rank.rank for rank in plan.ranks if rank.node_rank == node.node_rank]
    return [f'mkdir -p -- "$RUN_DIR/attempts/$ATTEMPT/ranks/{rank}"' for rank in ranks]


def _unset(node: NodePlan) -> list[str]:
    return [
        _UNSET_PREFIX.format(prefix=name[:-1]).rstrip() if name.endswith("*") else f"unset {name}"
        for name in node.unset
    ]


def _environment(node: NodePlan) -> list[tuple[str, str]]:
    """Exports; the shipped folder is left out of PYTHONPATH."""
    found = []
    for name, value in node.env.items():
        pieces = split(value)
        if ("", "shipped") not in pieces:
            found.append((name, _word(value)))
            continue
        rest = "".join(literal for literal, _ in pieces).lstrip(":")
        if rest:
            found.append((name, shlex.quote(rest)))
    return found


def _check(plan: LaunchPlan) -> list[str]:
    if plan.kind != "recipe":
        return []
    message = "echo \"$PYTHON has no torchdeck: pip install 'torchdeck[train]'\" >&2"
    return [f"\"$PYTHON\" -c 'import torchdeck.distributed' || {{ {message}; exit 3; }}"]


def _lines(words: list[str]) -> str:
    """Words over several lines, a flag and its value together."""
    text = words[0]
    for before, word in itertools.pairwise(words):
        separate = word.startswith(("-", '"$PYTHON"')) or not before.startswith("-")
        text += (" \\\n  " if separate else " ") + word
    return text
