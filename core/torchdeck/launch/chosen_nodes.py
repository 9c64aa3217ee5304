"""Which nodes a run file chooses, by the node book, and beginning to talk with them before all else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchdeck.config.chosen_nodes import described_names
from torchdeck.config.problems import ConfigError
from torchdeck.config.ranges import parse_range
from torchdeck.config.schema import RunConfig
from torchdeck.nodes.book.names import NodeNamesError, members
from torchdeck.nodes.book.schema import NodeBook
from torchdeck.nodes.inventory import LOCALHOST

if TYPE_CHECKING:
    from torchdeck.launch.reach import Reach


def chosen(config: RunConfig, book: NodeBook, described: frozenset[str]) -> list[str]:
    """The nodes that `config` names, groups and tags of the book taken apart.

    A range takes nodes of the book in its order, where nothing is described in the run file.

    Args:
        config: whose.
        book: which nodes and groups there are.
        described: what [cluster] describes; such names are not looked up.
    """
    nodes = config.distributed.nodes
    if isinstance(nodes, str):
        return [] if described else list(book.nodes)[: parse_range(nodes).most]
    found: list[str] = []
    for text in nodes:
        try:
            found += [text] if text == LOCALHOST or text in described else members(book, text)
        except NodeNamesError:
            found.append(text)  # placement says that nothing is known about it, and what is
    return list(dict.fromkeys(found))


@contextmanager
def knocking(config: RunConfig, reach: Reach | None) -> Iterator[Reach | None]:
    """`reach` with conversations under way with the nodes of `config`: logins wait for other machines.

    They stay open until the block ends. What stands in their way is said to who asks, as without this.
    """
    if reach is None:
        yield None
        return
    from torchdeck.nodes.ssh import loaded  # noqa: F401 - at once, and not in a thread beside other imports

    with reach.keeping_talks(_in_book(config, reach)) as kept:
        yield kept


def _in_book(config: RunConfig, reach: Reach) -> list[str]:
    """Those that can be reached; that the book is damaged is said by who looks at the nodes."""
    try:
        book = reach.book()
    except ConfigError:
        return []
    names = chosen(config, book, frozenset(described_names(config)))
    return [name for name in names if name in book.nodes]
