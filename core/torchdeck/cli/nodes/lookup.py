"""The node inventory that a command line is about, and how commands say what is wrong with it."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.cli.output import REFUSED, USAGE
from torchdeck.contract.refusal import Refusal

if TYPE_CHECKING:
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.inventory.schema import NodeEntry
    from torchdeck.nodes.ssh.credentials import Asker
    from torchdeck.nodes.ssh.target import SshTarget


Handler = Callable[[argparse.Namespace], int]


class NodesUsageError(Refusal):
    """A command line that makes no sense with this node inventory; the message says why."""

    page = "machines#the-node-inventory"

    is_usage = True


def inventory_file() -> Path:
    """Where the node inventory of this home lies. Raises NodesUsageError."""
    from torchdeck.nodes.inventory.file import inventory_path
    from torchdeck.runs.home import torchdeck_home

    try:
        return inventory_path(torchdeck_home())
    except Refusal as error:
        raise NodesUsageError(error.finding, fix=error.fix, page=error.page) from error


def says_what_is_wrong(handler: Handler) -> Handler:
    """A handler that says what is wrong: exit code 2 for book and command line, 3 for what cannot be done."""

    @wraps(handler)
    def guarded(args: argparse.Namespace) -> int:
        from torchdeck.cli.refusals import print_pages, print_problems
        from torchdeck.config.problems import ConfigError

        try:
            return handler(args)
        except ConfigError as error:
            print_problems(error.parts(), as_json=getattr(args, "json", False))
            return USAGE
        except Refusal as error:
            print(f"torchdeck: {error}", file=sys.stderr)
            print_pages(error)
            return USAGE if error.is_usage else REFUSED
        except (TimeoutError, PermissionError) as error:
            print(f"torchdeck: {error}", file=sys.stderr)
            return REFUSED

    return guarded


# The nodes that a command line names, and how they are reached: a person is asked one thing at a time.

Around = Callable[[], AbstractContextManager[object]]
"""Context around a question: a live display must give way to it."""


class ChosenNodes(NamedTuple):
    """Nodes, and how to connect to them."""

    reach: Connector
    entries: dict[str, NodeEntry]
    """By name, in the order that they were named in."""


class InTurn:
    """Passes on one question at a time, as many nodes are connected to at once."""

    def __init__(self, asker: Asker, around: Around = nullcontext) -> None:
        self._asker = asker
        self._around = around
        self._lock = threading.Lock()

    def password(self, target: SshTarget, *, again: bool) -> str | None:
        with self._lock, self._around():
            return self._asker.password(target, again=again)

    def passphrase(self, path: Path, *, again: bool) -> str | None:
        with self._lock, self._around():
            return self._asker.passphrase(path, again=again)

    def trust(self, target: SshTarget, key_type: str, fingerprint: str) -> bool:
        with self._lock, self._around():
            return self._asker.trust(target, key_type, fingerprint)


def chosen_nodes(asked: Sequence[str], around: Around = nullcontext) -> ChosenNodes:
    """The nodes that `asked` names, all of the book where it is empty.

    Args:
        asked: names, groups, ranges and tags.
        around: surrounds what a person is asked at the terminal.

    Raises:
        HomeError, ConfigError, NodeNamesError: there is no such book or node.
        NodesUsageError: the book has no nodes.
    """
    from torchdeck.cli.nodes.asking import terminal_asker
    from torchdeck.nodes.connector import Connector
    from torchdeck.nodes.inventory.names import named_nodes

    home = inventory_file().parent
    reach = Connector(home, InTurn(terminal_asker(home), around))
    node_inventory = reach.node_inventory()
    names = named_nodes(node_inventory, list(asked)) if asked else list(node_inventory.nodes)
    if not names:
        raise NodesUsageError("there are no nodes yet; `torchdeck nodes add NAME ADDRESS` writes one down")
    return ChosenNodes(reach, {name: node_inventory.nodes[name] for name in names})
