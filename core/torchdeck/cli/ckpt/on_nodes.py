"""Checkpoints that lie on a run's nodes: verified there, or brought here first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchdeck.cli.ckpt.lookup import OnNodesError
    from torchdeck.contract.layout import RunLayout
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.launching.pull.results import Sources
    from torchdeck.launching.pull.verification import Verified


def verify_there(asked: OnNodesError) -> list[Verified]:
    """Hash what was asked for where it lies, but for what is here, too.

    Raises:
        Refusal: a node does not answer, or there is no such checkpoint.
        OSError: this machine's own files cannot be read.
    """
    from torchdeck.cli.runs.pull import transfer_progress
    from torchdeck.launching.pull.results import find_checkpoints
    from torchdeck.launching.pull.verification import verify_on_nodes

    here = {info.path.name for info in asked.here if info.complete}
    with _sources(asked.layout) as (plan, sources), transfer_progress() as told:
        found = find_checkpoints(sources, plan, asked.layout.root.name, asked.which)
        return [verify_on_nodes(each, told) for each in found if each.name not in here]


def bring_here(asked: OnNodesError) -> Path:
    """Bring the checkpoint that was asked for into the run's directory; its folder.

    Raises:
        Refusal: a node does not answer, there is no such checkpoint, or not all of it.
        OSError: it cannot be written.
    """
    from torchdeck.cli.runs.pull import transfer_progress
    from torchdeck.launching.pull.fetching import NotWholeError
    from torchdeck.launching.pull.results import pull_checkpoints

    layout = asked.layout
    with _sources(layout) as (plan, sources), transfer_progress() as told:
        pulled = list(
            pull_checkpoints(sources, plan, layout.root.name, asked.which, layout.checkpoints, told)
        )
    if not pulled:
        raise NotWholeError("the run's nodes have no checkpoint")
    return Path(pulled[-1].path)


@contextmanager
def _sources(layout: RunLayout) -> Iterator[tuple[LaunchPlan, Sources]]:
    from torchdeck.cli.nodes.asking import terminal_asker
    from torchdeck.cli.nodes.chosen import InTurn
    from torchdeck.contract.atomic import read_json
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.launching.pull.fetching import NotWholeError
    from torchdeck.launching.pull.results import sources_of
    from torchdeck.nodes.connector import Connector

    plan = LaunchPlan.from_json(read_json(layout.plan))
    home = layout.home.root
    with sources_of(layout, plan, Connector(home, InTurn(terminal_asker(home)))) as sources:
        if not sources.places:
            raise NotWholeError("no node of the run answers", "; ".join(sources.refused.values()))
        yield plan, sources
