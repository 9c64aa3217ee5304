"""Transfer of the checkpoints that a script wrote by itself from the nodes that have them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath

from torchdeck.contract.layout import RunLayout
from torchdeck.launching.pull.checkpoints import STAGING
from torchdeck.launching.pull.fetching import NotWholeError, fetch_checked
from torchdeck.launching.pull.result_files import ALL, NEWEST, Counter, OnProgress, Pulled, Sources, inside
from torchdeck.nodes.probe.remote_files import RemoteFiles
from torchdeck.runs.folders.checkpoints import ScriptCheckpoint, pulled_place
from torchdeck.trainers.checkpoints.checkpoint_kinds import FILE_KINDS
from torchdeck.trainers.checkpoints.checkpoint_search import look_at
from torchdeck.trainers.checkpoints.folders import TRACKERS


def chosen(found: Sequence[ScriptCheckpoint], which: str) -> list[ScriptCheckpoint]:
    """Return those that `which` names: a step, a name, `latest` or `all`; of one name the parts on all nodes.

    Raises:
        NotWholeError: there is no such checkpoint.
    """
    if which == ALL or not found:
        return list(found)
    newest = found[-1]
    named = [
        each
        for each in found
        if (each.name == newest.name if which == NEWEST else which in (each.name, str(each.saved.step)))
    ]
    if not named:
        there = ", ".join(dict.fromkeys(each.name for each in found))
        raise NotWholeError(f"the run has no checkpoint {which}; there are: {there}")
    return named


def pull_script_checkpoints(
    layout: RunLayout,
    sources: Sources,
    found: Sequence[ScriptCheckpoint],
    target: Path,
    on_progress: OnProgress,
) -> Iterator[Pulled]:
    """Fetch checkpoints to `target`, each completely or not at all, one after the other.

    Args:
        layout: of the run.
        sources: nodes of the run.
        found: checkpoints; those that are here already are reported so.
        target: folder for them here.
        on_progress: called with the progress.

    Raises:
        NotWholeError: a node that has one does not answer, or it changed meanwhile.
        ProbeError, SshError: a node does not answer any more.
        OSError: it cannot be written.
    """
    for each in found:
        label = f"{each.name} of {each.node or each.pulled_from}"
        if not each.node:
            if each.pulled_from:
                yield Pulled(label, each.saved.path, each.saved.size, new=False)
            continue
        files, _ = place_on(sources, each.node)
        place = pulled_place(layout, each, target)
        if not place.resolve().is_relative_to(target.resolve()):
            raise NotWholeError(f"{place} is a link to somewhere else", fix="remove it")
        size = _pull(files, each, place, label, on_progress)
        yield Pulled(label, str(place), size, new=True)


def place_on(sources: Sources, node: str) -> tuple[RemoteFiles, str]:
    """Return a node's files, and the run's folder there. Raises NotWholeError if it does not answer."""
    if node not in sources.places:
        why = sources.refused.get(node, "it is no node of the run")
        raise NotWholeError(f"node {node} does not answer: {why}")
    return sources.places[node]


def _pull(
    files: RemoteFiles, found: ScriptCheckpoint, place: Path, label: str, on_progress: OnProgress
) -> int:
    """Bring one to `place`; its bytes."""
    path = found.saved.path
    listed = files.tree(path)
    if not listed:
        raise NotWholeError(f"{path} no longer exists on node {found.node}", fix="choose another step")
    size = sum(file.size for file in listed)
    counter = Counter(label, size, on_progress)
    staging = place.with_name(f"{STAGING}{place.name}") / place.name
    for file in listed:
        if found.saved.kind in FILE_KINDS:
            fetch_checked(files, str(PurePosixPath(path).parent), file, staging, counter)
        else:
            fetch_checked(files, path, file, inside(staging, file.name), counter)
    _leave_only({file.name for file in listed}, staging)
    tracker = _tracker(files, found, staging.parent)
    here = look_at(staging)
    if files.tree(path) != listed or here is None or here.incomplete:
        why = "" if here is None or not here.incomplete else f": {here.incomplete}"
        raise NotWholeError(f"{path} changed while it was being copied{why}", fix="pull again")
    if tracker is not None:
        tracker.replace(place.parent / tracker.name)
    _remove(place)
    staging.rename(place)
    shutil.rmtree(staging.parent)
    return size


def _tracker(files: RemoteFiles, found: ScriptCheckpoint, target: Path) -> Path | None:
    """Bring the file next to it that says that it is complete; None if its kind has none."""
    name = TRACKERS.get(found.saved.kind)
    folder = str(PurePosixPath(found.saved.path).parent)
    for file in files.tree(f"{folder}/{name}") if name else ():
        fetch_checked(files, folder, file, target / file.name, _not_shown)
        return target / file.name
    return None


def _not_shown(_count: int) -> None:
    """The progress of a few bytes."""


def _leave_only(names: Collection[str], staging: Path) -> None:
    """Remove what an earlier, interrupted transfer of another save has left."""
    for folder, _, files in os.walk(staging):
        for name in files:
            path = Path(folder, name)
            if str(path.relative_to(staging)) not in names:
                path.unlink()


def _remove(place: Path) -> None:
    """An earlier copy, of another save."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
