"""What a headless start does before it knows that its run file is right: knock at the nodes it names.

A login takes its time on the node, and so does the start of a Python there; what checks the run file is
imported meanwhile. Torchdeck asks nobody anything before the file is known to be right, and lays nothing down
on a node.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from torchdeck.config.foreseen import Foreseen, foreseen

if TYPE_CHECKING:
    import argparse

    from torchdeck.launching.control.early_controller import EarlyController
    from torchdeck.nodes.connector import Connector

SWITCH_SECONDS = 0.0005
"""For which a thread that imports keeps waiting those that talk with nodes; a tenth of Python's own."""


class Ahead:
    """Conversations under way with the nodes of the run to be.

    Attributes:
        reach: how nodes are reached, by these conversations.
        early: the run's controller; None where none could be started.
    """

    def __init__(self, reach: Connector, early: EarlyController | None, open_talks: ExitStack) -> None:
        """Of what is under way; `open_talks` ends it."""
        self.reach = reach
        self.early = early
        self._open_talks = open_talks

    @contextmanager
    def talks(self) -> Iterator[Connector]:
        """`reach`; the conversations end with the block, and not the controller."""
        with self._open_talks:
            yield self.reach


@contextmanager
def knocking_ahead(args: argparse.Namespace) -> Iterator[Ahead | None]:
    """Conversations with the nodes that the command line seems to name; None where it seems to name none.

    What is wrong with anything is said by who checks it, later on. A controller that was not begun is gone
    after the block.
    """
    seen = foreseen(args.run_file, args.overrides)
    if seen is None:
        yield None
        return
    with ExitStack() as controllers, ExitStack() as talks:
        yield _knocked(seen, controllers, talks)


@contextmanager
def _quick_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _knocked(seen: Foreseen, controllers: ExitStack, talks: ExitStack) -> Ahead | None:
    from torchdeck.cli.nodes.asking import terminal_asker
    from torchdeck.config.problems import ConfigError
    from torchdeck.nodes.book.file import book_path
    from torchdeck.nodes.book.names import run_nodes
    from torchdeck.nodes.connector import Connector
    from torchdeck.runs.home import HomeError, torchdeck_home, usual_home

    try:
        if not book_path(usual_home()).exists():
            return None
        home = torchdeck_home()
        reach = Connector(home, terminal_asker(home))
        book = reach.book()
        names = [name for name in run_nodes(book, seen.nodes) if name in book.nodes]
    except (ConfigError, HomeError, ValueError):
        return None
    if not names:
        return None
    from torchdeck.launching.control.early_controller import EarlyController
    from torchdeck.nodes.ssh import loaded  # noqa: F401 - at once: both processes need it

    early = None
    with contextlib.suppress(OSError):
        early = EarlyController(home, seen.secrets, copied=True)
        controllers.callback(early.dismiss)
    begun = (lambda _name: None) if early is None else early.name
    talks.enter_context(_quick_turns())
    kept = talks.enter_context(reach.keeping_talks(names, begun))
    return Ahead(kept, early, talks)
