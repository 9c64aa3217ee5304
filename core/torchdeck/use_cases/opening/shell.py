"""Use case: a shell on a node, in the Python environment and folder of a run if it is for one.

The command is a value: a front end runs it in its own terminal, or in a terminal window.
"""

from __future__ import annotations

import posixpath
import sys
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.atomic import read_json
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.activation import known_content
from torchdeck.nodes.inventory.file import inventory_path, read_inventory
from torchdeck.nodes.ssh.login_shell import neutral_line
from torchdeck.nodes.ssh.ssh_command import ssh_argv
from torchdeck.nodes.ssh.target import target_of
from torchdeck.nodes.start_line import python_line
from torchdeck.use_cases.opening.programs import Programs
from torchdeck.use_cases.opening.start import start_program
from torchdeck.use_cases.opening.terminal import in_terminal

_ENTER = (
    "import os,sys; folder,programs=sys.argv[1:3]; env=os.environ; "
    "programs and env.update(PATH=programs+os.pathsep+env.get('PATH','')); "
    "above=os.path.dirname(programs); "
    "os.path.isfile(os.path.join(above,'pyvenv.cfg')) and env.update(VIRTUAL_ENV=above); "
    "(os.chdir(folder) if os.path.isdir(folder) else print(folder+' does not exist here',file=sys.stderr)) "
    "if folder else None; "
    "shell=env.get('SHELL') or '/bin/sh'; os.execvp(shell,[shell])"
)
"""Python, of any version from 3.6, that becomes the user's shell in a folder, with a folder first on PATH."""
_MOST = 4096


class ShellPlace(NamedTuple):
    """Where a shell begins."""

    folder: str = ""
    """Absolute path on the node; empty: the user's home."""
    programs: str = ""
    """Folder that comes first on PATH, such as `bin` of a virtual environment; empty: none."""


def shell_nodes(layout: RunLayout) -> tuple[str, ...]:
    """Return the nodes of a run; this machine if its plan cannot be read. Blocks."""
    found = tuple(str(node.get("name")) for node in _nodes(read_json(layout.plan)))
    return found or (LOCALHOST,)


def run_shell(layout: RunLayout, node: str | None, programs: Programs) -> tuple[str, ...]:
    """Return the words that start a shell for a run. Blocks.

    Args:
        layout: of the run.
        node: one of its nodes; None: its first one.
        programs: of this machine.

    Raises:
        Refusal: the run has no such node, or it cannot be reached from here.
    """
    nodes = shell_nodes(layout)
    if node is not None and node not in nodes:
        raise Refusal(f"run {layout.root.name} has no node {node}", fix=f"its nodes: {', '.join(nodes)}")
    name = node or nodes[0]
    return node_shell(name, layout.home.root, programs, _place(layout, name))


def node_shell(name: str, home: Path, programs: Programs, place: ShellPlace | None = None) -> tuple[str, ...]:
    """Return the words that start a shell on a node, in its Python environment. Blocks.

    Args:
        name: of the node inventory, or this machine.
        home: TORCHDECK_HOME.
        programs: of this machine.
        place: where it begins.

    Raises:
        ConfigError, TargetError: there is no such node.
        Refusal: this machine has no ssh, or the trust list cannot be read.
    """
    arguments = ("-I", "-c", _ENTER, *(place or ShellPlace()))
    if name == LOCALHOST:
        return (sys.executable, *arguments)
    inventory = read_inventory(inventory_path(home))
    target = target_of(name, inventory, home)
    entry = inventory.nodes[name]
    ssh = programs.find("ssh")
    if ssh is None:
        raise Refusal("this machine has no ssh program", fix="install the client of OpenSSH")
    trusted = None if entry.activate is None else known_content(home, name, entry.activate)
    return ssh_argv(entry, target, neutral_line(python_line(entry, arguments, trusted)), ssh)


def open_terminal(argv: tuple[str, ...], programs: Programs) -> None:
    """Open a terminal window that runs a command.

    Raises:
        NoTerminalError, Refusal: there is none, or it cannot be started.
    """
    start_program(in_terminal(argv, programs))


def _place(layout: RunLayout, name: str) -> ShellPlace:
    """Return folder and Python of a run on a node, from the newest plan that has them filled in."""
    newest = max(layout.attempt_numbers(), default=0)
    plans = [layout.plan]
    if newest:
        attempt = layout.attempt(newest)
        plans = [attempt.node(name).plan, attempt.plan, layout.plan]
    for path in plans:
        for node in _nodes(read_json(path)):
            if node.get("name") == name:
                return ShellPlace(_absolute(node.get("working_dir")), _absolute(_python(node), above=True))
    return ShellPlace()


def _python(node: dict[str, Any]) -> object:
    command = node.get("command")
    return command[0] if isinstance(command, list) and command else ""


def _absolute(value: object, *, above: bool = False) -> str:
    """Return a path, or the folder of a program; empty unless it is an absolute path without slots."""
    if not isinstance(value, str) or not value.startswith("/") or "@{" in value or len(value) > _MOST:
        return ""
    path = posixpath.dirname(value) if above else value
    return path if path.isprintable() else ""


def _nodes(document: object) -> list[dict[str, Any]]:
    nodes = document.get("nodes") if isinstance(document, dict) else None
    return [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
