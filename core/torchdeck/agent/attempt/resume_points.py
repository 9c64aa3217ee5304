"""Which checkpoints a node of several can resume from, and the one that they can resume from together."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchdeck.agent.gang.events import ResumePoint
from torchdeck.trainers.checkpoints.folders import TRACKERS

if TYPE_CHECKING:
    from torchdeck.contract.checkpoints.listing import CheckpointInfo
    from torchdeck.contract.checkpoints.manifest import Manifest

OWN = "own"
ASKED = "asked"
SCRIPT = "script"


class AttemptError(Exception):
    """An attempt cannot start: what it should resume from is not usable."""


def resume_points(
    policy: str,
    directory: Path,
    run_id: str,
    number: int,
    damaged: Callable[[str, str], None],
    *,
    first: bool,
) -> tuple[ResumePoint, ...]:
    """Return the resume points of attempt `number` on this node, best first.

    As `attempt_plan.resume_from` chooses for a node alone, but older ones are included too: another node may
    lack the newest.

    Args:
        policy: checkpoint.resume, as in the plan.
        directory: the run's checkpoint directory on this node.
        run_id: run whose checkpoints later attempts resume from.
        number: of the attempt, from 1.
        damaged: called with (path, why) of every checkpoint that was skipped because of its hashes.
        first: this node hashes what all nodes share; the others only their own files.

    Raises:
        AttemptError: the checkpoint to resume from is not sound.
    """
    from torchdeck.contract.checkpoints.choose import choose_checkpoint
    from torchdeck.contract.checkpoints.manifest import CheckpointError, read_manifest

    try:
        own = _sound(directory, run_id, damaged, OWN, first=first) if number > 1 else ()
        if own or policy == "never":
            return own
        if policy == "auto":
            return _sound(directory, None, damaged, OWN, first=first)
        if not Path(policy).is_dir():
            return ()  # another node may have it, with copies of what this one lacks
        choice = choose_checkpoint(directory, policy)
        if choice.folder is None or choice.folder == Path(policy):
            point = ResumePoint(ASKED, "", choice.step)
            return (point if choice.folder is None else _of_parts(point, read_manifest(choice.folder)),)
        return _sound(Path(policy), None, damaged, ASKED, first=first)
    except CheckpointError as error:
        raise AttemptError(f"cannot resume: {error}") from error


def common_point(offers: Mapping[str, Sequence[ResumePoint]], policy: str = "auto") -> ResumePoint | None:
    """The best one that the nodes have together; None if no node has any.

    One that lies in a single folder must be there on every node. Of one whose files lie on several nodes each
    part must be on some node, so that the ranks can bring them together: a node that has taken the place of
    another one has none, and copies of what the other one saved lie elsewhere (checkpoint.replicas).

    Args:
        offers: by node, in order of node rank.
        policy: checkpoint.resume, as in the plan.

    Raises:
        AttemptError: some have checkpoints, and there is none that is whole; or the one asked for is nowhere.
    """
    if not any(offers.values()):
        if policy in ("auto", "never", ""):
            return None
        raise AttemptError(f"cannot resume: no node has a checkpoint {policy}: give the path of its folder")
    of_script = {node: [each for each in points if each.source == SCRIPT] for node, points in offers.items()}
    if any(of_script.values()):
        return common_script_point(of_script)
    for point in _best_first(offers):
        of_each = [[own for own in points if own.everywhere == point] for points in offers.values()]
        here = {part for points in of_each for own in points for part in own.here}
        if here.issuperset(point.parts) if point.parts else all(of_each):
            return point
    has = "; ".join(
        f"{node} has {', '.join(_shown(point) for point in points[:3]) or 'none'}"
        for node, points in offers.items()
    )
    raise AttemptError(
        f"cannot resume: no checkpoint exists on every node ({has}). Copy a node's missing part back, or "
        'start over with checkpoint.resume = "never"; checkpoint.replicas = 1 keeps copies on other nodes'
    )


def common_script_point(offers: Mapping[str, Sequence[ResumePoint]]) -> ResumePoint:
    """The newest checkpoint of a script that is complete on every node: each of them reads all of it.

    Args:
        offers: by node, in order of node rank; newest first. `here` is empty if the run did not save it there
            itself: it was copied to that node.

    Raises:
        AttemptError: there is none.
    """
    saved = [point for points in offers.values() for point in points if point.here or not point.name]
    saved.sort(key=lambda each: -each.created)
    for point in saved:
        if all(any(_is_same(point, each) for each in points) for points in offers.values()):
            return point.everywhere
    if not saved:
        raise AttemptError("cannot resume: no node has a checkpoint that this run saved")
    newest = saved[0]
    missing = [node for node, points in offers.items() if not any(_is_same(newest, each) for each in points)]
    has = "; ".join(
        f"{node} has {', '.join(_shown(point) for point in points[:3]) or 'none'}"
        for node, points in offers.items()
    )
    raise AttemptError(
        f"cannot resume: no checkpoint of the script is complete on every node ({has}). Copy "
        f"{_shown(newest)}{_beside(newest)} to the same folder on {', '.join(missing)}, save to a disk that "
        "all nodes share, or let the trainer save on each node (Hugging Face: --save_on_each_node true); "
        "`torchdeck runs clone` starts over"
    )


def _beside(point: ResumePoint) -> str:
    """Name the file next to a script's checkpoint without which it is not complete."""
    name = next((tracker for kind, tracker in TRACKERS.items() if kind.value == point.save), "")
    return f" and the file {name} next to it" if name else ""


