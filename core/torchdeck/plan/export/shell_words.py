"""A node's part of a plan in words of a POSIX shell, byte for byte, slots as variables."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping, Sequence

from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan, NodePlan
from torchdeck.contract.plan.slots import escape, slot, split
from torchdeck.shown_text import shown_line

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
umask 077
mkdir -p -m 700 -- "$RUN_DIR"
RUN_DIR=$(cd -- "$RUN_DIR" && pwd)
case $RUN_DIR in
*[\\"\\\\:]*) echo "RUN_DIR may hold no quotes, backslashes or colons: $RUN_DIR" >&2; exit 2 ;;
esac
"""
"""The run's folder is made, and can stand in JSON and in a path of modules."""

CODE_PLACE = """\
CODE=$(cd -- "$CODE" && pwd)
case $CODE in
*[\\"\\\\:]*) echo "CODE may hold no quotes, backslashes or colons: $CODE" >&2; exit 2 ;;
esac"""
"""The folder of code is there, and can stand in JSON and in a path of modules."""

_UNSET_PREFIX = """\
for name in $(env | sed -n 's/^\\({prefix}[A-Za-z0-9_]*\\)=.*/\\1/p'); do unset "$name"; done
"""


def shown_name(plan: LaunchPlan) -> str:
    """The plan's name in one line, for a comment."""
    return shown_line(plan.name)


def word(text: str) -> str:
    """`text` as one word of the shell, slots as variables; as good after `=` and in `${NAME:-…}`."""
    made = ""
    for literal, name in split(text):
        made += f'"${{{VARIABLES[name]}}}"' if name else shlex.quote(literal)
    return made or "''"


def code_default(code: CodeTree) -> str:
    """A command that sets CODE where it is not set, to the user's folder."""
    if not code.folder:
        return ': "${CODE:?is the folder of your code on the nodes: set it}"'
    return f"CODE=${{CODE:-{word(escape(code.folder))}}}"


def code_said(code: CodeTree) -> list[str]:
    """Lines of a script's head about CODE."""
    default = f": {shown_line(code.folder)}" if code.folder else " is none"
    return [
        "# CODE is the folder of your code, at the same path on every node: copy it there first, as",
        f"# Torchdeck does for a run of its own. The default{default}.",
    ]


def removals(node: NodePlan) -> list[str]:
    """Commands that remove the variables that the plan wants removed."""
    return [
        _UNSET_PREFIX.format(prefix=name[:-1]).rstrip() if name.endswith("*") else f"unset {name}"
        for name in node.unset
    ]


def environment(node: NodePlan) -> dict[str, str]:
    """Variable → its value as a word; the shipped folder is left out of PYTHONPATH."""
    found = {}
    for name, value in node.env.items():
        rest = without_bundle(value)
        if rest or rest == value:
            found[name] = word(rest)
    return found


def without_bundle(text: str) -> str:
    """`text`, a path of modules, without the shipped folder and the node's own; any other text as it is."""
    pieces = split(text)
    if ("", "shipped") not in pieces:
        return text
    left_out = ("shipped", "node_path")
    kept = (slot(name) if name else escape(literal) for literal, name in pieces if name not in left_out)
    return "".join(kept).lstrip(":")


def secrets_needed(node: NodePlan) -> list[str]:
    """Commands that end the script where a secret of the run is not in the environment."""
    return [f': "${{{name}:?is a secret of this run: export it}}"' for name in node.secrets]


def torchdeck_needed(plan: LaunchPlan) -> list[str]:
    """A command that ends the script where a recipe's node has no Torchdeck in its Python."""
    if plan.kind != "recipe":
        return []
    message = "echo \"$PYTHON has no torchdeck: pip install 'torchdeck[train]'\" >&2"
    return [f"\"$PYTHON\" -c 'import torchdeck.distributed' || {{ {message}; exit 3; }}"]


def over_lines(words: Sequence[str]) -> str:
    """Words over several lines, a flag and its value together."""
    text = words[0]
    for before, following in itertools.pairwise(words):
        separate = following.startswith(("-", '"$PYTHON"')) or not before.startswith("-")
        text += (" \\\n  " if separate else " ") + following
    return text
