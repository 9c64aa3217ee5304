"""Command and environment of a node as text, and exported scripts. Without Qt."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from torchdeck.config.machines.slurm import Slurm
from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.contract.plan.slots import split
from torchdeck.plan.export.sbatch_script import export_sbatch
from torchdeck.plan.export.shell_script import export_sh

HIDDEN = "••••••"
"""Placeholder of a secret value."""
_SECRET = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|(^|_)KEY|_PASS)$")


class Kind(Enum):
    """Kind of a piece of text."""

    PLAIN = 0
    NAME = 1
    """Name of a flag or variable."""
    SLOT = 2
    """Filled in at launch."""
    COMMENT = 3


class Piece(NamedTuple):
    text: str
    kind: Kind = Kind.PLAIN
    tip: str = ""


Line = tuple[Piece, ...]


def node_lines(plan: LaunchPlan, node: NodePlan) -> tuple[Line, ...]:
    """Return what `node` executes: argv, environment, unset variables, and values of the slots."""
    unset = [Piece(", ".join(node.unset))] if node.unset else [Piece("nothing", Kind.COMMENT)]
    return (
        _comment(f"{_called(node)}, node {node.node_rank + 1:,} of {len(plan.nodes):,}, executes in"),
        _commented(_pieces(plan, node.working_dir)),
        (),
        *_argv_lines(plan, node.torchrun),
        *_argv_lines(plan, node.rank_holder, indent=True),
        *_argv_lines(plan, node.command, indent=True),
        (),
        _comment("with"),
        *_variables(plan, node),
        (),
        _comment("and without"),
        tuple(unset),
        *_slot_lines(plan),
    )


def command_line(plan: LaunchPlan, node: NodePlan) -> str:
    """Return one shell command that starts the ranks of `node` without Torchdeck: its exported script."""
    return shlex.join(["sh", "-c", export_sh(plan, node)])


def plain(lines: Sequence[Line]) -> str:
    """Return only the text."""
    return "\n".join("".join(piece.text for piece in line) for line in lines)


def is_secret(name: str) -> bool:
    """Return whether a variable of this name usually has a secret value."""
    return _SECRET.search(name.upper()) is not None


def _commented(pieces: Iterator[Piece]) -> Line:
    """Return a value followed by a comment; its slots stay slots."""
    plain = (piece._replace(kind=Kind.COMMENT) if piece.kind is Kind.PLAIN else piece for piece in pieces)
    return (Piece("#   ", Kind.COMMENT), *plain)


def _comment(text: str) -> Line:
    return (Piece(f"# {text}", Kind.COMMENT),)


def _called(node: NodePlan) -> str:
    """Return its name, and its address if that is different."""
    return node.name if node.address == node.name else f"{node.name} ({node.address})"


def _argv_lines(plan: LaunchPlan, argv: Sequence[str], *, indent: bool = False) -> Iterator[Line]:
    """Return a line for the program, then one for each flag with its value."""
    groups: list[list[str]] = []
    for before, word in itertools.pairwise(("", *argv)):
        if before.startswith("-") and not word.startswith("-") and groups:
            groups[-1].append(word)
        else:
            groups.append([word])
    for number, group in enumerate(groups):
        margin = "  " if indent or number else ""
        pieces = [Piece(margin)]
        for at, word in enumerate(group):
            flag = word.startswith("-") and at == 0
            pieces += [Piece(" ")] if at else []
            pieces += [Piece(word, Kind.NAME)] if flag else _pieces(plan, word, quoted=True)
        yield tuple(pieces)


def _pieces(plan: LaunchPlan, text: str, *, quoted: bool = False) -> Iterator[Piece]:
    """Split `text` at its slots, as shell words if `quoted`."""
    found = split(text)
    if not found and quoted:
        yield Piece("''")
    for literal, name in found:
        if name:
            yield Piece(f"@{{{name}}}", Kind.SLOT, plan.slots.get(name, ""))
        else:
            yield Piece(shlex.quote(literal) if quoted else _in_one_line(literal))


def _variables(plan: LaunchPlan, node: NodePlan) -> Iterator[Line]:
    for name, value in sorted(node.env.items()):
        shown = [Piece(HIDDEN, Kind.COMMENT, "not shown")] if is_secret(name) else _pieces(plan, value)
        yield (Piece(name, Kind.NAME), Piece("="), *shown)
    for name in node.secrets:
        yield (Piece(name, Kind.NAME), Piece("="), Piece(HIDDEN, Kind.COMMENT, "handed over at launch"))


def _slot_lines(plan: LaunchPlan) -> Iterator[Line]:
    if not plan.slots:
        return
    yield ()
    yield _comment("filled in at launch")
    width = max(map(len, plan.slots)) + 3
    for name, filler in plan.slots.items():
        yield (
            Piece(f"@{{{name}}}", Kind.SLOT, filler),
            Piece(" " * (width - len(name))),
            Piece(filler, Kind.COMMENT),
        )


def _in_one_line(text: str) -> str:
    return text if text.isprintable() else repr(text)


# Export of scripts that start a plan without Torchdeck. Without Qt.


def write_script(plan: LaunchPlan, node: NodePlan, path: Path) -> Path:
    """Write the shell script of one node.

    Raises:
        OSError: the file cannot be written.
    """
    write_bytes(path, export_sh(plan, node).encode("utf-8"))
    path.chmod(0o755)
    return path


def write_scripts(plan: LaunchPlan, folder: Path, check: Callable[[], None]) -> Path:
    """Write the script of every node to `folder`, named after the node; raises as `write_script` does.

    Args:
        plan: plan to export.
        folder: an existing folder.
        check: called between nodes; an exception from it ends the export.
    """
    for node in plan.nodes:
        check()
        write_script(plan, node, folder / f"{node.name}.sh")
    return folder


def write_job(plan: LaunchPlan, path: Path, slurm: Slurm | None = None) -> Path:
    """Write the single script with which Slurm's sbatch starts all nodes, with the options of `slurm`.

    Raises:
        OSError: the file cannot be written.
    """
    write_bytes(path, export_sbatch(plan, slurm).encode("utf-8"))
    return path


def held_secrets(nodes: Iterable[NodePlan], is_secret: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the names of variables whose secret values a script of `nodes` contains."""
    return tuple(sorted({name for node in nodes for name in node.env if is_secret(name)}))
