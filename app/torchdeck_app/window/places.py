"""The three places, and what each needs to be made."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck_app.bridge.operations import Operations
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.place import Place
from torchdeck_app.window.connections import LAUNCH, NODES, RUNS
from torchdeck_app.window.place_stack import PlaceEntry

if TYPE_CHECKING:  # it imports much, and the first paint waits for nothing
    from torchdeck_app.bridge.logins import Logins
    from torchdeck_app.bridge.run_list import RunListPoller

# With what their threads would import when they first need it: of a package that two threads import at once,
# as the importer's does for the next place, one of them sees a half.
RUN_LIST_MODULES = (
    "torchdeck_app.bridge.run_list", "torchdeck.metrics", "torchdeck.launching.control.kept_controller",
)  # fmt: skip
_RUNS_MODULES = (*RUN_LIST_MODULES, "torchdeck.distributed.settings", "torchdeck_app.runs.place")
_LOGIN_MODULES = ("torchdeck_app.bridge.logins", "torchdeck_app.nodes.asking.window_asker")


def place_entries(
    theme: Theme, operations: Operations, home: Path, run_list: Callable[[], RunListPoller]
) -> tuple[PlaceEntry, ...]:
    """The places of the window. What they import is imported after the first paint.

    Args:
        theme: of the window.
        operations: for what blocks.
        home: TORCHDECK_HOME.
        run_list: gives the one poller of the runs, for all who show some of them.
    """

    @cache
    def logins() -> Logins:
        from torchdeck_app.bridge.logins import make_logins
        from torchdeck_app.nodes.asking.window_asker import WindowAsker

        asker = WindowAsker(home, operations)
        return make_logins(home, asker, asker.ask_again)

    def launch() -> Place:
        from torchdeck_app.launch.place import LaunchPlace

        return LaunchPlace(theme, operations, home, logins=logins())

    def runs() -> Place:
        from torchdeck_app.runs.place import RunsPlace

        return RunsPlace(theme, operations, home, run_list(), logins=logins())

    def nodes() -> Place:
        from torchdeck_app.nodes.place import NodesPlace

        return NodesPlace(theme, operations, home, logins=logins())

    return (
        PlaceEntry(LAUNCH, "launch", ("torchdeck_app.launch.place", *_LOGIN_MODULES), launch),
        PlaceEntry(RUNS, "runs", (*_RUNS_MODULES, *_LOGIN_MODULES), runs),
        PlaceEntry(NODES, "nodes", ("torchdeck_app.nodes.place", *_LOGIN_MODULES), nodes),
    )
