"""Bring what a run has made on other nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.contract.refusal import Refusal
from torchdeck.launching.pull.result_files import Pulled
from torchdeck.use_cases.ui import Ui

if TYPE_CHECKING:
    from torchdeck.contract.layout import RunLayout
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.launching.pull.result_files import Sources

__all__ = ["Pull", "PullRequest", "Pulled", "pull"]
PULLED = "pulled"
"""Folder in the run's directory here for node output other than checkpoints."""
Transfer = Callable[[str, int, int], None]
"""Told what is brought, how many bytes are here, and of how many."""


@dataclass(frozen=True)
class PullRequest:
    """Request to bring results here."""

    layout: RunLayout
    checkpoints: str = "latest"
    """A step, `latest`, `all` or `none`."""
    to: Path | None = None
    """A folder instead of the run's directory here."""


@dataclass(frozen=True)
class Pull:
    """Result of a pull: what is here now, and what is not."""

    pulled: tuple[Pulled, ...]
    problems: tuple[str, ...]


def pull(
    request: PullRequest,
    ui: Ui,
    each: Callable[[Pulled], None] = lambda _pulled: None,
    transfer: AbstractContextManager[Transfer] | None = None,
) -> Pull:
    """Copy checkpoints and outputs; an interrupted transfer continues.

    Args:
        request: what.
        ui: the front end.
        each: called with each thing once it is here.
        transfer: entered while things are brought.
    """
    from torchdeck.contract.atomic import read_json
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.launching.pull.fetching import NotWholeError
    from torchdeck.launching.pull.result_files import sources_of
    from torchdeck.runs.follower import read_run
    from torchdeck.runs.view import IMPORTED

    layout = request.layout
    view = read_run(layout)
    if view.kind == IMPORTED:
        raise Refusal(f"{view.name} was imported: what it wrote is on this machine already, in {view.target}")
    pulled: list[Pulled] = []
    problems: list[str] = []
    try:
        plan = LaunchPlan.from_json(read_json(layout.plan))
        with sources_of(layout, plan, ui.connector(layout.home.root)) as sources:
            problems += sources.refused.values()
            with transfer or nullcontext(lambda _what, _done, _total: None) as told:
                for found in _pulls(request, plan, sources, told):
                    pulled.append(found)
                    each(found)
    except NotWholeError as error:  # pulling again may not help; it says what does
        problems.append(str(error))
    except (Refusal, OSError) as error:
        problems.append(f"{error}; `torchdeck runs pull {layout.root.name}` continues from here")
    return Pull(tuple(pulled), tuple(problems))


def _pulls(request: PullRequest, plan: LaunchPlan, sources: Sources, transfer: Transfer) -> Iterator[Pulled]:
    from torchdeck.launching.pull.result_files import NONE, pull_checkpoints, pull_outputs
    from torchdeck.launching.pull.script_checkpoints import chosen, pull_script_checkpoints
    from torchdeck.runs.folders.checkpoints import script_checkpoints

    layout, to = request.layout, request.to
    checkpoints = layout.checkpoints if to is None else to / layout.checkpoints.name
    of_script = script_checkpoints(layout, with_copies=to is None)
    if request.checkpoints != NONE and of_script:
        asked = chosen(of_script, request.checkpoints)
        yield from pull_script_checkpoints(layout, sources, asked, checkpoints, transfer)
    elif request.checkpoints != NONE:
        yield from pull_checkpoints(
            sources, plan, layout.root.name, request.checkpoints, checkpoints, transfer
        )
    on_nodes = [each.saved.path for each in script_checkpoints(layout, with_copies=False)]
    yield from pull_outputs(sources, plan, (to or layout.root) / PULLED, transfer, on_nodes)