def _is_same(one: ResumePoint, other: ResumePoint) -> bool:
    """Each node has its own time of the save, if disks are not shared."""
    return (one.name, one.step) == (other.name, other.step)


def _best_first(offers: Mapping[str, Sequence[ResumePoint]]) -> list[ResumePoint]:
    """All that any node has, each once; of the same step what was saved last."""
    found = dict.fromkeys(point.everywhere for points in offers.values() for point in points)
    return sorted(found, key=lambda point: (-point.step, -point.created))


def point_folder(point: ResumePoint, policy: str, directory: Path) -> Path:
    """Path of the checkpoint on this node."""
    base = directory if point.source == OWN else Path(policy)
    return base / point.name if point.name else base


def check_point(folder: Path, point: ResumePoint) -> None:
    """Whether this node's part of the checkpoint is there.

    Of one whose files lie on several nodes that is for the ranks to find out, which bring them together.

    Raises:
        AttemptError: it is not, or it is of another step.
    """
    if point.parts:
        return
    from torchdeck.contract.checkpoints.listing import inspect
    from torchdeck.contract.checkpoints.manifest import CheckpointError, read_manifest

    found = inspect(folder)
    try:
        step = found.step if found is not None else read_manifest(folder).step
    except CheckpointError as error:
        raise AttemptError(f"cannot resume from step {point.step}: {error}") from error
    if found is not None and not found.complete:
        raise AttemptError(f"cannot resume from step {point.step}: {found.why}")
    if step != point.step:
        raise AttemptError(f"cannot resume: {folder} holds step {step} here, and {point.step} on the leader")


def _sound(
    directory: Path,
    run_id: str | None,
    damaged: Callable[[str, str], None],
    source: str,
    *,
    first: bool,
) -> tuple[ResumePoint, ...]:
    if not directory.is_dir():
        return ()
    from torchdeck.contract.checkpoints.choose import Refused, all_damaged, candidates, summary
    from torchdeck.contract.checkpoints.verification import verify

    found: list[ResumePoint] = []
    refused: list[Refused] = []
    sound = False
    for info in candidates(directory, run_id):
        mine = info.manifest is not None and info.manifest.node is not None
        # the newest is hashed, as it is likely to be chosen: on every disk that has a part of it, once
        hashed = info.complete and not sound and (first or mine)
        problems = verify(info.path) if hashed else [] if info.complete else [info.why]
        if not problems:
            sound = True
            found.append(_point(source, info))
            continue
        refused.append(Refused(info.path, summary(problems)))
        damaged(str(info.path), summary(problems))
        if info.manifest is not None and info.manifest.has_copies:  # which may stand in for what is here
            found.append(_point(source, info)._replace(here=()))
    if refused and not found:
        raise all_damaged(directory, refused)
    return tuple(found)


def _point(source: str, info: CheckpointInfo) -> ResumePoint:
    point = ResumePoint(source, info.path.name, info.step)
    return point if info.manifest is None else _of_parts(point, info.manifest)


def _of_parts(point: ResumePoint, manifest: Manifest) -> ResumePoint:
    """Return `point` with the nodes of its files, if there are several."""
    if manifest.node is None:
        return point
    content = dataclasses.replace(manifest, node=None).render()
    return point._replace(
        save=hashlib.sha256(content).hexdigest()[:16],
        parts=manifest.parts,
        here=manifest.parts_here,
        created=manifest.created,
    )


def _shown(point: ResumePoint) -> str:
    return point.name or f"step {point.step}"
