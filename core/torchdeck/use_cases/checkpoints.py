"""Checkpoints that lie on a run's nodes: verified there, or brought here."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.launching.pull.fetching import NotWholeError
from torchdeck.launching.pull.results import find_checkpoints, pull_checkpoints, sources_of
from torchdeck.launching.pull.verification import Verified, verify_on_nodes
from torchdeck.use_cases.pull import Transfer
from torchdeck.use_cases.ui import Ui

if TYPE_CHECKING:
    from torchdeck.contract.layout import RunLayout
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.launching.pull.results import Sources

__all__ = ["Verified", "bring_checkpoint", "verify_there"]


def verify_there(
    layout: RunLayout,
    which: str,
    ui: Ui,
    transfer: AbstractContextManager[Transfer],
    here: Collection[str] = (),
) -> list[Verified]:
    """Hash checkpoints where they lie.

    Args:
        layout: of the run.
        which: a step, a name, `latest` or `all`.
        ui: the front end.
        transfer: entered while they are read.
        here: names of those that need not be looked at, as they lie here.

    Raises:
        Refusal: a node does not answer, or there is no such checkpoint.
        OSError: this machine's own files cannot be read.
    """
    with _sources(layout, ui) as (plan, sources), transfer as told:
        found = find_checkpoints(sources, plan, layout.root.name, which)
        return [verify_on_nodes(each, told) for each in found if each.name not in here]


def bring_checkpoint(
    layout: RunLayout, which: str, ui: Ui, transfer: AbstractContextManager[Transfer]
) -> Path:
    """Bring a checkpoint into the run's directory; its folder. Arguments are those of `verify_there`.

    Raises:
        Refusal: a node does not answer, there is no such checkpoint, or not all of it.
        OSError: it cannot be written.
    """
    with _sources(layout, ui) as (plan, sources), transfer as told:
        pulled = list(pull_checkpoints(sources, plan, layout.root.name, which, layout.checkpoints, told))
    if not pulled:
        raise NotWholeError("the run's nodes have no checkpoint")
    return Path(pulled[-1].path)


@contextmanager
def _sources(layout: RunLayout, ui: Ui) -> Iterator[tuple[LaunchPlan, Sources]]:
    from torchdeck.contract.atomic import read_json
    from torchdeck.contract.plan.launch_plan import LaunchPlan

    plan = LaunchPlan.from_json(read_json(layout.plan))
    with sources_of(layout, plan, ui.connector(layout.home.root)) as sources:
        if not sources.places:
            raise NotWholeError("no node of the run answers", "; ".join(sources.refused.values()))
        yield plan, sources
